"""Which statements of callboard read a growing table from end to end, or sort one.

Every statement that a test of this process runs against a store is explained, once, on an empty store: plans
follow from the schema, for no store has statistics of its tables. What the plan reads whole fails the test,
unless it is in `ALLOWED`.
"""

from __future__ import annotations

import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import callboard
from callboard.runtime.store import migrations

SOURCES = str(Path(callboard.__file__).resolve().parents[2])
"""The checkout; its `tests` and `benchmarks` say themselves what they read."""
OWN = ("runtime", "actors", "gateway", "cli", "config", "tools", "src")


class Allowed(NamedTuple):
    """Steps of plans that may be: those that match, in statements that have these words."""

    step: str
    why: str
    words: str = ""


OF_A_RESCUE = Allowed(
    "SCAN sessions USING COVERING INDEX sqlite_autoindex_sessions_1",
    "a rescue reads all that there is",
    "indexed by sqlite_autoindex_sessions_1",
)
OF_A_DOCTOR = Allowed(
    "SCAN .* USING (COVERING )?INDEX .*",
    "doctor and rescue look through each index of some rows",
    "count(*) as entries from",
)
"""Not statements of the store, so not among those whose need is proved."""

ALLOWED = (
    # Not tables of the store, or tables that do not grow with it.
    Allowed("SCAN json_each .*", "the values that were given"),
    Allowed("SCAN (tree|t)", "the sessions of one tree", "with recursive tree"),
    Allowed("SCAN pragma_.*", "one row"),
    Allowed(
        "SCAN i", "inputs are removed with the end of their turn", "from inputs i join sessions"
    ),
    Allowed(
        "USE TEMP B-TREE FOR (GROUP BY|ORDER BY)",
        "the sessions of those inputs",
        "from inputs i join sessions",
    ),
    Allowed(
        "(SCAN l|CO-ROUTINE l|MATERIALIZE l|USE TEMP B-TREE FOR ORDER BY)",
        "the last requests of one sender, by the index of senders",
        "from requests where sender = ? order by id desc limit ?",
    ),
    Allowed("SCAN e", "a check for damage reads all events", "select count(sound("),
    Allowed("SCAN marked_files.*", "all of them are asked for, once in a start"),
    # Indexes that hold few rows: those for which something is still to come.
    Allowed("SCAN . USING (COVERING )?INDEX turns_open", "open turns: those that run or wait"),
    Allowed("SCAN . USING (COVERING )?INDEX approvals_open", "questions that wait for somebody"),
    Allowed(
        "SCAN . USING (COVERING )?INDEX sessions_detached", "sessions with a result to deliver"
    ),
    Allowed("SCAN . USING (COVERING )?INDEX grants_lasting", "all grants that hold are asked for"),
    # Lists in the order of an index or of the ids, which end with the page.
    Allowed("SCAN s USING INDEX sessions_idle", "the latest first, up to the limit"),
    Allowed("SCAN s USING INDEX sessions_deleted_latest", "the latest first, up to the limit"),
    Allowed("SCAN c", "the latest calls first, up to the limit", "select c.id from tool_calls c"),
    Allowed(
        "SCAN a", "the latest questions first, up to the limit", "select a.id from approvals a"
    ),
    Allowed("SCAN g", "in the order of ids, up to the limit", "from grants g"),
    Allowed("SCAN m", "the latest memories first, up to the limit", "from memories m"),
    Allowed(
        "SCAN s",
        "all children are asked for, in the order of ids",
        "parent_id is not null and true",
    ),
    # Sorts of what an index has made few.
    Allowed(
        "USE TEMP B-TREE FOR ORDER BY", "sessions whose turn runs", "s.is_active = 1 and s.id in"
    ),
    Allowed("USE TEMP B-TREE FOR ORDER BY", "open turns", "turns t indexed by turns_open"),
    Allowed(
        "USE TEMP B-TREE FOR ORDER BY", "the ids of open questions", "indexed by approvals_open"
    ),
    Allowed("USE TEMP B-TREE FOR ORDER BY", "ids of calls", "select c.id from tool_calls c"),
    Allowed(
        "USE TEMP B-TREE FOR ORDER BY", "the open calls of a turn", "c.finished_at_ms is null and"
    ),
    Allowed(
        "USE TEMP B-TREE FOR ORDER BY",
        "what the sessions have that a client may see",
        "s.session_id in (select value from json_each(?))",
    ),
    Allowed("USE TEMP B-TREE FOR ORDER BY", "the questions of one id", "a.approval_id = ?"),
    Allowed("USE TEMP B-TREE FOR ORDER BY", "the grants of one id", "g.grant_id = ?"),
    # Searches by words.
    Allowed("SCAN w VIRTUAL TABLE INDEX .*", "what the words' index finds", "_words match ?"),
    Allowed("USE TEMP B-TREE FOR ORDER BY", "the best of one agent's memories", "from memories m"),
    Allowed("SCAN (message|memory)_words VIRTUAL TABLE INDEX 0:=", "by its id"),
    # What is done for many at once.
    Allowed("SCAN (topic_log|requests)", "once for all sessions of a purge", "delete from"),
)

_WHOLE = re.compile(
    r"SCAN (?!CONSTANT ROW|\d+-ROW VALUES|sqlite_master|sqlite_schema)|USE TEMP B-TREE|AUTOMATIC"
)


class QueryPlans:
    """Explains the statements of connections that are opened while it watches.

    Attributes:
        found: What reads a growing table whole, and was not reported yet.
        used: Which of `ALLOWED` were needed.
        known: The statements that were looked at.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self.used: set[Allowed] = set()
        self.known: set[str] = set()
        self._reference = apsw.Connection(":memory:")
        migrations.migrate(self._reference, "the reference")

    def watch(self, connection: apsw.Connection) -> None:
        """Explain what callboard runs on this connection; a hook of apsw."""
        connection.exec_trace = self._trace

    def take(self) -> list[str]:
        """Return what was found since the last time."""
        found, self.found = self.found, []
        return found

    def _trace(self, _: object, sql: str, values: Any) -> bool:
        if sql not in self.known and _is_own(sys._getframe(1).f_code.co_filename):
            self.known.add(sql)
            self.check(sql, values)
        return True

    def check(self, sql: str, values: Any = None) -> None:
        """Note the steps of a statement that are not allowed."""
        try:
            steps = self._reference.execute(f"explain query plan {sql}", values).fetchall()
        except apsw.Error:
            return  # of another database, or nothing that has a plan
        for row in steps:
            step = str(row[3])
            if _WHOLE.search(step) and not self._is_allowed(step, sql):
                self.found.append(f"{step}\n    in: {' '.join(sql.split())}")

    def _is_allowed(self, step: str, sql: str) -> bool:
        for each in (*ALLOWED, OF_A_RESCUE, OF_A_DOCTOR):
            if re.fullmatch(each.step, step) and each.words in sql:
                self.used.add(each)
                return True
        return False


def _is_own(path: str) -> bool:
    place = Path(path).resolve()
    if not place.is_relative_to(SOURCES) or place == Path(migrations.__file__).resolve():
        return False  # a step of a migration runs once in the life of a file
    return place.relative_to(SOURCES).parts[0] in OWN


def unindexed_references() -> list[str]:
    """Return the foreign keys without an index: removing what they refer to reads their whole table."""
    with closing(apsw.Connection(":memory:")) as connection:
        migrations.migrate(connection, "the reference")
        tables = [
            name
            for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")
        ]
        found = []
        for table in tables:
            for key in connection.execute(f"pragma foreign_key_list({table})").fetchall():
                column = key[3]
                sql = f"explain query plan select 1 from {table} where {column} = ?"
                steps = connection.execute(sql, (1,)).fetchall()
                if any(str(step[3]).startswith("SCAN") for step in steps):
                    found.append(f"{table}.{column}")
    return found

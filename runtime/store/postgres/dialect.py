"""Statements in the words of PostgreSQL: almost all are those of SQLite, put into its words once each.

`tables`, `projection`, `ledger` and `queries` have the SQL, in words that both databases know where there are
any. `REWRITTEN` are the few words that differ; `OWN` the statements that exist twice, since they do another
thing there. `EXPECTED` says what a commit may take for granted of a statement's result, so that it need not wait
for it (see `connection`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

from ..projection import BEGIN_TURN, END_TURN, HAS_OPEN_TURN, SAVE
from ..tables.calls import FINISH_CALL, PROPOSE_CALL
from ..tables.inputs import END_INPUTS
from ..tables.memories import INDEX_MEMORY
from ..tables.search import INDEX_MESSAGE

Values = tuple[Any, ...]


class Statement(NamedTuple):
    """A statement for PostgreSQL.

    Attributes:
        text: Its text, with `$1` for values.
        convert: Changes the values; `None` leaves them.
        expected: The text for a commit that takes its result for granted; it fails where that is wrong.
        granted: The rows that are then taken for its result.
    """

    text: str
    convert: Callable[[Values], Values] | None = None
    expected: str = ""
    granted: tuple[tuple[Any, ...], ...] = ()


REWRITTEN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(words), made)
    for words, made in (
        (r"\bbegin immediate\b", "begin"),
        (r"\bpragma secure_delete = true\b", "select 1"),
        # Which index answers and where to begin is for SQLite, which has no statistics here.
        (r" indexed by \w+", ""),
        (r"\bcross join (\w+)( \w+)? on\b", r"join \1\2 on"),
        (r"\bjson_each\((\?\d*)\)", r"jsonb_array_elements_text(\1::jsonb) as each (value)"),
        (r"\binstr\(", "strpos("),
        (r"\bmax\((?=[0?])", "greatest("),  # of two values
        # The checksum is compared where the row is read (`Sound` in `connection`).
        (r"\bsound\(", "row("),
        (r"\b(\w+)_words match \?1?", r"w.words @@ to_tsquery('callboard', ?)"),
        (r"\bbm25\(\w+_words[^)]*\)", "-ts_rank(w.words, to_tsquery('callboard', $1), 2)"),
    )
)
"""Words of SQLite, and those of PostgreSQL for them."""

_NOT_A_LETTER = re.compile(r"[\W_]+")


def folded(text: str) -> str:
    """Return the words of a text as the index has them: without accents and signs, in small letters.

    That is what SQLite's tokenizer does; PostgreSQL's would keep addresses and paths whole.
    """
    plain = unicodedata.normalize("NFKD", text)
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return _NOT_A_LETTER.sub(" ", letters.lower()).strip()


_QUOTED = re.compile(r'"([^"]*)"')


def word_query(query: str) -> str:
    """Return the query of `tsquery` for one of SQLite's index."""
    found = _QUOTED.sub(lambda match: f"'{folded(match[1])}'", query)
    return found.replace("' AND ", "' & ").replace(") AND ", ") & ").replace("' OR ", "' | ")


def _indexed(values: Values) -> Values:
    key, *texts = values
    return (key, *map(folded, texts))


def _searched(values: Values) -> Values:
    query, *others = values
    return (word_query(query), *others)


_SAVED = (
    "update sessions set head_seq = $1, title = $2, agent = $3, message_count = $4,"
    " last_message_preview = $5, is_active = $6, deleted_at_ms = $7, is_tainted = $8,"
    " last_event = (select e.id from events e where e.session = $10 and e.seq = $1),"
    " updated_at_ms = $9 where id = $10 and head_seq = $11"
)
"""`$11` is the `head_seq` that was read: another writer makes it another one."""


def _saved(values: Values) -> Values:
    """Leave out the id of the event, which is looked up."""
    return (*values[:8], *values[9:])


def _counted(text: str) -> str:
    return f"with done as ({text} returning 1) select as_expected(count(*), 1) from done"


OWN: dict[str, Statement] = {
    SAVE: Statement(_SAVED, _saved),
    INDEX_MESSAGE: Statement(
        "insert into message_words (rowid, words) values ($1, to_tsvector('callboard', $2))"
        " on conflict (rowid) do update set words = excluded.words",
        _indexed,
    ),
    INDEX_MEMORY: Statement(
        "insert into memory_words (rowid, words) values ($1, setweight(to_tsvector('callboard', $2), 'B')"
        " || setweight(to_tsvector('callboard', $3), 'A'))",
        _indexed,
    ),
}
"""Statements that exist twice."""

EXPECTED: dict[str, tuple[Callable[[str], str], tuple[tuple[Any, ...], ...]]] = {
    PROPOSE_CALL: (_counted, ()),
    FINISH_CALL: (_counted, ()),
    BEGIN_TURN: (_counted, ()),
    END_TURN: (_counted, ()),
    SAVE: (_counted, ()),
    # No input of the turn was about a deferred call, and no other turn of the session is open.
    END_INPUTS: (
        lambda text: f"with done as ({text}) select as_expected(count(approval_id), 0) from done",
        (),
    ),
    HAS_OPEN_TURN: (
        lambda text: (
            f"select as_expected(case when {text.removeprefix('select ')} then 1 else 0 end, 0)"
        ),
        ((0,),),
    ),
}
"""Of these the usual result is taken for granted: one changed row, or the rows that stand here."""

_VALUE = re.compile(r"\?(\d*)")


def statement(sql: str) -> Statement:
    """Return the statement of PostgreSQL for one of SQLite."""
    made = OWN.get(sql) or _rewritten(sql)
    if sql in EXPECTED:
        wrap, granted = EXPECTED[sql]
        made = made._replace(expected=wrap(made.text), granted=granted)
    return made


def _rewritten(sql: str) -> Statement:
    convert = _searched if "_words match" in sql else None
    for words, made in REWRITTEN:
        sql = words.sub(made, sql)
    last = 0

    def numbered(match: re.Match[str]) -> str:
        nonlocal last
        number = int(match[1]) if match[1] else last + 1
        last = max(last, number)
        return f"${number}"

    return Statement(_VALUE.sub(numbered, sql), convert)

"""The full-text index of all messages. It holds words alone; the texts stay in their tables.

The index is filled in steps when somebody searches, never by a commit: every message would pay for
what few sessions use. `meta` says how far it has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ...memory.memories import indexed, word_query, words_of
from ..lists import SessionFilter, WordSearch
from .lists import Condition, joined, names, session_conditions

if TYPE_CHECKING:
    from .connection import SqlConnection

STEP_MESSAGES = 200
"""Messages to index in one transaction: some milliseconds, for which commits wait."""
MAX_INDEXED_CHARS = 16_000
"""The part of one message that is indexed: a result of megabytes is found by its beginning."""
MAX_MATCHES = 2_000
"""The latest messages with the words that are ranked. Of a word that stands in every message, ranking all
takes a second for a million of them."""
SNIPPET_CHARS = 160
"""Two lines of a terminal."""

_TEXT = (
    "case when m.is_deleted = 1 then '' else case m.type when 'tool_call' then c.name || ' ' || c.arguments"
    " when 'tool_result' then coalesce(c.result, '') else m.content end end"
)
_CALLS = "left join tool_calls c on c.session = m.session and c.call_id = m.call_id"
_POSITION = "select cast(value as bigint) from meta where key = 'indexed_message'"

_NEXT = (
    f"select m.id, substr({_TEXT}, 1, {MAX_INDEXED_CHARS}) from messages m {_CALLS}"
    f" where m.id > coalesce(({_POSITION}), 0) order by m.id limit {STEP_MESSAGES}"
)

INDEX_MESSAGE = "insert into message_words (rowid, text) values (?, ?)"

# `cross join` has SQLite begin with the words, whose index gives the latest message first.
_RANKED = (
    "select m.id, m.session, bm25(message_words) from message_words w"
    " cross join messages m on m.id = w.rowid cross join sessions s on s.id = m.session"
    " where {} order by w.rowid desc limit ?"
)

_FOUND = (
    f"select m.id, s.session_id, m.message_id, m.position, m.type, substr({_TEXT}, 1, {MAX_INDEXED_CHARS}),"
    f" m.created_at_ms from messages m join sessions s on s.id = m.session {_CALLS}"
    " where m.id in (select cast(value as bigint) from json_each(?))"
)


class Match(NamedTuple):
    """The best message of a session, and the number of messages that match."""

    session_id: str
    message_id: str
    position: int
    type: str
    snippet: str
    created_at_ms: int
    matches: int

    def of_message(self) -> dict[str, Any]:
        """Return the fields of a `Hit` beside its session."""
        fields = self._asdict()
        del fields["session_id"]
        return fields


def index_step(connection: SqlConnection) -> bool:
    """Index the next messages; return whether there may be more."""
    connection.execute("begin immediate")
    try:
        rows: list[tuple[Any, ...]] = connection.execute(_NEXT).fetchall()
        for key, text in rows:
            connection.execute(INDEX_MESSAGE, (key, indexed(text)))
        if rows:
            _set_position(connection, rows[-1][0])
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
    return len(rows) == STEP_MESSAGES


def find_matches(
    rows: Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]], search: WordSearch
) -> list[Match]:
    """Return the best match of each session, the best session first; in one session, each match, the latest first."""
    words = words_of(search.query)
    if not words:
        return []
    query = " AND ".join(map(word_query, words))
    listed = SessionFilter(
        agent=search.agent,
        kind=search.kind,
        via=search.via,
        workspace=search.workspace,
        include_children=search.include_children,
        within=search.within,
    )
    matching: list[Condition] = [("message_words match ?", (query,)), *session_conditions(listed)]
    if search.session_id is not None:
        matching.append(("s.session_id = ?", (search.session_id,)))
    where, values = joined(matching)
    ranked = rows(_RANKED.format(where), (*values, MAX_MATCHES))
    matches = Counter(session for _, session, _ in ranked)
    wanted: list[tuple[int, int]]
    if search.session_id is None:
        best: dict[int, int] = {}
        # The latest stand first, and sorting keeps that order among equals.
        for message, session, _ in sorted(ranked, key=itemgetter(2)):
            best.setdefault(session, message)
        wanted = list(best.items())
    else:
        wanted = [(session, message) for message, session, _ in ranked]
    page = wanted[search.offset : search.offset + search.limit]
    found = {row[0]: row[1:] for row in rows(_FOUND, (names([message for _, message in page]),))}
    return [
        Match(
            session_id,
            message_id,
            position,
            kind,
            snippet_of(text, words),
            at_ms,
            matches[session],
        )
        for session, message in page
        if message in found  # it may have been purged meanwhile
        for session_id, message_id, position, kind, text, at_ms in (found[message],)
    ]


def forget_messages(connection: SqlConnection, session: int, message_ids: str) -> None:
    """Remove messages of a session from the index; `message_ids` is a JSON list."""
    connection.execute(
        "delete from message_words where rowid in (select id from messages where session = ?"
        f" and message_id in (select value from json_each(?)) and id <= coalesce(({_POSITION}), 0))",
        (session, message_ids),
    )


def forget_words(connection: SqlConnection, session: int) -> None:
    """Remove the messages of a session from the index; call this before purging them."""
    connection.execute(
        "delete from message_words where rowid in (select id from messages"
        f" where session = ? and id <= coalesce(({_POSITION}), 0))",
        (session,),
    )


def keep_position(connection: SqlConnection) -> None:
    """Correct the position after a purge: ids of removed messages may be used again."""
    last = connection.execute("select coalesce(max(id), 0) from messages").get
    known = connection.execute(_POSITION).get
    if known is not None and known > last:
        _set_position(connection, last)


def snippet_of(text: str, words: Sequence[str]) -> str:
    """Return the text around the first of the words that it contains, on one line."""
    folded = text.casefold()
    found = (folded.find(word.casefold()) for word in words)
    places = [place for place in found if place >= 0]
    first = max(0, min(places, default=0) - SNIPPET_CHARS // 3)
    cut = " ".join(text[first : first + SNIPPET_CHARS].split())
    before, after = "…" if first else "", "…" if first + SNIPPET_CHARS < len(text) else ""
    return f"{before}{cut}{after}"


def _set_position(connection: SqlConnection, position: int) -> None:
    connection.execute(
        "insert into meta values ('indexed_message', ?) on conflict (key) do update set"
        " value = excluded.value",
        (str(position),),
    )

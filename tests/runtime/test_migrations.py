"""The database gets every table, old formats are brought up to date, others are refused."""

from __future__ import annotations

import apsw
import pytest

from callboard.runtime.definitions import Attachment, CallStatus
from callboard.runtime.errors import StorageError
from callboard.runtime.events import (
    CallFinished,
    DurableEvent,
    InputAccepted,
    SessionCreated,
    TurnStarted,
)
from callboard.runtime.identity import RequestKey
from callboard.runtime.store.codec import encode_event
from callboard.runtime.store.migrations import APPLICATION_ID, MIGRATIONS, migrate
from callboard.runtime.store.queries import Queries
from callboard.runtime.store.rows import TurnPlace
from callboard.runtime.store.tables.purge import LOOKED_THROUGH, TABLES

_TORN = b'{"type":"input_accepted","input_id":"i9","attachments":[{"media_type"'
"""What a damaged file may hold in place of an event: it is not the migration that says so."""

STEPS = ("create table a (x)", "create table b (x); insert into b values (1)")


def tables(connection: apsw.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select name from sqlite_schema")}


@pytest.fixture
def connection() -> apsw.Connection:
    return apsw.Connection(":memory:")


def test_an_empty_database_gets_every_step(connection: apsw.Connection) -> None:
    assert migrate(connection, "it") == (0, len(MIGRATIONS))
    assert {"sessions", "events", "messages", "tool_calls", "usage"} <= tables(connection)
    assert connection.pragma("application_id") == APPLICATION_ID
    assert connection.pragma("user_version") == len(MIGRATIONS)
    assert migrate(connection, "it") == (len(MIGRATIONS), len(MIGRATIONS))


def test_an_older_database_gets_the_steps_that_it_lacks(connection: apsw.Connection) -> None:
    migrate(connection, "it", steps=STEPS[:1])
    connection.execute("insert into a values ('kept')")
    assert migrate(connection, "it", steps=STEPS) == (1, 2)
    assert connection.execute("select x from a").get == "kept"
    assert connection.execute("select x from b").get == 1


def test_a_newer_database_is_refused_and_unchanged(connection: apsw.Connection) -> None:
    migrate(connection, "it", steps=STEPS)
    with pytest.raises(StorageError, match="newer callboard"):
        migrate(connection, "it", steps=STEPS[:1])
    assert connection.pragma("user_version") == 2
    assert not connection.in_transaction


def test_another_programs_database_is_refused(connection: apsw.Connection) -> None:
    connection.execute("create table theirs (x)")
    with pytest.raises(StorageError, match="not a callboard store"):
        migrate(connection, "it", steps=STEPS)
    assert tables(connection) == {"theirs"}


def test_a_failing_step_undoes_all_of_them(connection: apsw.Connection) -> None:
    migrate(connection, "it", steps=STEPS[:1])
    with pytest.raises(apsw.SQLError):
        migrate(connection, "it", steps=(*STEPS, "create table c (x); nonsense"))
    assert tables(connection) == {"a"}
    assert connection.pragma("user_version") == 1
    assert migrate(connection, "it", steps=STEPS) == (1, 2)


def test_the_usage_of_the_first_format_is_kept(connection: apsw.Connection) -> None:
    migrate(connection, "it", steps=MIGRATIONS[:1])
    session = "'s1', '', 'general', 'main', '/work', null, null, 0, '', 0, 0, 0, 1, 1, null"
    connection.execute(f"insert into sessions values (1, {session})")
    connection.execute("insert into usage values (1, 1, 't1', 'm1', 'p', 'm', 10, 5, 3, null, 7)")
    assert migrate(connection, "it") == (1, len(MIGRATIONS))
    [row] = Queries(connection, "it").usage("s1")
    assert (row.input_tokens, row.output_tokens, row.cached_tokens) == (10, 5, 3)
    assert (row.cache_write_tokens, row.agent, row.created_at_ms) == (None, "general", 7)


def test_sessions_and_usage_of_an_older_format_are_in_the_lists_of_this_one(
    connection: apsw.Connection,
) -> None:
    before = next(at for at, step in enumerate(MIGRATIONS) if "usage_days" in step)
    migrate(connection, "it", steps=MIGRATIONS[:before])
    for key, name, is_active in ((1, "idle", 0), (2, "runs", 1), (3, "says it runs", 1)):
        connection.execute(
            "insert into sessions (id, session_id, title, agent, kind, workspace, message_count,"
            " last_message_preview, is_active, head_seq, last_event, created_at_ms, updated_at_ms)"
            " values (?1, ?2, '', 'general', 'main', '/work', 0, '', ?3, 0, ?1, 1, 1)",
            (key, name, is_active),
        )
    connection.execute("insert into turns (session, turn_id, started_at_ms) values (2, 't', 1)")
    for key, day in ((1, 5), (2, 6), (3, 6)):
        connection.execute(
            "insert into usage (id, session, turn_id, message_id, provider, model, created_at_ms)"
            " values (?, 1, 't', 'm', 'p', 'm', ?)",
            (key, day * 86_400_000 + 1),
        )
    migrate(connection, "it")
    queries = Queries(connection, "it")
    listed = [(row.session_id, row.is_active) for row in queries.sessions()]
    assert listed == [("says it runs", False), ("runs", True), ("idle", False)]
    assert [turn.turn_id for turn in queries.open_turns("runs")] == ["t"]
    assert [row.position for row in queries.usage(since_ms=6 * 86_400_000)] == [2, 3]
    assert [row.position for row in queries.usage(since_ms=5 * 86_400_000 + 2)] == [2, 3]


def test_files_beside_messages_of_an_older_format_are_found(connection: apsw.Connection) -> None:
    before = next(at for at, step in enumerate(MIGRATIONS) if "messages add column files" in step)
    migrate(connection, "it", steps=MIGRATIONS[:before])
    connection.execute(
        "insert into sessions (id, session_id, title, agent, kind, workspace, message_count,"
        " last_message_preview, is_active, head_seq, last_event, created_at_ms, updated_at_ms)"
        " values (1, 's1', '', 'general', 'main', '/work', 4, '', 0, 5, 5, 1, 1)"
    )
    dot, page = Attachment("image/png", b"1234", "dot.png"), Attachment("application/pdf", b"12345")
    result = CallFinished(
        turn_id="t",
        call_id="c",
        name="draw",
        status=CallStatus.SUCCESS,
        result="{}",
        attachments=(dot,),
    )
    events: list[DurableEvent] = [
        InputAccepted(input_id="i1", text="Look.", attachments=(dot, page)),
        InputAccepted(input_id="i2", text='Not one: "attachments":[{'),
        InputAccepted(input_id="i3", text="Deleted.", attachments=(dot,)),
        result,
    ]
    for seq, event in enumerate(events, 1):
        insert = "insert into events (session, seq, at_ms, event) values (1, ?, 1, ?)"
        connection.execute(insert, (seq, encode_event(event)[1]))
    connection.execute(
        "insert into events (session, seq, at_ms, event) values (1, 5, 1, ?)", (_TORN,)
    )
    for position, name in enumerate(("i1", "i2", "i3", "result:c"), 1):
        connection.execute(
            "insert into messages (session, position, message_id, type, content, created_at_ms,"
            " is_deleted) values (1, ?, ?, 'user', '', 1, ?)",
            (position, name, name == "i3"),
        )
    migrate(connection, "it")
    queries = Queries(connection, "it")
    found = [
        [(file.name, file.media_type, file.size_bytes) for file in row.files]
        for row in queries.messages("s1")
    ]
    told = [("dot.png", "image/png", 4), ("", "application/pdf", 5)]
    assert found == [told, [], [], told[:1]]
    assert queries.message_file("s1", "i1", 1) == page
    assert queries.message_file("s1", "result:c", 0) == dot
    assert queries.message_file("s1", "i3", 0) is None


def test_where_turns_of_an_older_format_begin_is_found(connection: apsw.Connection) -> None:
    before = next(at for at, step in enumerate(MIGRATIONS) if "column started_seq" in step)
    migrate(connection, "it", steps=MIGRATIONS[:before])
    connection.execute(
        "insert into sessions (id, session_id, title, agent, kind, workspace, message_count,"
        " last_message_preview, is_active, head_seq, last_event, created_at_ms, updated_at_ms)"
        " values (1, 's1', '', 'general', 'main', '/work', 0, '', 0, 9, 9, 1, 1)"
    )
    for seq, name in ((3, "t1"), (7, "t2")):
        event = TurnStarted(turn_id=name, input_ids=(), provider="p", model="m")
        insert = "insert into events (session, seq, at_ms, event) values (1, ?, 1, ?)"
        connection.execute(insert, (seq, encode_event(event)[1]))
        connection.execute(
            "insert into turns (session, turn_id, started_at_ms, ended_at_ms) values (1, ?, 1, ?)",
            (name, 2 if name == "t1" else None),
        )
    migrate(connection, "it")
    queries = Queries(connection, "it")
    assert queries.turn_start("s1", "t1") == TurnPlace(3, is_open=False)
    assert queries.turn_start("s1", "t2") == queries.turn_start("s1") == TurnPlace(7, is_open=True)
    assert queries.turn_start("s1", "t3") is None


def test_what_began_sessions_of_an_older_format_is_found(connection: apsw.Connection) -> None:
    before = next(at for at, step in enumerate(MIGRATIONS) if "column via" in step)
    migrate(connection, "it", steps=MIGRATIONS[:before])
    hook = RequestKey("hook:ci", "session", "1", "")
    began = [
        SessionCreated(agent="general", workspace="/", title="Nothing of it"),
        SessionCreated(agent="general", workspace="/", via="openai"),
        SessionCreated(agent="general", workspace="/", request=hook),
    ]
    for number, data in enumerate([*(encode_event(each)[1] for each in began), _TORN], 1):
        connection.execute(
            "insert into sessions (id, session_id, title, agent, kind, workspace, message_count,"
            " last_message_preview, is_active, head_seq, last_event, created_at_ms, updated_at_ms)"
            " values (?1, 's' || ?1, '', 'general', 'main', '/', 0, '', 0, 1, ?1, 1, 1)",
            (number,),
        )
        insert = "insert into events (session, seq, at_ms, event) values (?, 1, 1, ?)"
        connection.execute(insert, (number, data))
    migrate(connection, "it")
    rows = Queries(connection, "it").sessions()
    assert {row.session_id: row.via for row in rows} == {
        "s1": "",
        "s2": "openai",
        "s3": "hook",
        "s4": "",
    }


def test_every_table_that_refers_to_a_session_is_purged(connection: apsw.Connection) -> None:
    migrate(connection, "it")
    made = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    referring = {
        name
        for (name,) in made
        if "session" in {column[1] for column in connection.execute(f"pragma table_info({name})")}
    }
    assert referring == {*TABLES, *LOOKED_THROUGH}

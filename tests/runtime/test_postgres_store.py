"""What is PostgreSQL's own: round trips, other writers, broken connections, versions, and what errors say."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")
import psycopg

from callboard.runtime.definitions import Attachment, CallStatus
from callboard.runtime.errors import (
    CallboardError,
    ConflictError,
    NotFoundError,
    StorageError,
    StorageFull,
    ValidationError,
)
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Text
from callboard.runtime.identity import RequestKey
from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import Projections
from callboard.runtime.store.postgres import connection as connection_module
from callboard.runtime.store.postgres import ledger as ledger_module
from callboard.runtime.store.postgres import schema
from callboard.runtime.store.postgres import store as store_module
from callboard.runtime.store.postgres.address import address_of, given_password
from callboard.runtime.store.postgres.connection import PostgresConnection
from callboard.runtime.store.postgres.dialect import OWN
from callboard.runtime.store.postgres.ledger import PostgresLedger
from callboard.runtime.store.postgres.size import COUNTED_SECONDS
from callboard.runtime.store.postgres.store import open_postgres_reader, open_postgres_store
from callboard.runtime.store.postgres.trouble import DatabaseLost, no_connection, trouble
from callboard.runtime.store.rows import Append, Refusal, TurnPlace
from callboard.runtime.store.tables.connection import SqlConnection
from support.postgres.databases import (
    administrator,
    empty_database,
    new_database,
)
from support.postgres.server import Cluster, needs_postgres, own_cluster
from support.query_calls import CALLS

CREATED = SessionCreated(agent="general", workspace="/work")


@pytest.fixture(autouse=True)
def _needs_postgres() -> None:
    needs_postgres()


@pytest.fixture
def url() -> Iterator[str]:
    with new_database() as made:
        yield made


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncGenerator[Store]:
    store = await open_postgres_store(url, **options)
    try:
        yield store
    finally:
        await store.aclose()


def said(text: str) -> InputAccepted:
    return InputAccepted(input_id=f"i-{text}", text=text)


def began(turn_id: str = "t1") -> TurnStarted:
    return TurnStarted(turn_id=turn_id, input_ids=(), provider="p", model="m")


def asked(call_id: str = "c1") -> tuple[DurableEvent, ...]:
    return (
        MessageCompleted(
            turn_id="t1",
            message_id=f"m-{call_id}",
            parts=(Text("I look."),),
            provider="p",
            model="m",
        ),
        CallProposed(
            turn_id="t1",
            message_id=f"m-{call_id}",
            call_id=call_id,
            index=0,
            name="x",
            arguments="{}",
        ),
    )


def done(call_id: str = "c1", result: str = "{}") -> CallFinished:
    return CallFinished(
        turn_id="t1",
        call_id=call_id,
        name="x",
        status=CallStatus.SUCCESS,
        result=result,
        display="",
        duration_ms=1,
    )


async def put(store: Store, *events: DurableEvent, to: str = "s1") -> list[int]:
    (result,) = await store.commit([Append(to, events)])
    assert isinstance(result, tuple), result
    return [stored.seq for stored in result]


async def seqs(store: Store, session_id: str = "s1") -> list[int]:
    return [stored.seq for stored in await store.events(session_id)]


def writer(store: Any) -> PostgresConnection:
    found: PostgresConnection = store._connection
    return found


def kill(store: Any) -> None:
    """End the process of the database that serves the writer."""
    backend = writer(store)._backend
    administrator().execute("select pg_terminate_backend(%s, 5000)", (backend,))


# ── round trips ──────────────────────────────────────────────────────────────────────────────────


async def test_a_commit_of_many_sessions_is_one_round_trip(url: str) -> None:
    names = [f"s{number}" for number in range(12)]
    async with opened(url) as store:
        for name in names:
            await put(store, CREATED, said("hello"), began(), to=name)
        with tempfile.TemporaryFile() as traced:
            writer(store).raw.pgconn.trace(traced.fileno())
            rounds = [
                [Append(name, asked()) for name in names],
                [Append(n, (done(),)) for n in names],
            ]
            for appends in rounds:
                assert all(isinstance(each, tuple) for each in await store.commit(appends))
            writer(store).raw.pgconn.untrace()
            traced.seek(0)
            assert len(re.findall(rb"\tSync", traced.read())) == len(rounds)
        ended = [
            Append(name, (TurnEnded(turn_id="t1", outcome="answered", duration_ms=1),))
            for name in names
        ]
        await store.commit(ended)
        assert [await seqs(store, name) for name in names] == [list(range(1, 8))] * len(names)
        assert not any(row.is_active for row in await store.sessions())


async def test_what_a_commit_takes_for_granted_is_looked_at_where_it_is_otherwise(url: str) -> None:
    async with opened(url) as store:
        await put(store, CREATED, began(), *asked())
        assert await put(store, done(result='"first"')) == [5]
        assert await put(store, done(result='"second"'), *asked("c2")) == [6, 7]
        assert [call.result for call in await store.calls(session_id="s1")] == [None, '"first"']
        end = TurnEnded(turn_id="t1", outcome="answered", duration_ms=1)
        assert await put(store, began("t2")) == [8]
        assert await put(store, end) == [9]
        row = await store.session("s1")
        assert row is not None
        assert row.is_active  # by the other turn
        assert await put(store, end) == []


async def test_few_statements_exist_twice() -> None:
    assert len(OWN) <= 30


async def test_each_query_runs_with_each_of_its_options(url: str) -> None:
    """What they return is compared by the tests of all stores; this finds words that only SQLite knows."""
    async with opened(url) as store:
        await put(store, CREATED, said("hello"), began(), *asked(), done())
        for name, calls in CALLS.items():
            for options in calls:
                try:
                    await getattr(store, name)(**options)
                except NotFoundError:
                    assert name in ("whole_messages", "messages")  # the record has other ids


# ── other writers ────────────────────────────────────────────────────────────────────────────────


class FakeFence:
    """Refuses what a test says, and notes what was asked and whether the transaction had begun."""

    node_id = "a"

    def __init__(self) -> None:
        self.refused: dict[str, Refusal] = {}
        self.asked: list[tuple[list[str], bool]] = []

    def check(
        self,
        connection: SqlConnection,
        session_ids: Sequence[str],
        created: Mapping[str, str | None],
        *,
        expects: bool,
    ) -> Mapping[str, Refusal]:
        assert connection.in_transaction
        self.asked.append((list(session_ids), expects))
        if not expects:
            return self.refused
        connection.execute(f"select as_expected({len(self.refused)}, 0)")
        return {}


async def test_rows_are_counted_now_and_then_and_those_of_a_large_table_in_part(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    async with opened(url, clock=lambda: now) as store:
        texts = [Random(number).randbytes(1500).hex() for number in range(600)]
        events = [InputAccepted(input_id=f"i{at}", text=text) for at, text in enumerate(texts)]
        await store.commit([Append("s1", (CREATED, *events))])
        whole = await store.size()
        assert 3_000_000 < whole.used_bytes <= whole.file_bytes
        await store.commit([Append("s2", (CREATED, *events))])
        later = await store.size()  # by how much its files have grown
        assert (
            later.used_bytes - whole.used_bytes == later.file_bytes - whole.file_bytes > 1_000_000
        )
        with psycopg.connect(url) as other:
            other.execute("delete from events where session = (select min(id) from sessions)")
        assert (await store.size()).used_bytes == later.used_bytes
        now += COUNTED_SECONDS
        half = await store.size()
        assert 0.4 < half.used_bytes / later.used_bytes < 0.8
        assert half.file_bytes >= later.file_bytes
        now += COUNTED_SECONDS
        monkeypatch.setattr("callboard.runtime.store.postgres.size.SAMPLE_PAGES", 40)
        assert abs((await store.size()).used_bytes / half.used_bytes - 1) < 0.3


async def test_a_fence_refuses_the_appends_of_the_sessions_of_others(url: str) -> None:
    fence = FakeFence()
    async with opened(url, fence=fence) as store:
        for name in ("s1", "s2"):
            await put(store, CREATED, to=name)
        assert fence.asked == [(["s1"], True), (["s2"], True)]
        fence.asked.clear()
        fence.refused = {"s1": ConflictError("s1 has another owner")}
        first, second = await store.commit(
            [Append("s1", (said("no"),)), Append("s2", (said("yes"),))]
        )
        assert isinstance(first, ConflictError)
        assert isinstance(second, tuple)
        assert fence.asked == [(["s1", "s2"], True), (["s1", "s2"], False)]
        assert await seqs(store, "s1") == [1]
        fence.refused = {}
        assert await put(store, said("again")) == [2]


async def test_two_writers_never_use_a_seq_twice(url: str) -> None:
    async with opened(url, fence=FakeFence()) as one, opened(url, fence=FakeFence()) as two:
        await put(one, CREATED)
        for number in range(6):
            await put((one, two)[number % 2], said(str(number)))
        async with trio.open_nursery() as nursery:
            for store in (one, two):
                for number in range(8):
                    nursery.start_soon(_persist, store, f"{id(store)} {number}")
        assert await seqs(one) == list(range(1, 24))
        assert len(await two.messages("s1")) == 22


async def _persist(store: Store, text: str) -> None:
    """Store an input, again where the other writer was faster each time."""
    is_stored = False
    while not is_stored:
        with suppress(StorageError):
            await put(store, said(text))
            is_stored = True


async def test_a_commit_whose_statements_the_database_has_forgotten_is_made_again(url: str) -> None:
    async with opened(url) as store:
        await put(store, CREATED)
        for number in range(4):
            await put(store, said(str(number)))
        writer = store._ledger._postgres.raw  # type: ignore[attr-defined]
        writer.execute(
            b"do $$ begin execute 'deallocate all'; end $$"
        )  # psycopg does not learn of it
        await put(store, said("again"))
        assert await seqs(store) == list(range(1, 7))


async def test_without_a_fence_one_callboard_writes(url: str) -> None:
    async with opened(url):
        with pytest.raises(
            ConflictError, match=r"Another callboard writes to postgresql://.*\[cluster\] node"
        ):
            await open_postgres_store(url)
        reader = await open_postgres_reader(url)
        assert await reader.sessions() == []
        await reader.aclose()
    async with opened(url):  # the control
        pass


async def test_whoever_has_just_gone_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock ends when the database has noticed that the last writer's connection was closed."""
    last = psycopg.connect(url, autocommit=True)
    last.execute("select pg_advisory_lock(%s)", (schema.LOCK + 1,))
    monkeypatch.setattr(ledger_module, "GONE_SECONDS", 30.0)
    looks = ledger_module.LOOK_SECONDS

    class Waits:
        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def sleep(seconds: float) -> None:
            assert seconds == looks
            last.close()
            time.sleep(seconds)

    monkeypatch.setattr(ledger_module, "time", Waits)
    async with opened(url) as store:
        assert last.closed
        await put(store, CREATED)


# ── connections that break ───────────────────────────────────────────────────────────────────────


async def test_a_commit_whose_connection_broke_before_it_is_done_once(url: str) -> None:
    async with opened(url) as store:
        await put(store, CREATED)
        kill(store)
        assert await put(store, said("hello")) == [2]
        assert await seqs(store) == [1, 2]


@pytest.mark.parametrize("breaks_again", [False, True])
@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_unknown_outcome_is_found_out(
    url: str, monkeypatch: pytest.MonkeyPatch, is_stored: bool, breaks_again: bool
) -> None:
    """The connection breaks when `commit` is on its way: with it, or before it has arrived; and the next one, when that is looked at."""
    async with opened(url) as store:
        await put(store, CREATED)
        whole, breaks = PostgresConnection._end, [True]

        def end(self: PostgresConnection, how: str) -> None:
            if how != "commit" or not breaks:
                return whole(self, how)
            breaks.clear()
            if is_stored:
                whole(self, how)
            self.close()
            raise DatabaseLost("the connection was lost")

        look, looks = PostgresLedger._is_stored, []

        def is_there(self: PostgresLedger, projections: Projections) -> bool:
            looks.append(projections)
            if breaks_again and len(looks) == 1:
                self._postgres.close()
            return look(self, projections)

        monkeypatch.setattr(PostgresConnection, "_end", end)
        monkeypatch.setattr(PostgresLedger, "_is_stored", is_there)
        assert await put(store, said("hello")) == [2]
        assert breaks == []
        assert len(looks) == 1 + breaks_again
        assert await seqs(store) == [1, 2]
        assert await put(store, said("more")) == [3]


async def test_a_server_that_lets_somebody_in_and_ends_then_is_waited_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first connection may still commit is ended over the one that stands, not over the first that was made."""
    async with opened(url) as store:
        await put(store, CREATED)
        whole, ended = PostgresConnection._end_backend, []

        def end(self: PostgresConnection, backend: int, deadline: float) -> None:
            ended.append(backend)
            if len(ended) == 1:
                self._pg.close()
            whole(self, backend, deadline)

        monkeypatch.setattr(PostgresConnection, "_end_backend", end)
        kill(store)
        assert await put(store, said("hello")) == [2]
        assert len(ended) == 2
        assert ended[0] == ended[1]
        assert await seqs(store) == [1, 2]


async def test_a_read_whose_connection_broke_is_made_again(url: str) -> None:
    async with opened(url) as store:
        await put(store, CREATED)
        assert await seqs(store) == [1]
        administrator().execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = %s and pid <> %s",
            (url.rpartition("?")[0].rpartition("/")[2], writer(store)._backend),
        )
        assert await seqs(store) == [1]


async def test_all_readers_of_a_server_that_was_started_again_are_made_again(url: str) -> None:
    async with opened(url) as store:
        await put(store, CREATED)
        all_read = threading.Barrier(3)
        async with trio.open_nursery() as nursery:  # side by side: each has a connection of its own
            for _ in range(3):
                nursery.start_soon(store._run, lambda _: all_read.wait(60))
        idle: list[PostgresConnection] = vars(store)["_idle"]
        readers = list(idle)
        assert len(readers) == 3
        for each in readers:
            administrator().execute("select pg_terminate_backend(%s, 5000)", (each._backend,))
        assert await seqs(store) == [1]
        assert len(idle) == 1
        assert idle[0] not in readers


async def test_a_database_that_is_away_is_waited_for(tmp_path: Path, short_folder: Path) -> None:
    cluster = Cluster(short_folder, {"synchronous_commit": "on"})
    cluster.make()
    cluster.start()
    try:
        async with opened(cluster.url) as store:
            await put(store, CREATED)
            cluster.stop()
            with pytest.raises(StorageError, match=r"does not answer.*Check that PostgreSQL runs"):
                await store.events("s1")
            assert "does not answer" in store.health.problem()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(put, store, said("meanwhile"))
                await trio.to_thread.run_sync(cluster.start)
            assert await seqs(store) == [1, 2]
            assert store.health.problem() == ""
    finally:
        cluster.stop()


async def test_a_commit_waits_for_a_database_only_so_long(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "AWAY_SECONDS", 0.0)
    cluster = Cluster(short_folder, {"synchronous_commit": "on"})
    cluster.make()
    cluster.start()
    try:
        async with opened(cluster.url) as store:
            await put(store, CREATED)
            cluster.stop()
            with pytest.raises(StorageError, match="does not answer"):
                await store.commit([Append("s1", (said("lost"),))])
            await trio.to_thread.run_sync(cluster.start)
            assert await put(store, said("kept")) == [2]
    finally:
        cluster.stop()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and which the user of the server may enter."""
    made = Path(tempfile.mkdtemp(prefix="pg-"))
    yield made
    shutil.rmtree(made)


# ── versions ─────────────────────────────────────────────────────────────────────────────────────


async def test_an_empty_database_gets_its_tables_once(tmp_path: Path) -> None:
    with empty_database() as url:
        with pytest.raises(StorageError, match="has no store of callboard yet"):
            await open_postgres_reader(url)
        results: list[tuple[int, int]] = []

        def migrate() -> None:
            connection = PostgresConnection(address_of(url), writes=True)
            results.append(connection.migrate())
            connection.close()

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(trio.to_thread.run_sync, migrate)
        last = len(schema.MIGRATIONS)
        assert sorted(results) == [(0, last), *[(last, last)] * 3]
        with psycopg.connect(url) as looking:
            sql = "select count(*) from pg_inherits where inhparent = 'events'::regclass"
            assert looking.execute(sql).fetchone() == (16,)
        async with opened(url) as store:
            assert len(await store.epoch()) == 32


async def test_an_older_callboard_says_which_version_is_needed(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update callboard set version = 99, release = '7.3.0'")
        try:
            for open_it in (open_postgres_store, open_postgres_reader):
                with pytest.raises(
                    StorageError,
                    match=r"format 99, written by callboard 7\.3\.0.*Install callboard 7",
                ):
                    await open_it(url)
        finally:
            connection.execute(b"update callboard set version = %d" % len(schema.MIGRATIONS))
    async with opened(url):  # the control
        pass


def test_a_migration_that_fails_leaves_the_database_as_it_was(url: str) -> None:
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        steps = (*schema.MIGRATIONS, "create table more (id bigint)", "no sql at all")
        with pytest.raises(psycopg.errors.SyntaxError):
            schema.migrate(connection, "it", steps=steps)
        assert connection.execute("select to_regclass('more')").fetchone() == (None,)
        found = schema.version_of(connection)
        assert found is not None
        assert found.steps == len(schema.MIGRATIONS)


def test_a_database_of_an_older_release_goes_up_to_the_index_of_roots() -> None:
    before = schema.MIGRATIONS.index(schema.OWNERS_BY_ROOT)
    with (
        empty_database() as url,
        psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection,
    ):
        assert schema.migrate(connection, "it", steps=schema.MIGRATIONS[:before]) == (0, before)
        connection.execute("insert into owners values ('s', 's', 'a', 1, 0, 'projects')")
        assert schema.migrate(connection, "it") == (before, len(schema.MIGRATIONS))
        sql = "select indexdef from pg_indexes where indexname = 'owners_by_root'"
        assert "(root)" in str(connection.execute(sql).fetchone())
        assert connection.execute("select root from owners").fetchall() == [("projects",)]
        assert schema.migrate(connection, "it") == (len(schema.MIGRATIONS),) * 2


async def test_files_starts_of_turns_and_beginners_of_an_older_format_are_found(url: str) -> None:
    dot, page = Attachment("image/png", b"1234", "dot.png"), Attachment("application/pdf", b"12345")
    result = msgspec.structs.replace(done(), attachments=(dot,))
    async with opened(url) as store:
        first = InputAccepted(input_id="i1", text="Look.\0", attachments=(dot, page))
        other = InputAccepted(input_id="i2", text='Not one: "attachments":[{')
        [stored] = await store.commit(
            [Append("s1", (CREATED, first, other, began(), *asked(), result))]
        )
        assert isinstance(stored, tuple)
        hook = RequestKey("hook:ci", "session", "1", "")
        named = msgspec.structs.replace(CREATED, via="openai", title="A\0B")
        begun = [
            Append("s2", (named,)),
            Append("s3", (msgspec.structs.replace(CREATED, request=hook),)),
        ]
        assert all(isinstance(each, tuple) for each in await store.commit(begun))
        present, rows = await store.messages("s1"), await store.sessions()
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute("alter table messages drop column files")
        connection.execute("alter table turns drop column started_seq")
        connection.execute("alter table sessions drop column via")
        for step in (schema.FILES, schema.TURN_STARTS, schema.VIA):
            connection.execute(step)
    async with opened(url) as store:
        assert await store.messages("s1") == present
        assert await store.sessions() == rows
        assert {row.session_id: row.via for row in rows} == {"s1": "", "s2": "openai", "s3": "hook"}
        assert [len(row.files) for row in present] == [2, 0, 0, 0, 1]
        assert await store.message_file("s1", "i1", 1) == page
        assert await store.turn_start("s1") == TurnPlace(4, is_open=True)


# ── what errors say ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me@db/callboard", r"must be postgresql://HOST/DATABASE, and not mysql://"),
        ("/var/lib/callboard", r"must be postgresql://HOST/DATABASE\."),
        ("postgresql://me@db:port/callboard", "not a URL"),
        ("postgresql://me:hunter2@db/callboard", "holds a password.*PGPASSFILE"),
        ("postgresql://me@db/callboard?password=hunter2", "holds a password.*PGPASSFILE"),
        ("postgresql://me@db/callboard?passw%6frd=hunter2", "holds a password.*PGPASSFILE"),
        ("postgresql://me@db/callboard?sslpassword=hunter2", "holds a password.*PGPASSFILE"),
        ("postgresql://me:hunter2/3@db/callboard", "not a URL"),
    ],
)
def test_a_wrong_address_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words) as caught:
        address_of(url, may_hold_password=False)
    assert "hunter2" not in str(caught.value)
    good = address_of("postgresql://me@db:5433/callboard?sslmode=require", may_hold_password=False)
    assert good.name == "postgresql://db:5433/callboard"
    several = address_of("postgresql://me@a:5432,[::1]:5433/callboard", may_hold_password=False)
    assert several.name == "postgresql://a:5432,[::1]:5433/callboard"
    hidden = address_of("postgresql://me:x@db/callboard?passw%6frd=y&sslmode=require").public_url
    assert hidden == "postgresql://me@db/callboard?sslmode=require"


async def refused(url: str) -> str:
    with pytest.raises(CallboardError) as caught:
        await open_postgres_store(url)
    return str(caught.value)


async def test_a_password_in_an_address_is_in_no_error(url: str) -> None:
    wrong = url.replace("callboard@", "nobody-here:hunter2@")
    assert "hunter2" not in await refused(wrong)


async def test_what_is_missing_at_the_database_is_said(url: str) -> None:
    database = url.rpartition("?")[0].rpartition("/")[2]
    assert "does not exist. Make it first: createdb" in await refused(url.replace(database, "none"))
    nowhere = re.sub(r"host=[^&]*", "host=%2Fno%2Fsuch%2Ffolder", url)
    assert "does not answer" in await refused(nowhere)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("&bogus=1", "is wrong: invalid URI query parameter"),
        ("&target_session_attrs=bogus", "is wrong: invalid target_session_attrs value"),
        ("&sslmode=bogus", "is wrong: invalid sslmode value"),
        ("&connect_timeout=soon", "is wrong: bad value for connect_timeout"),
        ("&service=bogus", "is wrong: definition of service"),
        ("&application_name=hunter2%zz", "is wrong: what follows a %"),
    ],
)
async def test_a_wrong_option_of_an_address_is_not_taken_for_a_database_that_is_away(
    url: str, more: str, words: str
) -> None:
    with pytest.raises(StorageError) as caught:
        await open_postgres_store(f"{url}{more}")
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert not caught.value.retryable


def test_a_server_without_tls_is_not_taken_for_one_that_is_away() -> None:
    """As libpq says it of TCP; on a Unix socket there is no TLS to ask for."""
    said = 'connection to server at "127.0.0.1", port 5432 failed: server does not support SSL, but SSL was required'
    found = no_connection("postgresql://db/x", psycopg.OperationalError(said))
    assert "does not encrypt connections" in str(found)
    assert not found.retryable
    away = psycopg.OperationalError("connection failed: Connection refused")
    assert no_connection("postgresql://db/x", away).retryable  # the control


async def test_a_user_without_rights_is_told_which(tmp_path: Path) -> None:
    administrator().execute("drop role if exists guest")
    administrator().execute("create role guest login")
    try:
        with empty_database() as url:
            said_why = await refused(url.replace("callboard@", "guest@"))
            assert "permission denied for schema public" in said_why
            assert "alter database" in said_why
    finally:
        administrator().execute("drop role guest")


async def test_too_few_connections_are_named(url: str) -> None:
    administrator().execute("drop role if exists narrow")
    administrator().execute("create role narrow login superuser connection limit 0")
    administrator().execute("alter role narrow nosuperuser")
    try:
        assert re.search(
            r"no connection left.*max_connections",
            await refused(url.replace("callboard@", "narrow@")),
        )
    finally:
        administrator().execute("drop role narrow")


async def test_an_older_postgresql_is_refused_with_the_version_that_is_needed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_postgres_store(url)  # the positive control
    await store.aclose()
    monkeypatch.setattr(store_module, "OLDEST_SERVER", 990_000)
    with pytest.raises(StorageError, match=r"is PostgreSQL \d+; callboard needs 99 or later"):
        await open_postgres_store(url)


async def test_a_standby_is_named(url: str) -> None:
    name = url.rpartition("?")[0].rpartition("/")[2]
    administrator().execute(
        f'alter database "{name}" set default_transaction_read_only = on'.encode()
    )
    try:
        store: Store | None = None
        said_why = ""
        try:
            store = await open_postgres_store(url)
            await put(store, CREATED)
        except StorageError as error:
            said_why = str(error)
        finally:
            if store is not None:
                await store.aclose()
        assert "standby" in said_why
    finally:
        administrator().execute(f'alter database "{name}" reset all'.encode())


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (psycopg.errors.DiskFull, StorageFull, "no room for it.*Free some space"),
        (psycopg.errors.QueryCanceled, StorageError, "took too long"),
        (psycopg.errors.LockNotAvailable, StorageError, "waited too long.*pg_stat_activity"),
        (psycopg.errors.AdminShutdown, DatabaseLost, "was lost"),
        (psycopg.OperationalError, DatabaseLost, "was lost"),
        (psycopg.errors.NumericValueOutOfRange, OverflowError, "too large"),
        (psycopg.errors.UndefinedTable, StorageError, "failed.*42P01"),
    ],
)
def test_each_trouble_has_its_words(
    error: Callable[[str], psycopg.Error], kind: type[Exception], words: str
) -> None:
    found = trouble("it", error("too large"))
    assert isinstance(found, kind)
    assert re.search(words, str(found))


async def test_a_damaged_event_is_not_read_as_if_it_were_whole(url: str) -> None:
    async with opened(url) as store:
        await put(store, CREATED, said("hello"))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("update events set event = set_byte(event, 30, 120) where seq = 2")
        assert len(await store.events("s1", limit=1)) == 1  # the control
        with pytest.raises(StorageError, match="Event 2 of session 1 is not what was stored"):
            await store.events("s1")


def test_the_bounds_of_a_connection_are_set(url: str) -> None:
    connection = PostgresConnection(address_of(url), writes=False)
    try:
        shown = connection.raw.execute(
            "select current_setting('statement_timeout'), current_setting('default_transaction_read_only')"
        )
        assert shown.fetchone() == (f"{connection_module.READ_MS // 60_000}min", "on")
    finally:
        connection.close()


def test_a_migration_may_take_longer_than_a_query() -> None:
    with empty_database() as url:  # which nobody uses behind this: it has a format of its own
        connection = PostgresConnection(address_of(url), writes=True)
        try:
            connection.raw.execute("set statement_timeout = 100")
            assert schema.migrate(connection.raw, "it", steps=("select pg_sleep(0.2)",)) == (0, 1)
            with pytest.raises(psycopg.errors.QueryCanceled):  # the control
                connection.raw.execute("select pg_sleep(0.2)")
        finally:
            connection.close()


def test_the_password_may_be_a_credential_of_systemd(tmp_path: Path) -> None:
    assert given_password({}) is None
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert given_password(environ) is None
    file = tmp_path / "callboard-database"
    file.write_text("hunter2 \n")
    found = given_password(environ)
    assert found is not None
    assert (found.reveal(), "hunter2" in repr(found)) == ("hunter2 ", False)
    file.write_bytes(b"\xff")
    with pytest.raises(StorageError, match="credential callboard-database can't be read") as raised:
        given_password(environ)
    assert raised.value.__cause__ is None


async def test_a_credential_lets_in_where_a_password_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_postgres()
    with own_cluster() as cluster:
        with psycopg.connect(cluster.url, autocommit=True) as connection:
            connection.execute("create role guest login password 'hunter2'")
            connection.execute("create database guests owner guest")
            rules = cluster.folder / "data" / "pg_hba.conf"
            rules.write_text(f"local all guest scram-sha-256\n{rules.read_text()}")
            connection.execute("select pg_reload_conf()")
        url = cluster.url_of("guests", "guest")
        assert "does not let this user in" in await refused(url)
        (tmp_path / "callboard-database").write_text("hunter2\n")
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
        store = await open_postgres_store(url)
        await store.aclose()
        (tmp_path / "callboard-database").write_text("wrong")
        assert "does not let this user in" in await refused(url)

"""Sessions that nobody uses, and a store that is full."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import pytest
import trio

import callboard
from callboard.actors.upkeep.keeping import DAY_MS
from callboard.actors.upkeep.pruning import FRUITLESS_STEPS
from callboard.config.sections import SessionSettings
from callboard.config.settings import Settings, StoreSettings
from callboard.embedding.reconfiguring import reconfigure
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import reply
from callboard.runtime.changes.version_log import FOLDER
from callboard.runtime.errors import ConflictError, StoreLimitReached
from callboard.runtime.events import (
    ApprovalAsked,
    DurableEvent,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
)
from callboard.runtime.identity import new_id, now_ms
from callboard.runtime.messages import AppendEvents
from callboard.runtime.store.lists import SessionFilter, StoreSize
from support.both_stores import KINDS
from support.stage import open_in
from support.waits import until

MIB = 1024 * 1024


@contextmanager
def store_settings(kind: str) -> Generator[StoreSettings]:
    """Settings of a store of a kind, in PostgreSQL with a database of its own."""
    if kind != "postgres":
        yield StoreSettings()
        return
    pytest.importorskip("psycopg", reason="the extra postgres is not installed")
    from support.postgres.databases import new_database
    from support.postgres.server import needs_postgres

    needs_postgres()
    with new_database() as url:
        yield StoreSettings(url=url)


@asynccontextmanager
async def opened(**sessions: float) -> AsyncGenerator[callboard.Runtime]:
    settings = Settings(sessions=SessionSettings(**sessions))  # type: ignore[arg-type]
    model = callboard.ScriptedModel([reply("x" * (MIB * 5 // 8)) for _ in range(8)])
    async with callboard.open_runtime(model=model, settings=settings, environ={}) as runtime:
        yield runtime


async def talked(runtime: callboard.Runtime) -> callboard.Session:
    session = await runtime.create_session()
    await session.run("Say much.")
    return session


async def ids(runtime: callboard.Runtime) -> set[str]:
    return {row.session_id for row in await runtime.sessions()}


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """For the pruning, so much time has passed."""
    then = now_ms() + round(days * DAY_MS)
    monkeypatch.setattr("callboard.actors.upkeep.pruning.now_ms", lambda: then)


async def test_what_nobody_uses_for_long_is_deleted_and_can_be_restored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(keep_idle_days=90) as runtime:
        session = await talked(runtime)
        pruning = host_of(runtime).pruning
        later(monkeypatch, 89)
        await pruning.look()
        assert await ids(runtime) == {session.session_id}
        later(monkeypatch, 91)
        with caplog.at_level(logging.WARNING):
            await pruning.look()
        assert await ids(runtime) == set()
        assert "1 sessions without activity for 90 days were deleted" in caplog.text
        await session.restore()
        assert await ids(runtime) == {session.session_id}


async def test_without_the_setting_sessions_stay_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as runtime:
        session = await talked(runtime)
        later(monkeypatch, 3000)
        await host_of(runtime).pruning.look()
        assert await ids(runtime) == {session.session_id}


async def test_what_runs_or_waits_is_never_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    @callboard.tool(approval="always")
    def ask() -> str:
        """Asks first."""
        return "done"

    model = callboard.ScriptedModel([reply(calls=[("ask", {})]), reply("Well.")])
    settings = Settings(sessions=SessionSettings(keep_idle_days=1))
    async with callboard.open_runtime(
        model=model, settings=settings, environ={}, tools=[ask], on_approval="wait"
    ) as runtime:
        session = await runtime.create_session()
        pruning = host_of(runtime).pruning
        async with session.prompt("Ask.") as turn:
            async for event in turn:
                if isinstance(event, ApprovalAsked):
                    later(monkeypatch, 2)
                    await pruning.look()
                    assert await ids(runtime) == {session.session_id}
                    answer = callboard.ApprovalAnswer(decision="allow")
                    await runtime.answer(event.approval_id, answer)
        await pruning.look()
        assert await ids(runtime) == set()


async def test_a_full_store_purges_what_is_deleted_the_oldest_first_and_then_refuses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.actors.upkeep.pruning.STEP_SESSIONS", 1)
    async with opened(max_store_mib=3) as runtime:
        pruning, store = host_of(runtime).pruning, runtime.store
        first, second = await talked(runtime), await talked(runtime)
        await first.delete()
        await second.delete()
        assert (await store.size()).used_bytes < 3 * MIB
        kept = await talked(runtime)
        assert (await store.size()).used_bytes >= 3 * MIB
        with caplog.at_level(logging.WARNING):
            await runtime.create_session()  # there is room, without the first
        assert "1 deleted sessions were purged before their time" in caplog.text
        assert await store.session(first.session_id) is None
        assert await store.session(second.session_id) is not None
        assert "lets it" in pruning.warning  # still above 80 %

        await kept.run("More.")
        await kept.run("And more.")
        with pytest.raises(StoreLimitReached, match="max_store_mib") as refused:
            await runtime.create_session()
        assert refused.value.type == "storage"
        assert await store.session(second.session_id) is None
        assert len(await kept.run("Those there are go on.")) > MIB // 4


@pytest.mark.parametrize("kind", KINDS)
async def test_no_more_is_purged_than_the_room_takes_on_each_store(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the database keeps the room that a purge frees in its files, as PostgreSQL does."""
    monkeypatch.setattr("callboard.actors.upkeep.pruning.STEP_SESSIONS", 1)
    chance = Random(7)
    texts = [chance.randbytes(MIB // 8).hex() for _ in range(12)]  # which no database compresses
    model = callboard.ScriptedModel([reply(text) for text in texts])
    data = None if kind == "memory" else tmp_path
    with store_settings(kind) as store:
        settings = Settings(store=store)
        opening = callboard.open_runtime(model=model, settings=settings, environ={}, data=data)
        async with opening as runtime:
            sessions = [await talked(runtime) for _ in texts]
            for session in sessions[:8]:
                await session.delete()
            full = (await runtime.store.size()).used_bytes
            assert full > 5 * MIB
            limited = SessionSettings(max_store_mib=full // MIB)
            settings = Settings(store=store, sessions=limited)
            await reconfigure(host_of(runtime), settings)
            await runtime.create_session()  # there is room, with some of the deleted ones purged
            left = [await runtime.store.session(each.session_id) for each in sessions]
            assert left[0] is None
            assert all(left[4:])
            size = await runtime.store.size()
            assert size.used_bytes < full
            assert size.file_bytes >= size.used_bytes


async def test_nothing_more_is_purged_where_that_frees_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.actors.upkeep.pruning.STEP_SESSIONS", 1)
    async with opened(max_store_mib=1) as runtime:
        for _ in range(FRUITLESS_STEPS + 2):
            await (await runtime.create_session()).delete()

        async def size() -> StoreSize:
            await trio.lowlevel.checkpoint()
            return StoreSize(2 * MIB, 2 * MIB, can_shrink=False)

        monkeypatch.setattr(runtime.store, "size", size)
        with pytest.raises(StoreLimitReached, match="is used again") as refused:
            await runtime.create_session()
        assert "callboard compact" not in str(refused.value)
        deleted = SessionFilter(deleted="only", limit=9)
        assert len((await runtime.store.session_page(deleted)).sessions) == 2


async def test_the_limits_hold_as_soon_as_they_are_read_again() -> None:
    async with opened() as runtime:
        await talked(runtime)
        await talked(runtime)
        await runtime.create_session()
        limited = Settings(sessions=SessionSettings(max_store_mib=1))
        effect = await reconfigure(host_of(runtime), limited)
        assert effect.changed == ("sessions.max_store_mib",)
        with pytest.raises(StoreLimitReached):
            await runtime.create_session()
        assert (await runtime.status()).storage_warning
        await reconfigure(host_of(runtime), Settings())
        await runtime.create_session()


async def appended(runtime: callboard.Runtime, session_id: str, event: DurableEvent) -> None:
    await host_of(runtime).journal.ask(AppendEvents(session_id=session_id, events=(event,)))


async def child_of(runtime: callboard.Runtime, parent: callboard.Session) -> str:
    child = new_id("session")
    created = SessionCreated(agent="general", workspace="/", parent_id=parent.session_id)
    await appended(runtime, child, created)
    return child


async def test_a_session_is_not_restored_below_one_that_stays_deleted() -> None:
    async with opened() as runtime:
        keeping = host_of(runtime).keeping
        parent = await runtime.create_session()
        child = await child_of(runtime, parent)
        await parent.delete()
        with pytest.raises(ConflictError, match=f"is below {parent.session_id}"):
            await keeping.restore([child])
        assert set(await keeping.restore([child, parent.session_id])) == {
            child,
            parent.session_id,
        }


async def test_what_can_t_be_purged_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is deleted, with one below it that is not: an older callboard let that be."""
    monkeypatch.setattr("callboard.actors.upkeep.pruning.STEP_SESSIONS", 1)
    async with opened(max_store_mib=1) as runtime:
        pruning, store = host_of(runtime).pruning, runtime.store
        mixed = await runtime.create_session()
        child = await child_of(runtime, mixed)
        await mixed.delete()
        await appended(runtime, child, SessionRestored())
        first, second = await runtime.create_session(), await runtime.create_session()
        await first.delete()
        later(monkeypatch, 1)
        await appended(runtime, second.session_id, SessionDeleted())
        assert await pruning._purge_oldest()
        assert await store.session(first.session_id) is None
        assert await store.session(second.session_id) is not None
        await host_of(runtime).keeping.purge_expired(-1)
        assert await store.session(second.session_id) is None
        assert await store.session(mixed.session_id) is not None
        assert await store.session(child) is not None


async def test_idle_sessions_are_found_behind_a_page_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.actors.upkeep.pruning.MAX_BATCH", 1)
    async with opened(keep_idle_days=1) as runtime:
        for _ in range(2):
            await runtime.create_session()
        waits = await runtime.create_session()
        pruning = host_of(runtime).pruning
        is_idle = pruning._is_idle

        async def is_idle_but(session_id: str, before_ms: int) -> bool:
            return session_id != waits.session_id and await is_idle(session_id, before_ms)

        monkeypatch.setattr(pruning, "_is_idle", is_idle_but)
        later(monkeypatch, 2)
        await pruning.look()
        assert await ids(runtime) == {waits.session_id}


async def test_file_versions_that_a_cut_off_purge_left_are_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    steps = [
        reply(calls=[("write_file", {"path": path, "content": "a"})]) for path in ("a.txt", "b.txt")
    ]
    steps = [steps[0], reply("Done."), steps[1], reply("Done.")]
    async with open_in(tmp_path, steps, "disk") as runtime:
        stays, goes = await runtime.create_session(), await runtime.create_session()
        for session in (stays, goes):
            await session.run("Write it.")
        log = tmp_path / "data" / FOLDER / f"{goes.session_id}.log"
        kept = log.read_bytes()
        await goes.delete()
        await runtime.purge([goes.session_id])
    log.write_bytes(kept)  # as after a kill behind the commit
    async with open_in(tmp_path, [], "disk") as runtime:
        await until(lambda: not log.exists())
        assert len(await (await runtime.get_session(stays.session_id)).changes()) == 1

"""Several nodes on one PostgreSQL: who owns a session, and what becomes of it when its node is gone."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.actors.cluster.node import ClusterNode
from callboard.actors.delegation.detached import Detached
from callboard.actors.permissions.broker import PermissionBroker
from callboard.actors.permissions.decisions import GrantBook
from callboard.actors.upkeep.keeping import DAY_MS
from callboard.actors.upkeep.pruning import SessionPruning
from callboard.cli.cluster.commands import drain, status
from callboard.config.sections import ClusterSettings, SessionSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.embedding.status import status_of
from callboard.providers.testing.script import reply
from callboard.runtime.cluster.nodes import Term
from callboard.runtime.cluster.postgres import PostgresDatabase
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.errors import (
    CallboardError,
    ConflictError,
    NodeFenced,
    NotFoundError,
    StorageError,
    ValidationError,
)
from callboard.runtime.events import InputAccepted, TitleSet
from callboard.runtime.identity import now_ms
from callboard.runtime.messages import AppendEvents
from callboard.runtime.store.interface import StoreReader
from callboard.runtime.store.lists import StoreSize
from callboard.runtime.store.postgres.address import address_of
from support.cast import Cast, part, task
from support.flows.deferring import ended
from support.flows.person import Person
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


def settings_of(url: str, node: str) -> callboard.Settings:
    return callboard.Settings(
        store=StoreSettings(url=url), cluster=ClusterSettings(node=node, url=f"http://{node}")
    )


def opened(
    url: str, node: str, folder: Path, *texts: str, steps: Sequence[Any] = (), **options: Any
) -> AbstractAsyncContextManager[callboard.Runtime]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    model = callboard.ScriptedModel([*steps, *(reply(text) for text in texts)])
    return callboard.open_runtime(
        settings=settings_of(url, node),
        workspace=work,
        data=folder / node,
        environ={},
        **{"policy": "auto", "model": model, **options},
    )


@callboard.tool(approval="always")
def launch(what: str) -> str:
    """Launches something."""
    return f"launched {what}"


async def test_what_a_person_remembers_or_revokes_at_one_node_holds_at_all(
    url: str, tmp_path: Path
) -> None:
    person, call = Person("allow", remember="always"), reply(calls=[("launch", {"what": "a"})])
    options: Any = {"tools": [launch], "on_approval": person, "policy": "balanced"}
    steps = [call, reply("Done."), call, reply("Done.")]
    async with (
        opened(url, "a", tmp_path, steps=steps, **options) as a,
        opened(url, "b", tmp_path, steps=steps, **options) as b,
    ):
        session = await a.create_session()
        await session.run("Go.")
        (grant,) = await a.grants()
        decisions = grants_at(b)
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: bool(decisions.all()))
            await (await b.create_session()).run("Go.")
        assert len(person.asked) == 1  # b knows what was said at a
        with pytest.raises(ConflictError, match="runs on node a"):
            await b.revoke(grant.grant_id)
        assert decisions.all()
        await a.revoke(grant.grant_id)
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: not decisions.all())
            await (await b.create_session()).run("Go.")
        assert len(person.asked) == 2


def grants_at(runtime: callboard.Runtime) -> GrantBook:
    """What the broker of a node takes to hold."""
    (broker,) = [each for each in gc.get_objects() if type(each) is PermissionBroker
                 and each._services.store is runtime.store]  # fmt: skip
    return broker._decisions.grants


def node_of(runtime: callboard.Runtime) -> ClusterNode:
    node = host_of(runtime).plan.node
    assert node is not None
    return node


def fence(url: str, node: str) -> None:
    """End the lease of a node, and fence it, as another one would."""
    database = PostgresDatabase(address_of(url))
    try:
        while not database.rows(f"select {database.sql.is_settled}")[0][0]:
            database.rows("select pg_sleep(0.1)")
        registry = Registry(database)
        (found,) = [each for each in registry.nodes() if each.node_id == node]
        while not registry.fence(found.life):
            database.rows("update nodes set lease_until_ms = 0 where node_id = ?", (node,))
    finally:
        database.close()


async def test_a_session_runs_on_its_node_alone(url: str, tmp_path: Path) -> None:
    async with opened(url, "a", tmp_path, "One.", "Two.") as a:
        session = await a.create_session()
        assert await session.run("Say one.") == "One."
        async with opened(url, "b", tmp_path, "Never.") as b:
            same = await b.get_session(session.session_id)
            with pytest.raises(ConflictError, match="runs on node a, at http://a") as refused:
                await same.run("Say two.")
            assert refused.value.kind == "owner"
            assert len(await b.store.messages(session.session_id)) == 2  # all may read
        assert await session.run("Say two.") == "Two."


async def test_a_node_that_left_leaves_its_sessions_to_who_is_asked(
    url: str, tmp_path: Path
) -> None:
    async with opened(url, "b", tmp_path, "Two.") as b:
        async with opened(url, "a", tmp_path, "One.") as a:
            session = await a.create_session()
            assert await session.run("Say one.") == "One."
        same = await b.get_session(session.session_id)
        assert await same.run("Say two.") == "Two."
        events = await b.store.events(session.session_id)
        assert [each.seq for each in events] == list(range(1, len(events) + 1))


async def test_an_input_that_waits_is_answered_by_the_node_that_takes_over(
    url: str, tmp_path: Path
) -> None:
    async with opened(url, "b", tmp_path, "Two.") as b:
        async with opened(url, "a", tmp_path) as a:
            session = await a.create_session()
            leave_waiting(url, session.session_id)
        with trio.fail_after(WAIT_SECONDS):
            await trio.lowlevel.checkpoint()
            while not node_of(b).owns(session.session_id):  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
                await trio.sleep(0.05)


async def test_a_deferred_question_is_asked_by_the_node_that_takes_over(
    url: str, tmp_path: Path
) -> None:
    person, call = Person("allow"), reply(calls=[("launch", {"what": "a"})])
    options: Any = {
        "tools": [launch],
        "agents": [callboard.Agent(defer=True)],
        "policy": "balanced",
    }
    async with opened(url, "b", tmp_path, "Launched.", on_approval=person, **options) as b:
        steps: Any = [call, reply("It is pending.")]
        async with opened(url, "a", tmp_path, steps=steps, on_approval="wait", **options) as a:
            session = await a.create_session()
            assert await session.run("Go.") == "It is pending."
            assert person.tools == []
        await ended(b, session.session_id, 2)  # nobody asked b for the session
        [late] = await b.store.calls(name="launch")
    assert person.tools == ["launch"]
    assert late.status == "success"


async def test_the_answer_of_a_detached_session_is_delivered_by_the_node_that_takes_over(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node ends after the child's turn, and before the commit that brings the answer to the parent."""
    deliver, ends, held = Detached.deliver, trio.Event(), list[StoreReader]()

    async def deliver_elsewhere(self: Detached, child_id: str, *, wakes: bool = True) -> None:
        if self._store in held:
            ends.set()
        else:
            await deliver(self, child_id, wakes=wakes)

    monkeypatch.setattr(Detached, "deliver", deliver_elsewhere)
    away = part(task("Look.", wait=False), last="It is on its way.")
    at_a = Cast({"Go.": away, "Look.": [reply("I looked.")]})
    at_b = Cast({"Go.": [reply("Heard.")]})
    async with opened(url, "b", tmp_path, model=at_b) as b:
        async with opened(url, "a", tmp_path, model=at_a) as a:
            held.append(a.store)
            session = await a.create_session()
            assert await session.run("Go.") == "It is on its way."
            with trio.fail_after(WAIT_SECONDS):
                await ends.wait()
            assert len(await b.store.children(is_detached=True)) == 1
        events = await ended(b, session.session_id, 2)  # nobody asked b for the session
        assert await b.store.children(is_detached=True) == []
    assert sum(isinstance(each, InputAccepted) and bool(each.child_id) for each in events) == 1
    at_b.parts["Go."].assert_complete()


def leave_waiting(url: str, session_id: str) -> None:
    """Put an input on record that nobody has begun, as a crash would leave it."""
    database = PostgresDatabase(address_of(url))
    database.rows(
        "insert into inputs (session, input_id, source) select id, 'input_1', 'person'"
        " from sessions where session_id = ?",
        (session_id,),
    )
    database.close()


async def test_who_asks_for_a_session_that_is_being_taken_over_waits_until_it_is_recovered(
    url: str, tmp_path: Path
) -> None:
    async with opened(url, "b", tmp_path, "Two.") as b:
        node, began, may_end = node_of(b), trio.Event(), trio.Event()
        recover, taken = node.take_over, list[tuple[str, ...]]()

        async def slowly(session_ids: Sequence[str]) -> None:
            taken.append(tuple(session_ids))
            began.set()
            await may_end.wait()
            if len(taken) == 1:
                raise StorageError("the database went away")
            await recover(session_ids)

        node.take_over = slowly
        async with opened(url, "a", tmp_path) as a:
            session_id = (await a.create_session()).session_id
            leave_waiting(url, session_id)
        with trio.fail_after(WAIT_SECONDS):
            await began.wait()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(node.claim, session_id)
                await trio.testing.wait_all_tasks_blocked()
                assert not node.owns(session_id)
                may_end.set()
        assert node.owns(session_id)
        assert taken == [(session_id,)] * 2  # tried again, and once only


async def test_a_session_of_nobody_is_not_found(url: str, tmp_path: Path) -> None:
    async with opened(url, "a", tmp_path) as a:
        with pytest.raises(NotFoundError, match="session_nobody"):
            await node_of(a).claim("session_nobody")


async def fenced_meanwhile(url: str, folder: Path, made: list[str]) -> None:
    """Make a session on a node that is fenced then, and try to write; it ends by itself."""
    async with opened(url, "a", folder) as a:
        session = await a.create_session()
        made.append(session.session_id)
        assert node_of(a).life == Term("a", 1)
        await trio.to_thread.run_sync(fence, url, "a")
        events = (TitleSet(title="Too late"),)
        append = AppendEvents(session_id=session.session_id, events=events)
        with pytest.raises(CallboardError):
            await host_of(a).journal.ask(append)
        with trio.fail_after(WAIT_SECONDS):
            await trio.sleep_forever()


async def test_a_fenced_node_ends_and_comes_back_with_its_next_term(
    url: str, tmp_path: Path
) -> None:
    made: list[str] = []
    with pytest.raises(NodeFenced, match="others have taken its sessions"):
        await fenced_meanwhile(url, tmp_path, made)
    async with opened(url, "a", tmp_path, "Back.") as again:
        assert node_of(again).life == Term("a", 2)
        row = await again.store.session(*made)
        assert row is not None
        assert row.title != "Too late"
        same = await again.get_session(*made)
        assert await same.run("Are you there?") == "Back."


async def test_a_second_node_of_the_same_name_does_not_start(url: str, tmp_path: Path) -> None:
    async with opened(url, "a", tmp_path):
        (tmp_path / "other").mkdir()
        with pytest.raises(ConflictError, match="already, at http://a"):
            async with opened(url, "a", tmp_path / "other"):
                pass


async def test_a_node_needs_a_database(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="needs a store that several nodes share"):
        async with callboard.open_runtime(
            model="rehearsal",
            workspace=tmp_path,
            settings=callboard.Settings(cluster=ClusterSettings(node="a")),
        ):
            pass


def test_a_password_in_the_arguments_is_refused() -> None:
    with pytest.raises(ValidationError, match="holds a password") as refused:
        status(store="postgresql://me:hunter2@db/callboard")
    assert "hunter2" not in str(refused.value)


async def test_nodes_are_listed_and_drained(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(url, "a", tmp_path) as a:
        await a.create_session()
        assert await trio.to_thread.run_sync(lambda: status(store=url)) == 0
        line = capsys.readouterr().out
        assert re.match(
            r"a +live, renewed 0\.\d s ago, term 1, 1 session, http://a, callboard", line
        )
        assert await trio.to_thread.run_sync(lambda: drain("a", store=url)) == 0
        with trio.fail_after(WAIT_SECONDS):
            await node_of(a).is_draining.wait()
        with pytest.raises(ConflictError, match="draining already"):
            drain("a", store=url)
        with pytest.raises(NotFoundError, match="There is no node b"):
            drain("b", store=url)
    assert status(store=url) == 1
    assert "ended, term 1" in capsys.readouterr().out


async def test_a_database_that_does_not_answer_is_said(url: str, tmp_path: Path) -> None:
    async with opened(url, "a", tmp_path) as a:
        assert status_of(host_of(a)).storage_failed == ""
        node = node_of(a)
        node.away_since = time.time() - 5
        assert "has not answered node a for 5 s" in status_of(host_of(a)).storage_failed
        node._heard()
        assert status_of(host_of(a)).storage_failed == ""


async def test_a_node_deletes_what_nobody_uses_and_leaves_the_sessions_of_others(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that has started again owns nothing: its own sessions of before are nobody's."""
    async with opened(url, "a", tmp_path) as a:
        first = [(await a.create_session()).session_id for _ in range(2)]
    async with opened(url, "b", tmp_path) as b:
        others = (await b.create_session()).session_id  # the first that is looked at behind these
        async with opened(url, "a", tmp_path) as a:
            last = (await a.create_session()).session_id
            settings = SessionSettings(keep_idle_days=1, max_store_mib=1)
            pruning = SessionPruning(host_of(a).keeping, host_of(a).plan.store, lambda: settings)

            async def full() -> StoreSize:
                await trio.lowlevel.checkpoint()
                return StoreSize(1024 * 1024, 1024 * 1024)

            monkeypatch.setattr(a.store, "size", full)
            then = now_ms() + 2 * DAY_MS
            monkeypatch.setattr("callboard.actors.upkeep.pruning.now_ms", lambda: then)
            await pruning.look()
            left = [row.session_id for row in await a.sessions()]
            assert left == [others]
            assert "2 sessions" not in caplog.text
            assert "3 sessions without activity for 1 days were deleted" in caplog.text
            assert pruning.warning  # the room was looked at, too
            # Where the store can't be read, that alone is left out.
            pruning.warning = ""
            monkeypatch.setattr(a.store, "unused_sessions", _broken)
            await pruning.look()
            assert pruning.warning
            assert {*first, last}.isdisjoint(left)


async def _broken(*_: Any, **__: Any) -> list[Any]:
    await trio.lowlevel.checkpoint()
    raise StorageError("the disk is broken")

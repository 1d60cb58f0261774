"""Several nodes of a cluster have the same schedule: one of them fires it, and what it left out no other fires."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from msgspec.structs import replace

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.embedding.unattended import scheduler
from callboard.embedding.unattended.firing import sender_of
from callboard.embedding.unattended.scheduler import LookAgain, firing
from callboard.embedding.unattended.settled import Settled, SettledTimes
from callboard.providers.testing.script import reply
from callboard.runtime.cluster.nodes import Owner
from callboard.runtime.cluster.placement import winner_of
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.schedules.schedule import Schedule
from callboard.runtime.store.rows import SessionRow
from support.flows.scheduled import MORNING, ms
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import some, until

WAIT_SECONDS = 60.0
DUE = ms("2021-11-02T09:00")
NEXT_DUE = ms("2021-11-03T09:00")


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


class FiringNode:
    """A node that fires schedules by a clock that is set."""

    def __init__(self, runtime: callboard.Runtime, mailbox: Mailbox[LookAgain]) -> None:
        self.runtime = runtime
        self._mailbox = mailbox

    def place(self, schedule: Schedule) -> int:
        node = host_of(self.runtime).plan.node
        assert node is not None
        return node.place_for(sender_of(schedule.name))

    async def look(self, text: str) -> None:
        self.runtime.schedules.clock = lambda: ms(text)
        await self._mailbox.tell(LookAgain())

    async def wait_settled(self, schedule: Schedule, due: int = DUE) -> None:
        settled = self.runtime.schedules.settled

        def is_settled() -> bool:
            known = settled.known(schedule.name)
            return known is not None and known.until_ms >= due

        with trio.fail_after(WAIT_SECONDS):
            await until(is_settled)


@asynccontextmanager
async def firing_node(
    url: str, node: str, folder: Path, *schedules: Schedule, capacity: int = 1
) -> AsyncGenerator[FiringNode]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    settings = callboard.Settings(
        store=StoreSettings(url=url),
        cluster=ClusterSettings(node=node, capacity=capacity),
        schedules={each.name: each for each in schedules},
    )
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")] * 3),
        settings=settings,
        workspace=work,
        data=folder / node,
        environ={},
    ) as runtime:
        runtime.schedules.clock = lambda: ms("2021-11-02T08:59")
        async with firing(runtime.schedules) as mailbox:
            yield FiringNode(runtime, mailbox)


async def in_order(schedule: Schedule, *nodes: FiringNode) -> list[FiringNode]:
    """The nodes in the order in which they are to fire, once each knows of the others."""
    with trio.fail_after(WAIT_SECONDS):
        await until(lambda: len({node.place(schedule) for node in nodes}) == len(nodes))
    return sorted(nodes, key=lambda node: node.place(schedule))


async def test_of_two_nodes_one_fires_a_planned_time(url: str, tmp_path: Path) -> None:
    async with (
        firing_node(url, "a", tmp_path, MORNING) as a,
        firing_node(url, "b", tmp_path, MORNING) as b,
    ):
        first, second = await in_order(MORNING, a, b)
        await second.look("2021-11-02T09:00:01")  # ahead of the first, and yet not before it
        await first.look("2021-11-02T09:00:02")
        await first.wait_settled(MORNING)
        await second.wait_settled(MORNING)
        rows = await a.runtime.sessions()
        assert len(rows) == 1
        assert host_of(first.runtime).plan.store.owns(rows[0].session_id)
        for node in (a, b):
            [row] = await node.runtime.schedules.list()
            assert row.problem == ""
            assert row.last is not None


async def test_what_one_node_left_out_no_other_fires(url: str, tmp_path: Path) -> None:
    morning = replace(MORNING, missed="skip")
    async with (
        firing_node(url, "a", tmp_path, morning) as a,
        firing_node(url, "b", tmp_path, morning) as b,
    ):
        first, second = await in_order(morning, a, b)
        await first.look("2021-11-02T09:30")  # too late by its clock
        await first.wait_settled(morning)
        await second.look("2021-11-02T09:00:01")
        await second.wait_settled(morning)
        assert await a.runtime.sessions() == []
        [row] = await second.runtime.schedules.list()
        assert row.skipped_at_ms == DUE


class Shared:
    """What the database has of settled times, in memory."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    async def settled_times(self) -> dict[str, str]:
        return self.entries

    async def settle_times(self, entries: Collection[tuple[str, int, str]]) -> None:
        self.entries.update((name, entry) for name, _, entry in entries)


async def test_a_daemon_that_becomes_a_node_brings_in_what_it_has_settled(tmp_path: Path) -> None:
    noon, alone, shared = replace(MORNING, name="noon"), SettledTimes(tmp_path), Shared()
    await alone.load()
    for schedule in (MORNING, noon):
        alone.entry(schedule, DUE - 1)
        alone.skip(schedule, DUE, "too late")
    await alone.save()
    later = Settled(timing=noon.timing, until_ms=NEXT_DUE)
    shared.entries[f"noon {noon.timing}"] = msgspec.json.encode(later).decode()
    node = SettledTimes(tmp_path, shared)
    await node.load()
    assert node.known(MORNING.name) == alone.known(MORNING.name)
    assert node.known("noon") == later  # what the nodes have settled since counts
    await node.save()
    other = SettledTimes(tmp_path / "other", shared)
    await other.load()
    known = other.known(MORNING.name)
    assert known is not None
    assert (known.until_ms, known.skipped_at_ms) == (DUE, DUE)


async def test_a_schedule_that_the_first_node_lacks_is_fired_by_the_next(
    url: str, tmp_path: Path
) -> None:
    async with firing_node(url, "a", tmp_path) as a, firing_node(url, "b", tmp_path) as b:
        order = await in_order(MORNING, a, b)
        name = "a" if order[1] is a else "b"
        lacking = "b" if name == "a" else "a"
    async with (
        firing_node(url, lacking, tmp_path) as first,
        firing_node(url, name, tmp_path, MORNING) as second,
    ):
        assert await in_order(MORNING, first, second) == [first, second]
        await second.look("2021-11-02T09:00:01")
        await second.wait_settled(MORNING)
        assert len(await second.runtime.sessions()) == 1


async def test_where_all_firings_go_to_one_session_its_owner_fires_and_nobody_has_a_problem(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = replace(MORNING, session="same")
    async with firing_node(url, "a", tmp_path) as a, firing_node(url, "b", tmp_path) as b:
        order = await in_order(same, a, b)
        owning, other = ("a", "b") if order[1] is a else ("b", "a")
    async with firing_node(url, owning, tmp_path, same) as owner:
        await owner.look("2021-11-02T09:00:01")
        await owner.wait_settled(same)
        async with firing_node(url, other, tmp_path, same) as first:
            assert await in_order(same, first, owner) == [first, owner]
            said: list[str] = []
            monkeypatch.setattr(first.runtime.schedules, "say", lambda _, why: said.append(why))
            await first.look("2021-11-03T09:00:01")  # by the name of the schedule it would be first
            await owner.look("2021-11-03T09:00:02")
            await owner.wait_settled(same, NEXT_DUE)
            await first.wait_settled(same, NEXT_DUE)
            assert set(said) <= {""}
            [row] = await first.runtime.sessions()
            assert host_of(owner.runtime).plan.store.owns(row.session_id)
            inputs = await first.runtime.store.named_inputs((sender_of(same.name),), 10)
            assert len(inputs) == 2


def watch_owners(firing_node: FiringNode, monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Set when a node knows who has a session that it was to fire in."""
    node = host_of(firing_node.runtime).plan.node
    assert node is not None
    real, is_known = node.other_owner, trio.Event()

    async def other_owner(session_id: str, patience: float = 0.0, **options: Any) -> Owner | None:
        found = await real(session_id, patience, **options)
        is_known.set()
        return found

    monkeypatch.setattr(node, "other_owner", other_owner)
    return is_known


@pytest.mark.parametrize("way", ["there", "without the schedule"])
async def test_a_session_of_nobody_where_all_firings_go_is_left_to_a_node_of_greater_capacity(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The smaller node looks first; it takes the session all the same when the larger one does not fire."""
    is_there = way == "there"
    same = replace(MORNING, session="same")
    async with firing_node(url, "gone", tmp_path, same) as gone:
        await gone.look("2021-11-02T09:00:01")
        await gone.wait_settled(same)

        async def idle() -> list[SessionRow]:
            rows = await gone.runtime.sessions()
            return [row for row in rows if not row.is_active and row.message_count == 2]

        with trio.fail_after(WAIT_SECONDS):
            [session] = await some(idle)
    names = (f"b{number}" for number in range(100))
    larger = next(b for b in names if winner_of(session.session_id, {"a": 1, b: 1000}) == b)
    # A node that waits for its turn never has it, or at once: no clock decides who fires.
    monkeypatch.setattr(scheduler, "TURN_SECONDS", WAIT_SECONDS * 10 if is_there else 0.0)
    async with (
        firing_node(url, "a", tmp_path, same) as a,
        firing_node(url, larger, tmp_path, *((same,) if is_there else ()), capacity=1000) as b,
    ):
        await in_order(same, a, b)
        fires = b if is_there else a
        is_known = watch_owners(a, monkeypatch)
        await a.look("2021-11-03T09:00:01")
        with trio.fail_after(WAIT_SECONDS):
            await is_known.wait()
        await b.look("2021-11-03T09:00:02")
        await fires.wait_settled(same, NEXT_DUE)
        assert host_of(fires.runtime).plan.store.owns(session.session_id)
        inputs = await a.runtime.store.named_inputs((sender_of(same.name),), 10)
        assert [each.session_id for each in inputs] == [session.session_id] * 2

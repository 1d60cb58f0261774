"""Schedules fire when their time has come: once each, whatever the clock does, and as they say."""

from __future__ import annotations

import random
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

import callboard
import callboard.config.managed as managed_module
import callboard.embedding.unattended.schedules as schedules_module
from callboard.embedding.unattended.firing import planned_key
from callboard.embedding.unattended.once import SESSION
from callboard.embedding.unattended.schedules import ScheduleBook
from callboard.providers.testing.script import reply, stall
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.budget import Budget
from callboard.runtime.events import InputAccepted
from callboard.runtime.identity import RequestKey
from callboard.runtime.schedules.schedule import Schedule
from support.flows.scheduled import BERLIN, MORNING, Scene, Wall, ms, refused, scheduling
from support.stage import on_both_stores, open_in
from support.waiting import tools_of
from support.waits import until

HOURLY = Schedule(name="hourly", prompt="Look.", every="1h")


async def test_it_fires_at_its_times_in_sessions_of_its_own(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with scheduling(tmp_path, "2026-03-28T08:30", MORNING) as scene:
        await trio.sleep(3600)
        # The clocks are set forward in the night.
        scene.wall.set("2026-03-29T08:30")
        await trio.sleep(3600)
        await scene.settled()
        assert await scene.fired() == ["03-28 09:00 CET", "03-29 09:00 CEST"]
        rows = await scene.runtime.sessions()
        assert [row.title for row in rows] == [
            f"morning, 2026-03-{day}" for day in ("29 09:00 CEST", "28 09:00 CET")
        ]
        [row] = await scene.runtime.schedules.list()
        assert row.last is not None
        assert (row.last.state, row.problem) == ("answered", "")
        days = ("03-30", "03-31", "04-01")
        assert row.next_at_ms == tuple(ms(f"2026-{day}T09:00") for day in days)


async def test_it_fires_on_the_second(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """It sleeps for as long as nothing is due, and wakes up then."""
    begun: list[int] = []
    async with scheduling(tmp_path, "2026-03-27T08:00:17", MORNING, HOURLY) as scene:
        stop = scene.runtime.schedules.host.inboxes.watch(
            lambda stored: begun.extend(
                scene.wall() for each in stored if isinstance(each.event, InputAccepted)
            )
        )
        await trio.sleep(2 * 3600)
        stop()
    hours = [ms("2026-03-27T09:00"), ms("2026-03-27T09:00"), ms("2026-03-27T10:00")]
    assert [at - planned for at, planned in zip(begun, hours, strict=True)] == [0, 0, 0]


@pytest.mark.parametrize(("session", "sessions"), [("new", 3), ("same", 1)])
async def test_all_firings_may_have_the_same_session(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, session: str, sessions: int
) -> None:
    hourly = replace(HOURLY, session=session)
    async with scheduling(tmp_path, "2026-03-27T08:30", hourly) as scene:
        await trio.sleep(3 * 3600)
        await scene.settled()
        rows = await scene.runtime.sessions()
        assert (len(rows), len(await scene.inputs())) == (sessions, 3)
        if session == "same":
            assert rows[0].title == "hourly"
            await (await scene.runtime.get_session(rows[0].session_id)).delete()
            await trio.sleep(2 * 3600)  # another one takes its place, and keeps it
            await scene.settled()
            assert len(await scene.runtime.sessions()) == 1
            assert len(await scene.inputs()) == 5


@pytest.mark.parametrize(("missed", "fired"), [("run_once", ["11-06 09:00 CET"]), ("skip", [])])
async def test_what_was_missed_is_run_once_or_left_out(
    tmp_path: Path, missed: str, fired: list[str]
) -> None:
    morning = replace(MORNING, missed=missed)
    async with scheduling(tmp_path, "2026-11-02T12:00", morning, store="disk") as scene:
        assert await scene.fired() == []
    for _ in range(2):  # it is not run again by the start after that
        async with scheduling(tmp_path, "2026-11-06T12:00", morning, store="disk") as scene:
            assert await scene.fired() == fired
            [row] = await scene.runtime.schedules.list()
            assert (row.skipped_at_ms == ms("2026-11-06T09:00")) is (missed == "skip")
            assert ("due while nothing fired" in row.skipped) is (missed == "skip")


async def test_a_moment_late_is_not_missed(tmp_path: Path) -> None:
    morning = replace(MORNING, missed="skip")
    async with scheduling(tmp_path, "2026-11-02T08:59", morning) as scene:
        scene.wall.set("2026-11-02T09:00:59")
        await scene.look()
        assert await scene.fired() == ["11-02 09:00 CET"]


@on_both_stores
async def test_a_clock_that_jumps_doubles_nothing(tmp_path: Path, store: str) -> None:
    async with scheduling(tmp_path, "2026-11-02T08:59", MORNING, store=store) as scene:

        async def at(text: str) -> None:
            scene.wall.set(text)
            await scene.look()

        await at("2026-11-02T09:00:10")
        assert await scene.fired() == ["11-02 09:00 CET"]
        await at("2026-11-02T08:30")
        await at("2026-11-02T09:00:20")
        assert await scene.fired() == ["11-02 09:00 CET"]
        await at("2026-11-05T09:30")  # three were missed
        assert await scene.fired() == ["11-02 09:00 CET", "11-05 09:00 CET"]
        await at("2031-11-05T09:30")  # this clock is wrong
        await at("2026-11-05T10:00")
        await at("2026-11-06T09:00")
        assert await scene.fired() == [
            *("11-02 09:00 CET", "11-05 09:00 CET", "11-05 09:00 CET", "11-06 09:00 CET")
        ]
        assert len(set(await scene.inputs())) == 4


async def test_the_hour_that_comes_twice_has_a_fixed_time_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    night = replace(MORNING, name="night", cron="30 2 * * *")
    async with scheduling(tmp_path, "2026-10-25T01:30", night, HOURLY) as scene:
        await trio.sleep(4 * 3600)
        await scene.settled()
        assert await scene.fired("night") == ["10-25 02:30 CEST"]
        hours = await scene.fired("hourly")
        assert [each for each in hours if " 02:00" in each] == [
            "10-25 02:00 CEST",
            "10-25 02:00 CET",
        ]


WEEK = 7 * 24 * 3600
PATIENT = callboard.Settings(
    limits=callboard.Limits(progress_seconds=WEEK, idle_seconds=WEEK, model_call_seconds=WEEK)
)


@pytest.mark.parametrize(
    ("overlap", "session", "fired"),
    [("skip", "same", 1), ("queue", "same", 3), ("skip", "new", 1), ("queue", "new", 1)],
)
async def test_a_firing_whose_predecessor_still_runs(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    overlap: str,
    session: str,
    fired: int,
) -> None:
    hourly = replace(HOURLY, overlap=overlap, session=session, missed="skip")
    steps: list[ScriptStep] = [stall(), reply("Done."), reply("Done.")]
    async with scheduling(
        tmp_path, "2026-11-02T08:30", hourly, steps=steps, settings=PATIENT
    ) as scene:
        await trio.sleep(3 * 3600)
        assert len(await scene.inputs()) == fired
        [row] = await scene.runtime.schedules.list()
        assert ("still ran" in row.skipped) is (overlap == "skip")
        [only] = await scene.runtime.sessions()
        await (await scene.runtime.get_session(only.session_id)).cancel()
        await scene.settled()
        if (overlap, session) == ("queue", "new"):  # the last that waited, as soon as it may
            fired += 1
            assert await scene.fired("hourly") == ["11-02 09:00 CET", "11-02 11:00 CET"]
        await trio.sleep(3600)
        await scene.settled()
        assert len(await scene.inputs()) == fired + 1


async def test_one_that_somebody_asked_for_hides_none_that_runs(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    steps: list[ScriptStep] = [stall(), reply("Quick.")]
    async with scheduling(
        tmp_path, "2026-11-02T08:30", HOURLY, steps=steps, settings=PATIENT
    ) as scene:
        await trio.sleep(3600)
        await scene.runtime.schedules.run("hourly")
        await trio.sleep(3600)
        assert await scene.fired("hourly") == ["11-02 09:00 CET"]


async def test_the_end_of_one_that_somebody_asked_for_is_told(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with scheduling(
        tmp_path, "2026-11-02T08:30", HOURLY, steps=[stall()], settings=PATIENT
    ) as scene:
        await scene.runtime.schedules.run("hourly")
        known = await scene.runtime.wait_lists({"schedules": 0})
        [row] = await scene.runtime.sessions()
        await (await scene.runtime.get_session(row.session_id)).cancel()
        with trio.fail_after(60):
            assert await scene.runtime.wait_lists(known) != known


async def test_a_firing_that_was_deleted_while_it_waited_holds_up_none(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    hourly = replace(HOURLY, session="same")
    steps: list[ScriptStep] = [reply("One."), stall(), reply("Two.")]
    async with scheduling(
        tmp_path, "2026-11-02T08:30", hourly, steps=steps, settings=PATIENT
    ) as scene:
        await trio.sleep(3600)
        [row] = await scene.runtime.sessions()
        session = await scene.runtime.get_session(row.session_id)
        await session.submit("A person's long prompt.")
        await trio.sleep(3600)
        await session.delete()
        await trio.sleep(3600)
        last = await scene.runtime.schedules.firings("hourly")
        assert [each.state for each in last] == ["answered", "cancelled", "answered"]


async def test_its_turn_has_its_budget_and_asks_nobody(tmp_path: Path) -> None:
    morning = replace(MORNING, budget=Budget(tool_calls=1))
    steps = [reply(calls=[("note", {"text": "one"})]), reply(calls=[("plain", {})]), reply("Done.")]
    options: dict[str, Any] = {"tools": tools_of(tmp_path), "on_approval": "allow"}
    async with scheduling(tmp_path, "2026-11-02T08:59", morning, steps=steps, **options) as scene:
        scene.wall.set("2026-11-02T09:00")
        await scene.look()
        calls = await scene.runtime.store.calls()
        assert {call.name: call.status for call in calls}["note"] == "denied"
        [row] = await scene.runtime.sessions()
        [accepted] = [
            stored.event
            for stored in await scene.runtime.store.events(row.session_id)
            if isinstance(stored.event, InputAccepted)
        ]
        assert accepted.budget == Budget(tool_calls=1)
        assert accepted.options is not None
        assert accepted.options.unattended == "deny"


async def test_an_agent_that_defers_defers(tmp_path: Path) -> None:
    steps = [reply(calls=[("note", {"text": "one"})]), reply("It waits.")]
    agents = [callboard.Agent(name="patient", defer=True)]
    options: dict[str, Any] = {"tools": tools_of(tmp_path), "agents": agents}
    morning = replace(MORNING, agent="patient")
    async with scheduling(
        tmp_path, "2026-11-02T08:59", morning, steps=steps, on_approval="allow", **options
    ) as scene:
        scene.wall.set("2026-11-02T09:00")
        await scene.look()
        assert [row.tool for row in await scene.runtime.approvals()] == ["note"]


async def test_without_its_agent_it_does_not_fire_and_says_so(tmp_path: Path) -> None:
    morning = replace(MORNING, agent="gone")
    async with scheduling(tmp_path, "2026-11-02T08:59", morning) as scene:
        scene.wall.set("2026-11-02T09:00")
        await scene.look()
        await trio.testing.wait_all_tasks_blocked()
        [row] = await scene.runtime.schedules.list()
        assert "no agent 'gone'" in row.problem
        assert await scene.fired() == []
        settings = callboard.Settings(
            schedules={"morning": morning}, agents={"gone": callboard.Agent(name="gone")}
        )
        await scene.runtime.reload(settings)  # and at once it does
        await until(lambda: not scene.runtime.schedules.problems["morning"])
        await scene.settled()
        assert await scene.fired() == ["11-02 09:00 CET"]


async def test_one_that_breaks_holds_up_no_other(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = replace(MORNING, name="bad", workspace="/nowhere")
    later = replace(MORNING, cron="1 9 * * *")
    async with scheduling(tmp_path, "2026-11-02T08:59", bad, later, strict=False) as scene:

        def choose(folder: str | None) -> AbstractAsyncContextManager[None]:
            if folder is not None:
                raise ZeroDivisionError
            return nullcontext()

        monkeypatch.setattr(scene.runtime.schedules, "choose_folder", choose)
        await trio.sleep(300)
        assert await scene.fired() == ["11-02 09:01 CET"]
        rows = await scene.runtime.schedules.list()
        assert [("ZeroDivisionError" in each.problem) for each in rows] == [True, False]


async def test_a_scheduler_that_is_given_up_is_the_problem_of_all(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scheduling(tmp_path, "2026-11-02T08:59", MORNING, strict=False) as scene:
        [row] = await scene.runtime.schedules.list()
        assert row.problem == ""
        monkeypatch.setattr(scene.runtime.schedules.settled, "keep_only", None)
        await trio.sleep(300)
        [row] = await scene.runtime.schedules.list()
        assert "nothing fires schedules any more" in row.problem


async def test_a_session_that_was_deleted_before_its_input_came_holds_up_nothing(
    tmp_path: Path,
) -> None:
    async with scheduling(tmp_path, "2026-11-02T08:59", MORNING) as scene:
        key = planned_key(MORNING, ms("2026-11-02T09:00"))
        begun = replace(key, method=key.method + SESSION)
        await (await scene.runtime.create_session(request=begun)).delete()
        scene.wall.set("2026-11-02T09:00:01")
        await scene.look()
        assert await scene.fired() == ["11-02 09:00 CET"]


async def test_other_times_hold_at_once_and_from_then_on(tmp_path: Path) -> None:
    async with scheduling(tmp_path, "2026-11-02T12:00", MORNING) as scene:
        earlier = replace(MORNING, cron="0 11 * * *")
        await scene.runtime.reload(callboard.Settings(schedules={"morning": earlier}))
        await scene.settled()
        assert await scene.fired() == []  # eleven was over when it was said
        later = replace(MORNING, cron="1 12 * * *")
        await scene.runtime.reload(callboard.Settings(schedules={"morning": later}))
        await scene.settled()
        scene.wall.set("2026-11-02T12:01")
        await scene.look()
        assert await scene.fired() == ["11-02 12:01 CET"]


async def test_run_now_is_a_firing_of_its_own(tmp_path: Path) -> None:
    paused = replace(MORNING, paused=True)
    async with scheduling(tmp_path, "2026-11-02T12:00", paused) as scene:
        firing = await scene.runtime.schedules.run("morning")
        assert firing.planned_at_ms is None
        await scene.settled()
        [row] = await scene.runtime.schedules.list()
        assert row.last is not None
        assert (row.last.input_id, row.last.state, row.next_at_ms) == (
            firing.input_id,
            "answered",
            (),
        )
        said = await refused(scene.runtime.schedules.run("mourning"))
        assert "no schedule 'mourning'; there are: morning. Did you mean \"morning\"?" in said


@pytest.mark.parametrize(("how", "fired"), [("not", 1), ("paused", 0), ("made again", 0)])
async def test_what_is_planned_before_it_was_resumed_or_made_again_does_not_fire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, fired: int
) -> None:
    """Changed by commands while no daemon runs."""
    config = tmp_path / "config" / "callboard.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text("")
    now, book = "2026-11-24T07:00", ScheduleBook(config)
    for module in (schedules_module, managed_module):
        monkeypatch.setattr(module, "now_ms", lambda: ms(now))
    (tmp_path / "data").mkdir(mode=0o700)
    options: dict[str, Any] = {"config": config, "store": "disk"}
    async with scheduling(tmp_path / "data", now, **options) as scene:
        await scene.runtime.schedules.create(MORNING)
        await scene.look()
    if how == "paused":
        book.pause("morning")
    elif how == "made again":
        book.delete("morning")
    now = "2026-11-24T09:30"
    if how == "paused":
        book.resume("morning")
    elif how == "made again":
        book.create(MORNING)
    async with scheduling(tmp_path / "data", "2026-11-24T10:00", **options) as scene:
        assert len(await scene.fired()) == fired


async def test_a_clock_that_was_ahead_for_a_moment_stops_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with scheduling(tmp_path, "2026-11-02T08:01", HOURLY) as scene:
        scene.wall.set("2026-11-03T07:00")
        await scene.look()
        scene.wall.set("2026-11-02T08:02")
        await trio.sleep(3600)
        await scene.settled()
        assert await scene.fired("hourly") == ["11-03 07:00 CET", "11-02 09:00 CET"]


async def test_run_keeps_the_same_session_where_nothing_fires(tmp_path: Path) -> None:
    """It is that of the last firing on record. A retry finds its own firing behind however many."""
    settings = callboard.Settings(schedules={"morning": replace(MORNING, session="same")})
    async with open_in(tmp_path, [reply("Done.")] * 20, "disk", settings=settings) as runtime:
        key = RequestKey("token:phone", "schedule/run", "k", "")
        first = await runtime.schedules.run("morning", request=key)
        others = [await runtime.schedules.run("morning") for _ in range(11)]
        assert {each.session_id for each in others} == {first.session_id}
        again = await runtime.schedules.run("morning", request=key)
        assert (again.input_id, again.at_ms) == (first.input_id, first.at_ms)


async def test_a_purged_session_does_not_fire_again(tmp_path: Path) -> None:
    """Its keys are gone with it; that it was fired is not."""
    async with scheduling(tmp_path, "2026-11-02T08:59", MORNING, store="disk") as scene:
        scene.wall.set("2026-11-02T09:00")
        await scene.look()
        [row] = await scene.runtime.sessions()
        await (await scene.runtime.get_session(row.session_id)).delete()
        await scene.runtime.purge([row.session_id])
    async with scheduling(tmp_path, "2026-11-02T09:10", MORNING, store="disk") as scene:
        assert await scene.inputs() == []


def two_programs(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """The folders of two programs, each with data of its own, and options with one configuration."""
    config, places = folder / "config", [folder / "one", folder / "two"]
    for each in (config, *places):
        each.mkdir(mode=0o700)
    text = f'[schedules.morning]\nprompt = "Go."\ncron = "0 9 * * *"\nzone = "{BERLIN}"\n'
    (config / "callboard.toml").write_text(text)
    return places, {"config": config / "callboard.toml", "store": "disk"}


async def test_of_two_programs_one_fires(tmp_path: Path) -> None:
    places, options = two_programs(tmp_path)
    wall = Wall("2026-11-02T08:58")
    async with scheduling(places[0], wall, **options) as first:
        async with scheduling(places[1], wall, **options) as second:
            wall.set("2026-11-02T09:00")
            await first.look()
            await second.look()
            assert (await first.fired(), await second.fired()) == (["11-02 09:00 CET"], [])
            [row] = await second.runtime.schedules.list()
            assert "another callboard fires the schedules of" in row.problem
            [row] = await first.runtime.schedules.list()
            assert row.problem == ""
        wall.set("2026-11-02T09:05")
    async with scheduling(places[1], wall, **options) as second:
        assert await second.fired() == []  # the first one did, and this one had looked
        wall.set("2026-11-03T09:00")
        await second.look()
        assert await second.fired() == ["11-03 09:00 CET"]


@pytest.mark.parametrize("is_managed", [False, True], ids=["its file", "a command's"])
@pytest.mark.parametrize("waits", [True, False], ids=["beside it", "after it"])
async def test_who_takes_over_leaves_out_what_the_other_has_fired(
    tmp_path: Path, is_managed: bool, waits: bool
) -> None:
    places, options = two_programs(tmp_path)
    wall, ends = Wall("2027-11-02T08:58"), trio.Event()
    if is_managed:
        (tmp_path / "config" / "callboard.toml").write_text("")

    async def first(*, task_status: trio.TaskStatus[Scene]) -> None:
        async with scheduling(places[0], wall, **options) as scene:
            if is_managed:
                await scene.runtime.schedules.create(MORNING)
                await scene.settled()
            task_status.started(scene)
            await ends.wait()

    async with trio.open_nursery() as programs, AsyncExitStack() as second:
        one, two = await programs.start(first), None
        if waits:
            two = await second.enter_async_context(scheduling(places[1], wall, **options))
        wall.set("2027-11-02T09:00")
        await one.look()
        fired = await one.fired()  # a command's was made today, and has missed some
        assert fired[-1] == "11-02 09:00 CET"
        ends.set()
        await until(lambda: not programs.child_tasks)
        if two is None:
            two = await second.enter_async_context(scheduling(places[1], wall, **options))
        assert two is not None
        await two.look()
        assert await two.fired() == []
        wall.set("2027-11-03T09:00")
        await two.look()
        assert await two.fired() == ["11-03 09:00 CET"]
    async with scheduling(places[0], wall, **options) as scene:  # and back
        assert await scene.fired() == fired


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_no_firing_is_doubled(tmp_path: Path, seed: int) -> None:
    """Clocks that jump, starts anew with and without the file of what is settled, changes, and runs."""
    chance, wall = random.Random(seed), Wall("2026-10-24T20:00")
    schedules = [
        replace(MORNING, name="often", cron="*/20 * * * *", session="same", overlap="queue"),
        replace(MORNING, name="night", cron="30 1-3 * * *", missed="skip"),
    ]
    done: list[str] = []
    for _ in range(3):
        steps = [reply("Done.")] * 500
        async with scheduling(tmp_path, wall, *schedules, steps=steps, store="disk") as scene:
            assert set(done) <= set(await scene.inputs())
            for _ in range(chance.randrange(2, 8)):
                minutes = chance.choice([-90, -61, -20, -1, 1, 5, 20, 40, 61, 600])
                wall.move(minutes * 60)
                await scene.look()
            done = await scene.inputs()
        assert len(done) == len(set(done))
        if chance.random() < 0.5:  # killed before it was written
            (tmp_path / "data" / "schedules.json").unlink()
        wall.move(chance.choice([-3600, 0, 7200]))

"""The directory: sessions are loaded, woken and unloaded, and no message is lost."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from callboard.actors import directory
from callboard.actors.directory import IDLE_SECONDS, LOAD_SECONDS, MAX_WAKING, Directory, Waking
from callboard.actors.session.session import MAILBOX_CAPACITY, Session
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.errors import ActorStopped, CallboardError, OverloadedError, StorageError
from callboard.runtime.events import SessionCreated, SessionDeleted, Stored, TitleSet, TurnEnded
from callboard.runtime.kernel.delivery import Subscription
from callboard.runtime.messages import (
    AppendEvents,
    CancelTurn,
    CreateSession,
    FollowSession,
    PurgeSessions,
    StopSessions,
    SubmitInput,
    WakeSession,
)
from callboard.runtime.turns.activity import Activity
from support.scene import Heard, Scene, assert_sound, open_scene

ALL = ("journal", "broker", "dispatcher", "directory")


async def scene_with(*steps: Step, sessions: int = 1) -> Scene:
    scene = Scene(model=ScriptedModel(steps))
    for number in range(1, sessions + 1):
        await scene.create(f"s{number}")
    return scene


async def submit(scene: Scene, text: str = "hi", session_id: str = "s1") -> Heard:
    return await scene.submit(scene.directory, session_id, text)


async def cancel(scene: Scene, session_id: str = "s1") -> bool:
    return await scene.directory.ask(CancelTurn(session_id=session_id, reason="test"))


async def test_a_session_is_created_on_record() -> None:
    scene = await scene_with()
    created = SessionCreated(agent="general", workspace="/work", title="new")
    async with open_scene(scene, *ALL):
        made = await scene.directory.ask(CreateSession(created=created))
        other = await scene.directory.ask(CreateSession(created=created))
    assert made != other
    assert await scene.events(made) == [created]
    assert scene.live == {}  # it is loaded when it is needed


async def test_a_session_that_can_not_be_stored_is_an_error() -> None:
    scene = await scene_with()
    scene.fake.refuse = lambda _: StorageError("no disk")
    created = SessionCreated(agent="general", workspace="/work")
    async with open_scene(scene, *ALL):
        with pytest.raises(StorageError, match="no disk"):
            await scene.directory.ask(CreateSession(created=created))


async def test_a_session_is_loaded_on_demand_and_once() -> None:
    scene = await scene_with(reply("a"), reply("b"), reply("c"), sessions=2)
    async with open_scene(scene, *ALL):
        assert scene.live == {}
        await (await submit(scene, "one")).to_the_end()
        mailbox = scene.live["s1"]
        await (await submit(scene, "two")).to_the_end()
        assert scene.live == {"s1": mailbox}
        await (await submit(scene, session_id="s2")).to_the_end()
        assert set(scene.live) == {"s1", "s2"}
    await assert_sound(scene.store, "s1")
    await assert_sound(scene.store, "s2")


async def test_there_is_nothing_to_cancel_in_a_session_that_is_not_live() -> None:
    scene = await scene_with()
    async with open_scene(scene, *ALL):
        assert not await cancel(scene)
    assert scene.live == {}


async def test_idle_sessions_are_unloaded_and_loaded_again(autojump_clock: MockClock) -> None:
    scene = await scene_with(reply("a"), reply("b"))
    async with open_scene(scene, *ALL):
        await (await submit(scene, "one")).to_the_end()
        old = scene.live["s1"]
        await trio.sleep(IDLE_SECONDS + 1)
        assert scene.live == {}
        assert old.is_closed
        await (await submit(scene, "two")).to_the_end()
        assert scene.live["s1"] is not old
    model = scene.models.model
    assert isinstance(model, ScriptedModel)
    assert len(model.requests[1].rounds) == 2  # the first turn was remembered
    await assert_sound(scene.store)


async def test_a_busy_session_stays(autojump_clock: MockClock) -> None:
    scene = await scene_with(reply("a", delay_seconds=30))
    async with open_scene(scene, *ALL):
        await trio.sleep(IDLE_SECONDS - 10)
        heard = await submit(scene)
        await trio.sleep(15)
        assert set(scene.live) == {"s1"}
        assert (await heard.to_the_end()).outcome == "answered"


@pytest.mark.parametrize("delay", [0.0, 0.001])
async def test_a_prompt_that_comes_while_its_session_is_unloaded_is_not_lost(
    delay: float, autojump_clock: MockClock
) -> None:
    count = 10
    scene = await scene_with(*[reply("x")] * (count + 1))
    outcomes: list[str] = []
    async with open_scene(scene, *ALL):
        await (await submit(scene)).to_the_end()

        async def prompt(number: int) -> None:
            await trio.sleep(IDLE_SECONDS - trio.current_time() + delay * (number - 5))
            for _ in range(number):
                await trio.lowlevel.checkpoint()
            outcomes.append((await (await submit(scene, str(number))).to_the_end()).outcome)

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(prompt, number)
    assert outcomes == ["answered"] * count
    await assert_sound(scene.store)


async def test_a_full_mailbox_refuses_at_once_and_routes_others() -> None:
    scene = await scene_with(reply("x"), reply("y"), sessions=2)
    gate = trio.Event()
    usual = scene.fake.commit

    async def slow(appends: object) -> object:
        await gate.wait()
        return await usual(appends)  # type: ignore[arg-type]

    scene.fake.commit = slow  # type: ignore[method-assign, assignment]
    async with open_scene(scene, *ALL), trio.open_nursery() as nursery:
        nursery.start_soon(submit, scene)
        await trio.testing.wait_all_tasks_blocked()
        waiting = [SubmitInput(session_id="s1", text="x") for _ in range(MAILBOX_CAPACITY)]
        for message in waiting:
            await scene.directory.tell(message)
        await trio.testing.wait_all_tasks_blocked()
        heard = Subscription()
        refused = SubmitInput(session_id="s1", text="x", subscription=heard)
        with pytest.raises(OverloadedError, match="s1 is full"):
            await scene.directory.ask(refused)
        assert heard.is_closed
        assert not any(message.reply.is_done for message in waiting)
        gate.set()
        other = await submit(scene, session_id="s2")
        assert (await other.to_the_end()).outcome in {"answered", "failed"}
        nursery.cancel_scope.cancel()


async def test_stopping_twice_at_once_is_harmless() -> None:
    scene = await scene_with(stall())
    async with open_scene(scene, *ALL), trio.open_nursery() as nursery:
        await submit(scene)
        for _ in range(3):
            nursery.start_soon(scene.directory.ask, StopSessions(reason="closing"))
    await assert_sound(scene.store)


async def test_idle_sessions_are_stopped_some_at_a_time_and_busy_ones_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(directory, "MAX_STOPPING", 2)
    scene = await scene_with(stall(), stall(), stall(), sessions=8)
    at_once, stopping = 0, 0
    stop_one = Directory._stop_one

    async def counted(self: Directory, session_id: str, reason: str) -> None:
        nonlocal at_once, stopping
        stopping += 1
        at_once = max(at_once, stopping)
        await stop_one(self, session_id, reason)
        stopping -= 1

    monkeypatch.setattr(Directory, "_stop_one", counted)
    async with open_scene(scene, *ALL):
        for number in range(1, 4):
            await submit(scene, session_id=f"s{number}")
        for number in range(4, 9):
            loads = CancelTurn(session_id=f"s{number}", reason="loads it", loads=True)
            await scene.directory.ask(loads)
        await trio.testing.wait_all_tasks_blocked()
        assert len(scene.live) == 8
        await scene.directory.ask(StopSessions(reason="closing"))
        assert scene.live == {}
    assert at_once == 3 + 2
    for number in range(1, 9):
        await assert_sound(scene.store, f"s{number}")


async def test_a_crashed_directory_finds_its_sessions_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    scene = await scene_with(reply("a", delay_seconds=5), reply("b"))
    usual = Directory._find

    def crash(*_: object) -> None:
        monkeypatch.setattr(Directory, "_find", usual)
        raise ZeroDivisionError("a fault in routing")

    async with open_scene(scene, *ALL):
        first = await submit(scene)
        mailbox = scene.live["s1"]
        monkeypatch.setattr(Directory, "_find", crash)
        lost = SubmitInput(session_id="s1", text="lost")
        await scene.directory.tell(lost)
        second = await submit(scene, "second")
        assert scene.live["s1"] is mailbox
        for heard in (first, second):
            assert (await heard.to_the_end()).outcome == "answered"
        with pytest.raises(ActorStopped), trio.fail_after(60):
            await lost.reply.wait()


async def test_an_unknown_session_is_an_error_and_not_for_ever(autojump_clock: MockClock) -> None:
    scene = await scene_with(reply("a"))
    async with open_scene(scene, *ALL):
        with pytest.raises(CallboardError):
            await submit(scene, session_id="unknown")
        await scene.create("unknown")
        ended = await (await submit(scene, session_id="unknown")).to_the_end()
        assert isinstance(ended, TurnEnded)
        assert ended.outcome == "answered"


# ── who listens while a session rests ────────────────────────────────────────────────────────────


async def follow(scene: Scene) -> tuple[Subscription, int]:
    """A follower, and the last event that it will not hear."""
    follower = Subscription()
    message = FollowSession(session_id="s1", subscription=follower)
    return follower, (await scene.directory.ask(message)).head_seq


async def seqs_of(follower: Subscription) -> list[int]:
    if not follower.waiting:
        return []
    return [each.seq for each in await follower.take() if isinstance(each, Stored)]


async def title(scene: Scene, text: str) -> None:
    """An event that is stored without its session."""
    event = TitleSet(title=text)
    await scene.journal.ask(AppendEvents(session_id="s1", events=(event,)))


async def test_a_followed_session_is_unloaded_and_its_follower_hears_each_event_once(
    autojump_clock: MockClock,
) -> None:
    scene = await scene_with(*[reply("x")] * 3)
    async with open_scene(scene, *ALL):
        follower, head = await follow(scene)
        for number in range(3):
            await (await submit(scene)).to_the_end()
            await trio.sleep(IDLE_SECONDS + 1)
            assert scene.live == {}
            assert scene.inboxes.resting == 1
            await title(scene, str(number))
            stored = len(await scene.events("s1"))
            assert await seqs_of(follower) == list(range(head + 1, stored + 1))
            head = stored
        follower.close()
        await trio.sleep(IDLE_SECONDS + 1)
        assert scene.inboxes.resting == 0  # nothing is kept for who has left
    await assert_sound(scene.store)


@pytest.mark.parametrize("delay", [0.0, 0.001])
async def test_what_is_stored_while_a_followed_session_goes_or_comes_is_heard_once(
    delay: float, autojump_clock: MockClock
) -> None:
    count = 10
    scene = await scene_with(*[reply("x")] * count)
    async with open_scene(scene, *ALL):
        follower, head = await follow(scene)

        async def store(number: int) -> None:
            await trio.sleep(IDLE_SECONDS - trio.current_time() + delay * (number - 5))
            for _ in range(number):
                await trio.lowlevel.checkpoint()
            await title(scene, str(number))

        async def prompt(number: int) -> None:
            await trio.sleep(IDLE_SECONDS - trio.current_time() + delay * number)
            for _ in range(3 * number):
                await trio.lowlevel.checkpoint()
            await (await submit(scene, str(number))).to_the_end()

        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(store, number)
                nursery.start_soon(prompt, number)
        assert await seqs_of(follower) == list(range(head + 1, len(await scene.events("s1")) + 1))
    await assert_sound(scene.store)


@pytest.mark.parametrize("end", ["stop", "purge", "load", "directory"])
async def test_who_follows_a_resting_session_is_told_of_its_end(
    end: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await scene_with()
    async with open_scene(scene, *ALL):
        follower, _ = await follow(scene)
        await trio.sleep(IDLE_SECONDS + 1)
        assert scene.inboxes.resting == 1
        assert not follower.is_closed
        match end:
            case "stop":
                await scene.directory.ask(StopSessions(reason="the runtime ends"))
            case "purge":
                deleted = AppendEvents(session_id="s1", events=(SessionDeleted(),))
                await scene.journal.ask(deleted)
                assert len(await follower.take()) == 1
                await scene.directory.ask(PurgeSessions(session_ids=("s1",)))
            case "load":

                async def fail(_: object) -> None:
                    await trio.lowlevel.checkpoint()
                    raise StorageError("can't be read")

                monkeypatch.setattr(Session, "_load", fail)
                with pytest.raises(StorageError):
                    await submit(scene)
            case _:
                pass
        if end != "directory":
            with pytest.raises(ActorStopped):
                await follower.take()
    assert follower.is_closed
    assert scene.inboxes.resting == 0


async def test_simulated_hours_of_sessions_that_are_followed_leave_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    hours, sessions = (48, 8) if os.environ.get("CALLBOARD_SOAK") else (8, 4)
    scene = await scene_with(*[reply("x")] * hours * sessions, sessions=sessions)

    def kept() -> dict[str, int]:
        gc.collect()
        names = Counter(type(each).__name__ for each in gc.get_objects())
        found = {name: names[name] for name in KEPT}
        return found | {
            "tasks": trio.lowlevel.current_statistics().tasks_living,
            "threads": threading.active_count(),
            "descriptors": len(os.listdir("/proc/self/fd")),
        }

    model = scene.models.model
    assert isinstance(model, ScriptedModel)
    seen: list[dict[str, int]] = []
    async with open_scene(scene, *ALL):
        followers = {f"s{n}": Subscription() for n in range(1, sessions + 1)}
        for name, follower in followers.items():
            await scene.directory.ask(FollowSession(session_id=name, subscription=follower))
        for _ in range(hours):
            for name, follower in followers.items():
                await (await submit(scene, session_id=name)).to_the_end()
                await follower.take()
            model.requests.clear()  # which hold the histories
            await trio.sleep(3600)
            assert scene.live == {}
            assert scene.inboxes.resting == sessions
            seen.append(kept())
    for now in seen[2:]:
        assert all(now[name] <= most for name, most in seen[1].items()), (seen[1], now)


KEPT = ("Session", "Conversation", "Round", "Subscribers", "Subscription", "EventInbox", "Mailbox")
"""What a session is made of; its events are the store's."""


async def test_no_more_sessions_are_loaded_at_once_than_there_are_places(
    autojump_clock: MockClock,
) -> None:
    asked: list[WakeSession] = []
    waking = Waking(asked.append, Activity())
    for number in range(1000):
        waking.add(f"s{number}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waking.serve)
        await trio.sleep(LOAD_SECONDS / 2)
        assert len(asked) == MAX_WAKING
        for message in asked[:5]:  # loaded, with nothing to do
            message.reply.send(None)
        await trio.testing.wait_all_tasks_blocked()
        assert len(asked) == MAX_WAKING + 5
        await trio.sleep(LOAD_SECONDS)  # the others never will be, and hold up nobody for good
        assert len(asked) > MAX_WAKING + 5
        nursery.cancel_scope.cancel()

"""A session that goes on before its result is stored: what is shown, what is stored, what is taken back."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import callboard
from callboard.actors.journal import AHEAD_SECONDS
from callboard.actors.session.session import Session
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.errors import CallboardError, StorageError, StorageFull
from callboard.runtime.events import (
    AttemptCharged,
    CallFinished,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    Stored,
    StreamBatch,
    TitleSet,
    TurnEnded,
)
from callboard.runtime.history import Result
from callboard.runtime.kernel.delivery import MAX_HELD_UPDATES, Subscription
from callboard.runtime.kernel.mailbox import Reply
from callboard.runtime.messages import CancelTurn, FollowSession, SubmitInput
from callboard.runtime.redaction import Secret, redactor
from callboard.runtime.store.interface import Committed
from callboard.runtime.store.rows import Append, CommitResult
from callboard.tools.tool import Tool
from support.scene import (
    SESSION_ACTORS,
    FakeStore,
    Heard,
    Manner,
    Scene,
    assert_sound,
    has,
    open_scene,
)


class SlowDisk(FakeStore):
    """A disk whose commits of `holds` events end when `let_go` says so."""

    def __init__(self) -> None:
        super().__init__(manner=Manner.LATER)
        self.holds: type[DurableEvent] | None = None
        self._held: list[tuple[Sequence[Append], Committed]] = []

    def commit_soon(self, appends: Sequence[Append], done: Committed) -> bool:
        if self.holds is None or not has(appends, self.holds):
            return super().commit_soon(appends, done)
        self._held.append((appends, done))
        return True

    async def commit(self, appends: Sequence[Append]) -> list[CommitResult]:
        if self.holds is None or not has(appends, self.holds):
            with trio.CancelScope(shield=True):
                return await super().commit(appends)
        ended: Reply[list[CommitResult]] = Reply()
        self._held.append((appends, lambda end: _answer(ended, end)))
        return await ended.wait()

    async def wait_held(self) -> None:
        """Waits until a commit is held."""
        # ruff: ignore[async-busy-wait] a mock clock
        while not self._held:  # noqa: ASYNC110  nothing tells
            await trio.sleep(AHEAD_SECONDS)

    def let_go(self, error: CallboardError | None = None) -> None:
        """Ends the commit that is held; with an error, if one is given."""
        self.holds = None
        ((appends, done),) = self._held
        self._held.clear()
        if error is None:
            super().commit_soon(appends, done)
        else:
            done(error)

    @property
    def kinds(self) -> list[list[type[DurableEvent]]]:
        """What each commit stored."""
        return [[type(e) for each in group for e in each.events] for group in self.commits]


def _answer(ended: Reply[list[CommitResult]], end: list[CommitResult] | BaseException) -> None:
    if isinstance(end, Exception):
        ended.fail(end)
    elif not isinstance(end, BaseException):
        ended.send(end)


@callboard.tool(tier="workspace")
async def work(secret: str = "") -> str:  # noqa: ASYNC124  tools are async where they can be
    """Works."""
    return f"worked {secret}".strip()


ASKS = reply(calls=[("work", {})])


class Story(Scene):
    """A scene before a slow disk, whose commits are begun by nobody but who waits for one."""

    def __init__(self, *steps: Step | Any, tools: Sequence[Tool] = ()) -> None:
        self.model = ScriptedModel(steps)
        self.slow = SlowDisk()
        self.sessions: list[Session] = []
        super().__init__(model=self.model, tools=[work, *tools], store=self.slow)

    def make_session(self) -> Session:
        self.sessions.append(super().make_session())
        return self.sessions[-1]

    async def submitted(self, text: str = "go") -> Heard:
        return await self.submit(self.session, "s1", text)

    async def asked_again(self) -> None:
        """Waits until the model is asked with the result."""
        while len(self.model.requests) < 2:
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(AHEAD_SECONDS / 8)


async def story(*steps: Step | Any, tools: Sequence[Tool] = ()) -> Story:
    scene = Story(*steps, tools=tools)
    await scene.create()
    return scene


@asynccontextmanager
async def gone_ahead() -> AsyncGenerator[tuple[Story, Heard]]:
    """A session that waits for the model, which reads a result that is not stored yet."""
    scene = await story(ASKS, stall())
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await scene.submitted()
        await scene.asked_again()
        yield scene, heard
    await assert_sound(scene.store)


def heard_kinds(heard: Heard) -> list[type]:
    """What a consumer has heard, whether it has read it or not."""
    updates = [*heard.updates, *heard.subscription._updates]
    return [type(u.event if isinstance(u, Stored) else u) for u in updates]


# ── with company, and alone ──────────────────────────────────────────────────────────────────────


async def test_a_result_is_stored_with_the_next_answer_and_the_starts_of_its_calls(
    autojump_clock: MockClock,
) -> None:
    scene = await story(ASKS, ASKS, reply("done"))
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await scene.submitted()
        assert (await heard.to_the_end()).outcome == "answered"
    finished = [kinds for kinds in scene.slow.kinds if CallFinished in kinds]
    assert len(finished) == 2
    assert finished[0][:2] == [CallFinished, MessageCompleted]
    assert finished[0][-1] is CallStarted
    assert finished[1] == [CallFinished, MessageCompleted, TurnEnded]
    assert [u for u in heard.updates if isinstance(u, Stored)] == (await scene.store.events("s1"))[
        1:
    ]
    await assert_sound(scene.store)


async def test_at_every_step_what_is_shown_and_what_acts_is_on_record(
    autojump_clock: MockClock,
) -> None:
    scene: Story
    heard = Subscription()
    acted: list[list[type[DurableEvent]]] = []
    wrong: list[str] = []

    def on_record() -> list[DurableEvent]:
        return [event for group in scene.slow.commits for each in group for event in each.events]

    @callboard.tool(tier="workspace")
    async def act() -> str:  # noqa: ASYNC124  tools are async where they can be
        """Acts."""
        acted.append([type(event) for event in on_record()])
        return "acted"

    @callboard.tool(tier="read_only", effect="read")
    async def look() -> str:  # noqa: ASYNC124  tools are async where they can be
        """Reads the record."""
        acted.append([type(event) for event in on_record()])
        return "seen"

    class Watch(trio.abc.Instrument):
        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            shown = [u for u in heard._updates if isinstance(u, Stored)]
            if [u.event for u in shown] != on_record()[: len(shown)]:
                wrong.append(f"an event that is not stored, at {trio.current_time()}")
            answers = len({u.stream_id for u in heard._updates if isinstance(u, StreamBatch)})
            if sum(isinstance(event, CallFinished) for event in on_record()) < answers - 1:
                wrong.append(f"text that follows from no stored result, at {trio.current_time()}")

    acts = reply(["I", "act"], calls=[("act", {})], piece_seconds=AHEAD_SECONDS / 3)
    looks = reply(["I", "look"], calls=[("look", {})])
    scene = await story(acts, looks, acts, reply(["well", "done"]), tools=[act, look])
    watch = Watch()
    async with open_scene(scene, *SESSION_ACTORS):
        trio.lowlevel.add_instrument(watch)
        try:
            await scene.session.ask(SubmitInput(session_id="s1", text="go", subscription=heard))
            while not heard.is_closed:
                heard.let_go()
                await trio.sleep(AHEAD_SECONDS)
        finally:
            trio.lowlevel.remove_instrument(watch)
    assert wrong == []
    assert [(kinds.count(CallStarted), kinds.count(CallFinished)) for kinds in acted] == [
        *((1, 0), (2, 1), (3, 2))
    ]
    await assert_sound(scene.store)


async def test_a_result_that_finds_no_company_is_stored_and_shown_soon(
    autojump_clock: MockClock,
) -> None:
    async with gone_ahead() as (scene, heard):
        assert CallFinished not in heard_kinds(heard)
        began = trio.current_time()
        # ruff: ignore[async-busy-wait] a mock clock
        while CallFinished not in heard_kinds(heard):  # noqa: ASYNC110  nothing tells
            await trio.sleep(AHEAD_SECONDS / 8)
        assert trio.current_time() - began <= AHEAD_SECONDS
        assert scene.slow.kinds[-1] == [CallFinished]
        await scene.session.ask(CancelTurn(session_id="s1", reason="enough"))


async def test_nothing_of_an_answer_is_shown_before_the_result_that_it_follows_is_stored(
    autojump_clock: MockClock,
) -> None:
    scene = await story(ASKS, reply(["so", "on"], piece_seconds=0.1))
    async with open_scene(scene, *SESSION_ACTORS):
        follower = Subscription()
        await scene.session.ask(FollowSession(session_id="s1", subscription=follower))
        scene.slow.holds = CallFinished
        heard = await scene.submitted()
        await scene.asked_again()
        await trio.sleep(10)  # the whole answer has come
        before = heard_kinds(heard)
        assert before[-1] is CallStarted
        scene.slow.let_go()
        assert (await heard.to_the_end()).outcome == "answered"
    after = heard_kinds(heard)[len(before) :]
    assert after[0] is CallFinished
    assert after[1] is StreamBatch
    assert after[-2:] == [MessageCompleted, TurnEnded]
    assert list(follower._updates) == heard.updates
    assert len(before) + len(after) == len(heard.updates)


async def test_an_answer_that_runs_far_ahead_of_the_disk_is_read_no_further(
    autojump_clock: MockClock,
) -> None:
    pieces = [f"{n} " for n in range(4 * MAX_HELD_UPDATES)]
    scene = await story(ASKS, reply(pieces, piece_seconds=0.001))
    async with open_scene(scene, *SESSION_ACTORS):
        scene.slow.holds = CallFinished
        heard = await scene.submitted()
        await scene.asked_again()
        await trio.sleep(10)
        assert TurnEnded not in heard_kinds(heard)
        (session,) = scene.sessions
        assert len(session.hold._updates) <= MAX_HELD_UPDATES + 1
        scene.slow.let_go()
        assert (await heard.to_the_end()).outcome == "answered"
    said = [e for e in await scene.events() if isinstance(e, MessageCompleted)][-1]
    assert said.parts[0].text == "".join(pieces)  # type: ignore[union-attr]


async def test_the_model_reads_a_result_as_it_will_be_stored(autojump_clock: MockClock) -> None:
    secret = "correct-horse-battery"
    hidden = Secret(secret)
    redactor.add(hidden)
    scene = await story(reply(calls=[("work", {"secret": secret})]), reply("done"))
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await scene.submitted()
        await heard.to_the_end()
    (read,) = [
        item.content
        for round_ in scene.model.requests[-1].rounds
        for item in round_.items
        if isinstance(item, Result)
    ]
    (stored,) = [e.result for e in await scene.events() if isinstance(e, CallFinished)]
    assert read == stored
    assert secret not in read
    redactor.discard(hidden)


async def test_what_others_store_keeps_its_place_in_the_record(autojump_clock: MockClock) -> None:
    scene = await story(ASKS, reply("done", delay_seconds=1))
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await scene.submitted()
        await scene.asked_again()
        await scene.append("s1", TitleSet(title="others"))
        assert scene.slow.kinds[-1] == [CallFinished, TitleSet]
        await heard.to_the_end()
    assert [u for u in heard.updates if isinstance(u, Stored)] == (await scene.store.events("s1"))[
        1:
    ]
    await assert_sound(scene.store)


# ── what can't be stored ─────────────────────────────────────────────────────────────────────────

NO_ROOM = StorageFull("no room: the disk is full")


async def test_an_answer_to_a_result_that_is_lost_is_thrown_away(autojump_clock: MockClock) -> None:
    scene = await story(ASKS, reply("never", piece_seconds=1), reply("well"))
    async with open_scene(scene, *SESSION_ACTORS):
        scene.slow.holds = CallFinished
        first = await scene.submitted()
        await scene.slow.wait_held()
        await trio.sleep(0.5)
        scene.slow.let_go(NO_ROOM)
        ended = await first.to_the_end()
        assert (ended.outcome, ended.error_type) == ("failed", "storage")
        assert "store failed while tools ran" in ended.message
        assert heard_kinds(first).count(MessageCompleted) == 1
        second = await scene.submitted("again")
        assert (await second.to_the_end()).outcome == "answered"
    (result,) = [e for e in await scene.events() if isinstance(e, CallFinished)]
    assert result.status == "interrupted"
    assert "outcome is unknown" in result.result
    assert not any("never" in str(u) for u in [*first.updates, *second.updates])
    (session,) = scene.sessions
    assert session.conversation.head_seq == len(await scene.events())
    await assert_sound(scene.store)


@pytest.mark.parametrize("delay", [0.0, 1.0])
@pytest.mark.parametrize("asks", [True, False])
async def test_an_answer_that_is_not_stored_is_not_either_once_there_is_room(
    autojump_clock: MockClock, asks: bool, delay: float
) -> None:
    calls: list[Any] = [("work", {})] if asks else []
    scene = await story(ASKS, reply("x", calls=calls, delay_seconds=delay), reply("well"))
    async with open_scene(scene, *SESSION_ACTORS):
        scene.slow.holds = CallFinished
        heard = await scene.submitted()
        await scene.slow.wait_held()
        await trio.sleep(10)  # the second answer waits with the result, or behind its commit
        scene.slow.let_go(NO_ROOM)
        with trio.fail_after(60):  # noqa: ASYNC912
            try:
                assert (await heard.to_the_end()).outcome == "failed"
            except StorageFull:
                assert not asks
        assert (await (await scene.submitted("again")).to_the_end()).outcome == "answered"
    events = await scene.events()
    assert sum(isinstance(e, MessageCompleted) for e in events) == 2
    charged = [e for e in events if isinstance(e, AttemptCharged)]
    assert len(charged) == asks  # its model was paid
    await assert_sound(scene.store)


async def test_a_full_disk_at_the_common_commit_ends_the_turn(autojump_clock: MockClock) -> None:
    scene = await story(ASKS, ASKS, reply("well"))
    refused: list[int] = []

    def refuse(appends: Sequence[Append]) -> CallboardError | None:
        if has(appends, CallFinished) and not refused:
            refused.append(len(appends))
            return NO_ROOM
        return None

    scene.fake.refuse = refuse
    async with open_scene(scene, *SESSION_ACTORS):
        ended = await (await scene.submitted()).to_the_end()
        assert (ended.outcome, ended.error_type) == ("failed", "storage")
        assert refused == [2]  # the result, and the next answer with the start of its call
        assert (await (await scene.submitted("again")).to_the_end()).outcome == "answered"
    assert sum(isinstance(e, MessageCompleted) for e in await scene.events()) == 2
    await assert_sound(scene.store)


class Steps(trio.abc.Instrument):
    """Counts the steps of the journal."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name == "journal"


async def test_a_journal_is_at_rest_when_all_that_a_session_went_ahead_with_is_refused(
    autojump_clock: MockClock,
) -> None:
    may_end, steps = trio.Event(), Steps()

    @callboard.tool(tier="workspace")
    async def work_longer() -> str:
        """Works until it is let go."""
        await may_end.wait()
        return "worked"

    results = reply(calls=[("work", {}), ("work_longer", {})])
    scene = await story(results, stall(), reply("well"), tools=[work_longer])
    async with open_scene(scene, *SESSION_ACTORS):
        scene.slow.holds = CallFinished
        heard = await scene.submitted()
        await scene.slow.wait_held()
        may_end.set()  # the session goes ahead with this result while the other is being stored
        await trio.testing.wait_all_tasks_blocked()
        scene.slow.let_go(NO_ROOM)
        with suppress(StorageFull):  # or it has an end on record, which says so
            await heard.to_the_end()
        autojump_clock.jump(2 * AHEAD_SECONDS)  # what was refused would have been due
        autojump_clock.autojump_threshold = math.inf
        trio.lowlevel.add_instrument(steps)
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(steps)
        autojump_clock.autojump_threshold = 0
        assert (await (await scene.submitted("again")).to_the_end()).outcome == "answered"
    assert steps.count < 5  # it looked once more, or not at all
    await assert_sound(scene.store)


async def test_a_cancelled_turn_keeps_the_result_that_it_went_ahead_with(
    autojump_clock: MockClock,
) -> None:
    async with gone_ahead() as (scene, heard):
        await scene.session.ask(CancelTurn(session_id="s1", reason="enough"))
        assert (await heard.to_the_end()).outcome == "cancelled"
    assert scene.slow.kinds[-2] == [CallFinished]
    assert TurnEnded in scene.slow.kinds[-1]


async def test_a_journal_that_crashes_takes_no_session_along(autojump_clock: MockClock) -> None:
    scene = await story(ASKS, reply("never", piece_seconds=1), reply("well"))
    async with open_scene(scene, *SESSION_ACTORS):
        scene.slow.holds = CallFinished
        first = await scene.submitted()
        await scene.slow.wait_held()
        await trio.sleep(0.5)
        scene.slow.let_go(StorageError("it is corrupt"))
        ended = await first.to_the_end()
        assert (ended.outcome, ended.error_type) == ("failed", "storage")
        assert (await (await scene.submitted("again")).to_the_end()).outcome == "answered"
    await assert_sound(scene.store)


async def test_a_journal_that_is_stopped_stores_what_its_sessions_went_ahead_with(
    mock_clock: MockClock,
) -> None:
    scene = await story(ASKS, stall())
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await scene.submitted()
        while len(scene.model.requests) < 2:
            await trio.testing.wait_all_tasks_blocked()
        assert CallFinished not in heard_kinds(heard)
    assert [type(event) for event in await scene.events()].count(CallFinished) == 1
    await assert_sound(scene.store, ended=False)


async def test_an_input_that_comes_meanwhile_has_its_turn(autojump_clock: MockClock) -> None:
    scene = await story(ASKS, reply("one", delay_seconds=1), reply("two"))
    async with open_scene(scene, *SESSION_ACTORS):
        scene.slow.holds = CallFinished
        first = await scene.submitted()
        await scene.slow.wait_held()
        async with trio.open_nursery() as nursery:
            seconds: list[Heard] = []

            async def submit() -> None:
                seconds.append(await scene.submitted("second"))

            nursery.start_soon(submit)
            await trio.testing.wait_all_tasks_blocked()
            scene.slow.let_go()
        assert (await first.to_the_end()).outcome == "answered"
        assert (await seconds[0].to_the_end()).outcome == "answered"
    kinds = [type(e) for e in await scene.events()]
    assert kinds.index(CallFinished) < len(kinds) - kinds[::-1].index(InputAccepted)
    await assert_sound(scene.store)

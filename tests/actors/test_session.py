"""The session actor: the order of turns, cancelling, stopping, crashes, a full disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import callboard
from callboard.actors.conversation.conversation import Conversation
from callboard.providers.testing.script import Step, reply, stall
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import ActorStopped, NotFoundError, StorageError, StorageFull
from callboard.runtime.events import (
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    Stored,
    StreamBatch,
    TitleSet,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Answer, Input
from callboard.runtime.messages import RUNTIME_CLOSED, CancelTurn, StopSession, SubmitInput
from callboard.runtime.store.rows import Append, CommitResult
from support.scene import (
    SESSION_ACTORS,
    FakeStore,
    Heard,
    Scene,
    assert_sound,
    full_for,
    open_scene,
)


@callboard.tool(tier="workspace")
async def work(seconds: float = 1) -> str:
    """Works."""
    await trio.sleep(seconds)
    return "worked"


async def submit(scene: Scene, text: str) -> Heard:
    return await scene.submit(scene.session, "s1", text)


async def cancel(scene: Scene, input_id: str | None = None) -> bool:
    done: bool = await scene.session.ask(
        CancelTurn(session_id="s1", reason="test", input_id=input_id)
    )
    return done


async def stop(scene: Scene, *, only_idle: bool = False) -> bool:
    done: bool = await scene.session.ask(
        StopSession(session_id="s1", reason=RUNTIME_CLOSED, only_idle=only_idle)
    )
    return done


async def scene_with(*steps: Step | Callable[[Any], Step], **options: Any) -> Scene:
    scene = Scene(model=ScriptedModel(steps), tools=[work], **options)
    await scene.create()
    return scene


def asked_of(scene: Scene) -> list[list[str]]:
    """The inputs of each request that the model got."""
    model = scene.models.model
    assert isinstance(model, ScriptedModel)
    return [
        [item.text for round_ in request.rounds for item in round_.items if isinstance(item, Input)]
        for request in model.requests
    ]


# ── inputs and turns ─────────────────────────────────────────────────────────────────────────────


async def test_a_consumer_hears_the_turn_in_order() -> None:
    scene = await scene_with(reply(["Hel", "lo"]))
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await submit(scene, "hi")
        ended = await heard.to_the_end()
    assert ended.outcome == "answered"
    kinds = [type(u.event if isinstance(u, Stored) else u) for u in heard.updates]
    assert kinds[:2] == [InputAccepted, TurnStarted]
    assert kinds[-2:] == [MessageCompleted, TurnEnded]
    assert set(kinds[2:-2]) == {StreamBatch}
    stored = [u for u in heard.updates if isinstance(u, Stored)]
    assert stored == (await scene.store.events("s1"))[1:]
    assert stored[0].seq == heard.ticket.seq
    offsets = [u.offset for u in heard.updates if isinstance(u, StreamBatch)]
    assert offsets == [0, 3, 5, 5]
    await assert_sound(scene.store)


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_input_that_is_stored_while_the_turn_ends_has_its_turn(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await scene_with(reply("first"), reply("second"))
    commit, ending = scene.fake.commit, trio.Event()

    async def slow(appends: Sequence[Append]) -> list[CommitResult]:
        if any(isinstance(event, TurnEnded) for append in appends for event in append.events):
            ending.set()
            await trio.sleep(1)
        return await commit(appends)

    monkeypatch.setattr(scene.fake, "commit", slow)
    async with open_scene(scene, *SESSION_ACTORS):
        first = await submit(scene, "first")
        await ending.wait()
        second = await submit(scene, "second")
        with trio.fail_after(60):
            assert (await first.to_the_end()).outcome == "answered"
            assert (await second.to_the_end()).outcome == "answered"
    await assert_sound(scene.store)


async def test_there_may_be_nothing_to_cancel() -> None:
    scene = await scene_with(reply("x"))
    async with open_scene(scene, *SESSION_ACTORS):
        assert not await cancel(scene)
        heard = await submit(scene, "go")
        await heard.to_the_end()
        await trio.testing.wait_all_tasks_blocked()
        assert not await cancel(scene, heard.ticket.input_id)
        assert not await cancel(scene, "input_unknown")


# ── stop ─────────────────────────────────────────────────────────────────────────────────────────


async def test_stopping_ends_the_turn_and_leaves_waiting_inputs_on_record() -> None:
    scene = await scene_with(stall("x"))
    async with open_scene(scene, *SESSION_ACTORS):
        first = await submit(scene, "first")
        second = await submit(scene, "second")
        await trio.testing.wait_all_tasks_blocked()
        assert await stop(scene)
        assert (await first.to_the_end()).outcome == "cancelled"
        with pytest.raises(ActorStopped, match="has ended"):
            await second.to_the_end()
        await trio.testing.wait_all_tasks_blocked()
        assert scene.session.is_closed
    await assert_sound(scene.store)
    again = Scene(model=ScriptedModel([reply("late")]), store=scene.fake)
    async with open_scene(again, *SESSION_ACTORS):
        await trio.testing.wait_all_tasks_blocked()
        assert asked_of(again) == [["first", "second"]]
    await assert_sound(scene.store)


@pytest.mark.parametrize("turns_before", [0, 1])
async def test_a_stop_right_behind_an_input_does_not_wait_for_ever(
    turns_before: int, autojump_clock: MockClock
) -> None:
    for _ in range(10):  # whichever of the tasks Trio runs first
        scene = await scene_with(*[reply("x")] * turns_before, stall())
        async with open_scene(scene, *SESSION_ACTORS):
            for _ in range(turns_before):
                await (await submit(scene, "before")).to_the_end()
                await trio.testing.wait_all_tasks_blocked()
            scene.session.tell_nowait(SubmitInput(session_id="s1", text="go"))
            with trio.fail_after(60):
                assert await stop(scene)
        await assert_sound(scene.store)


async def test_a_busy_session_is_not_idle() -> None:
    scene = await scene_with(stall())
    async with open_scene(scene, *SESSION_ACTORS):
        heard = await submit(scene, "go")
        assert not await stop(scene, only_idle=True)
        await cancel(scene)
        await heard.to_the_end()
        assert await stop(scene, only_idle=True)


# ── crash ────────────────────────────────────────────────────────────────────────────────────────


class Poison:
    """Makes the fold of the n-th turn's start crash, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_set = False
        usual = Conversation.fold

        def fold(conversation: Conversation, stored: Stored) -> None:
            if self.is_set and isinstance(stored.event, CallStarted):
                self.is_set = False
                raise ZeroDivisionError("a fault in folding")
            usual(conversation, stored)

        monkeypatch.setattr(Conversation, "fold", fold)


async def test_a_crash_is_heard_and_the_session_is_rebuilt(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    poison = Poison(monkeypatch)
    scene = await scene_with(reply(calls=[("work", {"seconds": 9})]), reply("b"), reply("c"))
    async with open_scene(scene, *SESSION_ACTORS):
        poison.is_set = True
        heard = await submit(scene, "first")
        waiting = await submit(scene, "second")
        for each in (heard, waiting):
            with pytest.raises(ActorStopped, match="has ended; load it again"):
                await each.to_the_end()
        # The successor closes what was open, then goes on with what waits.
        assert (await (await submit(scene, "third")).to_the_end()).outcome == "answered"
    ends = [e for e in await scene.events() if isinstance(e, TurnEnded)]
    assert [e.outcome for e in ends] == ["failed", "answered", "answered"]
    await assert_sound(scene.store)
    assert asked_of(scene)[-1] == ["first", "second", "third"]


async def test_who_waits_for_a_cancel_hears_of_a_crash(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    @callboard.tool(tier="workspace")
    async def stubborn() -> None:
        """Takes its time to end."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(3)

    usual = Conversation.fold

    def fold(conversation: Conversation, stored: Stored) -> None:
        if isinstance(stored.event, TitleSet):
            monkeypatch.setattr(Conversation, "fold", usual)
            raise ZeroDivisionError("a fault in folding")
        usual(conversation, stored)

    scene = Scene(model=ScriptedModel([reply(calls=[("stubborn", {})])]), tools=[stubborn])
    await scene.create()
    async with open_scene(scene, *SESSION_ACTORS), trio.open_nursery() as nursery:
        await submit(scene, "go")
        await trio.testing.wait_all_tasks_blocked()
        monkeypatch.setattr(Conversation, "fold", fold)

        async def crash_it() -> None:
            await trio.sleep(1)
            await scene.append("s1", TitleSet(title="x"))

        nursery.start_soon(crash_it)
        with pytest.raises(ActorStopped), trio.fail_after(60):
            await cancel(scene)
        assert trio.current_time() == 3
        await trio.sleep(1)  # the successor
    await assert_sound(scene.store)


# ── a store that fails ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", range(5))
async def test_a_full_disk_is_told_and_a_later_prompt_recovers(
    number: int, autojump_clock: MockClock
) -> None:
    # The commits of a turn: its start, the calls' start, two results, the end.
    script = [reply(calls=[("work", {"seconds": n}) for n in (1, 2)]), reply("done")]
    commits = 0

    def refuse(appends: Sequence[Append]) -> StorageError | None:
        nonlocal commits
        commits += 1
        return StorageFull("The disk is full.") if commits > number else None

    scene = await scene_with(*script, *script, reply("recovered"), store=FakeStore(refuse))
    async with open_scene(scene, *SESSION_ACTORS):
        with pytest.raises(StorageError, match="disk is full"):
            await (await submit(scene, "first")).to_the_end()
        scene.fake.refuse = lambda _: None
        assert isinstance(scene.models.model, ScriptedModel)
        scene.models.model = ScriptedModel([reply("recovered")])
        ended = await (await submit(scene, "second")).to_the_end()
        assert ended.outcome == "answered"
    assert commits > number
    await assert_sound(scene.store)
    assert asked_of(scene)[-1][-1] == "second"


async def test_a_queued_input_survives_a_full_disk(autojump_clock: MockClock) -> None:
    scene = await scene_with(reply("first", delay_seconds=1), reply("second"), reply("third"))
    async with open_scene(scene, *SESSION_ACTORS):
        first, second = await submit(scene, "first"), await submit(scene, "second")
        scene.fake.refuse = full_for(TurnStarted)
        assert (await first.to_the_end()).outcome == "answered"
        with pytest.raises(StorageError):
            await second.to_the_end()
        scene.fake.refuse = lambda _: None
        assert (await (await submit(scene, "third")).to_the_end()).outcome == "answered"
        await trio.testing.wait_all_tasks_blocked()
    assert asked_of(scene)[-1] == ["first", "second", "third"]
    await assert_sound(scene.store)


@pytest.mark.parametrize("lost", [TurnEnded, TurnStarted])
async def test_a_session_goes_on_by_itself_when_the_disk_has_room_again(
    autojump_clock: MockClock, lost: type[DurableEvent]
) -> None:
    scene = await scene_with(reply("first", delay_seconds=1), reply("second"))
    async with open_scene(scene, *SESSION_ACTORS):
        first, _ = await submit(scene, "first"), await submit(scene, "second")
        scene.fake.refuse = full_for(lost)
        with suppress(StorageError):
            await first.to_the_end()
        await trio.sleep(30)
        assert asked_of(scene) == [["first"]]
        scene.fake.refuse = lambda _: None
        await trio.sleep(30)
    assert asked_of(scene)[-1] == ["first", "second"]
    await assert_sound(scene.store)


async def test_a_session_that_can_not_go_on_says_why(caplog: pytest.LogCaptureFixture) -> None:
    scene = await scene_with(stall())
    async with open_scene(scene, *SESSION_ACTORS):
        await submit(scene, "first")
        await submit(scene, "second")
        await trio.testing.wait_all_tasks_blocked()
        await stop(scene)
    again = Scene(model=ScriptedModel([reply("second"), reply("third")]), store=scene.fake)
    again.models.failure = NotFoundError("there is no model x")
    async with open_scene(again, *SESSION_ACTORS):
        with pytest.raises(NotFoundError, match="there is no model x"):
            await submit(again, "third")
        again.models.failure = None
        assert (await (await submit(again, "third")).to_the_end()).outcome == "answered"
        await trio.testing.wait_all_tasks_blocked()
    assert "crashed" not in caplog.text
    assert asked_of(again)[-1] == ["first", "second", "third"]
    await assert_sound(scene.store)


async def test_an_agent_that_is_gone_is_named() -> None:
    scene = await scene_with(reply("x"), agents=[Agent(name="other")])
    async with open_scene(scene, *SESSION_ACTORS):
        with pytest.raises(NotFoundError, match="no agent 'general'; there are: other"):
            await submit(scene, "go")
    assert len(await scene.events()) == 1


# ── what a turn makes of its model ───────────────────────────────────────────────────────────────


async def test_call_ids_that_a_model_repeats_become_unique() -> None:
    from callboard.providers.testing.script import ScriptedCall

    again = [ScriptedCall("work", '{"seconds": 0}', "same")] * 2
    scene = await scene_with(reply(calls=again), reply(calls=again), reply("done"))
    async with open_scene(scene, *SESSION_ACTORS):
        assert (await (await submit(scene, "go")).to_the_end()).outcome == "answered"
    rows = await scene.store.calls()
    assert len({row.call_id for row in rows}) == 4
    await assert_sound(scene.store)


async def test_without_a_dispatcher_the_turn_fails_and_its_calls_have_results() -> None:
    scene = await scene_with(reply(calls=[("work", {})]), reply("fine"))
    scene.dispatcher.close()
    async with open_scene(scene, "journal", "broker", "session"):
        ended = await (await submit(scene, "go")).to_the_end()
        assert (ended.outcome, ended.error_type) == ("failed", "internal")
        assert (await (await submit(scene, "two")).to_the_end()).outcome == "answered"
    await assert_sound(scene.store)


async def test_a_loaded_conversation_is_the_one_that_was_live() -> None:
    scene = await scene_with(reply(calls=[("work", {"seconds": 0})]), reply("a"), reply("b"))
    live: list[Conversation] = []
    usual = scene.make_session

    def make() -> Any:
        session = usual()
        live.append(session.conversation)
        return session

    scene.make_session = make  # type: ignore[method-assign]
    async with open_scene(scene, *SESSION_ACTORS):
        for text in ("one", "two"):
            await (await submit(scene, text)).to_the_end()
    loaded = Conversation()
    loaded.fold_all(await scene.store.events("s1"))
    assert [r.items for r in loaded.rounds] == [r.items for r in live[0].rounds]
    assert loaded.call_ids == live[0].call_ids
    assert sum(isinstance(i, Answer) for r in loaded.rounds for i in r.items) == 3

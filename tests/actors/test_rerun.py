"""What a session knows when its last turn is set aside."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.actors.conversation.conversation import Conversation
from callboard.actors.session.rerun import set_aside
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import CallStatus, SessionKind
from callboard.runtime.errors import ConflictError, StorageFull
from callboard.runtime.events import (
    CallDeferred,
    CallFinished,
    CallProposed,
    DurableEvent,
    HistoryCompacted,
    InputAccepted,
    InputDelivered,
    MessageCompleted,
    SessionCreated,
    SessionTainted,
    Stored,
    TurnEnded,
    TurnOutcome,
    TurnSetAside,
    TurnStarted,
)
from callboard.runtime.history import Call, Input, Text
from callboard.runtime.kernel.delivery import Subscription
from callboard.runtime.messages import InputTicket, RerunTurn, SubmitInput
from support.scene import FakeStore, Scene, assert_sound, full_for, open_scene

BEGUN = SessionCreated(agent="general", workspace="/w")


def turn(
    number: int, *inside: DurableEvent, outcome: TurnOutcome = "answered"
) -> list[DurableEvent]:
    name = f"turn_{number}"
    return [
        InputAccepted(input_id=f"input_{number}", text=f"ask {number}"),
        TurnStarted(turn_id=name, input_ids=(f"input_{number}",), provider="p", model="m"),
        *inside,
        MessageCompleted(
            turn_id=name,
            message_id=f"message_{number}",
            parts=(Text(f"answer {number}"),),
            provider="p",
            model="m",
        ),
        TurnEnded(turn_id=name, outcome=outcome),
    ]


def again(number: int) -> list[DurableEvent]:
    """The turn of that number begins once more."""
    return [
        TurnSetAside(turn_id=f"turn_{number}", input_ids=(f"input_{number}",), why="regenerate"),
        TurnStarted(turn_id="again", input_ids=(f"input_{number}",), provider="p", model="m"),
    ]


def folded(*events: DurableEvent) -> Conversation:
    conversation = Conversation()
    conversation.fold_all(Stored("s1", seq, 0, event) for seq, event in enumerate(events, 1))
    return conversation


def read(conversation: Conversation) -> list[str]:
    """What the model would read."""
    texts = []
    for round_ in conversation.rounds:
        for item in round_.items:
            if isinstance(item, Input):
                texts.append(item.text)
            else:
                texts.append(
                    "".join(p.text for p in getattr(item, "parts", ()) if hasattr(p, "text"))
                )
    return texts


def asked(conversation: Conversation, **changed: Any) -> TurnSetAside:
    wanted = RerunTurn(**{"session_id": "s1", "why": "regenerate", **changed})
    return set_aside(conversation, wanted, is_busy=False)


def test_a_turn_that_is_set_aside_leaves_the_history_as_it_was() -> None:
    before = [BEGUN, *turn(1)]
    begun = folded(*before, *turn(2)[:2])
    conversation = folded(*before, *turn(2), *again(2))
    assert read(conversation) == read(begun) == ["ask 1", "answer 1", "ask 2"]
    assert conversation.waiting_inputs == {}
    assert conversation.asked == (Input("ask 2"),)


def test_a_summary_that_the_turn_made_goes_with_it() -> None:
    """What the summary stood for comes back: it may have held what is set aside."""
    summary = HistoryCompacted(
        turn_id="turn_3", rounds=2, summary="In short.", provider="p", model="m"
    )
    before = [BEGUN, *turn(1), *turn(2)]
    conversation = folded(*before, *turn(3, summary, summary))
    assert "In short." in read(conversation)[0]
    conversation = folded(*before, *turn(3, summary), *again(3))
    assert read(conversation) == ["ask 1", "answer 1", "ask 2", "answer 2", "ask 3"]


def test_a_summary_of_a_turn_before_stays() -> None:
    summary = HistoryCompacted(
        turn_id="turn_2", rounds=1, summary="In short.", provider="p", model="m"
    )
    conversation = folded(BEGUN, *turn(1), *turn(2, summary), *turn(3), *again(3))
    first, *others = read(conversation)
    assert "In short." in first
    assert others == ["ask 2", "answer 2", "ask 3"]


def test_what_the_session_has_read_still_counts() -> None:
    tainted = SessionTainted(source="web_fetch")
    conversation = folded(BEGUN, *turn(1, tainted), *again(1))
    assert conversation.marks.is_tainted
    assert not folded(BEGUN, *turn(1), *again(1)).marks.is_tainted


@pytest.mark.parametrize(
    "event",
    [
        TurnSetAside(turn_id="turn_1", input_ids=("input_1",), why="retry"),
        TurnSetAside(turn_id="turn_2", input_ids=(), why="retry"),
        TurnSetAside(turn_id="turn_2", input_ids=("input_2", "input_1"), why="retry"),
    ],
    ids=["not the last", "no input", "an input of others"],
)
def test_a_record_that_contradicts_itself_is_refused(event: TurnSetAside) -> None:
    with pytest.raises(ValueError, match=r"last turn|zip"):
        folded(BEGUN, *turn(1), *turn(2), event)
    with pytest.raises(ValueError, match="has no end"):
        folded(BEGUN, *turn(2)[:3], event)


def test_what_could_not_be_read_again_is_refused_before_it_is_on_record() -> None:
    late = InputDelivered(turn_id="turn_1", input_id="input_2")
    waiting = InputAccepted(input_id="input_2", text="ask 2")
    with pytest.raises(ConflictError, match="contradicts itself") as refused:
        asked(folded(BEGUN, *turn(1), waiting, late))
    assert refused.value.kind == "state"
    one, begun, *rest = turn(1)
    aside = asked(folded(BEGUN, one, begun, waiting, late, *rest))  # the control: in its time
    assert aside.input_ids == ("input_1", "input_2")


@pytest.mark.parametrize(
    "ended",
    [TurnEnded(turn_id="turn_2", outcome="failed"), TurnEnded(turn_id="turn_1", outcome="failed")],
    ids=["of a turn that never began", "a second time"],
)
def test_only_the_turn_that_is_open_ends(ended: TurnEnded) -> None:
    with pytest.raises(ValueError, match="is not the turn that is open"):
        folded(BEGUN, *turn(1), ended)
    with pytest.raises(ValueError, match="is not the turn that is open"):
        folded(BEGUN, ended)


def test_a_pending_call_and_a_delegated_session_are_not_set_aside() -> None:
    call = Call("call_1", "write_file", "{}")
    asks: list[DurableEvent] = [
        MessageCompleted(turn_id="turn_1", message_id="m1", parts=(call,), provider="p", model="m"),
        CallProposed(
            turn_id="turn_1",
            message_id="m1",
            call_id="call_1",
            index=0,
            name="write_file",
            arguments="{}",
        ),
    ]
    pending = CallDeferred(
        turn_id="turn_1", call_id="call_1", name="write_file", approval_id="approval_1", result="{}"
    )
    done = CallFinished(
        turn_id="turn_1",
        call_id="call_1",
        name="write_file",
        status=CallStatus.SUCCESS,
        result="{}",
    )
    with pytest.raises(ConflictError, match="wait for an answer") as refused:
        asked(folded(BEGUN, *turn(1, *asks, pending)))
    assert refused.value.kind == "state"
    assert asked(folded(BEGUN, *turn(1, *asks, done))).turn_id == "turn_1"  # the control
    branch = SessionCreated(
        agent="general", workspace="/w", kind=SessionKind.BRANCH, parent_id="s0"
    )
    with pytest.raises(ConflictError, match="was delegated"):
        asked(folded(branch, *turn(1)))


async def heard_to_the_end(subscription: Subscription) -> list[str]:
    kinds: list[str] = []
    while updates := await subscription.take():
        kinds += [type(each.event).__name__ for each in updates if isinstance(each, Stored)]
    return kinds


async def test_what_can_not_be_stored_is_not_set_aside() -> None:
    model = ScriptedModel([reply("Old."), reply("New.")])
    scene = Scene(model=model, store=FakeStore(full_for(TurnSetAside)))
    await scene.create()
    async with open_scene(scene, "journal", "broker", "dispatcher", "session"):
        first = Subscription()
        await scene.session.ask(SubmitInput(session_id="s1", text="Go.", subscription=first))
        await heard_to_the_end(first)
        lost = Subscription()
        wanted = RerunTurn(session_id="s1", why="regenerate", subscription=lost)
        with pytest.raises(StorageFull):
            await scene.session.ask(wanted)
        with pytest.raises(StorageFull):
            await lost.take()
        scene.fake.refuse = lambda _: None
        heard = Subscription()
        ticket: InputTicket = await scene.session.ask(
            RerunTurn(session_id="s1", why="regenerate", subscription=heard)
        )
        assert ticket.turn_id
        kinds = await heard_to_the_end(heard)
    assert kinds == ["TurnSetAside", "TurnStarted", "MessageCompleted", "TurnEnded"]
    assert [len(request.rounds) for request in model.requests] == [1, 1]
    await assert_sound(scene.store)

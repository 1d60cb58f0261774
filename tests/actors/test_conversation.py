from __future__ import annotations

import itertools

import pytest

from callboard.actors.conversation import unanswered
from callboard.actors.conversation.conversation import Conversation
from callboard.runtime.definitions import CallStatus, InputSource, SessionKind
from callboard.runtime.events import (
    AgentSwitched,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    SessionDeleted,
    SessionRestored,
    Stored,
    TitleSet,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from callboard.runtime.history import LOST, Answer, Attachment, Call, Input, Item, Result, Text
from callboard.runtime.store.recovery import CUT_OFF

CREATED = SessionCreated(agent="general", workspace="/work", model="p/m", kind=SessionKind.WORKER)
ENDED = TurnEnded(turn_id="t", outcome="answered")


def folded(*events: DurableEvent) -> Conversation:
    conversation = Conversation()
    conversation.fold_all(Stored("s", n, 0, event) for n, event in enumerate(events, 1))
    return conversation


def accepted(text: str) -> InputAccepted:
    return InputAccepted(input_id=text, text=text)


def started(*inputs: str) -> TurnStarted:
    return TurnStarted(turn_id="t", input_ids=inputs, provider="p", model="m")


def asked(*names: str) -> tuple[DurableEvent, ...]:
    message = MessageCompleted(
        turn_id="t", message_id="m", parts=tuple(Call(n, "tool", "{}") for n in names),
        provider="p", model="m", dialect="d",
    )  # fmt: skip
    proposed = [
        CallProposed(
            turn_id="t", message_id="m", call_id=name, index=n, name="tool", arguments="{}"
        )
        for n, name in enumerate(names)
    ]
    return message, *proposed


def said(text: str) -> MessageCompleted:
    return MessageCompleted(
        turn_id="t", message_id=f"m-{text}", parts=(Text(text),), provider="p", model="m",
        dialect="d",
    )  # fmt: skip


def finished(name: str, status: CallStatus = CallStatus.SUCCESS) -> CallFinished:
    return CallFinished(turn_id="t", call_id=name, name="tool", status=status, result=name)


def history(conversation: Conversation) -> list[list[Item]]:
    return [list(round_.items) for round_ in conversation.rounds]


def answer(*names: str) -> Answer:
    return Answer(tuple(Call(n, "tool", "{}") for n in names), dialect="d", model="m", provider="p")


SAID = Answer((Text("done"),), dialect="d", model="m", provider="p")


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_results_stand_in_the_models_order_whatever_finished_first(order: tuple[str, ...]) -> None:
    conversation = folded(
        CREATED, accepted("go"), started("go"), *asked("a", "b", "c"), *map(finished, order)
    )
    results = [Result(name, "tool", name) for name in "abc"]
    assert history(conversation) == [[Input("go"), answer("a", "b", "c"), *results]]
    assert conversation.open_calls == {}


def test_a_conversation_is_cut_into_rounds() -> None:
    conversation = folded(
        CREATED, accepted("one"), started("one"), *asked("a"), finished("a"), said("done"), ENDED,
        accepted("two"), started("two"),
    )  # fmt: skip
    assert history(conversation) == [
        [Input("one"), answer("a"), Result("a", "tool", "a")],
        [SAID],
        [Input("two")],
    ]


def test_finished_rounds_are_the_same_objects_so_that_their_bytes_are_kept() -> None:
    conversation = folded(CREATED, accepted("one"), started("one"), said("done"), ENDED)
    first = conversation.rounds[0]
    conversation.fold(Stored("s", 6, 0, accepted("two")))
    conversation.fold(Stored("s", 7, 0, started("two")))
    assert conversation.rounds[0] is first


def test_what_a_session_knows() -> None:
    conversation = folded(CREATED, accepted("one"), accepted("two"), started("one"), *asked("a"))
    assert (conversation.agent, conversation.model) == ("general", "p/m")
    assert (conversation.workspace, conversation.kind) == ("/work", SessionKind.WORKER)
    assert (conversation.head_seq, conversation.turn_id) == (6, "t")
    assert conversation.waiting_inputs == {"two": Input("two")}
    assert list(conversation.open_calls) == ["a"]
    assert [*conversation.call_ids] == ["a"]
    assert conversation.message_id == "m"
    conversation.fold(Stored("s", 7, 0, AgentSwitched(agent="other")))
    assert conversation.agent == "other"


def test_an_unknown_session_knows_nothing() -> None:
    conversation = folded()
    assert (conversation.head_seq, conversation.turn_id, conversation.rounds) == (0, None, [])


def test_results_can_be_looked_up_until_the_next_answer() -> None:
    conversation = folded(CREATED, accepted("x"), started("x"), *asked("a"), finished("a"))
    assert conversation.result("a") == Result("a", "tool", "a")
    assert conversation.result("b") is None
    conversation.fold(Stored("s", 7, 0, said("done")))
    assert conversation.result("a") is None


@pytest.mark.parametrize("status", [s for s in CallStatus if s.is_final])
def test_whether_a_result_is_an_error(status: CallStatus) -> None:
    conversation = folded(CREATED, *asked("a"), finished("a", status))
    found = conversation.result("a")
    assert found is not None
    assert found.is_error is (status is not CallStatus.SUCCESS)


def test_a_turn_that_ended_without_all_results_is_repaired() -> None:
    conversation = folded(
        CREATED, accepted("x"), started("x"), *asked("a", "b"), finished("b"), ENDED
    )
    assert history(conversation) == [
        [
            Input("x"), answer("a", "b"), Result("a", "tool", LOST, is_error=True),
            Result("b", "tool", "b"),
        ]
    ]  # fmt: skip
    assert conversation.open_calls == {}
    assert conversation.turn_id is None


def failed(message: str = "no key") -> TurnEnded:
    return TurnEnded(turn_id="t", outcome="failed", message=message)


def test_an_input_whose_turn_failed_is_not_asked_for_again() -> None:
    conversation = folded(
        CREATED, accepted("one"), started("one"), failed(), accepted("two"), started("two")
    )
    note = Input(unanswered.FAILED.format(left_out=""))
    assert history(conversation) == [[Input("one"), note, Input("two")]]


def test_an_input_whose_process_ended_may_be_meant_still() -> None:
    conversation = folded(
        CREATED, accepted("one"), started("one"), failed(CUT_OFF), accepted("two"), started("two")
    )
    assert history(conversation) == [[Input("one"), Input("two")]]


def test_what_a_failed_turn_was_asked_is_cut_later_and_whole_in_a_retry() -> None:
    asked = InputAccepted(
        input_id="one",
        text="x" * (unanswered.MAX_CHARS + 1),
        attachments=(Attachment("text/plain", b"a"),),
    )
    conversation = folded(CREATED, asked, started("one"), failed())
    cut, note = (item for each in conversation.rounds for item in each.items)
    assert cut == Input("x" * unanswered.MAX_CHARS + "…")
    assert note == Input(unanswered.FAILED.format(left_out=unanswered.LEFT_OUT))
    conversation.fold(Stored("s", 5, 0, TurnSetAside(turn_id="t", input_ids=("one",), why="retry")))
    assert conversation.rounds == []
    assert conversation.waiting_inputs == {"one": Input(asked.text, asked.attachments)}


def test_a_late_result_is_no_request_that_could_be_called_off() -> None:
    late = InputAccepted(
        input_id="one", text="It is done.", source=InputSource.DELEGATE, child_id="c"
    )
    conversation = folded(CREATED, late, started("one"), failed(), accepted("two"), started("two"))
    assert history(conversation) == [[Input("It is done."), Input("two")]]


def test_what_does_not_concern_the_model_changes_nothing() -> None:
    plain = folded(CREATED, accepted("x"), started("x"), *asked("a"))
    more = folded(
        CREATED, accepted("x"), started("x"), *asked("a"), TitleSet(title="t"), SessionDeleted(),
        SessionRestored(), CallStarted(turn_id="t", call_id="a"),
    )  # fmt: skip
    assert history(more) == history(plain)
    assert more.head_seq == plain.head_seq + 4


def test_an_answer_of_a_base_url_is_of_its_place() -> None:
    conversation = Conversation()
    for seq, dialect in enumerate(["anthropic@a.example:8443", "anthropic"], 1):
        event = MessageCompleted(
            turn_id="t", message_id=f"m{seq}", parts=(), provider="custom", model="m",
            dialect=dialect,
        )  # fmt: skip
        conversation.fold(Stored("s", seq, 0, event))
    answers = [item for each in conversation.rounds for item in each.items]
    signers = [(a.dialect, a.provider) for a in answers if isinstance(a, Answer)]
    assert signers == [("anthropic", "custom@a.example:8443"), ("anthropic", "custom")]

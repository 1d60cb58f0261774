"""An answer while it streams: its parts, in order and within bounds."""

from __future__ import annotations

import re

import msgspec
import pytest

from callboard.actors.model import answer as answer_module
from callboard.actors.model.answer import MAX_CALLS, AnswerBuilder
from callboard.runtime.history import Call, Opaque, Refusal, Text, Thinking
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

DONE = Done(StopReason.END)


def built(*events: AnyStreamEvent) -> AnswerBuilder:
    """The same however the events come in batches."""
    whole, single = AnswerBuilder(), AnswerBuilder()
    whole.add(events)
    for event in events:
        single.add([event])
    assert _facts(whole) == _facts(single)
    return whole


def _facts(answer: AnswerBuilder) -> tuple[object, ...]:
    parts = [
        msgspec.structs.replace(part, call_id="x") if isinstance(part, Call) else part
        for part in answer.parts()
    ]
    return answer.text_bytes, answer.usage, answer.done, answer.error, parts


def start(index: int, call_id: str = "c", name: str = "tool") -> ToolCallStart:
    return ToolCallStart(index, call_id, name)


def test_text_is_joined_and_measured_in_bytes() -> None:
    answer = built(TextDelta("a"), TextDelta("é"), TextDelta("日"), TextDelta(""), DONE)
    assert answer.parts() == (Text("aé日"),)
    assert answer.text_bytes == len("aé日".encode())
    assert answer.done == DONE


def test_a_lone_surrogate_is_measured_too() -> None:
    assert built(TextDelta("\ud800")).text_bytes == 1


def test_parts_keep_their_order_and_empty_ones_vanish() -> None:
    opaque = msgspec.Raw(b"{}")
    answer = built(
        TextDelta("before"),
        ThinkingDelta("h"),
        ThinkingDelta("m"),
        ThinkingEnd("signed"),
        TextDelta(""),
        OpaquePart("d", "k", opaque),
        RefusalDelta("n"),
        RefusalDelta("o"),
        TextDelta("after"),
        DONE,
    )
    assert answer.parts() == (
        Text("before"),
        Thinking("hm", "signed"),
        Opaque("d", "k", opaque),
        Refusal("no"),
        Text("after"),
    )


def test_each_block_of_thinking_has_its_own_signature() -> None:
    answer = built(
        ThinkingDelta("a"), ThinkingEnd("1"), ThinkingDelta("b"), ThinkingEnd(), ThinkingEnd("late")
    )
    assert answer.parts() == (Thinking("a", "1"), Thinking("b", ""), Thinking("", "late"))
    assert built(ThinkingEnd("alone")).parts() == (Thinking("", "alone"),)
    assert built(ThinkingEnd()).parts() == ()


def test_calls_whose_pieces_come_mixed_are_kept_apart() -> None:
    answer = built(
        start(0, "a", "one"),
        start(1, "b", "two"),
        ToolCallDelta(1, '{"x"'),
        ToolCallDelta(0, "{}"),
        ToolCallDelta(1, ":1}"),
        ToolCallEnd(0),
        ToolCallEnd(1),
    )
    assert answer.parts() == (Call("a", "one", "{}"), Call("b", "two", '{"x":1}'))


def test_pieces_of_no_call_are_dropped() -> None:
    assert built(ToolCallDelta(7, "{}"), ToolCallEnd(7)).parts() == ()


@pytest.mark.parametrize("odd", ["", "same", "taken", "has space", "x" * 65, "é", "new\nline"])
def test_ids_that_are_empty_odd_or_taken_are_replaced(odd: str) -> None:
    answer = AnswerBuilder()
    answer.add([start(0, "same"), start(1, odd), start(2, "fine-1_A")])
    first, second, third = (p.call_id for p in answer.parts({"taken"}) if isinstance(p, Call))
    assert (first, third) == ("same", "fine-1_A")
    assert second not in {odd, "same", "taken"}
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", second)


def test_nothing_counts_behind_a_terminal_event() -> None:
    late: list[AnyStreamEvent] = [TextDelta("x"), StreamError(error_type="provider", message="m")]
    answer = built(TextDelta("a"), Usage(1, 2), DONE, *late, Usage(9, 9))
    assert answer.parts() == (Text("a"),)
    assert (answer.usage, answer.error) == (Usage(1, 2), None)
    error = StreamError(error_type="network", message="m")
    assert built(error, DONE).done is None


def test_the_last_usage_counts() -> None:
    assert built(Usage(1, 1), Usage(1, 5)).usage == Usage(1, 5)


def test_a_half_call_is_never_kept() -> None:
    answer = built(TextDelta("a"), start(0), ToolCallDelta(0, "{"))
    assert answer.parts_without_calls() == (Text("a"),)
    assert len(answer.parts()) == 2


def test_calls_are_bounded() -> None:
    answer = AnswerBuilder()
    answer.add([start(n, f"c{n}") for n in range(MAX_CALLS)])
    assert answer.error is None
    answer.add([start(MAX_CALLS)])
    assert answer.error is not None
    assert answer.error.error_type == "provider"
    assert len(answer.parts()) == MAX_CALLS


@pytest.mark.parametrize(
    "event", [TextDelta("x" * 10), ThinkingDelta("x" * 10), RefusalDelta("x" * 10)]
)
def test_an_answer_is_bounded(event: AnyStreamEvent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "MAX_ANSWER_CHARS", 50)
    answer = AnswerBuilder()
    for _ in range(5):
        answer.add([event])
    assert answer.error is None
    answer.add([event])
    assert answer.error is not None
    assert "longer than 50 characters" in answer.error.message


def test_arguments_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_module, "MAX_ANSWER_CHARS", 50)
    answer = AnswerBuilder()
    answer.add([start(0), ToolCallDelta(0, "x" * 47)])
    assert answer.error is not None


def test_two_blocks_of_reasoning_without_text_keep_a_signature_each() -> None:
    answer = AnswerBuilder()
    answer.add([ThinkingEnd("first"), ThinkingEnd("second"), Done(StopReason.END)])
    assert answer.parts() == (Thinking("", "first"), Thinking("", "second"))

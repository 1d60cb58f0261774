"""What a client hears of an answer that it joins in the middle of: the sum of it, in few events."""

from __future__ import annotations

from callboard.runtime.events import StreamBatch
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from callboard.runtime.turns.live_state import LiveState, joined

END = Done(StopReason.END)


def heard_late(batches: list[list[AnyStreamEvent]]) -> list[AnyStreamEvent]:
    state = LiveState()
    for batch in batches:
        state.fold(StreamBatch("m", 0, batch))
    answer = state.snapshot().answer
    assert answer is not None
    return answer.events


def test_usage_with_every_piece_keeps_no_pieces_apart() -> None:
    batches: list[list[AnyStreamEvent]] = [[TextDelta("x"), Usage(9, n)] for n in range(1999)]
    assert heard_late(batches) == [TextDelta("x" * 1999), Usage(9, 1998)]
    # Between batches, and behind what the last of them counted, too.
    assert heard_late([[TextDelta("a")], [Usage(1)], [TextDelta("b")]]) == [
        TextDelta("ab"),
        Usage(1),
    ]


def test_pieces_of_calls_that_come_in_turns_are_one_piece_of_each() -> None:
    starts: list[AnyStreamEvent] = [ToolCallStart(n, f"i{n}", "t") for n in range(2)]
    turns: list[list[AnyStreamEvent]] = [[ToolCallDelta(n % 2, str(n))] for n in range(6)]
    assert heard_late([starts, *turns]) == [
        *starts,
        ToolCallDelta(0, "024"),
        ToolCallDelta(1, "135"),
    ]


def test_what_is_told_apart_stays_in_its_order() -> None:
    events: list[AnyStreamEvent] = [
        ThinkingDelta("a"),
        ThinkingEnd("x"),
        ThinkingDelta("b"),
        TextDelta("c"),
        Usage(1),
    ]
    assert joined([*events, TextDelta("d"), END]) == [
        *events[:3],
        TextDelta("cd"),
        Usage(1),
        END,
    ]

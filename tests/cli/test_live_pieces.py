"""Whoever joins an answer, or comes back to it, is shown each piece of it once."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from callboard.cli.show.live_pieces import LivePieces
from callboard.client.subscriptions import RemoteEvent
from callboard.gateway.feeds.frames import merged_frames
from callboard.runtime.events import (
    CallProgress,
    MessageCompleted,
    MessageDiscarded,
    Stored,
    StreamBatch,
)
from callboard.runtime.history import Text, Thinking
from callboard.runtime.stream import (
    AnyStreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from callboard.runtime.turns.live_state import LiveState, RunningOutput
from callboard.runtime.wire.topics import Snapshot

ANSWER: list[AnyStreamEvent] = [
    *(ThinkingDelta(letter) for letter in "hm, so"),
    *(TextDelta(letter) for letter in "Größe: ✓ aaa aaa"),
    ToolCallStart(0, "call_1", "read_file"),
    *(ToolCallDelta(0, letter) for letter in '{"path": "a"}'),
    ToolCallEnd(0),
    *(TextDelta(letter) for letter in "aaa"),
]
WHOLE = MessageCompleted(
    turn_id="turn_1",
    message_id="message_1",
    parts=(Thinking("hm, so"), Text("Größe: ✓ aaa aaa"), Text("aaa")),
    provider="p",
    model="m",
    dialect="d",
    stop_reason="end",
)


def told(events: Iterable[object]) -> str:
    """All that a reader sees, in order, with the kind of each letter."""
    return "".join(
        {ThinkingDelta: "?", TextDelta: "", ToolCallDelta: "!"}[type(event)] + letter
        for event in events
        if isinstance(event, ThinkingDelta | TextDelta | ToolCallDelta)
        for letter in (event.arguments if isinstance(event, ToolCallDelta) else event.text)
    )


def snapshot(state: LiveState, seq: int = 1) -> Snapshot:
    under_way = state.snapshot()
    return Snapshot("session_1", seq, under_way.answer, under_way.outputs)


def whole() -> Stored:
    return Stored("session_1", 2, 0, WHOLE)


@pytest.mark.parametrize("seed", range(50))
def test_breaks_anywhere_lose_and_double_nothing(seed: int) -> None:
    chance = random.Random(seed)
    state, pieces, seen = LiveState(), LivePieces(), []
    is_connected = chance.random() < 0.5
    for event in ANSWER:
        batch = StreamBatch("stream_1", 0, [event])
        state.fold(batch)
        if is_connected:
            seen += pieces.take(batch)
        if chance.random() < 0.2:
            is_connected = not is_connected
            if is_connected:
                seen += pieces.take(snapshot(state))
    if not is_connected:
        seen += pieces.take(snapshot(state))
    assert told(seen) == told(ANSWER)
    assert not [event for event in seen if isinstance(event, MessageDiscarded)]
    assert told(pieces.take(whole())) == ""


def test_what_was_whole_before_it_was_heard_is_shown_too() -> None:
    pieces = LivePieces()
    assert told(pieces.take(whole())) == told(
        [event for event in ANSWER if not isinstance(event, ToolCallDelta)]
    )
    pieces.take(StreamBatch("stream_2", 0, [ThinkingDelta("hm"), TextDelta("ha")]))
    assert pieces.take(whole())[-1] == WHOLE


def test_another_attempt_withdraws_what_was_shown() -> None:
    pieces, state = LivePieces(), LiveState()
    pieces.take(StreamBatch("stream_1", 0, [TextDelta("never")]))
    state.fold(StreamBatch("stream_2", 0, [TextDelta("new")]))
    first, *rest = pieces.take(snapshot(state))
    assert isinstance(first, MessageDiscarded)
    assert first.stream_id == "stream_1"
    assert told(rest) == "new"
    (gone,) = pieces.take(snapshot(LiveState()))
    assert isinstance(gone, MessageDiscarded)
    assert pieces.take(snapshot(LiveState())) == []


@pytest.mark.parametrize("heard", range(5))
@pytest.mark.parametrize("is_merged", [False, True])
def test_output_of_a_running_call_keeps_its_lines(heard: int, is_merged: bool) -> None:
    """Whoever joins late, or reads so slowly that pieces are joined, gets the same lines."""
    lines = [CallProgress("call_1", text) for text in ("one", "", "two", "  three\nfour")]
    pieces, state = LivePieces(), LiveState()
    for line in lines:
        state.fold(line)
    begun: list[RemoteEvent] = [*lines[:heard]]
    if is_merged:
        begun = [frame.update for frame in merged_frames("session_1", lines[:heard])]
    begun += [snapshot(state), snapshot(state)]
    told_all = [each for event in begun for each in pieces.take(event)]
    assert "\n".join(each.text for each in told_all if isinstance(each, CallProgress)) == (
        "one\n\ntwo\n  three\nfour"
    )


def test_output_goes_on_behind_what_a_snapshot_leaves_out() -> None:
    pieces = LivePieces()
    pieces.take(CallProgress("call_1", "one two"))
    for text, left_out, rest in (("one two\nthree", 0, "three"), ("e\nfour", 12, "four")):
        output = RunningOutput("call_1", text, left_out)
        shown = pieces.take(Snapshot("session_1", 1, None, (output,)))
        assert shown == [CallProgress("call_1", rest)]

"""The end of a whole answer: how long its last bytes are waited for, whatever comes meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from callboard.actors.model.stream import SETTLE_SECONDS
from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.gemini.dialect import GEMINI
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.runtime.errors import NetworkError
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    StreamError,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from support.providers.hearing import END, PING, PING_SECONDS, Reads, heard


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


BEGINNING = event("message_start", message={"type": "message", "content": []}) + event(
    "content_block_start", index=0, content_block={"type": "text", "text": ""}
)
SAID = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi."})
WHOLE = event("content_block_stop", index=0) + event(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}
)
WHOLE += event("message_stop")


def terminals(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    return [event for event in events if isinstance(event, Done | StreamError)]


async def test_pings_behind_a_whole_answer_don_t_put_its_end_off(autojump_clock: MockClock) -> None:
    events = await heard(ANTHROPIC, [(0, BEGINNING), (0, SAID + WHOLE)])
    assert trio.current_time() <= SETTLE_SECONDS + PING_SECONDS
    assert TextDelta("Hi.") in events
    assert isinstance(events[-1], Done)
    assert len(terminals(events)) == 1


async def test_pings_ahead_of_it_are_waited_through(autojump_clock: MockClock) -> None:
    pings = [(PING_SECONDS, PING)] * 20
    events = await heard(ANTHROPIC, [(0, BEGINNING), (0, SAID), *pings, (0, WHOLE), (0, END)])
    assert isinstance(events[-1], Done)
    assert trio.current_time() >= 20 * PING_SECONDS > 2 * SETTLE_SECONDS


async def test_an_end_just_in_time_is_the_only_one(autojump_clock: MockClock) -> None:
    late = SETTLE_SECONDS - 0.01
    events = await heard(ANTHROPIC, [(0, BEGINNING), (0, SAID + WHOLE), (late, END)])
    assert [type(event) for event in terminals(events)] == [Done]


async def test_a_reader_that_pauses_behind_a_whole_answer_has_all_of_it(
    autojump_clock: MockClock,
) -> None:
    reads = [(0.0, BEGINNING), (0.0, SAID + WHOLE), (0.5, END)]
    events = await heard(ANTHROPIC, reads, capacity=0, pause=5 * SETTLE_SECONDS)
    assert TextDelta("Hi.") in events
    assert [type(event) for event in terminals(events)] == [Done]


async def test_a_message_behind_the_end_of_another_is_waited_for(autojump_clock: MockClock) -> None:
    # What proxies splice together: the second begins soon, and pauses as any message may.
    second = event("message_start", message={"type": "message", "content": []})
    more = event("content_block_delta", index=0, delta={"type": "text_delta", "text": " Bye."})
    soon: Reads = [(0, BEGINNING + SAID + WHOLE), (0.5 * SETTLE_SECONDS, second)]
    events = await heard(ANTHROPIC, [*soon, (5 * SETTLE_SECONDS, more + WHOLE), (0, END)])
    assert [TextDelta("Hi."), TextDelta(" Bye.")] == [e for e in events if type(e) is TextDelta]
    assert [type(event) for event in terminals(events)] == [Done]


def gemini(text: str, **candidate: str) -> bytes:
    data = {"candidates": [{"content": {"parts": [{"text": text}]}, **candidate}]}
    return f"data: {json.dumps(data)}\n\n".encode()


async def test_chunks_that_each_carry_a_reason_to_stop_end_nothing(
    autojump_clock: MockClock,
) -> None:
    chunks = [gemini(text, finishReason="STOP") for text in "abc"]
    reads: Reads = [(5 * SETTLE_SECONDS, chunk) for chunk in chunks]
    events = await heard(GEMINI, [*reads, (5 * SETTLE_SECONDS, END)])
    assert events[:3] == [TextDelta("a"), TextDelta("b"), TextDelta("c")]
    assert [type(event) for event in terminals(events)] == [Done]


async def test_a_reason_to_stop_behind_chunks_without_one_is_the_end(
    autojump_clock: MockClock,
) -> None:
    events = await heard(GEMINI, [(0, gemini("a")), (0, gemini("b", finishReason="STOP"))])
    assert [type(event) for event in terminals(events)] == [Done]
    assert trio.current_time() <= SETTLE_SECONDS + PING_SECONDS


def chat(text: str, reason: str | None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


RESET = NetworkError("The connection broke.")


@pytest.mark.parametrize("dialect", [GEMINI, OPENAI_CHAT])
async def test_an_answer_that_breaks_off_behind_such_a_reason_is_an_error(
    autojump_clock: MockClock, dialect: Any
) -> None:
    def chunk(text: str, *, is_last: bool) -> bytes:
        if dialect is GEMINI:
            return gemini(text, **{"finishReason": "STOP"} if is_last else {})
        return chat(text, "stop" if is_last else None)

    for each in (True, False):
        reads: Reads = [(0, chunk("a", is_last=each)), (0, chunk("b", is_last=True))]
        events = await heard(dialect, [*reads, (0, RESET)])
        assert [type(event) for event in terminals(events)] == [StreamError if each else Done]


async def test_the_pieces_of_a_call_that_one_read_brought_come_as_one(
    autojump_clock: MockClock,
) -> None:
    def call(index: int, arguments: str, **begun: str) -> bytes:
        function = {"arguments": arguments, **begun}
        piece = {"index": index, "function": function, **({"id": f"i{index}"} if begun else {})}
        delta = {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}
        return f"data: {json.dumps(delta)}\n\n".encode()

    first = call(0, "", name="t") + call(0, '{"a"') + call(0, ":") + call(0, "1")
    turns = call(1, "{", name="t") + call(0, "2") + call(0, "}") + call(1, "}")
    events = await heard(OPENAI_CHAT, [(0, first), (0, turns), (0, chat("", "stop")), (0, END)])
    assert events[:6] == [
        ToolCallStart(0, "i0", "t"),
        ToolCallDelta(0, '{"a":1'),
        ToolCallStart(1, "i1", "t"),
        ToolCallDelta(1, "{"),
        ToolCallDelta(0, "2}"),
        ToolCallDelta(1, "}"),
    ]


async def test_a_connection_that_breaks_behind_the_end_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    end = chat("a", None) + chat("b", "stop") + b"data: [DONE]\n\n"
    ended = event("message_stop")  # behind the first one: the end is known before the bytes end
    for dialect, body in ((OPENAI_CHAT, end), (ANTHROPIC, BEGINNING + SAID + WHOLE + ended)):
        events = await heard(dialect, [(0, body), (0, RESET)])
        assert [type(event) for event in terminals(events)] == [Done]

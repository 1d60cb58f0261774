"""The Messages decoder on bodies written here: every shape, whole and cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.anthropic import blocks as anthropic_messages_blocks
from callboard.providers.anthropic import wire as anthropic_messages_wire
from callboard.providers.anthropic.decoder import AnthropicMessagesDecoder
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
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
from support.providers.decoding import decode_with, error_of

Event = dict[str, Any]

CUT = "ended before the answer was complete"
PING: Event = {"type": "ping"}
STOP: Event = {"type": "message_stop"}


def sse_body(*values: Event | str) -> bytes:
    parts = []
    for value in values:
        name = value["type"] if isinstance(value, dict) else "x"
        text = value if isinstance(value, str) else json.dumps(value)
        parts.append(f"event: {name}\ndata: {text}\n\n")
    return "".join(parts).encode()


def start(**message: Any) -> Event:
    return {"type": "message_start", "message": {"type": "message", "content": [], **message}}


def begin(index: int, kind: str, **fields: Any) -> Event:
    return {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": kind, **fields},
    }


def piece(index: int, kind: str, **fields: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text(index: int, said: str) -> Event:
    return piece(index, "text_delta", text=said)


def thought(index: int, said: str) -> Event:
    return piece(index, "thinking_delta", thinking=said)


def arguments(index: int, said: str) -> Event:
    return piece(index, "input_json_delta", partial_json=said)


def end(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def delta(reason: str | None = "end_turn", **usage: Any) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def decode(data: bytes, *cuts: int) -> list[AnyStreamEvent]:
    return decode_with(AnthropicMessagesDecoder(), data, *cuts)


def said(*values: Event | str) -> list[AnyStreamEvent]:
    """The events of a whole answer without its usage and its end."""
    *events, last = decode(sse_body(start(), *values, delta(), STOP))
    assert isinstance(last, Done)
    return [event for event in events if not isinstance(event, Usage)]


def value_of(part: AnyStreamEvent) -> Any:
    assert isinstance(part, OpaquePart)
    assert part.dialect == "anthropic"
    return json.loads(bytes(part.data))


END = Done(StopReason.END, "end_turn")
CALLED = Done(StopReason.TOOL_CALLS, "tool_use")
SHAPES: dict[str, tuple[bytes, list[AnyStreamEvent]]] = {
    "text": (
        sse_body(
            start(usage={"input_tokens": 9, "output_tokens": 1}),
            begin(0, "text", text=""),
            PING,
            text(0, "h"),
            text(0, "é"),
            end(0),
            delta(output_tokens=4),
            STOP,
        ),
        [Usage(9, 1), TextDelta("h"), TextDelta("é"), Usage(9, 4), END],
    ),
    "usage of the cache and of reasoning": (
        sse_body(
            start(
                usage={
                    "input_tokens": 2,
                    "cache_creation_input_tokens": 30,
                    "cache_read_input_tokens": 400,
                    "output_tokens": 1,
                }
            ),
            delta(
                input_tokens=3,
                cache_read_input_tokens=None,
                output_tokens=7,
                output_tokens_details={"thinking_tokens": 5},
            ),
            STOP,
        ),
        [Usage(432, 1, 400, None, 30), Usage(433, 7, 400, 5, 30), END],
    ),
    "usage that is none": (
        sse_body(
            start(usage={"input_tokens": -1, "output_tokens": 2**70}),
            delta(output_tokens="many"),
            {"type": "message_delta", "delta": None, "usage": 7},
            STOP,
        ),
        [Usage(), Usage(), Usage(), END],
    ),
    "usage in odd types": (
        sse_body(start(usage={"input_tokens": "9", "output_tokens": 4.0}), delta(), STOP),
        [Usage(9, 4), Usage(9, 4), END],
    ),
    "reasoning, text and two calls": (
        sse_body(
            start(),
            begin(0, "thinking", thinking="", signature=""),
            thought(0, "h"),
            thought(0, "m"),
            piece(0, "signature_delta", signature="proof"),
            end(0),
            begin(1, "text", text=""),
            text(1, "a"),
            end(1),
            begin(2, "tool_use", id="i", name="t", input={}),
            arguments(2, ""),
            arguments(2, '{"a"'),
            arguments(2, ": 1}"),
            end(2),
            begin(3, "tool_use", id="j", name="u", input={}),
            end(3),
            delta("tool_use"),
            STOP,
        ),
        [
            ThinkingDelta("h"),
            ThinkingDelta("m"),
            ThinkingEnd("proof"),
            TextDelta("a"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, '{"a"'),
            ToolCallDelta(0, ": 1}"),
            ToolCallEnd(0),
            ToolCallStart(1, "j", "u"),
            ToolCallEnd(1),
            Usage(),
            CALLED,
        ],
    ),
    "no message_delta": (
        sse_body(start(), begin(0, "text", text="a"), STOP),
        [TextDelta("a"), Done(StopReason.END)],
    ),
    "a message that begins with its content and its stop reason": (
        sse_body(
            start(
                content=[
                    {"type": "text", "text": "a"},
                    {"type": "tool_use", "id": "i", "name": "t", "input": {"a": "é"}},
                ],
                stop_reason="tool_use",
            ),
            STOP,
        ),
        [
            TextDelta("a"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, '{"a": "\\u00e9"}'),
            ToolCallEnd(0),
            CALLED,
        ],
    ),
    "a whole message instead of a stream": (
        json.dumps(
            {
                "type": "message",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "proof"},
                    {"type": "text", "text": "a"},
                ],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 2},
            },
            indent=1,
        ).encode(),
        [ThinkingDelta("hm"), ThinkingEnd("proof"), TextDelta("a"), Usage(1, 2), END],
    ),
    "blocks and messages whose ends are missing": (
        sse_body(
            start(),
            begin(0, "thinking", thinking="hm"),
            begin(1, "tool_use", id="i", name="t", input={"a": 1}),
            begin(2, "text", text=""),
            text(2, "b"),
            delta("max_tokens"),
            STOP,
        ),
        [
            ThinkingDelta("hm"),
            ThinkingEnd(),
            ToolCallStart(0, "i", "t"),
            TextDelta("b"),
            ToolCallDelta(0, '{"a": 1}'),
            ToolCallEnd(0),
            Usage(),
            Done(StopReason.MAX_TOKENS, "max_tokens"),
        ],
    ),
    "blocks whose beginnings are missing": (
        sse_body(thought(0, "hm"), end(0), text(1, "a"), arguments(7, "{}"), delta(), STOP),
        [ThinkingDelta("hm"), ThinkingEnd(), TextDelta("a"), Usage(), END],
    ),
    "blocks that are counted from 1": (
        sse_body(
            start(),
            begin(1, "text", text=""),
            text(1, "a"),
            end(1),
            begin(2, "tool_use", id="i", name="t"),
            arguments(2, "{}"),
            end(2),
            delta(),
            STOP,
        ),
        [
            TextDelta("a"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            Usage(),
            Done(StopReason.TOOL_CALLS, "end_turn"),
        ],
    ),
    "pieces that do not fit their block": (
        sse_body(
            start(),
            begin(0, "text", text=""),
            thought(0, "x"),
            begin(1, "tool_use", id="i", name="t"),
            text(1, "x"),
            end(1),
            arguments(1, "late"),
            begin(2, "thinking"),
            text(2, "x"),
            end(2),
            end(2),
            end(9),
            {"type": "content_block_delta", "index": 0},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
            delta("end_turn"),
            STOP,
        ),
        [
            ToolCallStart(0, "i", "t"),
            ToolCallEnd(0),
            Usage(),
            Done(StopReason.TOOL_CALLS, "end_turn"),
        ],
    ),
    "a message that begins twice": (
        sse_body(start(), start(content=[{"type": "text", "text": "x"}]), text(0, "a"), STOP),
        [TextDelta("a"), Done(StopReason.END)],
    ),
    "two messages in one stream": (
        sse_body(
            start(),
            begin(0, "text", text=""),
            text(0, "a"),
            end(0),
            delta("tool_use"),
            STOP,
            start(),
            begin(0, "web_search_tool_result", content=[]),
            end(0),
            text(0, "b"),
            delta("end_turn"),
            STOP,
        ),
        [
            TextDelta("a"),
            Usage(),
            OpaquePart("anthropic", "web_search_tool_result", None),  # type: ignore[arg-type]
            TextDelta("b"),
            Usage(),
            END,
        ],
    ),
    "unknown events, words of other formats, and what follows the end": (
        sse_body(
            {"type": "fancy", "delta": "x", "index": "y"},
            "[DONE]",
            "",
            start(),
            text(0, "a"),
            STOP,
            PING,
            text(0, "late"),
        ),
        [TextDelta("a"), Done(StopReason.END)],
    ),
    "half of a surrogate pair": (
        sse_body(
            start(),
            begin(0, "text", text=""),
            '{"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"\\ud83d"}}',
            STOP,
        ),
        [TextDelta("�"), Done(StopReason.END)],
    ),
    "an overloaded provider": (
        sse_body(
            start(),
            text(0, "a"),
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            STOP,
        ),
        [
            TextDelta("a"),
            StreamError(
                error_type="overloaded",
                message="The provider is overloaded, in the middle of its answer: Overloaded.",
                advice="Try again a little later.",
                retryable=True,
            ),
        ],
    ),
}


def without_data(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    return [
        OpaquePart(e.dialect, e.kind, None) if isinstance(e, OpaquePart) else e  # type: ignore[arg-type]
        for e in events
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_read_whole_and_byte_by_byte(shape: str) -> None:
    body, expected = SHAPES[shape]
    assert without_data(decode(body)) == expected
    assert without_data(decode(body, *range(len(body)))) == expected


@given(st.data())
def test_any_split_gives_the_same_events(data: st.DataObject) -> None:
    body, _ = SHAPES[data.draw(st.sampled_from(sorted(SHAPES)))]
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    assert decode(body, *cuts) == decode(body)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_body_cut_short_is_an_error(shape: str) -> None:
    body, expected = SHAPES[shape]
    ending = body.rfind(b'{"type": "message_stop"}')
    whole = ending + len(b'{"type": "message_stop"}') if ending >= 0 else len(body)
    if "message_stop" not in shape and isinstance(expected[-1], StreamError):
        whole = body.find(b"overloaded_error")
    first = body.find(b'{"type": "message_stop"}') if shape.startswith("two") else whole
    for place in {*range(min(first, whole)), whole - 1}:
        error = error_of(decode(body[:place]))
        assert error.error_type == "network" or body[:1] == b"{"
    if isinstance(expected[-1], Done):
        assert isinstance(decode(body[:whole])[-1], Done)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("pause_turn", StopReason.END),
        ("something_new", StopReason.END),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("refusal", StopReason.REFUSED),
    ],
)
def test_stop_reasons(word: str, reason: StopReason) -> None:
    assert decode(sse_body(start(), delta(word), STOP))[-1] == Done(reason, word)


def test_the_answer_is_whole_at_its_end_and_not_at_its_stop_reason() -> None:
    body = sse_body(start(), text(0, "a"), delta())
    assert CUT in error_of(decode(body)).message
    assert decode(body + sse_body(STOP))[-1] == END


def test_an_end_without_its_blank_line_is_an_end() -> None:
    assert decode(sse_body(start(), delta(), STOP).rstrip())[-1] == END


def test_reasoning_that_is_not_shown_keeps_its_signature() -> None:
    shown = begin(0, "thinking", thinking="", signature="")
    signed = piece(0, "signature_delta", signature="proof")
    assert said(shown, signed, end(0)) == [ThinkingEnd("proof")]
    assert said(shown, end(0)) == []


def test_blocks_that_only_the_provider_understands_are_kept_whole_and_in_place() -> None:
    redacted, search, found, text_part, unknown = said(
        begin(0, "redacted_thinking", data="xyz"),
        end(0),
        begin(1, "server_tool_use", id="s", name="web_search", input={}),
        arguments(1, ""),
        arguments(1, '{"query": '),
        arguments(1, '"é"}'),
        end(1),
        begin(2, "web_search_tool_result", tool_use_id="s", content=[{"url": "u", "n": 10**40}]),
        end(2),
        begin(3, "text", text=""),
        text(3, "a"),
        end(3),
        begin(4, "novelty", content=None, notes=["a"], size=1),
        piece(4, "novelty_delta", content="x", notes=["b"], size=2),
        piece(4, "novelty_delta", content="y", fresh={"deep": [1]}),
        end(4),
    )
    assert value_of(redacted) == {"type": "redacted_thinking", "data": "xyz"}
    assert value_of(search) == {
        "type": "server_tool_use",
        "id": "s",
        "name": "web_search",
        "input": {"query": "é"},
    }
    assert isinstance(found, OpaquePart)
    assert str(10**40).encode() in bytes(found.data)
    assert text_part == TextDelta("a")
    assert value_of(unknown) == {
        "type": "novelty",
        "content": "xy",
        "notes": ["a", "b"],
        "size": 2,
        "fresh": {"deep": [1]},
    }


def test_the_input_of_a_server_tool_that_is_broken_is_an_empty_one() -> None:
    [part] = said(begin(0, "server_tool_use", id="s", name="n"), arguments(0, '{"a'), end(0))
    assert value_of(part)["input"] == {}


def test_citations_stand_behind_their_text_and_say_how_much_of_it_is_theirs() -> None:
    one, two = {"type": "char_location", "cited_text": "x"}, {"type": "page_location"}
    events = said(
        begin(0, "text", text=""),
        text(0, "free "),
        end(0),
        begin(1, "text", text="ci", citations=[one]),
        text(1, "t"),
        text(1, "ed"),
        piece(1, "citations_delta", citation=two),
        piece(1, "citations_delta"),
        end(1),
        begin(2, "text", text="."),
        end(2),
    )
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["free ", "ci", "t", "ed", "."]
    assert value_of(events[4]) == {"chars": 5, "citations": [one, two]}


def test_too_many_blocks_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_messages_blocks, "MAX_BLOCKS", 3)
    blocks = [begin(n, "text", text="a") for n in range(4)]
    assert error_of(decode(sse_body(start(), *blocks))).error_type == "provider"
    assert error_of(decode(sse_body(start(content=[{"type": "text"}] * 4)))).error_type
    assert len(said(*blocks[:3])) == 3


def test_opaque_parts_past_their_bound_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_messages_blocks, "MAX_OPAQUE_BYTES", 150)
    small = begin(0, "novelty", data="x" * 50)
    assert len(said(small, end(0))) == 1
    assert said(begin(0, "novelty", data="x" * 200), end(0)) == []
    assert said(small, *[arguments(0, "y" * 50)] * 4, end(0)) == []
    cited = piece(0, "citations_delta", citation={"a": "x" * 200})
    assert said(begin(0, "text", text="a"), cited, end(0)) == [TextDelta("a")]


@pytest.mark.parametrize(
    ("body", "error_type", "words"),
    [
        (b"", "network", CUT),
        (b": hello\n\n", "network", "before the answer began"),
        (b"event: message_start\n", "network", "before the answer began"),
        (b"<html><title>Sorry</title>", "provider", "Sorry"),
        (b'{"type":"message"', "provider", "does not answer as a model does"),
        (
            b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}',
            "provider",
            "Slow down",
        ),
        (sse_body(start(), "{broken"), "provider", "can't be read: {broken"),
        (sse_body(start(), "[" * 100_000), "provider", "can't be read"),
        (sse_body(start(), "[1]"), "provider", "can't be read"),
        (sse_body({"type": "content_block_start"}), "provider", "a block that can't be read"),
        (sse_body(begin(0, "text", text=7)), "provider", "a block that can't be read"),
        (sse_body({"type": "message_delta", "delta": []}), "provider", "can't be read"),
        (sse_body({"type": "error"}), "provider", "reported an error"),
        (sse_body({"type": "", "error": {"message": "No."}}), "provider", "No."),
        (
            sse_body({"type": "error", "error": {"type": "api_error", "message": "Oh"}}),
            "provider",
            "Oh",
        ),
    ],
)
def test_broken_answers_are_errors(body: bytes, error_type: str, words: str) -> None:
    error = error_of(decode(body))
    assert (error.error_type, error.status) == (error_type, None)
    assert words in error.message


@pytest.mark.parametrize(
    ("code", "error_type", "retryable"),
    [
        ("overloaded_error", "overloaded", True),
        ("rate_limit_error", "overloaded", True),
        ("api_error", "provider", True),
        ("timeout_error", "provider", True),
        ("authentication_error", "auth", False),
        ("permission_error", "auth", False),
        ("billing_error", "quota", False),
        ("invalid_request_error", "provider", False),
    ],
)
def test_errors_in_the_middle_of_an_answer(code: str, error_type: str, retryable: bool) -> None:
    value = {"type": "error", "error": {"type": code, "message": "Words"}}
    error = error_of(decode(sse_body(start(), text(0, "a"), value)))
    assert (error.error_type, error.retryable) == (error_type, retryable)
    assert "Words" in error.message


def test_what_is_broken_inside_of_an_event_costs_no_more_than_itself() -> None:
    broken_key = sse_body(begin(0, "novelty", KEY=1), piece(0, "novelty_delta", KEY=2, a="b"))
    events = decode(
        sse_body({"type": "message_start", "message": 7}, text(0, "a"))
        + broken_key.replace(b"KEY", b"\xff")
        + sse_body(begin(1, "novelty", a="a"))
        + sse_body(piece(2, "novelty_delta", KEY=2)).replace(b"KEY", b"\xff")
        + sse_body(STOP)
    )
    *parts, kept, last = events
    assert parts == [TextDelta("a")]
    assert value_of(kept) == {"type": "novelty", "a": "a"}
    assert last == Done(StopReason.END)


def test_an_error_whose_words_are_broken_is_an_error() -> None:
    body = sse_body({"type": "error", "error": {"message": "X"}}).replace(b"X", b"\xff")
    assert error_of(decode(body)).error_type == "provider"


def test_a_large_event_in_an_odd_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = sse_body({**text(0, "x" * 100), "index": "0"})
    assert TextDelta("x" * 100) in decode(sse_body(start()) + odd + sse_body(STOP))
    monkeypatch.setattr(anthropic_messages_wire, "MAX_ODD_BYTES", 100)
    assert "can't be read" in error_of(decode(sse_body(start()) + odd)).message


def test_pieces_without_a_number_are_of_the_block_that_began_last() -> None:
    told = [
        begin(0, "text", text=""),
        piece(0, "text_delta", text="a"),
        end(0),
        begin(1, "tool_use", id="i", name="t", input={}),
        arguments(1, '{"b": 1}'),
        end(1),
    ]
    untold = [{k: v for k, v in each.items() if k != "index"} for each in told]
    assert said(*untold) == said(*told)


def test_what_is_no_message_may_stand_between_two() -> None:
    first = [start(), text(0, "a"), delta(), STOP]
    second = [start(), text(0, "b"), delta(), STOP]
    ping = {"type": "ping"}
    whole = decode(sse_body(*first, *second))
    assert decode(sse_body(*first, ping, ping, *second)) == whole
    assert whole[-1] == END

"""The Chat Completions decoder on bodies written here: every shape, whole and cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.openai_chat import decoder as openai_chat_decoder
from callboard.providers.openai_chat.decoder import OpenAiChatDecoder
from callboard.providers.openai_chat.extras import MAX_OPAQUE_BYTES
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    RefusalDelta,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from support.providers.decoding import calls_of, check_any_body, decode_with, error_of, plain

DONE = "[DONE]"
CUT = "ended before the answer was complete"


def sse_body(*values: Any) -> bytes:
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    return b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(index: Any = 0, name: Any = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    call = {"index": index, "function": {"name": name, "arguments": arguments}, **fields}
    return delta(tool_calls=[call])


def whole(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": fields, "finish_reason": finish}]}


FUNCTION = {"function": {"name": "t", "arguments": "{}"}}
CALLS_OF_I: dict[str, Any] = {"tool_calls": [{"id": "i", **FUNCTION}]}
SIGNED = {"google": {"thought_signature": "x"}}


def decode(data: bytes, *cuts: int) -> list[AnyStreamEvent]:
    return decode_with(OpenAiChatDecoder(), data, *cuts)


END = Done(StopReason.END, "stop")
SHAPES: dict[str, tuple[bytes, list[Any]]] = {
    "text": (
        sse_body(delta(role="assistant", content=""), delta(content="é"), delta("stop"), DONE),
        [TextDelta("é"), END],
    ),
    "usage behind the choices": (
        sse_body(
            delta("stop", content="a"),
            {
                "choices": [],
                "usage": {
                    "prompt_tokens": 9,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
                    "completion_tokens_details": {"reasoning_tokens": 2},
                },
            },
            DONE,
        ),
        [TextDelta("a"), Usage(9, 4, 3, 2, 1), END],
    ),
    "usage with the choices": (
        sse_body({**delta("stop"), "usage": {"prompt_tokens": 9, "completion_tokens": 4}}, DONE),
        [Usage(9, 4, None, None), END],
    ),
    "usage in odd types": (
        sse_body(
            {**delta("stop"), "usage": {"prompt_tokens": 9.0, "completion_tokens": "4"}},
            {"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": 2**70}},
            DONE,
        ),
        [Usage(9, 4, None, None), Usage(), END],
    ),
    "null usage": (sse_body({**delta("stop", content="a"), "usage": None}), [TextDelta("a"), END]),
    "reasoning_content, then text": (
        sse_body(delta(reasoning_content="hm"), delta(content="a"), delta("stop"), DONE),
        [ThinkingDelta("hm"), ThinkingEnd(), TextDelta("a"), END],
    ),
    "reasoning, then a call": (
        sse_body(delta(reasoning="hm", content=None), piece(0, "t", "{}", id="i"), delta("stop")),
        [
            ThinkingDelta("hm"),
            ThinkingEnd(),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            Done(StopReason.TOOL_CALLS, "stop"),
        ],
    ),
    "reasoning under both names": (
        sse_body(delta(reasoning="hm", reasoning_content="hm"), delta("stop"), DONE),
        [ThinkingDelta("hm"), ThinkingEnd(), END],
    ),
    "reasoning and text in one chunk": (
        sse_body(delta(content="a", reasoning="hm"), delta("stop")),
        [ThinkingDelta("hm"), ThinkingEnd(), TextDelta("a"), END],
    ),
    "content in parts": (
        sse_body(
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
            delta(content=[{"type": "text", "text": "a"}, {"type": "image"}, 7, "b"]),
            delta("stop"),
        ),
        [ThinkingDelta("hm"), ThinkingEnd(), TextDelta("a"), TextDelta("b"), END],
    ),
    "a whole message": (
        sse_body({"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}),
        [TextDelta("a"), END],
    ),
    "a message that repeats its deltas": (
        sse_body(
            delta(reasoning="hm"),
            delta(content="a"),
            delta(content="b", annotations=[{"type": "url_citation"}]),
            piece(0, "t", "{}", id="i"),
            whole("stop", content="ab", reasoning="hm", annotations=[{"type": "x"}], **CALLS_OF_I),
            DONE,
        ),
        [
            ThinkingDelta("hm"),
            ThinkingEnd(),
            TextDelta("a"),
            TextDelta("b"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ("annotations", [{"type": "url_citation"}]),
            ToolCallEnd(0),
            Done(StopReason.TOOL_CALLS, "stop"),
        ],
    ),
    "a message that goes on behind its deltas": (
        sse_body(
            delta(content="a"), whole("stop", content="abc", refusal="no", **CALLS_OF_I), DONE
        ),
        [
            TextDelta("a"),
            TextDelta("bc"),
            RefusalDelta("no"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            Done(StopReason.TOOL_CALLS, "stop"),
        ],
    ),
    "a message that differs from its deltas": (
        sse_body(delta(content="abc"), whole(content="xbcd"), whole("stop", content="ab"), DONE),
        [TextDelta("abc"), END],
    ),
    "a message that grows beside its deltas": (
        sse_body(
            {"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]},
            {"choices": [{"delta": {"content": "b"}, "message": {"content": "ab"}}]},
            {"choices": [{"delta": {}, "message": {"content": "ab"}, "finish_reason": "stop"}]},
        ),
        [TextDelta("a"), TextDelta("b"), END],
    ),
    "a message that says more than the delta beside it": (
        sse_body(
            {"choices": [{"delta": {"content": "a"}, "message": {"content": "abc"}}]},
            delta("stop"),
        ),
        [TextDelta("a"), TextDelta("bc"), END],
    ),
    "a call that is signed": (
        sse_body(
            piece(0, "t", "{}", id="i"),
            delta(tool_calls=[{"index": 1, "id": "j", **FUNCTION, "extra_content": SIGNED}]),
            delta(tool_calls=[{"index": 1, "extra_content": 7}]),
            delta("stop"),
        ),
        [
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallStart(1, "j", "t"),
            ToolCallDelta(1, "{}"),
            ("call_extras", [{"call": 1, "extra_content": SIGNED}]),
            ToolCallEnd(0),
            ToolCallEnd(1),
            Done(StopReason.TOOL_CALLS, "stop"),
        ],
    ),
    "a refusal": (
        sse_body(delta(refusal="no"), delta("stop"), DONE),
        [RefusalDelta("no"), Done(StopReason.REFUSED, "stop")],
    ),
    "a filter": (
        sse_body(delta(content="a"), delta("content_filter"), DONE),
        [TextDelta("a"), Done(StopReason.REFUSED, "content_filter")],
    ),
    "the token limit": (
        sse_body(piece(0, "t", '{"a', id="i"), delta("length"), DONE),
        [
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, '{"a'),
            ToolCallEnd(0),
            Done(StopReason.MAX_TOKENS, "length"),
        ],
    ),
    "other choices": (
        sse_body(
            {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "length"}]},
            {
                "choices": [
                    {"index": 1, "delta": {"content": "y"}},
                    {"index": 0, "delta": {"content": "a"}},
                ]
            },
            delta("stop"),
        ),
        [TextDelta("a"), END],
    ),
    "no index": (
        sse_body({"choices": [{"index": None, "delta": {"content": "a"}}]}, delta("stop")),
        [TextDelta("a"), END],
    ),
    "empty and unknown": (
        sse_body(
            {},
            {"choices": []},
            {"choices": None},
            {"choices": [{}]},
            {"choices": [{"index": 0, "delta": None}]},
            {"choices": [7, {"delta": 7}]},
            {"x": 1, "choices": [{"delta": {"y": 2}, "z": 3}]},
            "",
            delta("stop"),
            DONE,
        ),
        [END],
    ),
    "only [DONE]": (
        sse_body(delta(content="a"), DONE),
        [TextDelta("a"), Done(StopReason.END, "")],
    ),
    "text behind the finish": (
        sse_body(delta("stop", content="a"), delta(content="b"), delta("length"), DONE),
        [TextDelta("a"), TextDelta("b"), Done(StopReason.MAX_TOKENS, "length")],
    ),
    "half a surrogate pair": (
        b'data: {"choices":[{"delta":{"content":"a\\ud83d"},"finish_reason":"stop"}]}\n\n',
        [TextDelta("a\ufffd"), END],
    ),
    "extras": (
        sse_body(
            delta(reasoning="a", reasoning_details=[{"type": "reasoning.text", "text": "a"}]),
            delta(reasoning="b", reasoning_details=[{"type": "reasoning.text", "text": "b"}]),
            delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}]),
            delta(content="c", annotations=[{"type": "url_citation"}]),
            delta("stop", reasoning_details=[], annotations=None),
            DONE,
        ),
        [
            ThinkingDelta("a"),
            ThinkingDelta("b"),
            ThinkingEnd(),
            TextDelta("c"),
            (
                "reasoning_details",
                [
                    {"type": "reasoning.text", "text": "ab"},
                    {"type": "reasoning.encrypted", "data": "x"},
                ],
            ),
            ("annotations", [{"type": "url_citation"}]),
            END,
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_read_the_same_at_every_cut(shape: str) -> None:
    body, events = SHAPES[shape]
    assert plain(decode(body)) == events
    for at in range(len(body) + 1):
        assert plain(decode(body, at)) == events
    assert plain(decode(body, *range(len(body)))) == events


def call(*values: Any) -> list[tuple[str, str, str]]:
    body = sse_body(*values, delta("tool_calls"), DONE)
    events = decode(body)
    assert events[-1] == Done(StopReason.TOOL_CALLS, "tool_calls")
    assert decode(body, *range(len(body))) == events
    return calls_of(events)


CALLS: dict[str, tuple[list[Any], list[tuple[str, str, str]]]] = {
    "in pieces": (
        [piece(0, "t", "", id="i"), piece(0, None, '{"a'), piece(0, "", '":1}')],
        [("i", "t", '{"a":1}')],
    ),
    "in turns": (
        [
            piece(0, "t", "", id="i"),
            piece(1, "u", "", id="j"),
            piece(0, None, "{"),
            piece(1, None, "[]"),
            piece(0, None, "}"),
        ],
        [("i", "t", "{}"), ("j", "u", "[]")],
    ),
    "index does not begin at 0": ([piece(3, "t", "{}", id="i")], [("i", "t", "{}")]),
    "index is always 0": (
        [piece(0, "t", "{}", id="i"), piece(0, "t", "{}", id="j")],
        [("i", "t", "{}"), ("j", "t", "{}")],
    ),
    "index is always 0, and no ids": (
        [piece(0, "t", '{"a":1}'), piece(0, "t", '{"a":2}'), piece(0, "u", "{}")],
        [("", "t", '{"a":1}'), ("", "t", '{"a":2}'), ("", "u", "{}")],
    ),
    "no index": (
        [piece(None, "t", "{}", id="i"), piece(None, "u", "{}", id="j")],
        [("i", "t", "{}"), ("j", "u", "{}")],
    ),
    "no index, pieces by id": (
        [
            piece(None, "t", "{", id="i"),
            piece(None, "u", "[", id="j"),
            piece(None, id="i"),
            piece(None, None, "}", id="i"),
            piece(None, None, "]", id="j"),
        ],
        [("i", "t", "{}"), ("j", "u", "[]")],
    ),
    "no index and no ids": (
        [piece(None, "t", '{"a"'), piece(None, None, ":1}"), piece(None, "t", "{}")],
        [("", "t", '{"a":1}'), ("", "t", "{}")],
    ),
    "id and name in every piece": (
        [piece(0, "t", "", id="i"), piece(0, "t", "{}", id="i")],
        [("i", "t", "{}")],
    ),
    "name in every piece, no id": (
        [piece(0, "t", '{"a"'), piece(0, "t", ":{}"), piece(0, "t", "}")],
        [("", "t", '{"a":{}}')],
    ),
    "name and id come late": (
        [piece(0, None, "{"), piece(0, "t", None, id="i"), piece(0, None, "}")],
        [("i", "t", "{}")],
    ),
    "no name at all": ([piece(0, None, "{}", id="i")], [("i", "", "{}")]),
    "arguments as an object": (
        [piece(0, "t", {"a": "é"}, id="i")],
        [("i", "t", '{"a": "é"}')],
    ),
    "no arguments": (
        [piece(0, "t", None, id="i"), delta(tool_calls=[{"index": 1, "id": "j"}])],
        [("i", "t", ""), ("j", "", "")],
    ),
    "ids as numbers": ([piece("0", "t", "{}", id=7)], [("7", "t", "{}")]),
    "broken calls": (
        [delta(tool_calls=[None, 7, {}, {"function": 3}]), piece(0, "t", "{}", id="i")],
        [("i", "t", "{}")],
    ),
    "a whole message": (
        [
            {
                "choices": [
                    {"message": {"tool_calls": [{"id": "i", "function": {"name": "t"}}]}},
                ]
            }
        ],
        [("i", "t", "")],
    ),
    "two answers in one stream": (
        [piece(0, "t", "{}", id="i"), delta("tool_calls"), piece(0, "t", "{}", id="j")],
        [("i", "t", "{}"), ("j", "t", "{}")],
    ),
}


@pytest.mark.parametrize("shape", CALLS)
def test_pieces_of_calls_find_their_call(shape: str) -> None:
    values, calls = CALLS[shape]
    assert call(*values) == calls


def test_a_text_too_long_to_compare_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat_decoder, "MAX_COMPARED_CHARS", 10)
    bodies = [sse_body(delta(content="x" * size), whole(content="x" * 20)) for size in (10, 11)]
    texts = [[e.text for e in decode(body) if isinstance(e, TextDelta)] for body in bodies]
    assert texts == [["x" * 10, "x" * 10], ["x" * 11]]


def test_extras_without_end_are_dropped_and_the_answer_is_read() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x" * 100_000}]
    count = MAX_OPAQUE_BYTES // 100_000 + 2
    body = sse_body(*[delta(reasoning_details=details)] * count, delta("stop", content="a"))
    assert decode(body) == [TextDelta("a"), END]


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "words"),
    [
        ({"message": "Overloaded", "type": "overloaded_error"}, "overloaded", True, "Overloaded"),
        ({"message": "slow", "code": "rate_limit_exceeded"}, "overloaded", True, "slow"),
        ({"message": "slow", "code": 429}, "overloaded", True, "slow"),
        ({"message": "oops", "type": "server_error"}, "provider", True, "oops"),
        ({"message": "bad", "type": "invalid_request_error"}, "provider", False, "bad"),
        ({"message": "who?", "code": "invalid_api_key"}, "auth", False, "who?"),
        ({"code": 502, "metadata": {"raw": "upstream"}, "message": "x"}, "provider", True, "upstr"),
        ("just words", "provider", False, "just words"),
        ({"unknown": 1}, "provider", False, "reported an error"),
        ({"message": "key sk-abcdefghijkl"}, "provider", False, "key ***"),
    ],
)
def test_an_error_in_the_stream_is_an_error(
    error: Any, kind: str, retryable: bool, words: str
) -> None:
    for value in (
        {"error": error},
        {**delta(content=""), "error": error},
    ):
        events = decode(sse_body(delta(content="a"), delta("stop"), value, DONE))
        assert events[0] == TextDelta("a")
        found = error_of(events)
        assert (found.error_type, found.retryable, found.status) == (kind, retryable, None)
        assert words in found.message


@pytest.mark.parametrize(
    "value",
    [
        {"object": "error", "message": "bad", "code": 400},
        {"message": "bad", "type": "x"},
        {"detail": "bad"},
    ],
)
def test_an_error_object_that_is_the_event_is_an_error(value: Any) -> None:
    assert "bad" in error_of(decode(sse_body(value, DONE))).message


def test_a_null_error_is_none() -> None:
    assert decode(sse_body({**delta("stop", content="a"), "error": None})) == [TextDelta("a"), END]


@pytest.mark.parametrize(
    ("reason", "kind", "retryable"),
    [("error", "provider", False), ("insufficient_system_resource", "overloaded", True)],
)
def test_a_provider_that_broke_off_is_an_error(reason: str, kind: str, retryable: bool) -> None:
    error = error_of(decode(sse_body(delta(content="a"), delta(reason), DONE)))
    assert (error.error_type, error.retryable) == (kind, retryable)


@pytest.mark.parametrize("shape", ["text", "reasoning, then a call", "usage behind the choices"])
def test_a_body_cut_before_its_terminal_event_is_an_error_and_behind_it_whole(shape: str) -> None:
    body, events = SHAPES[shape]
    whole_from = body.index(b'"finish_reason": "stop"')
    whole_from = body.index(b"\n", whole_from)
    for at in range(whole_from):
        error = error_of(decode(body[:at]))
        assert (error.error_type, error.retryable) == ("network", True)
    for at in range(whole_from, len(body) + 1):
        cut = [event for event in decode(body[:at]) if not isinstance(event, Usage)]
        assert cut == [event for event in events if not isinstance(event, Usage)]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
def test_a_last_line_needs_no_end(end: bytes) -> None:
    body = sse_body(delta(content="a")) + b"data: [DONE]" + end
    assert decode(body)[-1] == Done(StopReason.END, "")


def test_a_whole_answer_that_is_no_stream_is_read() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "hm"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    body = json.dumps({"choices": [choice], "usage": usage}, indent=2).encode()
    expected = [
        ThinkingDelta("hm"),
        ThinkingEnd(),
        TextDelta("a"),
        Usage(1, 2, None, None),
        END,
    ]
    assert decode(body) == expected
    assert decode(body, *range(len(body))) == expected
    for at in range(len(body) - 1):
        error_of(decode(body[:at]))


KEYS = (
    "choices delta message index finish_reason content tool_calls function name arguments id usage "
    "error reasoning refusal extra_content reasoning_details annotations prompt_tokens type text thinking"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=4), st.binary(max_size=30), st.data())
def test_anything_is_read_without_raising_and_ends_once(
    values: list[Any], tail: bytes, data: st.DataObject
) -> None:
    check_any_body(decode, sse_body(*values) + tail, data)


def test_an_error_as_a_field_keeps_its_words_and_is_not_asked_again() -> None:
    # As llama.cpp writes it.
    said = b'error: {"code":400,"message":"no room for a cat","type":"invalid_request_error"}\n\n'
    for body in (sse_body(delta(content="a")) + said, said, said.rstrip()):
        error = error_of(decode(body))
        assert "no room for a cat" in error.message
        assert (error.error_type, error.retryable) == ("provider", False)
    busy = b'error: {"error": {"code": 503, "message": "Loading model"}}\n\n'
    assert error_of(decode(busy)).retryable


def test_a_reason_with_every_piece_ends_neither_text_nor_calls() -> None:
    begun = piece(0, "t", "", id="i")
    pieces = [begun, piece(0, None, '{"a":'), piece(0, None, "1}")]
    for each in pieces:
        each["choices"][0]["finish_reason"] = "tool_calls"
    assert calls_of(decode(sse_body(*pieces, DONE))) == [("i", "t", '{"a":1}')]
    assert calls_of(decode(sse_body(*pieces))) == [("i", "t", '{"a":1}')]
    # Cut between two of them it looks like the end of a call without arguments, and is none.
    for count in (1, 2):
        assert "not run" in error_of(decode(sse_body(*pieces[:count]))).message
    # Said once, behind the call, it ends one without arguments.
    assert calls_of(decode(sse_body(piece(0, "t", "", id="i"), delta("stop")))) == [("i", "t", "")]

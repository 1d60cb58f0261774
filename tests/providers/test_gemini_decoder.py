"""Gemini answers of every shape, as stream events."""

from __future__ import annotations

import json
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.model.answer import AnswerBuilder
from callboard.providers.gemini import decoder as gemini_decoder
from callboard.providers.gemini.decoder import GeminiDecoder
from callboard.runtime.history import Call, Opaque, Text, Thinking
from callboard.runtime.stream import (
    MAX_ARGUMENT_BYTES,
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

STOP = {"candidates": [{"finishReason": "STOP"}]}


def chunk(*parts: Any, **candidate: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, **candidate}]}


def sse(*chunks: Any) -> bytes:
    texts = (item if isinstance(item, str) else json.dumps(item) for item in chunks)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def decode(body: bytes, size: int = 0, **fields: Any) -> list[AnyStreamEvent]:
    decoder = GeminiDecoder(**fields)
    step = size or len(body) or 1
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()


def events_of(*chunks: Any) -> list[AnyStreamEvent]:
    """The events of chunks and a stop behind them, without the end."""
    *events, done = decode(sse(*chunks, STOP))
    assert isinstance(done, Done), done
    return events


def last_of(*chunks: Any) -> AnyStreamEvent:
    return decode(sse(*chunks))[-1]


def error_of(*chunks: Any) -> StreamError:
    error = last_of(*chunks)
    assert isinstance(error, StreamError)
    return error


def kept(event: AnyStreamEvent) -> tuple[str, Any]:
    assert isinstance(event, OpaquePart)
    assert event.dialect == "gemini"
    return event.kind, json.loads(bytes(event.data))


def test_text() -> None:
    chunks = (chunk({"text": "Hel"}), chunk({"text": ""}), chunk({"text": "lo"}, {"text": "!"}))
    texts = [TextDelta("Hel"), TextDelta("lo"), TextDelta("!")]
    assert events_of(*chunks) == texts
    assert last_of(*chunks, STOP) == Done(StopReason.END, "STOP")


def test_thinking_and_its_signatures() -> None:
    assert events_of(
        chunk({"text": "a", "thought": True}),
        chunk({"text": "b", "thought": True}),
        chunk({"text": "c", "thought": True, "thoughtSignature": "s"}),
        chunk({"text": "d", "thought": True}),
        chunk({"text": "answer"}),
        chunk({"thought": True, "thoughtSignature": "t"}),
    ) == [
        ThinkingDelta("a"),
        ThinkingDelta("b"),
        ThinkingEnd(),
        ThinkingDelta("c"),
        ThinkingEnd("s"),
        ThinkingDelta("d"),
        ThinkingEnd(),
        TextDelta("answer"),
        ThinkingEnd("t"),
    ]


def test_thinking_that_nothing_follows_ends_too() -> None:
    assert events_of(chunk({"text": "a", "thought": True})) == [ThinkingDelta("a"), ThinkingEnd()]


def test_a_signed_text_is_told_from_its_neighbours() -> None:
    events = events_of(
        chunk({"text": "plain"}),
        chunk({"text": "signed", "thoughtSignature": "s"}),
        chunk({"text": "", "thoughtSignature": "t"}),
        chunk({"thoughtSignature": "u"}),
        chunk({"text": "plain"}),
    )
    assert [kept(event) for event in events if isinstance(event, OpaquePart)] == [
        ("text_signature", {"chars": 6, "thoughtSignature": "s"}),
        ("text_signature", {"chars": 0, "thoughtSignature": "t"}),
        ("text_signature", {"chars": 0, "thoughtSignature": "u"}),
    ]
    answer = AnswerBuilder()
    answer.add(events)
    assert [type(part) for part in answer.parts()] == [Text, Opaque, Opaque, Opaque, Text]


def test_whole_calls() -> None:
    calls = (
        {"functionCall": {"name": "a", "args": {"x": "ü"}, "id": "g1"}, "thoughtSignature": "s"},
        {"functionCall": {"name": "b"}},
        {"functionCall": {"name": "b", "args": None}},
        {"functionCall": {"name": "b", "args": [1]}},
    )
    events = events_of(chunk(*calls[:2]), chunk(*calls[2:]))
    assert kept(events.pop(3)) == ("function_call", {"id": "g1", "thoughtSignature": "s"})
    assert events == [
        ToolCallStart(0, "g1", "a"),
        ToolCallDelta(0, '{"x": "\\u00fc"}'),
        ToolCallEnd(0),
        ToolCallStart(1, "", "b"),
        ToolCallDelta(1, "{}"),
        ToolCallEnd(1),
        ToolCallStart(2, "", "b"),
        ToolCallDelta(2, "{}"),
        ToolCallEnd(2),
        ToolCallStart(3, "", "b"),
        ToolCallDelta(3, "[1]"),
        ToolCallEnd(3),
    ]
    done = Done(StopReason.TOOL_CALLS, "STOP")
    assert decode(sse(chunk(*calls), STOP))[-1] == done


def test_a_tool_that_was_renamed_has_its_own_name() -> None:
    body = sse(chunk({"functionCall": {"name": "a_b_0"}}, {"functionCall": {"name": "c"}}), STOP)
    events = decode(body, tool_names={"a_b_0": "a.b"})
    assert [e.name for e in events if isinstance(e, ToolCallStart)] == ["a.b", "c"]


def arguments_of(*pieces: Any) -> list[Any]:
    events = events_of(*(chunk({"functionCall": piece}) for piece in pieces))
    return [json.loads(e.arguments) for e in events if isinstance(e, ToolCallDelta)]


def piece(path: str, *, more: bool = True, **value: Any) -> dict[str, Any]:
    return {"partialArgs": [{"jsonPath": path, **value}], "willContinue": more}


BEGIN = {"name": "t", "willContinue": True}


def test_streamed_arguments_are_put_together() -> None:
    assert arguments_of(
        BEGIN,
        piece("$.place", stringValue="San ", willContinue=True),
        piece("$.place", stringValue="Francisco", willContinue=True),
        piece("$.place", stringValue=""),
        {"willContinue": True},
        piece("$.items[0].name", stringValue="a"),
        piece("$.items[1]['odd key'][0]", numberValue=1.5),
        piece('$.items[1]["odd key"][1]', numberValue=3.0),
        piece("$.flag", boolValue=False),
        piece("$.none", nullValue="NULL_VALUE"),
        {},
    ) == [
        {
            "place": "San Francisco",
            "items": [{"name": "a"}, {"odd key": [1.5, 3]}],
            "flag": False,
            "none": None,
        }
    ]


def test_a_streamed_call_ends_in_several_ways() -> None:
    first = piece("$.a", stringValue="x")
    for pieces in (
        [BEGIN, first, {}],
        [BEGIN, piece("$.a", more=False, stringValue="x")],
        [BEGIN, first],
        [{**BEGIN, "args": {"a": "x"}}],
        [{**BEGIN, **first}, {"willContinue": False}],
    ):
        assert arguments_of(*pieces, BEGIN, {}) == [{"a": "x"}, {}]
        assert arguments_of(*pieces) == [{"a": "x"}]
    assert arguments_of({**BEGIN, "id": "1"}, {"name": "t", "id": "1", **first}) == [{"a": "x"}]
    assert arguments_of({}, {"willContinue": True}) == []


def test_a_streamed_call_keeps_its_signature_and_its_place() -> None:
    signed = {"functionCall": {**BEGIN, "id": "g"}, "thoughtSignature": "s"}
    events = events_of(
        chunk(signed), chunk({"functionCall": piece("$.a", numberValue=1)}), chunk({"text": "x"})
    )
    assert events[:3] == [
        ToolCallStart(0, "g", "t"),
        ToolCallDelta(0, '{"a":1}'),
        ToolCallEnd(0),
    ]
    assert kept(events[3]) == ("function_call", {"id": "g", "thoughtSignature": "s"})
    assert events[4:] == [TextDelta("x")]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("a", stringValue="x")],
        [piece("$", stringValue="x")],
        [piece("$..a", stringValue="x")],
        [piece("$.a[*]", stringValue="x")],
        [piece("$.a[999999999]", stringValue="x")],
        [piece("$[0]", stringValue="x")],
        [piece("$.a", stringValue="x"), piece("$.a.b", stringValue="x")],
        [piece("$.a[0]", stringValue="x"), piece("$.a.b", stringValue="x")],
        [piece("$" + ".a" * 100, stringValue="x")],
    ],
    ids=str,
)
def test_streamed_arguments_that_do_not_fit_are_an_error(pieces: list[Any]) -> None:
    error = error_of(*(chunk({"functionCall": item}) for item in [BEGIN, *pieces]), STOP)
    assert "don't fit together" in error.message


def test_arguments_that_are_too_long_are_cut_behind_the_limit() -> None:
    long = "ü" * MAX_ARGUMENT_BYTES
    whole = chunk({"functionCall": {"name": "t", "args": {"a": long}}})
    text = {"stringValue": long[:1000], "willContinue": True}
    path = {"jsonPath": "$.a", **text}
    streamed = [chunk({"functionCall": {"partialArgs": [path] * 10, "willContinue": True}})] * 300
    for chunks in ([whole], [chunk({"functionCall": BEGIN}), *streamed]):
        body = sse(*(json.dumps(c, ensure_ascii=False) for c in chunks), STOP)
        [delta] = [e for e in decode(body) if isinstance(e, ToolCallDelta)]
        assert MAX_ARGUMENT_BYTES < len(delta.arguments.encode()) <= MAX_ARGUMENT_BYTES + 4


def test_other_parts_are_kept_whole() -> None:
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "s"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "aaaa"}},
        {"thought": True, "inlineData": {"mimeType": "image/png", "data": "bbbb"}},
        {"somethingNew": [1]},
    ]
    assert [kept(event) for event in events_of(chunk(*parts, {}))] == [
        ("executable_code", parts[0]),
        ("code_execution_result", parts[1]),
        ("inline_data", parts[2]),
        ("inline_data", parts[3]),
        ("something_new", parts[4]),
    ]


def test_opaque_parts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemini_decoder, "MAX_OPAQUE_BYTES", 100)
    large = {"inlineData": {"data": "a" * 90}}
    small = {"inlineData": {"data": "a"}}
    assert [kept(event)[1] for event in events_of(chunk(large, small, large))] == [small]


def test_what_stands_beside_the_parts_is_kept_once() -> None:
    events = events_of(
        chunk({"text": "a"}, groundingMetadata={}),
        chunk({"text": "b"}, groundingMetadata={"groundingChunks": [1]}),
        chunk(groundingMetadata={"groundingChunks": [2]}, citationMetadata={"citations": [3]}),
    )
    assert [kept(event) for event in events[2:]] == [
        ("grounding_metadata", [{"groundingChunks": [1]}, {"groundingChunks": [2]}]),
        ("citation_metadata", [{"citations": [3]}]),
    ]


def test_usage_counts_thoughts_as_part_of_the_answer() -> None:
    def usage(**counts: Any) -> list[AnyStreamEvent]:
        return events_of({**chunk({"text": "a"}), "usageMetadata": counts})[1:]

    assert usage(promptTokenCount=9, totalTokenCount=9) == [Usage(9)]
    assert usage(
        promptTokenCount=9, candidatesTokenCount=5, thoughtsTokenCount=7, cachedContentTokenCount=3
    ) == [Usage(9, 12, 3, 7)]
    assert usage(thoughtsTokenCount=7) == [Usage(None, 7, None, 7)]
    assert usage(promptTokenCount="9", candidatesTokenCount=-1) == [Usage(9)]
    assert usage(promptTokenCount=2**60, candidatesTokenCount=1) == [Usage(None, 1)]
    assert usage(trafficType="ON_DEMAND") == []


def test_usage_may_follow_the_end_and_several_chunks_may_end() -> None:
    usage = {"usageMetadata": {"promptTokenCount": 1}}
    body = sse(chunk({"text": "a"}, finishReason="STOP"), {**STOP, **usage}, usage)
    assert decode(body) == [
        TextDelta("a"),
        Usage(1),
        Usage(1),
        Done(StopReason.END, "STOP"),
    ]


def test_a_whole_document_that_is_no_answer_is_told_from_one_that_was_cut() -> None:
    [stray] = decode(b'{"hello": "world"}')
    assert isinstance(stray, StreamError)
    assert (stray.error_type, stray.retryable, stray.status) == ("provider", False, None)
    assert "base URL" in stray.text
    for cut in (b'{"candidates": [{"conte', b'[{"responseId": "r"}, {"candidates": [{}]}'):
        [error] = decode(cut)
        assert isinstance(error, StreamError)
        assert (error.error_type, error.retryable) == ("network", True)


def test_an_answer_is_whole_from_its_finish_reason_on() -> None:
    decoder = GeminiDecoder()
    decoder.feed(sse(chunk({"text": "a"})))
    assert not decoder.is_whole
    decoder.feed(sse(STOP))
    assert decoder.is_whole
    broken = GeminiDecoder()
    broken.feed(sse(chunk(finishReason="MALFORMED_RESPONSE")))
    assert not broken.is_whole


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("STOP", StopReason.END),
        ("SOMETHING_NEW", StopReason.END),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("SAFETY", StopReason.REFUSED),
        ("RECITATION", StopReason.REFUSED),
        ("PROHIBITED_CONTENT", StopReason.REFUSED),
        ("BLOCKLIST", StopReason.REFUSED),
        ("SPII", StopReason.REFUSED),
        ("OTHER", StopReason.REFUSED),
        ("IMAGE_SAFETY", StopReason.REFUSED),
    ],
)
def test_finish_reasons(reason: str, stop: StopReason) -> None:
    assert last_of(chunk({"text": "a"}, finishReason=reason)) == Done(stop, reason)


@pytest.mark.parametrize(
    ("reason", "retryable"),
    [
        ("MALFORMED_FUNCTION_CALL", True),
        ("UNEXPECTED_TOOL_CALL", True),
        ("MALFORMED_RESPONSE", True),
        ("TOO_MANY_TOOL_CALLS", False),
        ("MISSING_THOUGHT_SIGNATURE", False),
    ],
)
def test_finish_reasons_that_are_errors(reason: str, retryable: bool) -> None:
    error = error_of(chunk({"text": "a"}, finishReason=reason, finishMessage="Bad\ncall"))
    assert (error.error_type, error.retryable) == ("provider", retryable)
    assert error.message.endswith(f"({reason}): Bad call")


def test_a_blocked_prompt_is_a_refusal() -> None:
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    usage = {"usageMetadata": {"promptTokenCount": 4}}
    done = Done(StopReason.REFUSED, "PROHIBITED_CONTENT")
    assert decode(sse({**blocked, **usage})) == [Usage(4), done]
    ratings: dict[str, Any] = {"promptFeedback": {"safetyRatings": []}}
    assert events_of({**chunk({"text": "a"}), **ratings}) == [TextDelta("a")]


def test_only_the_first_candidate_is_read() -> None:
    first, second = chunk({"text": "a"})["candidates"][0], chunk({"text": "b"})["candidates"][0]
    both = {"candidates": [{**second, "index": 1, "finishReason": "STOP"}, {**first, "index": 0}]}
    assert events_of(both) == [TextDelta("a")]
    error = error_of({"candidates": [{**second, "index": 1, "finishReason": "STOP"}]})
    assert error.error_type == "network"


OVERLOADED = {
    "error": {
        "code": 503,
        "message": "The model is overloaded.",
        "status": "UNAVAILABLE",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}],
    }
}


@pytest.mark.parametrize(
    "body",
    [
        sse(OVERLOADED),
        sse(chunk({"text": "a"}), OVERLOADED),
        sse(chunk({"text": "a"}, finishReason="STOP"), OVERLOADED),
        json.dumps(OVERLOADED).encode(),
        json.dumps([OVERLOADED], indent=2).encode(),
        sse([OVERLOADED]),
        json.dumps([chunk({"text": "a"}), OVERLOADED]).encode(),
    ],
    ids=str,
)
def test_an_error_object_is_an_error_that_says_when_to_try_again(body: bytes) -> None:
    error = decode(body)[-1]
    assert isinstance(error, StreamError)
    assert (error.error_type, error.retryable) == ("overloaded", True)
    assert error.retry_after_seconds == 3.0
    assert "The model is overloaded." in error.message


def test_bodies_that_are_no_answer() -> None:
    page = decode(b"<html><title>Sign in</title></html>")
    assert isinstance(page[-1], StreamError)
    assert '"Sign in"' in page[-1].message
    other = decode(b'{"message": "no such route"}')
    assert isinstance(other[-1], StreamError)
    assert "no such route" in other[-1].message
    broken = decode(sse("{nonsense"))
    assert isinstance(broken[-1], StreamError)
    assert "no JSON: {nonsense" in broken[-1].message
    for body in (b"", b"\xef\xbb\xbf", b"  \n", b": ping\n\n", b"data: {", b"[", b'{"candidates"'):
        [error] = decode(body)
        assert isinstance(error, StreamError)
        assert (error.error_type, error.retryable) == ("network", True)


def test_odd_forms_are_read() -> None:
    odd = {
        "candidates": [
            {
                "index": "0",
                "content": {
                    "parts": [
                        {"text": "a", "thought": "true"},
                        {"text": 5},
                        "x",
                        {"functionCall": {"name": "t", "args": {"a": 1}, "willContinue": None}},
                        {"newPart": 1},
                    ]
                },
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": "12"},
    }
    events = decode(sse(odd, "[DONE]"))
    assert kept(events.pop(5)) == ("new_part", {"newPart": 1})
    assert events == [
        ThinkingDelta("a"),
        ThinkingEnd(),
        ToolCallStart(0, "", "t"),
        ToolCallDelta(0, '{"a": 1}'),
        ToolCallEnd(0),
        Usage(12),
        Done(StopReason.TOOL_CALLS, "STOP"),
    ]
    assert events_of('{"candidates": [{"content": {"parts": [{"text": "\\ud83d"}]}}]}') == [
        TextDelta("\ufffd")
    ]


def test_deep_json_is_no_crash() -> None:
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    call = f'{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"t","args":{deep}}}'
    error = error_of(call + "}]}}]}")
    assert error.error_type == "provider"


def test_one_json_answer_is_read_as_a_stream_is() -> None:
    whole = {
        **chunk({"text": "a", "thought": True}, {"text": "b"}, finishReason="STOP"),
        "usageMetadata": {"promptTokenCount": 1},
    }
    expected = [
        ThinkingDelta("a"),
        ThinkingEnd(),
        TextDelta("b"),
        Usage(1),
        Done(StopReason.END, "STOP"),
    ]
    for body in (json.dumps(whole, indent=1), f"\ufeff\n [{json.dumps(whole)}\n]"):
        for size in (0, 1, 7):
            assert decode(body.encode(), size) == expected


PARTS = st.sampled_from(
    [
        {"text": "Grüße 🦊\u2028"},
        {"text": "hm", "thought": True},
        {"text": "x", "thoughtSignature": "s"},
        {"thoughtSignature": "t"},
        {"functionCall": {"name": "t", "args": {"a": [1, "ü"]}}},
        {"functionCall": {"name": "u", "willContinue": True}},
        {"functionCall": piece("$.a", stringValue="y", willContinue=True)},
        {"functionCall": piece("$.b[0]", numberValue=1)},
        {"functionCall": {}},
        {"executableCode": {"code": "1"}},
    ]
)
CHUNKS = st.lists(st.lists(PARTS, max_size=3), max_size=6)


@given(CHUNKS, st.sampled_from(["\n", "\r", "\r\n"]), st.booleans(), st.integers(1, 40))
def test_any_split_gives_the_same_events(
    chunks: list[list[Any]], end: str, has_bom: bool, size: int
) -> None:
    texts = [json.dumps(chunk(*parts), ensure_ascii=False) for parts in [*chunks]]
    lines = [f": c{end}{end}data: {text}{end}{end}" for text in [*texts, json.dumps(STOP)]]
    body = (("\ufeff" if has_bom else "") + "".join(lines)).encode()
    assert decode(body, size) == decode(body)
    listed = f"[{','.join([*texts, json.dumps(STOP)])}]".encode()
    assert decode(listed, size) == decode(body)


@given(CHUNKS, st.data())
def test_every_truncation_is_an_error(chunks: list[list[Any]], data: st.DataObject) -> None:
    body = sse(*starmap(chunk, chunks), STOP)
    place = data.draw(st.integers(0, len(body) - 3))
    events = decode(body[:place])
    assert isinstance(events[-1], StreamError)
    assert not any(isinstance(event, Done) for event in events)
    assert decode(body[:-2])[-1] == decode(body)[-1]


def test_what_a_history_keeps_of_an_answer() -> None:
    answer = AnswerBuilder()
    call = {"functionCall": {"name": "t", "args": {}, "id": "g"}, "thoughtSignature": "s"}
    thought = {"text": "hm", "thought": True, "thoughtSignature": "u"}
    answer.add(decode(sse(chunk(thought), chunk({"text": "x"}, call), STOP)))
    thinking, text, made, beside = answer.parts()
    assert (thinking, text, made) == (Thinking("hm", "u"), Text("x"), Call("g", "t", "{}"))
    assert isinstance(beside, Opaque)
    assert json.loads(bytes(beside.data)) == {"id": "g", "thoughtSignature": "s"}

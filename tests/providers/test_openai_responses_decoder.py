"""The Responses decoder on bodies written here: every shape, whole and cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.model.answer import AnswerBuilder
from callboard.providers.openai_responses import items as openai_responses_items
from callboard.providers.openai_responses.decoder import OpenAiResponsesDecoder
from callboard.providers.openai_responses.items import MAX_ITEMS
from callboard.runtime.history import Thinking
from callboard.runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    Done,
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
from support.providers.decoding import calls_of, check_any_body, decode_with, error_of, plain

Value = dict[str, Any]


def sse_body(*values: Any, named: bool = True) -> bytes:
    """Events as OpenAI sends them: the name, then data that repeats it."""
    blocks: list[bytes] = []
    for value in values:
        text = value if isinstance(value, str) else json.dumps(value)
        name = value.get("type") if named and isinstance(value, dict) else None
        line = f"event: {name}\n" if isinstance(name, str) else ""
        blocks.append(f"{line}data: {text}\n\n".encode())
    return b"".join(blocks)


def event(kind: str, **fields: Any) -> Value:
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


def delta(kind: str, text: str, place: Any = 0, **fields: Any) -> Value:
    return event(f"{kind}.delta", delta=text, output_index=place, item_id="x", **fields)


def text(piece: str, place: Any = 0, part: Any = 0) -> Value:
    return delta("output_text", piece, place, content_index=part, logprobs=[], obfuscation="ab")


def added(item: Value, place: Any = 0) -> Value:
    return event("output_item.added", output_index=place, item=item)


def ended(item: Value, place: Any = 0) -> Value:
    return event("output_item.done", output_index=place, item=item)


def completed(*output: Any, status: str = "completed", **fields: Any) -> Value:
    response = {"id": "r", "object": "response", "status": status, "output": output, **fields}
    return event(status, response=response)


def message(*texts: str, **fields: Any) -> Value:
    content = [{"type": "output_text", "text": each, "annotations": []} for each in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def reasoning(*summary: str, **fields: Any) -> Value:
    parts = [{"type": "summary_text", "text": each} for each in summary]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, **fields}


def function(arguments: str = "", call_id: str = "i", name: str = "t", **fields: Any) -> Value:
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return {**call, "id": f"fc_{call_id}", **fields}


def search(status: str = "completed", item_id: str = "ws_1") -> Value:
    return {"type": "web_search_call", "id": item_id, "status": status}


def decode(data: bytes, *cuts: int) -> list[AnyStreamEvent]:
    return decode_with(OpenAiResponsesDecoder({"sent": "ours"}), data, *cuts)


END = Done(StopReason.END, "completed")
TOOLS = Done(StopReason.TOOL_CALLS, "completed")
USAGE = {
    "input_tokens": 9,
    "output_tokens": 4,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 13,
}
SHAPES: dict[str, tuple[bytes, list[Any]]] = {
    "text": (
        sse_body(
            event("created", response={"status": "in_progress", "output": []}),
            added(message()),
            event("content_part.added", output_index=0, part={"type": "output_text", "text": ""}),
            text("é"),
            text("b"),
            event("output_text.done", output_index=0, content_index=0, text="éb"),
            ended(message("éb")),
            completed(message("éb"), usage=USAGE, error=None, incomplete_details=None),
        ),
        [TextDelta("é"), TextDelta("b"), Usage(9, 4, 3, 2, 1), END],
    ),
    "a summary in paragraphs, signed": (
        sse_body(
            added(reasoning()),
            delta("reasoning_summary_text", "a", summary_index=0),
            delta("reasoning_summary_text", "b", summary_index=0),
            delta("reasoning_summary_text", "c", summary_index=1),
            ended(reasoning("ab", "c", encrypted_content="e")),
            text("d", 1),
            completed(reasoning("ab", "c", encrypted_content="other"), message("d")),
        ),
        [
            ThinkingDelta("a"),
            ThinkingDelta("b"),
            ThinkingDelta("\n\nc"),
            ThinkingEnd("e"),
            TextDelta("d"),
            END,
        ],
    ),
    "reasoning that ends behind the beginning of the text": (
        sse_body(
            added(reasoning()),
            delta("reasoning_text", "a", content_index=0),
            added(message(), 1),
            text("b", 1),
            ended(reasoning(content=[{"type": "reasoning_text", "text": "a"}])),
            completed(),
        ),
        [ThinkingDelta("a"), ThinkingEnd(), TextDelta("b"), END],
    ),
    "reasoning without words": (
        sse_body(
            ended(reasoning(encrypted_content="e")),
            ended(reasoning(encrypted_content="f", id="rs_2"), 1),
            ended(reasoning(), 2),
            ended(message("a"), 3),
            completed(),
        ),
        [ThinkingEnd("e"), ThinkingEnd("f"), TextDelta("a"), END],
    ),
    "calls in turns": (
        sse_body(
            added(function()),
            added(function(call_id="j", name="sent"), 1),
            delta("function_call_arguments", '{"a', 0),
            delta("function_call_arguments", "[]", 1),
            delta("function_call_arguments", '":1}', 0),
            event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),
            ended(function('{"a":1}')),
            ended(function("[]", "j", "sent"), 1),
            completed(function('{"a":1}'), function("[]", "j", "sent")),
        ),
        [
            ToolCallStart(0, "i", "t"),
            ToolCallStart(1, "j", "ours"),
            ToolCallDelta(0, '{"a'),
            ToolCallDelta(1, "[]"),
            ToolCallDelta(0, '":1}'),
            ToolCallEnd(0),
            ToolCallEnd(1),
            TOOLS,
        ],
    ),
    "a call of a custom tool": (
        sse_body(
            added({"type": "custom_tool_call", "call_id": "i", "name": "sql", "input": ""}),
            delta("custom_tool_call_input", 'a "b'),
            delta("custom_tool_call_input", '"\n'),
            ended({"type": "custom_tool_call", "call_id": "i", "input": 'a "b"\nc'}),
            completed(),
        ),
        [
            ToolCallStart(0, "i", "sql"),
            ToolCallDelta(0, '{"_raw":"'),
            ToolCallDelta(0, 'a \\"b'),
            ToolCallDelta(0, '\\"\\n'),
            ToolCallDelta(0, "c"),
            ToolCallDelta(0, '"}'),
            ToolCallEnd(0),
            TOOLS,
        ],
    ),
    "a refusal": (
        sse_body(
            delta("refusal", "no", content_index=0),
            ended(message(content=[{"type": "refusal", "refusal": "no, thanks"}])),
            completed(),
        ),
        [RefusalDelta("no"), RefusalDelta(", thanks"), Done(StopReason.REFUSED, "completed")],
    ),
    "a filter": (
        sse_body(text("a"), completed(status="incomplete",
                                      incomplete_details={"reason": "content_filter"})),
        [TextDelta("a"), Done(StopReason.REFUSED, "content_filter")],
    ),
    "the token limit": (
        sse_body(
            added(function()),
            delta("function_call_arguments", '{"a'),
            completed(
                function('{"a', status="incomplete"),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
                usage={"input_tokens": 1, "output_tokens": 2},
            ),
        ),
        [
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, '{"a'),
            ToolCallEnd(0),
            Usage(1, 2, None, None),
            Done(StopReason.MAX_TOKENS, "max_output_tokens"),
        ],
    ),
    "incomplete behind `completed`, for no reason": (
        sse_body(text("a"), event("completed", response={"status": "incomplete", "output": []})),
        [TextDelta("a"), Done(StopReason.MAX_TOKENS, "incomplete")],
    ),
    "items of server-side tools between the others": (
        sse_body(
            added(search("in_progress")),
            event("web_search_call.searching", output_index=0),
            ended(search()),
            added(message(), 1),
            text("a", 1),
            ended(message("a"), 1),
            ended({"type": "something_new", "x": [1]}, 2),
            completed(),
        ),
        [
            ("web_search_call", search()),
            TextDelta("a"),
            ("something_new", {"type": "something_new", "x": [1]}),
            END,
        ],
    ),
    "items of server-side tools at the same time": (
        sse_body(
            added(search("in_progress"), 0),
            added(search("in_progress", "ws_2"), 1),
            ended(search("completed", "ws_2"), 1),
            ended(search(), 0),
            completed(search(), search("completed", "ws_2")),
        ),
        [
            ("web_search_call", search()),
            ("web_search_call", search("completed", "ws_2")),
            END,
        ],
    ),
    "an item of a server-side tool whose end comes late": (
        sse_body(
            added(search("in_progress")),
            text("a", 1),
            ended(search()),
            completed(search(), message("a")),
        ),
        [("web_search_call", search("in_progress")), TextDelta("a"), END],
    ),
    "citations and a phase": (
        sse_body(
            text("a"),
            event("output_text.annotation.added", output_index=0, annotation={"url": "early"}),
            ended(
                message(
                    phase="commentary",
                    content=[{"type": "output_text", "text": "a", "annotations": [{"url": "u"}]}],
                )
            ),
            text("b", 1),
            event("output_text.annotation.added", output_index=1, annotation={"url": "v"}),
            ended(message("b", id="msg_2"), 1),
            completed(),
        ),
        [
            TextDelta("a"),
            ("phase", "commentary"),
            ("annotations", [{"url": "u"}]),
            TextDelta("b"),
            ("annotations", [{"url": "v"}]),
            END,
        ],
    ),
    "text that the pieces lacked": (
        sse_body(
            text("a"),
            event("output_text.done", output_index=0, content_index=0, text="ab"),
            ended(message("abc", "d")),
            completed(message("abcx", "d")),
        ),
        [TextDelta("a"), TextDelta("b"), TextDelta("c"), TextDelta("d"), TextDelta("x"), END],
    ),
    "an end that says something else": (
        sse_body(text("ab"), ended(message("xyz")), completed(message("x"))),
        [TextDelta("ab"), END],
    ),
    "everything in the last event": (
        sse_body(
            completed(
                reasoning("a", encrypted_content="e"),
                search(),
                message("b", phase="final_answer"),
                function("{}"),
            )
        ),
        [
            ThinkingDelta("a"),
            ThinkingEnd("e"),
            ("web_search_call", search()),
            TextDelta("b"),
            ("phase", "final_answer"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            TOOLS,
        ],
    ),
    "more in the last event": (
        sse_body(
            text("a", 0),
            ended(message("a"), 0),
            completed(message("a"), message("b", id="msg_2"), function("{}")),
        ),
        [
            TextDelta("a"),
            TextDelta("b"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            TOOLS,
        ],
    ),
    "ids that change": (
        sse_body(
            added(message(id="1")),
            {**text("a"), "item_id": "2"},
            {**text("b"), "item_id": "3"},
            ended(message("ab", id="4")),
            completed(message("ab", id="5")),
        ),
        [TextDelta("a"), TextDelta("b"), END],
    ),
    "no places": (
        sse_body(
            added(message(), None),
            text("a", None, None),
            text("b", None, None),
            ended(message("ab"), None),
            added(function(), None),
            delta("function_call_arguments", "{", None),
            delta("function_call_arguments", "}", None),
            ended(function("{}"), None),
            added(function(call_id="j"), None),
            ended(function("[]", "j"), None),
            completed(message("ab"), function("{}"), function("[]", "j")),
        ),
        [
            TextDelta("a"),
            TextDelta("b"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{"),
            ToolCallDelta(0, "}"),
            ToolCallEnd(0),
            ToolCallStart(1, "j", "t"),
            ToolCallDelta(1, "[]"),
            ToolCallEnd(1),
            TOOLS,
        ],
    ),
    "one place for all": (
        sse_body(
            added(reasoning()),
            delta("reasoning_summary_text", "a", summary_index=0),
            ended(reasoning("a", encrypted_content="e")),
            added(message()),
            text("b"),
            ended(message("b")),
            added(message(id="msg_2")),
            text("c"),
            ended(message("c", id="msg_2")),
            added(function()),
            delta("function_call_arguments", "{}"),
            ended(function("{}")),
            completed(),
        ),
        [
            ThinkingDelta("a"),
            ThinkingEnd("e"),
            TextDelta("b"),
            TextDelta("c"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            TOOLS,
        ],
    ),
    "the same beginning and end twice": (
        sse_body(
            added(message()), added(message()), text("a"), ended(message("a")), ended(message("a")),
            added(function(), 1), added(function(), 1), ended(function("{}"), 1),
            ended(function("{}"), 1), completed(message("a"), function("{}")),
        ),
        [
            TextDelta("a"),
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0),
            TOOLS,
        ],
    ),
    "names that come late": (
        sse_body(
            added({"type": "function_call", "call_id": "i"}),
            delta("function_call_arguments", "{"),
            delta("function_call_arguments", "}", 1),
            ended(function("{}")),
            completed(),
        ),
        [
            ToolCallStart(0, "i", "t"),
            ToolCallDelta(0, "{"),
            ToolCallDelta(0, "}"),
            ToolCallEnd(0),
            ToolCallStart(1, "", ""),
            ToolCallDelta(1, "}"),
            ToolCallEnd(1),
            TOOLS,
        ],
    ),
    "odd types": (
        sse_body(
            {**text("a"), "output_index": "0", "content_index": 0.0, "sequence_number": None},
            ended({"type": "function_call", "call_id": 7, "name": "t", "arguments": {"a": "é"}}, 1),
            ended({"type": "message", "content": "plain"}, 2),
            ended({"type": "message", "content": [7, {"text": "x", "annotations": [None]}]}, 3),
            completed(
                usage={"input_tokens": 9.0, "output_tokens": "4", "input_tokens_details": []},
                incomplete_details=[],
            ),
        ),
        [
            TextDelta("a"),
            ToolCallStart(0, "", "t"),
            ToolCallDelta(0, '{"a": "é"}'),
            ToolCallEnd(0),
            TextDelta("plain"),
            TextDelta("x"),
            Usage(9, 4, None, None),
            TOOLS,
        ],
    ),
    "half a surrogate pair": (
        b'data: {"type":"response.output_text.delta","delta":"a\\ud83d"}\n\n'
        b'data: {"type":"response.output_item.done","item":{"type":"new","x":"\\ud83d"}}\n\n'
        + sse_body(completed()),
        [TextDelta("a\ufffd"), ("new", {"type": "new", "x": "\ufffd"}), END],
    ),
    "bytes that are no text": (
        b'data: {"type":"response.output_item.done","item":{"type":"new","x":"\xff"}}\n\n'
        + sse_body(completed()),
        [("new", {"type": "new", "x": "\ufffd"}), END],
    ),
    "empty and unknown": (
        sse_body(
            {},
            {"x": 1},
            {"type": None},
            {"type": "keepalive"},
            event("unheard_of", delta={"a": 1}, item=3),
            event("output_item.added"),
            event("output_item.done", item=None),
            event("output_item.done", item={"id": "x"}),
            event("output_text.delta"),
            event("output_text.delta", delta=""),
            event("output_text.annotation.added"),
            event("function_call_arguments.done"),
            "",
            "[DONE]",
            completed(None, 7, {"x": 1}),
        ),
        [Done(StopReason.END, "completed")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_read_the_same_at_every_cut(shape: str) -> None:
    body, events = SHAPES[shape]
    whole = decode(body)
    assert plain(whole) == events
    for at in range(0, len(body) + 1, 3):
        assert decode(body, at) == whole
    assert decode(body, *range(len(body))) == whole


def test_two_blocks_of_reasoning_without_words_are_stored_as_two() -> None:
    answer = AnswerBuilder()
    answer.add(decode(SHAPES["reasoning without words"][0]))
    assert list(answer.parts())[:2] == [Thinking("", "e"), Thinking("", "f")]


def test_a_name_stands_in_for_a_type() -> None:
    values = (text("a"), delta("refusal", "b"), completed())
    body = b"".join(
        f"event: {value['type']}\ndata: ".encode()
        + json.dumps({k: v for k, v in value.items() if k != "type"}).encode()
        + b"\n\n"
        for value in values
    )
    assert decode(body) == [TextDelta("a"), RefusalDelta("b"), END]
    assert decode(body, *range(len(body))) == decode(body)
    assert isinstance(error_of(decode(body.replace(b"event: ", b"x: "))), StreamError)


def test_the_short_way_and_the_long_one_give_the_same() -> None:
    texts = [f"{n}" for n in range(300)]
    values = [text(each, n // 100, n // 50 % 2) for n, each in enumerate(texts)]
    output = [
        message("".join(texts[at : at + 50]), "".join(texts[at + 50 : at + 100]))
        for at in (0, 100, 200)
    ]
    for named in (True, False):
        body = sse_body(*values, completed(*output), named=named)
        assert decode(body) == [*map(TextDelta, texts), END]


@pytest.mark.parametrize("char", ["x", "é", "😀", '"'])
@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_arguments_over_the_limit_end_just_past_it_and_their_siblings_are_whole(
    char: str, kind: str
) -> None:
    field = "function_call_arguments" if kind == "function_call" else "custom_tool_call_input"
    whole = char * 1_100_000
    body = sse_body(
        added({"type": kind, "call_id": "i", "name": "big"}),
        *(delta(field, char * 1000) for _ in range(1100)),
        ended({"type": kind, "call_id": "i", "name": "big", "arguments": whole, "input": whole}),
        ended(function("{}", "j", "small"), 1),
        completed(),
    )
    big, small = calls_of(decode(body))
    assert small == ("j", "small", "{}")
    assert MAX_ARGUMENT_BYTES < len(big[2].encode()) <= MAX_ARGUMENT_BYTES + 4


def test_arguments_that_wait_for_a_name_are_bounded() -> None:
    pieces = (delta("function_call_arguments", "x" * 100_000) for _ in range(30))
    [call] = calls_of(decode(sse_body(*pieces, completed())))
    assert MAX_ARGUMENT_BYTES < len(call[2]) <= MAX_ARGUMENT_BYTES + 1


def test_items_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ITEMS == 10_000
    monkeypatch.setattr(openai_responses_items, "MAX_ITEMS", 20)
    values = [added(search(), n) for n in range(21)]
    assert decode(sse_body(*values[:20], completed()))[-1] == END
    assert error_of(decode(sse_body(*values, completed()))).error_type == "provider"
    many = completed(*(search() for _ in range(21)))
    assert isinstance(decode(sse_body(many))[-1], Done)


def test_of_opaque_parts_without_end_only_the_kind_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openai_responses_items, "MAX_OPAQUE_BYTES", 500)
    large = {**search(), "result": "x" * 300}
    events = plain(decode(sse_body(ended(large), ended(large, 1), ended(search(), 2), completed())))
    stub = {"type": "web_search_call", "status": "incomplete"}
    assert [value for _, value in events[:3]] == [large, stub, search()]


ERRORS = [
    ({"message": "Overloaded", "type": "overloaded_error"}, "overloaded", True, "Overloaded"),
    ({"message": "slow", "code": "rate_limit_exceeded"}, "overloaded", True, "slow"),
    ({"message": "oops", "code": "server_error"}, "provider", True, "oops"),
    ({"message": "bad", "code": "invalid_prompt"}, "provider", False, "bad"),
    ({"message": "no money", "code": "insufficient_quota"}, "quota", False, "no money"),
    ({"message": "key sk-abcdefghijkl", "code": "x"}, "provider", False, "key ***"),
]


@pytest.mark.parametrize(("error", "kind", "retryable", "words"), ERRORS)
def test_an_error_in_the_stream_is_an_error(
    error: Any, kind: str, retryable: bool, words: str
) -> None:
    failed = completed(status="failed", error=error)
    for value in (
        {"type": "error", "sequence_number": 1, "error": error},
        {**error, "type": "error", "code": error.get("code", error.get("type"))},
        {"error": error},
        failed,
        {**failed, "type": "response.completed"},
        completed(message("b"), error=error),
    ):
        events = decode(sse_body(text("a"), value, completed(message("ab"))))
        assert events[0] == TextDelta("a")
        found = error_of(events)
        assert (found.error_type, found.retryable, found.status) == (kind, retryable, None)
        assert words in found.message


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_answer_that_failed_for_no_reason_is_an_error(status: str) -> None:
    error = error_of(decode(sse_body(text("a"), completed(status=status, usage=USAGE))))
    assert status in error.message
    assert Usage(9, 4, 3, 2, 1) in decode(sse_body(completed(status=status, usage=USAGE)))


def test_an_end_that_is_no_response_is_an_error() -> None:
    error = error_of(decode(sse_body(text("a"), event("completed", response=7))))
    assert "unreadably" in error.message


@pytest.mark.parametrize("shape", ["text", "calls in turns", "citations and a phase"])
def test_a_body_cut_before_its_last_event_is_an_error_and_behind_it_whole(shape: str) -> None:
    body, events = SHAPES[shape]
    whole_from = len(body) - 2
    for at in range(whole_from):
        error = error_of(decode(body[:at]))
        assert (error.error_type, error.retryable) == ("network", True)
    for at in range(whole_from, len(body) + 1):
        assert plain(decode(body[:at])) == events


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n", b": bye\n\n"])
def test_an_answer_without_its_last_event_is_cut_off(end: bytes) -> None:
    error = error_of(decode(sse_body(text("a"), ended(message("a"))) + end))
    assert (error.error_type, error.retryable) == ("network", True)


def document(**fields: Any) -> bytes:
    response = completed(reasoning("a", encrypted_content="e"), message("b"), **fields)["response"]
    return json.dumps(response, indent=2).encode()


def test_a_whole_answer_that_is_no_stream_is_read() -> None:
    body = document(usage=USAGE)
    expected = [ThinkingDelta("a"), ThinkingEnd("e"), TextDelta("b"), Usage(9, 4, 3, 2, 1), END]
    assert decode(body) == expected
    assert decode(body, *range(len(body))) == expected
    for at in range(len(body) - 1):
        error_of(decode(body[:at]))
    assert "failed" in error_of(decode(document(status="failed"))).message
    assert "in_progress" in error_of(decode(document(status="in_progress"))).message


KINDS = [
    value["type"] for value in (text(""), added({}), ended({}), completed(), delta("refusal", ""))
]
KINDS += ["response.reasoning_text.delta", "response.function_call_arguments.delta", "error",
          "response.custom_tool_call_input.delta", "response.output_text.done"]  # fmt: skip
KEYS = (
    "type delta output_index content_index summary_index item response text arguments output usage "
    "content summary encrypted_content call_id name status annotations annotation error phase"
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*KINDS, "message", "reasoning", "function_call", "custom_tool_call", "new"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=6)
    ),
    max_leaves=20,
)
VALUES = st.one_of(JSON, st.builds(lambda kind, rest: {**rest, "type": kind},
                                   st.sampled_from(KINDS),
                                   st.dictionaries(st.sampled_from(KEYS.split()), JSON, max_size=6)))  # fmt: skip


@given(st.lists(VALUES, max_size=6), st.binary(max_size=30), st.data())
def test_anything_is_read_without_raising_and_ends_once(
    values: list[Any], tail: bytes, data: st.DataObject
) -> None:
    body = sse_body(*(value if isinstance(value, dict) else json.dumps(value) for value in values))
    body += tail
    check_any_body(decode, body, data)


@pytest.mark.parametrize("part", [0, 1, 7, None])
def test_pieces_that_count_parts_in_their_own_way_are_said_once(part: int | None) -> None:
    pieces = [text("He", part=part), text("llo", part=part)]
    sums = [event("output_text.done", text="Hello", output_index=0, content_index=0)]
    whole = message("Hello")
    for body in ([*pieces, *sums], pieces, [*pieces, *[{**sums[0], "content_index": part}]]):
        events = decode(sse_body(added(message()), *body, ended(whole), completed(whole)))
        assert [e for e in events if type(e) is TextDelta] == [TextDelta("He"), TextDelta("llo")]


def test_what_the_end_has_beyond_such_pieces_is_added() -> None:
    for pieces, more in (
        ([text("A", part=1)], "B"),  # of two parts only the first was streamed
        ([text("A", part=1), text("B", part=2)], "C"),
        ([text("A", part=0), text("B", part=0)], "C"),
    ):
        said = "".join(piece["delta"] for piece in pieces)
        whole = message(*said, more)
        events = decode(sse_body(added(message()), *pieces, ended(whole), completed(whole)))
        assert "".join(e.text for e in events if type(e) is TextDelta) == said + more


def test_a_part_with_the_same_text_as_another_is_a_part() -> None:
    sums = [
        event("output_text.done", text="A", output_index=0, content_index=part) for part in (0, 1)
    ]
    events = decode(sse_body(text("A"), *sums, completed(message("A", "A"))))
    assert [e for e in events if type(e) is TextDelta] == [TextDelta("A"), TextDelta("A")]


@pytest.mark.parametrize("kind", ["pieces", "rest"])
def test_a_place_that_only_some_events_name_makes_no_second_item(kind: str) -> None:
    call = {"type": "function_call", "id": "x", "call_id": "c", "name": "t", "arguments": '{"a":1}'}
    told = kind == "pieces"
    begun = added({**call, "arguments": ""}, None if told else 0)
    pieces = [
        delta("function_call_arguments", each, 0 if told else None) for each in ('{"a"', ":1}")
    ]
    body = [begun, *pieces, ended(call, None if told else 0), completed(call)]
    assert calls_of(decode(sse_body(*body))) == [("c", "t", '{"a":1}')]

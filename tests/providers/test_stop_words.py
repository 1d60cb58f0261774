"""A call runs only behind a word that says that the model came to its end, in all four formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.providers.anthropic.decoder import AnthropicMessagesDecoder
from callboard.providers.gemini.decoder import GeminiDecoder
from callboard.providers.openai_chat.decoder import OpenAiChatDecoder
from callboard.providers.openai_responses.decoder import OpenAiResponsesDecoder
from callboard.providers.provider import Decoder
from callboard.providers.stop_words import read_stop
from callboard.runtime.stream import Done, StopReason, StreamError

Value = dict[str, Any]

MAX_TOKENS, REFUSED, RUNS = StopReason.MAX_TOKENS, StopReason.REFUSED, StopReason.TOOL_CALLS
CUT = ("network", True)
"""The kind of an error and whether it is tried again."""


def outcome(decoder: Decoder, *values: Value | str) -> StopReason | tuple[str, bool]:
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    body = b"".join(b"data: " + text.encode() + b"\n\n" for text in texts)
    last = [*decoder.feed(body), *decoder.finish()][-1]
    if isinstance(last, StreamError):
        return last.error_type, last.retryable
    assert isinstance(last, Done)
    return last.stop_reason


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("abort", ("provider", True)),
        ("Cancelled", ("provider", True)),
        ("network_error", ("network", True)),
        ("timeout", ("timeout", True)),
        ("time_limit", ("timeout", True)),
        ("engine_overloaded", ("overloaded", True)),
        ("error", ("provider", False)),
        ("safety", REFUSED),
        ("sensitive", REFUSED),
        ("content-filtered", REFUSED),
        ("model_context_window_exceeded", MAX_TOKENS),
        ("length", MAX_TOKENS),
    ],
)
def test_a_word_for_a_broken_answer_means_the_same_with_calls_and_without(
    word: str, meaning: StopReason | tuple[str, bool]
) -> None:
    for has_calls in (True, False):
        stop = read_stop(word, has_calls=has_calls)
        said = (stop.error_type, stop.retryable) if isinstance(stop, StreamError) else stop
        assert said == meaning


def test_an_unknown_word_is_an_error_only_where_there_are_calls() -> None:
    assert read_stop("novel", has_calls=False, are_whole=False) is None
    stop = read_stop("novel", has_calls=True)
    assert isinstance(stop, StreamError)
    assert "not known here (novel)" in stop.message
    assert "were not run" in stop.message


def test_known_good_words_leave_it_to_what_came() -> None:
    for word in ("tool_calls", "function_call", "stop", "eos", "tool_use", "end_turn", "STOP", ""):
        assert read_stop(word, has_calls=True) is None
        assert isinstance(read_stop(word, has_calls=True, are_whole=False), StreamError)


def chat(arguments: str, *reasons: str) -> StopReason | tuple[str, bool]:
    call = {"index": 0, "id": "i", "function": {"name": "t", "arguments": arguments}}
    deltas: list[Value] = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}]
    deltas += [{"choices": [{"index": 0, "delta": {}, "finish_reason": each}]} for each in reasons]
    return outcome(OpenAiChatDecoder(), *deltas, "[DONE]")


def test_chat_runs_calls_behind_a_good_word_or_with_whole_arguments() -> None:
    assert chat("", "tool_calls") is RUNS
    assert chat("", "stop") is RUNS
    assert chat("{}") is RUNS
    assert chat('{"a": {"b": 1}}') is RUNS
    for arguments in ("", '{"a": {"b": 1}', "[]"):
        assert chat(arguments) == CUT
    assert chat("{}", "novel") == ("provider", True)
    assert chat("{}", "abort") == ("provider", True)
    assert chat("{}", "safety") is REFUSED


def anthropic(reason: str | None, *pieces: Value) -> StopReason | tuple[str, bool]:
    block = {"type": "tool_use", "id": "i", "name": "t", "input": {}}
    return outcome(
        AnthropicMessagesDecoder(),
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *pieces,
        {"type": "message_delta", "delta": {"stop_reason": reason}},
        {"type": "message_stop"},
    )


def test_anthropic_runs_calls_that_ended_or_have_arguments_behind_a_good_word() -> None:
    end = {"type": "content_block_stop", "index": 0}
    delta = {"type": "input_json_delta", "partial_json": '{"a":1}'}
    piece = {"type": "content_block_delta", "index": 0, "delta": delta}
    for reason in ("tool_use", "end_turn", "pause_turn", None):
        assert anthropic(reason, end) is RUNS
        assert anthropic(reason) == CUT
    assert anthropic("tool_use", piece) is RUNS
    assert anthropic(None, piece) == CUT
    assert anthropic("novel", piece, end) == ("provider", True)
    assert anthropic("max_tokens") is MAX_TOKENS


def test_anthropic_takes_the_end_of_a_call_behind_the_stop_reason_and_a_whole_document() -> None:
    block = {"type": "tool_use", "id": "i", "name": "t", "input": {}}
    start: Value = {"type": "message_start", "message": {"content": [block]}}
    reason: Value = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    end: Value = {"type": "content_block_stop", "index": 0}
    stop: Value = {"type": "message_stop"}
    assert outcome(AnthropicMessagesDecoder(), start, reason, end, stop) is RUNS
    assert outcome(AnthropicMessagesDecoder(), start, reason, stop) == CUT
    document = {"type": "message", "content": [block], "stop_reason": "tool_use"}
    decoder = AnthropicMessagesDecoder()
    last = [*decoder.feed(json.dumps(document).encode()), *decoder.finish()][-1]
    assert last == Done(RUNS, "tool_use")


def responses(
    end: Value, *events: Value, arguments: str = "", kind: str = "completed"
) -> StopReason | tuple[str, bool]:
    item = function(arguments, "in_progress")
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    last = {"type": f"response.{kind}", "response": end}
    return outcome(OpenAiResponsesDecoder(), added, *events, last)


def function(arguments: str, status: str) -> Value:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "status": status}
    return {**call, "arguments": arguments}


def test_responses_runs_calls_that_ended_or_have_arguments_in_a_completed_answer() -> None:
    done = {"type": "response.output_item.done", "output_index": 0}
    ended = {**done, "item": function("", "completed")}
    piece = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"}
    for status in ("completed", "in_progress", None):
        assert responses({"status": status}, ended) is RUNS
        assert responses({"status": status}) == CUT
    assert responses({"status": "completed"}, piece) is RUNS
    assert responses({"status": "in_progress"}, piece) == CUT
    unfinished = {**done, "item": function("", "in_progress")}
    assert responses({"status": "completed"}, unfinished) == CUT
    output = [function("", "in_progress")]
    assert responses({"status": "in_progress", "output": output}) == CUT
    assert responses({"status": "novel"}, ended, kind="done") == ("provider", True)


def gemini(reason: str, *calls: Value) -> StopReason | tuple[str, bool]:
    parts = [{"functionCall": call} for call in calls]
    chunks: list[Value] = [{"candidates": [{"content": {"parts": parts}}]}]
    return outcome(GeminiDecoder(), *chunks, {"candidates": [{"finishReason": reason}]})


def test_gemini_runs_whole_calls_behind_a_good_word() -> None:
    begun = {"name": "t", "willContinue": True}
    path = {"jsonPath": "$.a", "numberValue": 1}
    assert gemini("STOP", {"name": "t", "args": {}}) is RUNS
    assert gemini("NOVEL", {"name": "t", "args": {}}) == ("provider", True)
    assert gemini("NOVEL") is StopReason.END
    assert gemini("MAX_TOKENS", begun) is MAX_TOKENS
    assert gemini("STOP", begun) == CUT
    assert gemini("STOP", begun, {}) is RUNS
    assert gemini("STOP", begun, {"partialArgs": [path], "willContinue": True}) is RUNS

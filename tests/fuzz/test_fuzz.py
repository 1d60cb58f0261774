"""The fuzz targets under hypothesis: briefly here, and for long by `make soak`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers.testing import chat_wire as scripted_wire
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.errors import NetworkError, NotFoundError, ValidationError
from support.fuzz import targets
from support.fuzz.targets import (
    TARGETS,
    fuzz_anthropic_messages,
    fuzz_arguments,
    fuzz_client_frame,
    fuzz_error_answer,
    fuzz_gemini,
    fuzz_openai_chat,
    fuzz_openai_responses,
    fuzz_page,
    fuzz_sse,
    fuzz_toml,
)

ROOT = Path(__file__).resolve().parent.parent.parent

ANSWER = reply(
    ["Hé", "llo"], thinking="Hm.", calls=[("a", {"x": 1}), ("b", '{"broken')], refusal="No."
)


def mix(*tokens: bytes | Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes that look like the format: its tokens in any order, with noise between them."""
    known = [
        token for group in tokens for token in ([group] if isinstance(group, bytes) else group)
    ]
    piece = st.one_of(st.sampled_from(known), st.sampled_from(known), st.binary(max_size=6))
    return st.builds(
        lambda first, pieces: bytes([first]) + b"".join(pieces),
        st.integers(0, 40),
        st.lists(piece, max_size=25),
    )


JSON = [b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"NaN", b"-1e999", b"1.0", b"0",
        b'"\\ud800"', b'"\\u0000"', b"9" * 5000, b"[" * 200, b'{"a":' * 200, b'"x"', b" ", b"\\"]  # fmt: skip

SSE = [b"data: ", b"data:", b"data", b"\n", b"\r", b"\r\n", b"\n\n", b": c", b"event: e\n", b"id",
       b"\xef\xbb\xbf", b"\xff", b"x", b"\x00"]  # fmt: skip


def chunk(delta: bytes, more: bytes = b"") -> bytes:
    return b'data: {"choices":[{"index":0,"delta":' + delta + more + b"}]}\n\n"


CALLS = [
    b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}',
    b'{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}',
    b'{"tool_calls":[{"id":"d","function":{"name":"g","arguments":{"a":1}}}]}',
    b'{"tool_calls":[{"index":-1},{"index":1e9,"id":7},{"index":"2","function":null}]}',
]
CHUNKS = [
    *map(chunk, CALLS),
    chunk(b'{"content":"x"}'),
    chunk(b'{"content":[{"type":"text","text":"y"},3]}'),
    chunk(b'{"content":"\\ud83d"}'),
    chunk(b'{"reasoning":"r","reasoning_details":[{"type":"t","text":"a"}]}'),
    chunk(b'{"refusal":"no"}'),
    chunk(b"{}", b',"finish_reason":"stop"'),
    chunk(b"null", b',"finish_reason":"error"'),
    b'data: {"choices":[],"usage":{"prompt_tokens":1e400,"completion_tokens":"7"}}\n\n',
    b'data: {"error":{"message":"m","code":429}}\n\n',
    b'data: {"choices":[{"message":{"content":"whole"},"finish_reason":"length"}]}\n\n',
    b"data: [DONE]\n\n",
    b"<html><title>t</title>",
]


@given(mix(SSE))
def test_sse(data: bytes) -> None:
    fuzz_sse(data)


@given(mix(CHUNKS, JSON, SSE))
def test_openai_chat(data: bytes) -> None:
    fuzz_openai_chat(data)


@given(mix(CHUNKS))
def test_openai_chat_with_whole_chunks(data: bytes) -> None:
    fuzz_openai_chat(data)


@given(st.data())
def test_openai_chat_with_a_changed_answer(data: st.DataObject) -> None:
    """A real answer in which some bytes are others."""
    answer = bytearray(b"\x00" + b"".join(scripted_wire.reply_events(ANSWER, 1)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(answer) - 1))
        answer[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    fuzz_openai_chat(bytes(answer))


def response_event(kind: bytes, fields: bytes) -> bytes:
    return b'event: response.%b\ndata: {"type":"response.%b",%b}\n\n' % (kind, kind, fields)


OUTPUT_ITEMS = [
    b'{"type":"message","id":"m","phase":"commentary","content":[{"type":"output_text",'
    b'"text":"xy","annotations":[{"u":1}]},{"type":"refusal","refusal":"no"}]}',
    b'{"type":"message","content":"\\ud83d"}',
    b'{"type":"reasoning","summary":[{"text":"r"},{"text":"s"}],"encrypted_content":"e"}',
    b'{"type":"function_call","call_id":"i","name":"f","arguments":"{}"}',
    b'{"type":"function_call","arguments":{"a":1}}',
    b'{"type":"custom_tool_call","call_id":"c","name":"g","input":"\\"z"}',
    b'{"type":"web_search_call","id":"w","status":"completed","x":"\xff"}',
    b'{"type":"novelty","x":1e999}',
    b"7",
]
RESPONSE_EVENTS = [
    *(
        response_event(kind, b'"output_index":%d,"item":%b' % (place, item))
        for kind in (b"output_item.added", b"output_item.done")
        for place, item in enumerate(OUTPUT_ITEMS)
    ),
    *(
        response_event(kind, b'"output_index":%b,"delta":"x"' % place)
        for kind in (
            b"output_text.delta",
            b"reasoning_summary_text.delta",
            b"refusal.delta",
            b"function_call_arguments.delta",
            b"custom_tool_call_input.delta",
        )
        for place in (b"0", b"3", b"null", b'"2"')
    ),
    response_event(b"output_text.annotation.added", b'"annotation":{"u":"\xff"}'),
    response_event(b"output_text.done", b'"output_index":0,"text":"xyz"'),
    response_event(b"function_call_arguments.done", b'"output_index":3,"arguments":"xyz"'),
    response_event(b"completed", b'"response":{"output":[%b]}' % b",".join(OUTPUT_ITEMS)),
    response_event(b"incomplete", b'"response":{"incomplete_details":{"reason":"r"}}'),
    response_event(b"failed", b'"response":{"error":{"message":"m","code":"server_error"}}'),
    b'event: error\ndata: {"message":"m"}\n\n',
    b'{"status":"completed","output":[%b]}' % b",".join(OUTPUT_ITEMS),
]


@given(mix(RESPONSE_EVENTS, JSON, SSE))
def test_openai_responses(data: bytes) -> None:
    fuzz_openai_responses(data)


@given(mix(RESPONSE_EVENTS))
def test_openai_responses_with_whole_events(data: bytes) -> None:
    fuzz_openai_responses(data)


def message_event(kind: bytes, fields: bytes = b"") -> bytes:
    return b'event: %b\ndata: {"type":"%b"%b}\n\n' % (kind, kind, fields)


def block_start(index: int, block: bytes) -> bytes:
    fields = b',"index":%d,"content_block":%b' % (index, block)
    return message_event(b"content_block_start", fields)


def block_delta(index: int, delta: bytes) -> bytes:
    return message_event(b"content_block_delta", b',"index":%d,"delta":%b' % (index, delta))


MESSAGE_EVENTS = [
    message_event(b"message_start", b',"message":{"content":[{"type":"text","text":"p"}]}'),
    message_event(b"message_start", b',"message":{"usage":{"input_tokens":3}}'),
    message_event(b"message_stop"),
    message_event(b"message_delta", b',"delta":{"stop_reason":"end_turn"},"usage":{"a":1e999}'),
    message_event(b"error", b',"error":{"type":"overloaded_error","message":"m"}'),
    message_event(b"ping"),
    *(message_event(b"content_block_stop", b',"index":%d' % index) for index in range(3)),
    *(
        block_start(index, block)
        for index in range(2)
        for block in (
            b'{"type":"text","text":""}',
            b'{"type":"thinking","thinking":"","signature":"s"}',
            b'{"type":"tool_use","id":"i","name":"n","input":{"a":1}}',
            b'{"type":"server_tool_use","id":"s","name":"n","input":{}}',
            b'{"type":"novelty","content":null}',
        )
    ),
    *(
        block_delta(index, delta)
        for index in range(3)
        for delta in (
            b'{"type":"text_delta","text":"x"}',
            b'{"type":"text_delta","text":"\\ud83d"}',
            b'{"type":"thinking_delta","thinking":"r"}',
            b'{"type":"signature_delta","signature":"s"}',
            b'{"type":"input_json_delta","partial_json":"{\\"a\\":"}',
            b'{"type":"citations_delta","citation":{"c":1}}',
            b'{"type":"novelty_delta","content":"y","more":[1]}',
        )
    ),
]


@given(mix(MESSAGE_EVENTS, JSON, SSE))
def test_anthropic(data: bytes) -> None:
    fuzz_anthropic_messages(data)


@given(mix(MESSAGE_EVENTS))
def test_anthropic_with_whole_events(data: bytes) -> None:
    fuzz_anthropic_messages(data)


def candidate(parts: bytes, more: bytes = b"") -> bytes:
    return b'data: {"candidates":[{"content":{"parts":[%b]}%b}]}\r\n\r\n' % (parts, more)


CANDIDATES = [
    candidate(b'{"text":"x"}'),
    candidate(b'{"text":"x","thoughtSignature":"s"},{"text":"\\ud83d"}'),
    candidate(b'{"text":"r","thought":true},{"thought":true,"thoughtSignature":"s"}'),
    candidate(b'{"functionCall":{"name":"f","args":{"a":1},"id":"i"},"thoughtSignature":"s"}'),
    candidate(b'{"functionCall":{"name":"f","willContinue":true}}'),
    candidate(b'{"functionCall":{}},{"functionCall":{"args":[1]}},{}'),
    *(
        candidate(b'{"functionCall":{"partialArgs":[%b],"willContinue":true}}' % value)
        for value in (
            b'{"jsonPath":"$.a","stringValue":"y","willContinue":true}',
            b'{"jsonPath":"$.a[0].b","numberValue":1e400}',
            b'{"jsonPath":"$.a[16][16][16]"},3',
            b'{"jsonPath":"$..a","boolValue":true}',
        )
    ),
    candidate(b'{"executableCode":{"code":"1"}},{"inlineData":null}'),
    candidate(b"", b',"groundingMetadata":{"a":[1]},"finishReason":"STOP"'),
    candidate(b"", b',"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"m"'),
    candidate(b"null", b',"index":1,"finishReason":"STOP"'),
    b'data: {"promptFeedback":{"blockReason":"OTHER"}}\n\n',
    b'data: {"usageMetadata":{"promptTokenCount":"7","thoughtsTokenCount":-1}}\n\n',
    b'data: {"error":{"code":429,"details":[{"retryDelay":"1e999s"}]}}\n\n',
    b'[{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}\n,',
    b'{"candidates":[{"finishReason":"STOP"}]}]',
]


@given(mix(CANDIDATES, JSON, SSE))
def test_gemini(data: bytes) -> None:
    fuzz_gemini(data)


@given(mix(CANDIDATES))
def test_gemini_with_whole_chunks(data: bytes) -> None:
    fuzz_gemini(data)


@given(mix(JSON, [b"\n", b"3", b"Wed, 21 Oct 2099 07:28:00 GMT", b"<title>", b'{"error":',
                  b'{"message":"m","code":"insufficient_quota"}', b"</title>", b"1e999", b"-5"]))  # fmt: skip
def test_error_answer(data: bytes) -> None:
    fuzz_error_answer(data)


@given(mix(JSON, [b'{"text":"a"}', b'{"text":', b'"count":', b'"text":"b"', b'{"place":{"name":"n"}',
                  b',"tags":["a"]}', b'{"leaf":{"size":1,"leaves":[]}}', b'"leaves":[', b"\\u003a",
                  b'"where":[1,2.5]', b'"kind":"b"', b'"flag":null']))  # fmt: skip
def test_arguments(data: bytes) -> None:
    fuzz_arguments(data[1:])


@given(mix([b"\n", b"[limits]\n", b"idle_seconds = ", b"1\n", b"inf\n", b"-1\n", b'"x"\n', b"model = ",
            b"[agents.a]\n", b"[agents]\n", b"agents = 1\n", b"prompt = ", b"'''", b'"""', b"[providers.p]\n",
            b'base_url = "http://h/v1"\n', b"[network]\n", b'allow = ["h:1"]\n', b"allow = [1]\n", b"policy = ",
            b'"auto"\n', b"[[agents]]\n", b"a.b.c = 2\n", b"[" * 200, b"9" * 5000, b"= 1979-05-27\n",
            b"{ a = 1 }\n", b"tools = []\n", b'[agents."x y"]\n', b"# c"]))  # fmt: skip
def test_toml(data: bytes) -> None:
    fuzz_toml(data[1:])


@given(mix([b"<div>", b"</div>", b"<p>", b"<b>", b"</b>", b"<ul><li>", b"<ol start=9><li>", b"</li>", b"<table>",
            b"<tr><td>", b"<th colspan=99>", b"</table>", b"<pre>", b"<code>", b"`", b"<a href=", b"javascript:x>",
            b"/x>", b"</a>", b"<h1>", b"<blockquote>", b"<br>", b"<img alt='a'>", b"<!--", b"-->", b"<script>",
            b"</script>", b"<template>", b"<svg>", b"<main>", b"<nav>", b"<base href=//h/>", b" style='display:none'",
            b"&#x202e;", b"&#0;", b"&#xd800;", b"&amp;", b"\xe2\x80\xae", b"\xff\xfe", b"<meta charset=gbk>",
            b"words ", b"<div>" * 300, b"<select><option>", b"<dl><dt>", b"\x00", b"|", b"\n"]))  # fmt: skip
def test_page(data: bytes) -> None:
    fuzz_page(data[1:])


@pytest.mark.parametrize("name", TARGETS)
@given(st.binary(max_size=200))
def test_any_bytes(name: str, data: bytes) -> None:
    TARGETS[name](data)


FRAMES = [
    b'{"jsonrpc":"2.0","method":"session/update","params":',
    b'{"id":"hello","result":', b'{"id":1,"error":{"code":1,"message":"m","data":{"type":"x"}}}',
    b'{"session_id":"s","seq":1,"at_ms":1,"event":', b'{"type":"session_deleted"}',
    b'{"session_id":"s","seq":1,"answer":', b'{"type":"stream_batch","stream_id":"s","offset":0,"events":[',
    b'{"type":"text_delta","text":"x"}', b'{"type":"novel"}', b'{"topic":"sessions","seq":1,"update":',
]  # fmt: skip


@given(mix(FRAMES, JSON))
def test_frames_of_any_daemon(data: bytes) -> None:
    fuzz_client_frame(data[1:])


def test_a_target_fails_when_a_promise_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what the targets check is reached."""
    answer = b"".join(scripted_wire.reply_events(ANSWER, 1))
    for size in (0, 1, 7, 255):
        fuzz_openai_chat(bytes([size]) + answer)
    monkeypatch.setattr(targets, "MAX_LINE_CHARS", 5)
    for target in (fuzz_openai_chat, fuzz_error_answer):
        with pytest.raises(AssertionError):
            target(b"\x00\n<html>")
    monkeypatch.setattr(targets, "ValidationError", NotFoundError)
    with pytest.raises(ValidationError):
        fuzz_toml(b"a = 1")
    monkeypatch.setattr(targets, "visible", str.upper)
    with pytest.raises(AssertionError):
        fuzz_page(b"<p>seen")
    monkeypatch.setattr(targets, "NetworkError", NotFoundError)
    with pytest.raises(NetworkError):
        fuzz_client_frame(b"[")
    monkeypatch.setattr(targets, "ToolFailure", ZeroDivisionError)
    with pytest.raises(ToolFailure):
        fuzz_arguments(b"{}")


def run_script(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "fuzz"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, text=True)


def test_the_script_runs_a_target_on_files(tmp_path: Path) -> None:
    found = [tmp_path / "a", tmp_path / "b"]
    for file in found:
        file.write_bytes(b"\x03data: {}\n\n")
    done = run_script("openai_chat", *found)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_names_the_targets() -> None:
    done = run_script("nothing")
    assert done.returncode == 2
    assert all(name in done.stderr for name in TARGETS)

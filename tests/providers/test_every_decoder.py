"""What the decoders of all four wire formats have in common: limits, broken bodies, any bytes.

The bodies are those of the scripted server, whose events the providers' own types accept; what only
one format has is in the tests of its decoder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers import answer_body, sse
from callboard.providers.answer_body import MAX_CALLS
from callboard.providers.dialects import dialect_named
from callboard.providers.gemini import decoder as gemini_decoder
from callboard.providers.testing.script import ScriptedCall, reply
from callboard.providers.testing.wires import wire_named
from callboard.runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    Done,
    StreamError,
    TextDelta,
)
from support.providers.decoding import calls_of, decode_with, error_of

DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def body_of(
    dialect: str, text: str | Sequence[str] = (), calls: Sequence[ScriptedCall] = ()
) -> bytes:
    return b"".join(wire_named(dialect).reply_events(reply(text, calls=calls), 1))


def decode(dialect: str, data: bytes, *cuts: int) -> list[AnyStreamEvent]:
    return decode_with(dialect_named(dialect).decoder(), data, *cuts)


@each_dialect
def test_300_calls_are_read_and_calls_without_end_are_an_error(dialect: str) -> None:
    calls = [ScriptedCall(f"t{n}", "{}", f"i{n}") for n in range(MAX_CALLS + 2)]
    read = calls_of(decode(dialect, body_of(dialect, calls=calls[:300])))
    assert read == [(f"i{n}", f"t{n}", "{}") for n in range(300)]
    error = error_of(decode(dialect, body_of(dialect, calls=calls)))
    assert (error.error_type, error.retryable) == ("provider", False)
    assert str(MAX_CALLS) in error.message


@each_dialect
@pytest.mark.parametrize("char", ["x", "é", "😀"])
def test_arguments_over_the_limit_end_just_past_it_and_their_siblings_are_whole(
    dialect: str, char: str
) -> None:
    arguments = json.dumps({"a": char * 1_100_000}, ensure_ascii=False)
    calls = [ScriptedCall("big", arguments, "i"), ScriptedCall("small", "{}", "j")]
    big, small = calls_of(decode(dialect, body_of(dialect, calls=calls)))
    assert small == ("j", "small", "{}")
    assert MAX_ARGUMENT_BYTES < len(big[2].encode()) <= MAX_ARGUMENT_BYTES + 4


@each_dialect
def test_arguments_at_the_limit_are_whole(dialect: str) -> None:
    arguments = json.dumps({"a": "x" * (MAX_ARGUMENT_BYTES - 8)}, separators=(",", ":"))
    assert len(arguments) == MAX_ARGUMENT_BYTES
    body = body_of(dialect, calls=[ScriptedCall("t", arguments, "i")])
    assert calls_of(decode(dialect, body)) == [("i", "t", arguments)]


@each_dialect
def test_names_that_were_sent_as_others_come_back(dialect: str) -> None:
    decoder = dialect_named(dialect).decoder({"sent": "our own.name"})
    calls = [ScriptedCall("sent", "{}", "i"), ScriptedCall("other", "{}", "j")]
    events = decoder.feed(body_of(dialect, calls=calls))
    assert [call[:2] for call in calls_of(events)] == [("i", "our own.name"), ("j", "other")]


@each_dialect
@pytest.mark.parametrize("payload", ["{", "nonsense", '{"choices":', "[1]", "7", "\x00", "[DONE"])
def test_an_event_that_is_no_json_object_is_an_error(dialect: str, payload: str) -> None:
    body = body_of(dialect, "a")
    events = re.split(rb"(?<=\n\r\n)|(?<=\n\n)", body)
    broken = b"".join([events[0], f"data: {payload}\n\n".encode(), *events[1:]])
    error = error_of(decode(dialect, broken))
    assert (error.error_type, error.retryable) == ("provider", False)
    assert "no JSON" in error.message or "can't be read" in error.message


@each_dialect
@pytest.mark.parametrize("kind", ['["a"]', "{}", "7", "null", '"a"'])
def test_an_event_with_a_type_of_any_kind_is_passed_over(dialect: str, kind: str) -> None:
    whole = body_of(dialect, "a")
    events = re.split(rb"(?<=\n\r\n)|(?<=\n\n)", whole)
    odd = b"".join([events[0], f'data: {{"type": {kind}}}\n\n'.encode(), *events[1:]])
    assert decode(dialect, odd) == decode(dialect, whole)


@each_dialect
@pytest.mark.parametrize("body", [b"", b": ping\n\n: ping\n\n", b"event: x\n\n", b"eve"])
def test_a_body_without_any_event_is_cut_off(dialect: str, body: bytes) -> None:
    error = error_of(decode(dialect, body))
    assert (error.error_type, error.retryable) == ("network", True)


@each_dialect
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!doctype html><title>Sign in</title>", '"Sign in"'),
        (b"hello", "hello"),
        (b'{"error": {"message": "no such model"}}', "no such model"),
        (b'{"detail": "Not Found"}', "Not Found"),
    ],
)
def test_a_body_that_is_no_stream_is_an_error_that_says_what_it_is(
    dialect: str, body: bytes, words: str
) -> None:
    error = error_of(decode(dialect, body))
    assert error.error_type == "provider"
    assert words in error.message


@each_dialect
def test_an_event_over_the_limit_is_an_error(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    body = body_of(dialect, ["a", "x" * 2000])
    for events in (decode(dialect, body), decode(dialect, body, *range(len(body)))):
        assert TextDelta("a") in events
        assert "more than any answer" in error_of(events).message


@each_dialect
def test_an_answer_over_the_limit_is_an_error(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (answer_body, gemini_decoder):
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 10_000)
    body = body_of(dialect, ["a"] * 1000)
    events = decode(dialect, body, *range(0, len(body), 100))
    assert "more than any answer" in error_of(events).message
    assert len(events) < 300


@given(st.sampled_from(DIALECTS), st.binary(max_size=300))
def test_any_bytes_are_events_with_one_terminal_event(dialect: str, body: bytes) -> None:
    *before, last = decode(dialect, body)
    assert isinstance(last, Done | StreamError)
    assert not any(isinstance(event, Done | StreamError) for event in before)


@given(st.sampled_from(DIALECTS), st.lists(st.text(min_size=1), max_size=10))
def test_text_comes_out_as_it_went_in(dialect: str, texts: list[str]) -> None:
    *read, done = decode(dialect, body_of(dialect, texts))
    assert [event for event in read if isinstance(event, TextDelta)] == [*map(TextDelta, texts)]
    assert isinstance(done, Done)

"""What refusals of providers mean, and that their text shows nothing that it must not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.config.settings import DialectName
from callboard.providers.dialects import dialect_named
from callboard.providers.error_answer import (
    MAX_MESSAGE_CHARS,
    MAX_RETRY_AFTER_SECONDS,
    is_misplaced,
    plain_line,
    read_error_answer,
    read_error_event,
)
from callboard.runtime.redaction import Secret, redactor


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("status", "kind", "retryable", "words"),
    [
        (400, "provider", False, "refused the request"),
        (401, "auth", False, "Check the key"),
        (403, "auth", False, "Check the key"),
        (404, "provider", False, "Check the model's name"),
        (405, "provider", False, "base URL"),
        (408, "timeout", True, "took too long"),
        (402, "quota", False, "Check its plan"),
        (413, "context_overflow", False, "too long for the model"),
        (422, "provider", False, "refused the request"),
        (429, "overloaded", True, "rate"),
        (500, "provider", True, "failed"),
        (501, "provider", False, "base URL"),
        (505, "provider", False, "base URL"),
        (502, "provider", True, "failed"),
        (503, "overloaded", True, "overloaded"),
        (504, "timeout", True, "took too long"),
        (529, "overloaded", True, "overloaded"),
        (302, "provider", False, "base URL"),
        (204, "provider", False, "base URL"),
    ],
)
def test_each_status_has_its_meaning(status: int, kind: str, retryable: bool, words: str) -> None:
    headers = {"retry-after": "3"}
    for dialect in map(dialect_named, DialectName):
        error = dialect.read_error(status, headers, body({"error": {"message": "the reason"}}))
        assert (error.error_type, error.retryable, error.status) == (kind, retryable, status)
        assert error.retry_after_seconds == (3.0 if retryable else None)
        assert words in error.text
        assert f"(HTTP {status}): the reason." in error.message


@pytest.mark.parametrize(
    "value",
    [
        {"error": {"message": "the reason", "type": "x", "param": None, "code": None}},
        {"error": "the reason"},
        [{"error": {"code": 400, "message": "the reason", "status": "INVALID_ARGUMENT"}}],
        {"object": "error", "message": "the reason", "type": "BadRequestError", "code": 400},
        {"message": "the reason"},
        {"detail": "the reason"},
        {"detail": [{"loc": ["body"], "msg": "the reason"}]},
        {"message": {"detail": [{"msg": "the reason"}]}},
        {"error": {"message": "x", "metadata": {"raw": "the reason"}}},
        "the reason",
    ],
)
def test_the_words_are_found_in_every_shape(value: Any) -> None:
    message = read_error_answer(400, {}, body(value)).message
    assert message == "The provider refused the request (HTTP 400): the reason."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "The provider refused the request (HTTP 400)."),
        (b"   \n", "The provider refused the request (HTTP 400)."),
        (b"{}", "The provider refused the request (HTTP 400)."),
        (b"plain words", "The provider refused the request (HTTP 400): plain words."),
        (b"\xff\x00\x1b[31mred", "\\x00\\x1b[31mred"),
        (b"<html><head><title>\n 502 Bad\nGateway</title></head>", '"502 Bad Gateway"'),
        (b"<p>no title</p>", "a web page"),
        (b"[" * 100_000, "[[["),
        (b'{"error":' * 5000 + b"1" + b"}" * 5000, "HTTP 400"),
    ],
)
def test_bodies_that_are_no_error_object(content: bytes, words: str) -> None:
    error = read_error_answer(400, {}, content)
    assert words in error.text
    assert error.message.isprintable()
    assert len(error.message) < MAX_MESSAGE_CHARS + 200


@pytest.mark.parametrize(
    ("status", "content", "misplaced"),
    [
        (400, b"<title>No</title>", True),
        (404, b"{}", True),
        (501, b"<title>Unsupported method</title>", True),
        (501, b"{}", True),
        (400, b'{"error": "no"}', False),
        (502, b"<title>Bad Gateway</title>", False),
        (503, b"<title>Busy</title>", False),
    ],
)
def test_the_answer_of_another_server_is_told_from_a_model_s(
    status: int, content: bytes, misplaced: bool
) -> None:
    assert is_misplaced(read_error_answer(status, {}, content)) is misplaced


def test_an_account_without_quota_is_not_asked_again() -> None:
    quota = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    error = read_error_answer(429, {"retry-after": "1"}, body(quota))
    assert (error.error_type, error.retryable) == ("quota", False)
    assert error.retry_after_seconds is None


TOO_LONG: list[tuple[int, dict[str, Any]]] = [
    # OpenAI, both formats
    (400, {"error": {"message": "This model's maximum context length is 128000 tokens. However, "
                     "your messages resulted in 140000 tokens.", "type": "invalid_request_error",
                     "param": "messages", "code": "context_length_exceeded"}}),
    (400, {"error": {"message": "Your input exceeds the context window of this model.",
                     "type": "invalid_request_error", "code": None}}),
    # Anthropic
    (400, {"type": "error", "error": {"type": "invalid_request_error",
                                      "message": "prompt is too long: 213423 tokens > 200000"}}),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Too large"}}),
    # Gemini
    (400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count "
                     "(1200000) exceeds the maximum number of tokens allowed (1048576)."}}),
    # llama.cpp
    (400, {"error": {"code": 400, "message": "the request exceeds the available context size",
                     "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096}}),
    # vLLM, also as an object of its own kind
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens. "
           "However, you requested 5000 tokens.", "type": "BadRequestError", "code": 400}),
    # OpenRouter, in the upstream's own words
    (400, {"error": {"code": 400, "message": "Provider returned error",
                     "metadata": {"raw": '{"message":"Input is too long for requested model."}'}}}),
    # xAI, Mistral, Moonshot, LM Studio
    (400, {"code": "invalid argument",
           "error": "This model's maximum prompt length is 131072 but the request contains 537812."}),
    (422, {"detail": "Prompt is too long: it exceeds the context of 32768 tokens."}),
    (400, {"error": {"message": "Your request exceeded model token limit: 262144", "type": "x"}}),
    (500, {"error": "The number of tokens to keep is greater than the context length"}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "value"), TOO_LONG)
def test_a_conversation_that_is_too_long_is_known(status: int, value: dict[str, Any]) -> None:
    for error in (
        read_error_answer(status, {"retry-after": "1"}, body(value)),
        read_error_event(value),
    ):
        if error.status is None and status == 413:
            continue  # in a stream nothing but the words would say so
        assert (error.error_type, error.retryable) == ("context_overflow", False)
        assert error.retry_after_seconds is None
        assert "too long for the model" in error.message
        assert "new session" in error.text


@pytest.mark.parametrize(
    ("status", "message", "error_type"),
    [
        (400, "max_tokens: 100000 > 64000, the maximum allowed number of output tokens", "provider"),
        (400, "Unknown parameter: 'context_length'.", "provider"),
        (400, "Invalid value for context window.", "provider"),
        (429, "Rate limit reached: too many tokens per minute.", "overloaded"),
        (429, "This model's maximum context length is fine, your rate is not.", "overloaded"),
        (400, "max_tokens is too large: 100000. This model supports at most 4096; its maximum context "
         "length is 8192, reduce the length of the messages", "provider"),
        (400, "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum "
         "context length is 8192 tokens", "provider"),
        (400, "Unsupported: too many tokens requested", "provider"),
        (400, "input length and `max_tokens` exceed context limit: 190 + 20 > 200",
         "context_overflow"),
        (401, "prompt is too long", "auth"),
        (429, "You exceeded your current quota, please check your plan and billing details.",
         "overloaded"),
        (403, "Credits to all contributors.", "auth"),
    ],
)  # fmt: skip
def test_words_alone_don_t_make_it_so(status: int, message: str, error_type: str) -> None:
    error = read_error_answer(status, {}, body({"error": {"message": message}}))
    assert error.error_type == error_type


WITHOUT_CREDIT: list[tuple[int, dict[str, Any]]] = [
    (429, {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota"}}),
    (429, {"error": {"message": "Billing hard limit has been reached",
                     "code": "billing_hard_limit_reached"}}),
    (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit "
                                      "balance is too low to access the Anthropic API."}}),
    (402, {"error": {"code": 402, "message": "Insufficient credits. Add more."}}),
    (402, {"error": {"message": "Insufficient Balance", "type": "unknown_error"}}),
    (403, {"code": "denied", "error": "Your team has either used all available credits or reached "
           "its monthly spending limit."}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "value"), WITHOUT_CREDIT)
def test_an_account_that_has_nothing_left_is_known(status: int, value: dict[str, Any]) -> None:
    for error in (read_error_answer(status, {}, body(value)), read_error_event(value)):
        assert (error.error_type, error.retryable) == ("quota", False)
        assert "plan and billing" in error.text


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e99"}, MAX_RETRY_AFTER_SECONDS),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:30 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 9915 07:28:30 GMT"}, MAX_RETRY_AFTER_SECONDS),
        ({"retry-after": "Wed, 99 Xxx 2015 07:28:30 GMT"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert read_error_answer(429, headers, b"").retry_after_seconds == seconds
    assert read_error_answer(400, headers, b"").retry_after_seconds is None


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: sk-proj-abcdef1234567890.",
        "bad token Bearer abcdefghijklmnop",
        "gsk_abcdefghijklmnopqrst is wrong",
        "AIzaSyA1234567890abcdefghijkl",
        "your key was my-own-key-of-a-local-server",
    ],
)
def test_a_key_that_a_server_echoes_is_not_shown(said: str) -> None:
    secret = Secret("my-own-key-of-a-local-server")
    redactor.add(secret)
    try:
        message = read_error_answer(401, {}, body({"error": {"message": said}})).message
    finally:
        redactor.discard(secret)
    assert "***" in message
    for part in ("abcdef", "AIzaSy", "my-own"):
        assert part not in message


def test_long_words_are_cut() -> None:
    message = read_error_answer(400, {}, body({"error": "x" * 100_000})).message
    assert len(message) < MAX_MESSAGE_CHARS + 60
    assert "…" in message


@given(st.text(max_size=600))
def test_foreign_text_becomes_one_bounded_printable_line(text: str) -> None:
    line = plain_line(text, 50)
    assert len(line) <= 50
    assert line.isprintable()


@given(st.integers(100, 599), st.binary(max_size=200), st.dictionaries(st.text(), st.text()))
def test_any_answer_is_an_error_with_a_clear_line(
    status: int, content: bytes, headers: dict[str, str]
) -> None:
    error = read_error_answer(status, headers, content)
    assert error.message.isprintable()
    assert error.status == status


def test_an_error_in_broken_utf8_is_shown_as_far_as_it_goes() -> None:
    error = read_error_answer(500, {}, b'{"error": {"message": "bad \xff"}}')
    assert error.error_type == "provider"
    assert "bad" in error.message


@pytest.mark.parametrize("before", range(3960, 4001, 4))
@pytest.mark.parametrize("is_json", [True, False])
def test_no_part_of_a_key_is_left_where_a_long_message_is_cut(before: int, is_json: bool) -> None:
    key = "0123456789abcdefFEDCBA9876543210"
    redactor.add(Secret(key))
    said = "x" + " " * (before - 1) + key + " is wrong"
    sent = body({"error": {"message": said}}) if is_json else said.encode()
    message = read_error_answer(401, {}, sent).message
    assert key[:4] not in message
    assert ": x" in message

"""Errors of providers: many shapes in, one `StreamError` out.

The shapes, from the servers that speak Chat Completions: `{"error": {"message", "type", "code"}}`
(OpenAI and most), the same in a list, with the reason and the wait in its `details` (Gemini),
`{"error": "text"}` (Ollama), `{"object": "error", "message"}` (vLLM, Mistral), `{"detail": …}`
(FastAPI), `{"error": {"metadata": {"raw"}}}` (OpenRouter, which keeps the upstream's own words
there), web pages of proxies, and nothing at all.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from ..runtime.redaction import mask, redact
from ..runtime.stream import StreamError

MAX_READ_CHARS = 2_000
"""Characters of an error that are read: the reason is at its beginning, or nowhere."""

_TOO_LONG_CODES = ("context_length_exceeded", "exceed_context_size", "context_window_exceeded")
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|(?:prompt|input) is too long"
    r"|maximum (?:context|prompt|model) length"
    r"|input token count.{0,40}exceeds the maximum"
    r"|(?:exceeds?|exceeding|larger than|longer than|greater than)"
    r" (?:the |this |your |its )?(?:model'?s )?(?:available |maximum )?context"
    r"|context window (?:is )?exceed|exceeded model token limit"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|too many (?:input |prompt )?tokens(?! per| requested)"
)
_WRONG_LIMIT = re.compile(
    r"max_(?:completion_|output_)?tokens['\"`]*(?:\(\w*\))? ?(?:is |was |must |:|=|exceeds |cannot )"
)
"""A limit that is wrong by itself; "input length and `max_tokens` exceed …" is about both."""
_NO_CREDIT_CODES = ("insufficient_quota", "insufficient_credits", "billing", "credit")
_NO_CREDIT = re.compile(
    r"credit balance|insufficient (?:credits?|balance|funds|quota)"
    r"|(?:requires more|out of|used all (?:available|your)|no) credits"
    r"|credits are depleted|spending limit|billing hard limit"
)


def is_too_long(code: str, said: str) -> bool:
    """Return whether the conversation is longer than the model's window.

    Args:
        code: The words of the error that are meant for programs, in lower case.
        said: The words for people.
    """
    said = said[:MAX_READ_CHARS].lower()
    # First, since such a message may also mention the length of the context.
    if _WRONG_LIMIT.search(said) is not None:
        return False
    return any(word in code for word in _TOO_LONG_CODES) or _TOO_LONG.search(said) is not None


def is_without_credit(code: str, said: str) -> bool:
    """Return whether the account has no credit left; arguments as for `is_too_long`."""
    if any(word in code for word in _NO_CREDIT_CODES):
        return True
    return _NO_CREDIT.search(said[:MAX_READ_CHARS].lower()) is not None


MAX_MESSAGE_CHARS = 500
"""Characters of a provider's own words: one screen, enough for every recorded message."""

MAX_RETRY_AFTER_SECONDS = 24 * 3600.0
"""A longer wait is as good as a refusal; keeps nonsense dates out of arithmetic, too."""

_MESSAGE_KEYS = ("raw", "message", "error", "detail", "msg", "error_description", "metadata")
_MAX_DEPTH = 6
_TITLE = re.compile(rb"<title[^>]*>(.{0,200}?)</title>", re.IGNORECASE | re.DOTALL)
_BUSY = ("rate_limit", "rate limit", "overloaded", "capacity", "too_many", "resource_exhausted")
_BROKEN = ("server_error", "internal", "unavailable", "timeout", "api_error", "upstream")
_AUTH = (
    "invalid_api_key",
    "api_key_invalid",
    "authentication",
    "permission",
    "unauthorized",
    "forbidden",
)


def read_error_answer(status: int, headers: Mapping[str, str], body: bytes) -> StreamError:
    """Return what an answer with an error status means; `headers` are in lower case."""
    said, code, wait = read_body(body)
    kind, retryable, meaning, advice = _meaning(status, code, said)
    return StreamError(
        error_type=kind,
        message=_sentence(f"{meaning} (HTTP {status})", said),
        advice=advice,
        status=status,
        retryable=retryable,
        retry_after_seconds=_first(_retry_after(headers), wait) if retryable else None,
    )


def is_misplaced(error: StreamError) -> bool:
    """Return whether an error answer does not come from a model server."""
    return error.status == 404 or error.message.startswith(_MISPLACED)


def read_error_event(value: Any) -> StreamError:
    """Return what an error object inside a stream means."""
    said, code = find_message(value), _find_code(value)
    kind, retryable, meaning, advice = _meaning(_status_of(value), code, said)
    return StreamError(
        error_type=kind,
        message=_sentence(f"{meaning}, in the middle of its answer", said),
        advice=advice,
        retryable=retryable,
        retry_after_seconds=_asked_wait(value) if retryable else None,
    )


def plain_line(text: str, max_chars: int = MAX_MESSAGE_CHARS) -> str:
    """Return foreign text as one bounded line, without secrets and control characters."""
    # Known secrets before any cut, which would leave a part of one; the rest of the expensive part
    # after it, generously, as joining only shortens.
    line = " ".join(redact(mask(text)[: 8 * max_chars]).split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def find_message(value: Any, depth: int = 0) -> str:
    """Return the words for people in an error object; empty if there are none."""
    if isinstance(value, str):
        return value.strip()
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return next(filter(None, (find_message(item, depth + 1) for item in value[:3])), "")
    if isinstance(value, dict):
        metadata = value.get("metadata")
        inner = metadata.get("raw") if isinstance(metadata, dict) else None
        candidates = (inner, *(value.get(key) for key in _MESSAGE_KEYS))
        return next(filter(None, (find_message(item, depth + 1) for item in candidates)), "")
    return ""


def read_body(body: bytes) -> tuple[str, str, float | None]:
    """Return the provider's words, its code for the reason, and how long to wait."""
    text = body.strip()
    if not text:
        return "", "", None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        title = _TITLE.search(text[:65536])
        if title is not None or text[:1] == b"<":
            name = title.group(1).decode("utf-8", "replace").strip() if title else ""
            return (f'a web page, "{name}"' if name else "a web page"), "html", None
        return text.decode("utf-8", "replace"), "", None
    return find_message(value), _find_code(value), _asked_wait(value)


def _find_code(value: Any) -> str:
    """Return the words of an error object that are for programs, in lower case."""
    if isinstance(value, list):
        return _find_code(value[0]) if value else ""
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("error"), dict):
        value = value["error"]
    words = [value.get(key) for key in ("code", "type", "status")]
    # Gemini: only this says that a key was refused; the status is 400.
    words += [detail.get("reason") for detail in _details(value)]
    return " ".join(word for word in words if isinstance(word, str)).lower()


def _details(error: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the typed details of an error of Google's services."""
    details = error.get("details")
    found = details[:16] if isinstance(details, list) else []
    return [detail for detail in found if isinstance(detail, dict)]


def _asked_wait(value: Any) -> float | None:
    """Return the seconds to wait in an error object: Gemini's `retryDelay`, like `34.07s`."""
    if isinstance(value, list):
        return _asked_wait(value[0]) if value and not isinstance(value[0], list) else None
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    for detail in _details(error if isinstance(error, dict) else value):
        delay = detail.get("retryDelay")
        seconds = _number(delay.removesuffix("s")) if isinstance(delay, str) else None
        if seconds is not None:
            return _bounded(seconds)
    return None


def _first(*numbers: float | None) -> float | None:
    return next((number for number in numbers if number is not None), None)


def _status_of(value: Any) -> int | None:
    if isinstance(value, dict):
        for key in ("status_code", "code", "status"):
            number = value.get(key)
            if isinstance(number, str) and number.isascii() and number.isdigit():
                number = int(number[:6])
            if isinstance(number, int) and 400 <= number < 600:
                return number
    return None


Meaning = tuple[str, bool, str, str]
"""Error type, whether to retry, what happened, what to do."""

_WAIT = "Try again a little later."


_MISPLACED = "The address does not answer as a model does"
_NOT_THIS_METHOD = frozenset({405, 501, 505})
"""Statuses of web servers that accept no POST: asking again changes nothing."""
_LONG_STATUS = frozenset({None, 400, 413, 422, 500})
"""Statuses whose words may say that the conversation is too long; 429 is about a rate."""
_CREDIT_STATUS = frozenset({None, 400, 402, 403, 429})


def _meaning(status: int | None, code: str, said: str) -> Meaning:
    """Return the meaning; words win over the status, which is too general for two reasons."""
    if status == 413 or (status in _LONG_STATUS and is_too_long(code, said)):
        advice = "Begin a new session, or take a model that reads more."
        return "context_overflow", False, "The conversation is too long for the model", advice
    if status == 402 or (status in _CREDIT_STATUS and is_without_credit(code, said)):
        advice = "Check its plan and billing."
        return "quota", False, "The account has no quota left", advice
    return _meaning_of_code(code) if status is None else _meaning_of_status(status, code)


def _meaning_of_status(status: int, code: str) -> Meaning:
    if status == 400 and "api_key_invalid" in code:
        return _meaning_of_status(401, code)
    if status in {401, 403}:
        what = "refused the key" if status == 401 else "does not allow this with the key"
        return "auth", False, f"The provider {what}", "Check the key of this provider."
    if status == 404:
        advice = "Check the model's name and the provider's base URL."
        return "provider", False, "The provider knows no such model or address", advice
    if status == 429:
        return "overloaded", True, "The provider limits the rate of requests", _WAIT
    if status in {408, 504}:
        return "timeout", True, "The provider took too long itself", _WAIT
    if status in {503, 529}:
        return "overloaded", True, "The provider is overloaded", _WAIT
    is_other_server = status < 400 or status in _NOT_THIS_METHOD
    if is_other_server or (status < 500 and code == "html"):
        return "provider", False, _MISPLACED, "Check the provider's base URL."
    if status >= 500:
        return "provider", True, "The provider failed", _WAIT
    return "provider", False, "The provider refused the request", ""


def _meaning_of_code(code: str) -> Meaning:
    if any(word in code for word in _BUSY):
        return _meaning_of_status(503, code)
    if any(word in code for word in _AUTH):
        return _meaning_of_status(401, code)
    if any(word in code for word in _BROKEN):
        return _meaning_of_status(500, code)
    return "provider", False, "The provider reported an error", ""


def _sentence(meaning: str, said: str) -> str:
    line = plain_line(said)
    text = f"{meaning}: {line}" if line else f"{meaning}."
    return text if text[-1] in ".!?…" else f"{text}."


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait: `retry-after-ms` (OpenAI), or `retry-after` (RFC 9110, 10.2.3)."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    text = headers.get("retry-after", "").strip()
    seconds = _number(text)
    if seconds is not None:
        return _bounded(seconds)
    then = _http_date(text)
    if then is None:
        return None
    # The server's own clock, if it sends its date: ours may be wrong.
    now = _http_date(headers.get("date", ""))
    return _bounded(then - (time.time() if now is None else now))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _http_date(text: str) -> float | None:
    if not text:
        return None
    # Imported here: it takes longer to import than this whole package.
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None

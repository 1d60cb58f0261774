"""http_request: one HTTP exchange as it is: any method, headers, body and status."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import msgspec

from ...runtime.definitions import Capability, Effect, Tier, ToolFailure, ToolResult
from ...runtime.handles import WebAnswer, WebRequest
from ...runtime.http.url import parse_url
from ...runtime.redaction import MASK, redact
from ..failures import invalid
from ..files.file_facts import in_bytes
from ..schema.parameters import Timeout
from ..schema.validation import TRY_AGAIN
from ..tool import ToolContext, tool
from ..workspace.paths import shown
from .text import (
    MAX_TYPE_CHARS,
    NEVER_TEXT,
    SAYS_NOTHING,
    STATED,
    TEXT_TYPES,
    marked_codec,
    named_codec,
)

EMPTY = "(empty response body)"
NO_BODY = "(no body: HEAD asks for none)"

_NOT_IN_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class ShownBody(msgspec.Struct, frozen=True):
    """A body as the model sees it: its text, or a line in its place; `cut` says which part of how much it is."""

    text: str
    cut: str = ""


def shown_body(answer: WebAnswer) -> ShownBody:
    """Return the body as text for the model."""
    if not answer.body:
        return ShownBody(NO_BODY if answer.method == "HEAD" else EMPTY)
    is_cut = answer.is_larger or answer.size_bytes > len(answer.body)
    whole = (
        f"more than {answer.size_bytes} bytes" if answer.is_larger else in_bytes(answer.size_bytes)
    )
    text = _decoded(answer.body, answer.headers, at_end=not is_cut)
    if text is None:
        kind = shown(answer.headers.get("content-type", "no stated type")[:MAX_TYPE_CHARS])
        return ShownBody(f"(binary body, not shown: {whole} of {kind})")
    cut = f"The body is the first {len(answer.body)} bytes of {whole}." if is_cut else ""
    return ShownBody(text, cut)


def _decoded(data: bytes, headers: Mapping[str, str], *, at_end: bool) -> str | None:
    stated = headers.get("content-type", "")
    kind = stated.partition(";")[0].strip().lower()
    named = STATED.search(stated)
    marked = marked_codec(data)
    if named or TEXT_TYPES.fullmatch(kind) or (marked and kind in SAYS_NOTHING):
        codec = marked or named_codec(named[1] if named else "") or "utf-8"
        return codecs.getincrementaldecoder(codec)("replace").decode(data, final=at_end)
    if kind.startswith(NEVER_TEXT):
        return None
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=at_end)
    except UnicodeDecodeError:
        return None
    return None if _NOT_IN_TEXT.search(text) else text


MAX_SHOWN_BYTES = 100 * 1024
"""How much of a body is shown; about 25,000 tokens."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
READING = frozenset({"GET", "HEAD"})

NOT_SETTABLE = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "expect", "proxy-authenticate", "proxy-authorization"}
    | {"host", "content-length", "accept-encoding"}
)
"""The headers of one connection (RFC 9110 7.6.1), and those that follow from URL, body and limits."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_SECRET = re.compile(r"auth|cookie|token|secret|passw|credential|signature|api-?key|[-_]key$")
"""Names of headers whose values a preview never shows."""


def _asks(arguments: Any, context: ToolContext) -> str | None:
    # A request that can't be sent fails here, before anybody is asked.
    request = _request(arguments.url, arguments.method, arguments.headers, arguments.body)
    if request.method in READING:
        return None
    return f"sends {request.method} to {parse_url(request.url).authority}"


def _preview(arguments: Any, context: ToolContext) -> str:
    request = _request(arguments.url, arguments.method, arguments.headers, arguments.body)
    lines = [f"{request.method} {request.url}"]
    for name, value in request.headers.items():
        is_secret = value and _SECRET.search(name)
        shown_value = f"{MASK} ({len(value)} characters)" if is_secret else redact(value)
        lines.append(f"{name}: {shown_value}")
    return "\n".join(lines) + (f"\n\n{request.body.decode()}" if request.body else "")


def _effect(arguments: Any) -> Effect:
    return Effect.READ if arguments.method.upper() in READING else Effect.ONCE


class HttpOutput(TypedDict):
    """What http_request returns."""

    status: int
    reason: str
    truncated: bool
    note: NotRequired[str]
    headers: dict[str, str]
    body: str


@tool(
    tier=Tier.SYSTEM,
    needs=[Capability.NETWORK],
    timeout_seconds=30,
    approval=_asks,
    effect=_effect,
    preview=_preview,
    output=HttpOutput,
)
async def http_request(
    context: ToolContext,
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str | None = None,
    timeout_seconds: Timeout = None,
) -> ToolResult:
    """Makes an HTTP request and gives status, headers and body; follows redirects.

    Args:
        url: An http or https URL of a public host.
        method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
        headers: Request headers by name.
        body: What to send; JSON unless a content-type header says otherwise.
        timeout_seconds: Seconds for all of it; default 30.
    """
    assert context.network is not None  # or `needs` would have refused the call
    request = _request(url, method, headers, body)
    answer = await context.network.request(request, max_bytes=MAX_SHOWN_BYTES)
    content = shown_body(answer)
    address = parse_url(answer.url).shown
    notes = [note for note in (answer.warning, content.cut) if note]
    if answer.method != request.method:
        notes.append(f"A redirect turned the {request.method} into a {answer.method} of {address}.")
    output = {
        # The body is last: a result that is too long is cut at its end.
        "status": answer.status,
        "reason": answer.reason,
        "truncated": bool(content.cut),
        **({"note": " ".join(notes)} if notes else {}),
        "headers": dict(answer.headers),
        "body": content.text,
    }
    size = f"{'more than ' if answer.is_larger else ''}{in_bytes(answer.size_bytes)}"
    status = f"{answer.status} {answer.reason}".rstrip()
    about = "no body" if answer.method == "HEAD" else size
    return ToolResult(output=output, display=f"{answer.method} {address}: {status} ({about})")


def _request(
    url: str, method: str, headers: Mapping[str, str] | None, body: str | None
) -> WebRequest:
    """Return the request; raise `ToolFailure` (`validation_error`), which names the wrong argument."""
    verb = method.upper()
    if verb not in METHODS:
        raise _invalid("method", f"{shown(method[:32])!r} is not one of {', '.join(METHODS)}")
    if body and verb in READING:
        raise _invalid("body", f"a {verb} carries none: use POST, or put it into the URL's query")
    content = None if verb in READING or body is None else body.encode()
    named = _checked_headers(headers or {})
    if content:
        named.setdefault("content-type", "application/json")
    return WebRequest(method=verb, url=parse_url(url).text, headers=named, body=content)


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    named: dict[str, str] = {}
    for name, value in headers.items():
        label, key = shown(name[:64]), name.lower()
        if not _NAME.fullmatch(name):
            raise _invalid("headers", f"{label!r} is not a valid header name")
        if key in NOT_SETTABLE:
            raise _invalid(f"headers.{label}", "it can't be set; it follows from url and body")
        if key in named:
            raise _invalid(f"headers.{label}", "it is given twice")
        if not _VALUE.fullmatch(value):
            # not repeated in the message: it may be a key
            raise _invalid(f"headers.{label}", "its value is not one line of plain ASCII text")
        named[key] = value.strip()
    return named


def _invalid(field: str, problem: str) -> ToolFailure:
    return invalid(field, f"http_request: {field}: {problem}. {TRY_AGAIN}")

"""HTTP for tools: requests over a guarded client, redirects followed one by one.

Each hop is a request of its own: its URL is parsed and its connection passes the address guard, as if
the model had asked for it. Headers and bodies that were meant for one origin are not sent to another.

What fails after a server has answered a request that changes something (a redirect to its outcome, the rest
of its body) stands beside that answer: an error would make the model send the request again.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import DeadlineError, NetworkError, ValidationError
from ...runtime.handles import WebAnswer, WebRequest
from ...runtime.http.address_guard import AddressRefused
from ...runtime.http.client import HttpClient
from ...runtime.http.response import BodyStream
from ...runtime.http.url import HttpUrl, NotSent, not_allowed, parse_url
from ..failures import invalid

MAX_REDIRECTS = 5
"""Honest chains (to https, to www, to a language) are shorter; browsers allow 20."""

MAX_FOLLOWED_BYTES = 8 * 1024 * 1024
"""How much of a body is read only for its size, on the wire and decompressed; past it, "more" will do."""

ACCEPTED_ENCODINGS = "gzip, identity"
"""The encodings that are decompressed under a bound."""

SAFE_METHODS = frozenset({"GET", "HEAD"})

_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# Any other header may be a credential: `x-api-key` is as good as `authorization`.
_FOR_ANY_ORIGIN = frozenset({"accept", "accept-language", "content-type", "range", "user-agent"})
_ABOUT_A_BODY = "content-"


class _Hop(msgspec.Struct, frozen=True):
    url: HttpUrl
    request: WebRequest


class WebClient:
    """A `Network` handle; an `AddressGuard` makes the connections of its client."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def request(self, request: WebRequest, *, max_bytes: int) -> WebAnswer:
        """See `Network`."""
        hop = _Hop(parse_url(request.url), request)
        done: WebAnswer | None = None
        try:
            for _ in range(MAX_REDIRECTS + 1):
                answer, location = await self._send(hop, max_bytes)
                if location is None:
                    return answer
                if _is_done(hop, answer.status):
                    done = answer
                next_hop = _next_hop(hop, answer.status, location)
                if request.on_redirect is not None:
                    await request.on_redirect(hop.url, next_hop.url, next_hop.request)
                hop = next_hop
            raise _too_many(request, hop)
        except ToolFailure as failure:
            if done is None:
                raise
            warning = f"The {done.method} was answered with this redirect, and following it failed: {failure}"
            return msgspec.structs.replace(done, warning=warning)

    async def _send(self, hop: _Hop, max_bytes: int) -> tuple[WebAnswer, str | None]:
        """Send one request; return its answer, and where it redirects to, if it does."""
        request = hop.request
        headers = {**request.headers, "accept-encoding": ACCEPTED_ENCODINGS}
        try:
            async with self._http.request(
                request.method, hop.url.text, headers, request.body
            ) as answer:
                location = answer.headers.get("location")
                if answer.status in _REDIRECTS and location is not None:
                    return _answer(hop, answer, b"", 0), location
                return await _read(hop, answer, max_bytes), None
        except AddressRefused:
            # Not chained: the model learns no more than this.
            raise not_allowed(hop.url.shown, NotSent) from None
        except (NetworkError, DeadlineError) as error:
            text = str(error)
            if request.method not in SAFE_METHODS and getattr(error, "stage", None) is None:
                text += f" Whether the {request.method} was received is not known."
            raise ToolFailure(ErrorType.NETWORK_ERROR, text) from error
        except ValidationError as error:
            field = error.field or "url"
            raise invalid(field, str(error)) from error


async def _read(hop: _Hop, answer: BodyStream, max_bytes: int) -> WebAnswer:
    kept = bytearray()
    size = 0
    is_larger = False
    warning = ""
    declared = _declared_size(answer)
    try:
        while data := await answer.read_some():
            size += len(data)
            kept += data[: max_bytes - len(kept)]
            if declared is not None and len(kept) == max_bytes:
                size = max(size, declared)
                break
            if max(size, answer.received_bytes) > MAX_FOLLOWED_BYTES:
                is_larger = True
                break
    except (NetworkError, DeadlineError) as error:
        if hop.request.method in SAFE_METHODS:
            raise
        warning = f"The {hop.request.method} was answered, and the body broke off: {error}"
    return _answer(hop, answer, bytes(kept), size, is_larger=is_larger, warning=warning)


def _answer(
    hop: _Hop,
    answer: BodyStream,
    body: bytes,
    size: int,
    *,
    is_larger: bool = False,
    warning: str = "",
) -> WebAnswer:
    cookies = "\n".join(cookie.decode("latin-1") for cookie in answer.cookies)
    return WebAnswer(
        url=hop.url.text,
        method=hop.request.method,
        status=answer.status,
        reason=answer.reason or _usual_reason(answer.status),
        headers={**answer.headers, **({"set-cookie": cookies} if cookies else {})},
        body=body,
        size_bytes=size,
        is_larger=is_larger,
        warning=warning,
    )


def _declared_size(answer: BodyStream) -> int | None:
    """Return the size that the head states, when it is the size of the decoded body."""
    if answer.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        return None
    length = answer.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else None


def _usual_reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _becomes_get(request: WebRequest, status: int) -> bool:
    return status == 303 or (status in {301, 302} and request.method == "POST")


def _is_done(hop: _Hop, status: int) -> bool:
    """Whether the server has done what was asked, and redirects to where its outcome is (RFC 9110, 15.4.4)."""
    return hop.request.method not in SAFE_METHODS and _becomes_get(hop.request, status)


def _too_many(request: WebRequest, hop: _Hop) -> ToolFailure:
    return ToolFailure(
        ErrorType.NETWORK_ERROR,
        f"{request.url[:200]!r} redirects more than {MAX_REDIRECTS} times, at last to "
        f"{hop.url.shown}. Ask for the page that you want itself.",
    )


def _next_hop(hop: _Hop, status: int, location: str) -> _Hop:
    """Return the request that a redirect asks for.

    A method that changes something was meant for this host: it is not repeated at another (307, 308),
    only turned into a GET, as browsers do (301, 302, 303).
    """
    url = _target(hop.url, location)
    request = hop.request
    if _becomes_get(request, status) and request.method not in SAFE_METHODS:
        kept = {k: v for k, v in request.headers.items() if not k.startswith(_ABOUT_A_BODY)}
        request = WebRequest(method="GET", url=url.text, headers=kept)
    if url.origin != hop.url.origin:
        if request.method not in SAFE_METHODS:
            raise ToolFailure(
                ErrorType.URL_NOT_ALLOWED,
                f"{hop.url.shown} redirects the {request.method} to {url.shown}, which is another "
                "origin: not sent there. If that is wanted, send it there directly.",
            )
        kept = {k: v for k, v in request.headers.items() if k in _FOR_ANY_ORIGIN}
        request = msgspec.structs.replace(request, headers=kept)
    return _Hop(url, msgspec.structs.replace(request, url=url.text))


def _target(url: HttpUrl, location: str) -> HttpUrl:
    try:
        target = parse_url(location, base=url)
    except ToolFailure as failure:
        if failure.error_type is not ErrorType.VALIDATION_ERROR:
            raise
        raise ToolFailure(
            ErrorType.NETWORK_ERROR, f"{url.shown} redirects to what can't be requested: {failure}"
        ) from failure
    if url.scheme == "https" and target.scheme == "http":
        raise ToolFailure(
            ErrorType.URL_NOT_ALLOWED,
            f"{url.shown} redirects from https to {target.shown}, which is not encrypted: not "
            "followed. If that is wanted, ask for it directly.",
        )
    return target

"""The HTTP under the package `mcp`: the guarded client of tools, with every answer bounded.

The package takes what any server sends: it has no address guard, it unpacks what a server compressed, and one request
that fails ends all others. So it gets a client of ours. Each request goes through `HttpClient`, and so do redirects,
which the package follows within the server's origin alone. What fails at the network is answered to the package
as an error of one request; the call that it was made for finds the failure itself in its `CallFaults`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2
import msgspec
import trio
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from ...config.base_url import may_carry_key
from ...config.mcp.settings import McpSettings
from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.errors import CallboardError, DeadlineError, NetworkError
from ...runtime.http.address_guard import AddressRefused
from ...runtime.http.client import HttpClient
from ...runtime.http.response import BodyStream
from ...runtime.http.url import not_allowed
from ...runtime.redaction import redact
from .launch import values_of
from .login import login_at
from .state import CallFaults, ConnectionLost, McpPlaces
from .streams import cut_listing

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""One answer after unpacking, or one event of a stream of them: as one line of a program's output."""
STREAM_SECONDS = 0.25
"""The least time between two streams that are opened again; the server says how long to wait, and may say 0."""
NOTE_SECONDS = 10.0
"""How long a server may take to accept a message that has no answer: the next one waits behind it."""
MAX_REASON_CHARS = 80
CLOSE_SECONDS = 2.0
"""For the end of a session, which a server is told, and may not want to hear."""

_NOT_SENT = frozenset({"name", "connect", "tls"})
"""Stages at which the server has seen nothing of a request."""
_STREAM, _JSON = "text/event-stream", "application/json"
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
"""Headers that `HttpClient` sets, or that would let a server compress."""
_ABOUT_BYTES = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers of an answer that no longer hold: its body was unpacked under a bound."""

# It logs each URL, which may hold a secret, as the package does at the level of information.
logging.getLogger("httpx2").setLevel(logging.CRITICAL)

_faults: ContextVar[CallFaults | None] = ContextVar("callboard_mcp_call", default=None)


class _Envelope(msgspec.Struct):
    id: Any = None
    method: str = ""


_ENVELOPE = msgspec.json.Decoder(_Envelope)


class HttpWire:
    """The way to a server over HTTP; see `connection.ServerWire`.

    Args:
        server: The server's settings.
        headers: What each request to it carries, with its secrets.
        http: Makes the requests; its connections are guarded.
        auth: Signs requests, for a server that wants a login.
    """

    def __init__(
        self,
        server: McpSettings,
        headers: Mapping[str, str],
        http: HttpClient,
        auth: httpx2.Auth | None = None,
    ) -> None:
        self.lost = trio.Event()
        self.failure: ToolFailure | None = None
        self._server = server
        self._headers = headers
        self._http = http
        self._auth = auth

    @asynccontextmanager
    async def open(self, doubt: Callable[[], None]) -> AsyncGenerator[TransportStreams]:
        """Give the streams of the package around the block; `doubt` is called when the server may be another one."""
        url = self._server.url
        assert url is not None
        client = _Client(self, self._http, self._headers, self._auth, doubt)

        def its_client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,  # noqa: ASYNC109
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            return client

        with trio.CancelScope() as scope:
            if self._server.type == "sse":
                way = sse_client(url, httpx_client_factory=its_client)
            else:
                way = streamable_http_client(
                    url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
                )
            async with way as streams:
                try:
                    yield streams
                finally:
                    self.lost.set()
                    scope.deadline = trio.current_time() + CLOSE_SECONDS

    @contextmanager
    def calling(self) -> Generator[CallFaults]:
        """Note what fails of the requests that are made in the block, and end what is left of them behind it."""
        faults = CallFaults()
        token = _faults.set(faults)
        try:
            yield faults
        finally:
            _faults.reset(token)
            faults.end()

    def is_at(self, url: httpx2.URL) -> bool:
        """Whether a URL has the server's own origin."""
        own = httpx2.URL(self._server.url or "")
        return (own.scheme, own.host, own.port) == (url.scheme, url.host, url.port)

    def heard(self, request: httpx2.Request, answer: httpx2.Response) -> None:
        """Note what the answer to a message says about the connection."""
        if request.method != "POST" or answer.is_redirect:
            return  # servers need not have streams to listen to, nor sessions to end
        if answer.is_success:
            self.failure = None
        elif answer.status_code == HTTPStatus.UNAUTHORIZED:
            self._note(login_needed(self._server))
        elif answer.status_code == HTTPStatus.NOT_FOUND and "mcp-session-id" in request.headers:
            self.lost.set()
            self._note(ConnectionLost("it has forgotten the session", may_have_run=False))
        elif not _is_json(answer.headers):  # else the answer says what is wrong
            reason = redact(answer.reason_phrase)[:MAX_REASON_CHARS]
            text = f"it answered with HTTP {answer.status_code} {reason}".rstrip()
            self._note(ToolFailure(ErrorType.EXECUTION_ERROR, text))

    def failed(self, error: CallboardError) -> str:
        """Note that a request has failed at the network; return why, in words."""
        if self._server.type == "sse":
            self.lost.set()  # what the package could not send there is not sent at all
        if isinstance(error, ToolFailure):
            self._note(error)
        elif isinstance(error, NetworkError) and error.stage not in _NOT_SENT:
            self._note(ConnectionLost(str(error)))
        elif isinstance(error, (NetworkError, DeadlineError)):
            text = f"it can't be reached: {error}"
            self._note(ToolFailure(ErrorType.NETWORK_ERROR, text))
        else:  # the key store, for one
            self._note(ToolFailure(ErrorType.EXECUTION_ERROR, str(error)))
        return str(error)

    def _note(self, failure: ToolFailure | ConnectionLost) -> None:
        if (faults := _faults.get()) is not None:
            faults.failure = failure
        if isinstance(failure, ToolFailure) and failure.error_type is ErrorType.PERMISSION_DENIED:
            self.lost.set()  # the next connection looks up what a person has stored meanwhile
        if isinstance(failure, ConnectionLost):
            failure = ToolFailure(ErrorType.NETWORK_ERROR, str(failure))
        self.failure = failure


async def reach(places: McpPlaces, server: McpSettings) -> HttpWire:
    """Return the way to a server; raise `ToolFailure` for a secret that is not there."""
    headers = await trio.to_thread.run_sync(values_of, places, server, server.headers)
    assert server.url is not None
    may_log_in = may_carry_key(server.url) and "authorization" not in map(str.lower, headers)
    if places.http is None:
        raise ToolFailure(ErrorType.EXECUTION_ERROR, "there is no way out of this program")
    return HttpWire(
        server, headers, places.http, await login_at(places, server) if may_log_in else None
    )


def login_needed(server: McpSettings) -> ToolFailure:
    """Return the failure of a server that wants to know who asks."""
    if server.headers:
        advice = "its headers are not accepted: store another key"
    else:
        advice = f"a person logs in with `callboard mcp login {server.name}`"
    return ToolFailure(ErrorType.PERMISSION_DENIED, f"it wants a login: {advice}")


class _Client(httpx2.AsyncClient):
    """A client whose requests never raise what would end the other requests of the package."""

    def __init__(
        self,
        wire: HttpWire,
        http: HttpClient,
        headers: Mapping[str, str],
        auth: httpx2.Auth | None,
        doubt: Callable[[], None],
    ) -> None:
        super().__init__(
            transport=_GuardedTransport(wire, http),
            headers=headers,
            auth=auth,
            timeout=None,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
        self._wire = wire
        self._doubt = doubt

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; a failure is an answer with status 502."""
        body = await request.aread()
        limit = NOTE_SECONDS if _is_note(request, body) else math.inf
        problem = "it did not accept a message in time"
        with trio.move_on_after(limit):  # noqa: ASYNC912  sending is a checkpoint
            try:
                answer = await super().send(request, **options)
            except (httpx2.HTTPError, httpx2.InvalidURL, CallboardError) as error:
                cause = error if isinstance(error, CallboardError) else error.__cause__
                if not isinstance(cause, CallboardError):
                    cause = NetworkError(f"The request failed: {type(error).__name__}.")
                problem = self._wire.failed(cause)
                self._doubt()
            else:
                self._wire.heard(request, answer)
                return answer
        return httpx2.Response(502, text=problem, request=request)


class _GuardedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, wire: HttpWire, http: HttpClient) -> None:
        self._wire = wire
        self._http = http
        self._streamed_at = -STREAM_SECONDS

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; raise our errors."""
        faults = _faults.get()
        if request.method == "GET" and _STREAM in request.headers.get("accept", ""):
            if faults is not None and faults.has_ended:
                raise NetworkError("The call is over.", stage="connect")
            await self._pause()
        url = str(request.url)
        if not (may_carry_key(url) or self._wire.is_at(request.url)):
            raise NetworkError(f"{request.url.host} is not asked without https.", stage="connect")
        body = await request.aread()
        headers = {name: value for name, value in request.headers.items() if name not in _OURS}
        async with AsyncExitStack() as stack:
            way = self._http.request(request.method, url, headers, body or None)
            try:
                answer = await stack.enter_async_context(way)
            except AddressRefused:  # of the server, of its issuer, or where they send us to
                where = request.url.copy_with(query=None, fragment=None)
                raise not_allowed(str(where)) from None
            kept = [(k, v) for k, v in answer.headers.items() if k not in _ABOUT_BYTES]
            # Who has not asked for a stream, as who logs in, takes all that comes for one answer.
            kind = answer.headers.get("content-type", "").lower()
            is_stream = (
                _STREAM in request.headers.get("accept", "")
                and answer.status < HTTPStatus.MULTIPLE_CHOICES
                and kind.startswith(_STREAM)
            )
            return httpx2.Response(
                answer.status,
                headers=kept,
                stream=_Body(
                    self._wire,
                    answer,
                    stack.pop_all(),
                    faults,
                    is_stream=is_stream,
                    is_json=kind.startswith(_JSON),
                ),
                extensions={"reason_phrase": answer.reason.encode("ascii", "replace")},
            )
        raise AssertionError

    async def _pause(self) -> None:
        now = trio.current_time()
        due = max(now, self._streamed_at + STREAM_SECONDS)
        self._streamed_at = due
        await trio.sleep(due - now)


class _Body(httpx2.AsyncByteStream):
    """The body of an answer: bounded, unless it is a stream, and cut off when its call is over."""

    def __init__(
        self,
        wire: HttpWire,
        answer: BodyStream,
        stack: AsyncExitStack,
        faults: CallFaults | None,
        *,
        is_stream: bool,
        is_json: bool,
    ) -> None:
        self._wire = wire
        self._answer = answer
        self._stack = stack
        self._faults = faults
        self._is_stream = is_stream
        self._is_json = is_json
        self._is_at_end = False
        self._size = 0
        self._reading: trio.CancelScope | None = None
        self._is_over = False
        if faults is not None:
            faults.at_end(self.cut)

    def cut(self) -> None:
        """End the body for who reads it: its call is over."""
        self._is_over = True
        if self._reading is not None:
            self._reading.cancel(reason="the call is over")

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._some()
        if not data:
            raise StopAsyncIteration
        if not self._is_json:
            return data
        pieces = [data]
        while data := await self._some():
            pieces.append(data)
        return cut_listing(b"".join(pieces))

    async def _some(self) -> bytes:
        """Return the next piece; nothing at the end."""
        if self._is_at_end:
            return b""
        data: bytes | None = None
        with trio.CancelScope() as self._reading:
            try:
                data = await self._answer.read_some()
            except CallboardError as error:
                raise httpx2.StreamError(self._wire.failed(error)) from error
        if data is None or self._is_over:
            raise httpx2.StreamError("the call is over")
        self._size += len(data)
        if not self._is_stream and self._size > MAX_MESSAGE_BYTES:
            raise httpx2.StreamError(f"the answer has more than {MAX_MESSAGE_BYTES} bytes")
        if not data:
            if self._is_stream and self._faults is not None:
                self._faults.is_cut_off = True
            self._is_at_end = True
        return data

    async def aclose(self) -> None:
        await self._stack.aclose()


def _is_json(headers: httpx2.Headers) -> bool:
    return headers.get("content-type", "").lower().startswith(_JSON)


def _is_note(request: httpx2.Request, body: bytes) -> bool:
    """Whether a request carries a message that has no answer: a notification, or an answer of ours."""
    if request.method != "POST" or not _is_json(request.headers):
        return False
    try:
        said = _ENVELOPE.decode(body)
    except msgspec.MsgspecError:
        return False
    return not (said.method and said.id is not None)

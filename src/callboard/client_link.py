"""A client's connection to a daemon, which is made again when it breaks."""

from __future__ import annotations

import importlib.metadata
import random
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
import trio
import trio_websocket

from .client_stream import WatchedStream, open_stream
from .runtime.errors import (
    AuthError,
    CallboardError,
    ConflictError,
    NetworkError,
    OverloadedError,
)
from .runtime.rpc import PROTOCOL, ServerFrame, error_from
from .runtime.secrets import Secret
from .runtime.wire.hello import Client, Hello, Versions, Welcome

CONNECT_SECONDS = 10.0
"""For TCP, TLS, the handshake and the first request together."""
FIRST_PAUSE_SECONDS = 0.05
LAST_PAUSE_SECONDS = 5.0
"""Between attempts to connect again: doubled from the first to the last."""
SEND_SECONDS = 10.0
"""For the daemon to take one request."""
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Of one message of the daemon: what it may be set to send at most."""

BROKE = "the connection to the daemon broke; whether the request was done is not known"

Result = TypeVar("Result")


class ConnectionBroke(NetworkError):
    """The connection to the daemon broke before an answer came."""


class Listener(Protocol):
    """What hears the daemon's own messages, and is told when the connection is another one."""

    def hear(self, method: str, params: msgspec.Raw) -> None:
        """Takes a message; never waits."""
        ...

    def connected(self) -> None:
        """A new connection is there, which has no subscriptions; never waits."""
        ...

    def ended(self, error: CallboardError) -> None:
        """There will be no other connection; never waits."""
        ...


class _Asked:
    """A request that waits for its answer."""

    __slots__ = ("done", "error", "result")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.result = msgspec.Raw(b"null")
        self.error: CallboardError | None = None

    def fail(self, error: CallboardError) -> None:
        self.error = error
        self.done.set()


class Link:
    """One connection at a time.

    Args:
        url: Of the websocket.
        token: The credential.
        listener: Hears what the daemon says by itself.

    Attributes:
        welcome: What the daemon said of itself, by the latest connection.
    """

    def __init__(self, url: str, token: Secret, listener: Listener) -> None:
        self._url = url
        self._token = token
        self._listener = listener
        self._socket: trio_websocket.WebSocketConnection | None = None
        self._there = trio.Event()
        self._asked: dict[int, _Asked] = {}
        self._last_id = 0
        self._failure: CallboardError | None = None
        self.welcome: Welcome | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:  # noqa: ASYNC128
        """Keeps connected until cancelled; raises why the first attempt failed."""
        pause, is_first = FIRST_PAUSE_SECONDS, True
        while True:
            failure = await self._serve_once(task_status if is_first else None)
            if failure is None:
                pause, is_first = FIRST_PAUSE_SECONDS, False
            elif is_first or isinstance(failure, AuthError | ConflictError):
                self._end(failure)
                if is_first:
                    raise failure
                return
            await trio.sleep(pause * random.uniform(0.5, 1.0))  # not all clients at once
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    async def _serve_once(self, started: trio.TaskStatus[None] | None) -> CallboardError | None:
        """One connection from its beginning to its end; gives why there was none."""
        try:
            with trio.fail_after(CONNECT_SECONDS):
                stream = await open_stream(self._url)
        except (OSError, trio.TooSlowError) as error:
            why = str(error) or "it is silent"
            return NetworkError(f"there is no daemon at {self._url}: {why}")
        failure: CallboardError | None = NetworkError(
            f"the daemon at {self._url} says nothing, or hangs up"
        )
        patience = trio.CancelScope(deadline=trio.current_time() + CONNECT_SECONDS)
        try:
            async with trio.open_nursery() as nursery:
                with patience:
                    watched = WatchedStream(stream, patience.cancel)
                    failure = await self._connect(watched, nursery)
                if failure is None:
                    self._listener.connected()
                    if started is not None:
                        started.started()
                    await self._read()
                nursery.cancel_scope.cancel(reason="the connection has ended")
        except* trio_websocket.HandshakeError as group:  # raised by the library's own task
            failure = _rejected(self._url, _innermost(group))
        finally:
            self._lose()
            await trio.aclose_forcefully(stream)
        return failure

    def _end(self, failure: CallboardError) -> None:
        self._failure = failure
        self._there.set()
        self._listener.ended(failure)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._socket is not None and self._there.is_set()

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        result: type[Result],
        *,
        key: str | None = None,
    ) -> Result:
        """Asks, and waits for the answer; with a key, over the next connection if one breaks.

        Raises:
            CallboardError: What the daemon says is wrong, by its type.
            NetworkError: The connection broke before the answer came.
        """
        text = _params_text(params, key)
        while True:
            await self._there.wait()
            if self._failure is not None:
                raise self._failure
            try:
                raw = await self._ask(method, text)
                break
            except ConnectionBroke:
                if key is None:
                    raise
        decoded: Any = msgspec.json.decode(raw, type=result)
        return decoded  # type: ignore[no-any-return]

    # ── the connection ───────────────────────────────────────────────────────────────────────────

    async def _connect(self, stream: WatchedStream, nursery: trio.Nursery) -> CallboardError | None:
        """Shakes hands and says hello; gives why that failed."""
        where = urlsplit(self._url)
        authorization = f"Bearer {self._token.reveal()}".encode()
        try:
            self._socket = await trio_websocket.wrap_client_stream(
                nursery,
                stream,  # type: ignore[arg-type]  # any stream will do
                where.netloc,
                where.path or "/",
                extra_headers=[(b"authorization", authorization)],
                max_message_size=MAX_MESSAGE_BYTES,
            )
            self.welcome = await self._hello(self._socket)
        except trio_websocket.ConnectionClosed as error:
            return NetworkError(f"there is no callboard at {self._url}: {error}")
        except CallboardError as error:
            return error
        self._there.set()
        return None

    async def _hello(self, socket: trio_websocket.WebSocketConnection) -> Welcome:
        hello = Hello(
            Versions(PROTOCOL, PROTOCOL),
            Client("callboard", importlib.metadata.version("callboard")),
        )
        await socket.send_message(_request_text("hello", "initialize", _params_text(hello)))
        answer = msgspec.json.decode(await socket.get_message(), type=ServerFrame)
        if answer.error is not None:
            raise error_from(answer.error)
        return msgspec.json.decode(answer.result, type=Welcome)

    async def _read(self) -> None:
        assert self._socket is not None
        try:
            while True:
                self._take(await self._socket.get_message())
        except trio_websocket.ConnectionClosed:
            return

    def _take(self, message: str | bytes) -> None:
        frame = msgspec.json.decode(message, type=ServerFrame)
        if frame.method is not None:
            self._listener.hear(frame.method, frame.params)
        elif isinstance(frame.id, int) and (asked := self._asked.pop(frame.id, None)) is not None:
            if frame.error is not None:
                asked.fail(error_from(frame.error))
            else:
                asked.result = frame.result
                asked.done.set()

    def _lose(self) -> None:
        self._socket = None
        if self._there.is_set():  # or others wait for it still
            self._there = trio.Event()
        waiting, self._asked = self._asked, {}
        for asked in waiting.values():
            asked.fail(ConnectionBroke(BROKE))

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw:
        socket = self._socket
        if socket is None:
            raise ConnectionBroke(BROKE)
        self._last_id += 1
        number = self._last_id
        asked = self._asked[number] = _Asked()
        try:
            await _send(socket, _request_text(number, method, params))
            await asked.done.wait()
        except trio_websocket.ConnectionClosed:
            raise ConnectionBroke(BROKE) from None
        finally:
            self._asked.pop(number, None)
        if asked.error is not None:
            raise asked.error
        return asked.result


async def _send(socket: trio_websocket.WebSocketConnection, text: str) -> None:
    """Sends a frame whole, whoever is cancelled: after half of one nobody understands the rest."""
    with trio.move_on_after(SEND_SECONDS, shield=True):
        await socket.send_message(text)
        return
    raise ConnectionBroke(BROKE)


def _params_text(params: msgspec.Struct, key: str | None = None) -> msgspec.Raw:
    data = msgspec.json.encode(params)
    if key is not None:
        comma = b"," if len(data) > len(b"{}") else b""
        data = data[:-1] + comma + b'"idempotency_key":' + msgspec.json.encode(key) + b"}"
    return msgspec.Raw(data)


def _request_text(number: int | str, method: str, params: msgspec.Raw) -> str:
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return msgspec.json.encode(request).decode()


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _rejected(url: str, error: BaseException) -> CallboardError:
    if not isinstance(error, trio_websocket.ConnectionRejected):
        return NetworkError(f"there is no callboard at {url}: {error}")
    said = (error.body or b"").decode(errors="replace").strip() or f"status {error.status_code}"
    if error.status_code == 401:
        return AuthError(f"{url}: {said}")
    if error.status_code in (429, 503):
        return OverloadedError(f"{url}: {said}")
    return NetworkError(f"{url} refuses this client: {said}")

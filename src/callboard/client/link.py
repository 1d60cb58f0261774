"""A client's connection to a daemon, made again when it breaks; requests and their answers."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec
import trio
import trio_websocket
from wsproto.utilities import LocalProtocolError

from ..runtime.errors import (
    AuthError,
    CallboardError,
    ConflictError,
    DeadlineError,
    NetworkError,
    OverloadedError,
    ValidationError,
)
from ..runtime.identity import VERSION
from ..runtime.redaction import Secret
from ..runtime.wire.hello import ClientName, Hello, Versions, Welcome
from ..runtime.wire.rpc import PROTOCOL, ServerFrame, error_from
from .address import (
    HANDSHAKE_FAILURES,
    OWN_PAUSE_SECONDS,
    OWN_SECONDS,
    authorization,
    farewell,
    read_address,
    refusal,
)
from .reading import read_params, read_result
from .stream import WatchedStream, open_stream, wait_silent

QUIET_SECONDS = 15.0
"""Without a byte; then the client pings. A daemon pings about as often by itself."""
SILENT_SECONDS = 10.0
"""The time for any byte to come after that ping."""
CALLED_OFF_SECONDS = 2.0
"""The time to send the rest of a frame whose sender was cancelled."""


async def send_whole(
    socket: trio_websocket.WebSocketConnection,
    text: bytes,
    turn: trio.Lock,
    cut: Callable[[], object],
) -> None:
    """Send one whole frame, holding the lock `turn`: half a frame would break the connection.

    A sender that is cancelled before it has the lock has sent nothing. Afterwards the rest of the frame
    has `CALLED_OFF_SECONDS`; then `cut` ends the connection, where half a frame does no harm.

    Raises:
        ConnectionClosed: The connection is gone, or did not take the frame in its time.
        LocalProtocolError: The daemon has closed, and the library is about to see it.
    """
    async with turn:
        whole = trio.CancelScope(shield=True)
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_when_cancelled, whole, name="a frame's end")
            with whole:
                try:
                    await socket.send_message(text.decode())
                except (trio_websocket.ConnectionClosed, LocalProtocolError) as error:
                    failure = error
            if whole.cancelled_caught:
                cut()
            nursery.cancel_scope.cancel(reason="the frame is sent, or never will be")
        if failure is not None:
            raise failure


async def _end_when_cancelled(whole: trio.CancelScope) -> None:
    try:
        await trio.sleep_forever()
    finally:
        whole.deadline = trio.current_time() + CALLED_OFF_SECONDS


CONNECT_SECONDS = 10.0
"""The time for TCP, TLS, the handshake and the first request together."""
FIRST_PAUSE_SECONDS = 0.05
LAST_PAUSE_SECONDS = 5.0
"""Between attempts to connect again: doubled from the first to the last."""
ANSWER_SECONDS = 60.0
"""The time for the answer to a request, while the connection is up."""
LONG_ANSWER_SECONDS = 900.0
"""The time for the answer of `LONG_METHODS`: a backup, the end of a turn, the models of a provider."""
LONG_METHODS = frozenset(
    {
        "agent/delete",
        "approval/get",
        "call/cancel",
        "config/reload",
        "hook/resend",
        "hook/test",
        "list/wait",
        "log/tail",
        "mcp/complete",
        "mcp/finish_login",
        "mcp/login",
        "mcp/look",
        "mcp/prompt",
        "mcp/use",
        "model/lend",
        "model/list",
        "model/refresh",
        "policy/check",
        "provider/test",
        "relay/request",
        "session/cancel",
        "session/delete",
        "session/import",
        "session/purge",
        "session/search",
        "session/undo",
        "store/backup",
        "turn/get",
        "usage/get",
    }
)
REPEATED_METHODS = frozenset(
    {"config/reload", "mcp/use", "model/default", "model/lend", "root/add", "session/give_options"}
)
"""A second time changes nothing more than the first: asked again without a key, as what only reads is."""
AWAY_SECONDS = 120.0
"""How long a request waits for a daemon that is away: it may be draining and restarting."""
OWNER_SECONDS = 0.5
"""Before a request is sent again whose node of a cluster does not reach the session's owner, for several seconds."""
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""The largest message that a daemon can be configured to send."""

BROKE = "the connection to the daemon broke; whether the request was done is not known"
CLOSED = "this client has ended: ask inside of its `async with callboard.connect(…)`"

Result = TypeVar("Result")
Place = Callable[[], tuple[str, Secret]]
"""Returns where the daemon is, and what it lets in; a failure of the first look is raised."""


class ConnectionBroke(NetworkError):
    """The connection to the daemon broke before an answer came."""


class Listener(Protocol):
    """Gets the daemon's notifications, and learns of new connections and the end."""

    def hear(self, method: str, params: msgspec.Raw) -> None:
        """Take a message; never wait."""
        ...

    def connected(self) -> None:
        """Note that there is a new connection, without subscriptions; never wait."""
        ...

    def ended(self, error: CallboardError) -> None:
        """Note that there will be no other connection; never wait."""
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
        place: Returns the URL of the websocket and the credential; asked again for each connection,
            since a daemon of this user has others after each start.
        listener: Gets the daemon's notifications.
        is_own: Whether it is a daemon of this user: then a look at a file says where it is, and the
            first attempt waits for one that starts or changes its place.

    Attributes:
        url: The URL as messages show it.
        welcome: The daemon's answer to the latest hello.
        first_seconds: How long the first connection is tried for.
        quiet_seconds, silent_seconds: After how long without a byte it pings, and how long any byte then has to come.
        nodes: How many places there are to look at, one after the other: all are tried before it is the end.
        lost: Called whenever a connection, or an attempt to make one, has ended; never waits.
        welcomed: Called with the answer to each hello, ahead of all else; never waits.
        prepare: Called with each later connection, ahead of all requests that wait for one; asks with
            `request_first`. Its `CallboardError` ends the link.

    Raises:
        ValidationError: The URL can't be that of a daemon.
        AuthError: The token has signs that no token has.
        CallboardError: What `place` raises.
    """

    def __init__(self, place: Place, listener: Listener, *, is_own: bool = False) -> None:
        self._place = place
        self._last_pause = OWN_PAUSE_SECONDS if is_own else LAST_PAUSE_SECONDS
        self.first_seconds = OWN_SECONDS if is_own else 0.0
        self.nodes = 1
        self.quiet_seconds, self.silent_seconds = QUIET_SECONDS, SILENT_SECONDS
        self._found = place()
        self._take_place()
        self._listener = listener
        self._connection = trio.CancelScope()
        self._gone = trio.Event()
        self._socket: trio_websocket.WebSocketConnection | None = None
        self._there = trio.Event()
        self._turn = trio.Lock()
        self._asked: dict[int, _Asked] = {}
        self._last_id = 0
        self._failure: CallboardError | None = None
        self.welcome: Welcome | None = None
        self.lost: Callable[[], None] = lambda: None
        self.welcomed: Callable[[Welcome], None] = lambda _: None
        self.prepare: Callable[[], Awaitable[None]] | None = None

    def _take_place(self) -> None:
        url, token = self._found
        self._address = read_address(url)
        self._authorization = authorization(token)
        self.url = self._address.url

    def _look_again(self) -> bool:
        """Look where the daemon is by now; return whether that is another place than before."""
        try:
            found = self._place()
        except CallboardError:
            return False  # none is there: the next look may find one
        if found == self._found:
            return False
        self._found = found
        self._take_place()
        return True

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:  # noqa: ASYNC128
        """Keep connected until cancelled; raise the error of the first attempt, if it fails."""
        pause = FIRST_PAUSE_SECONDS
        patience = trio.current_time() + self.first_seconds
        tried = refused = 0
        try:
            while True:
                failure = await self._serve_once(task_status)
                if self._failure is not None:
                    return
                tried += 1
                is_refused = isinstance(failure, AuthError | ConflictError)
                refused = refused + 1 if is_refused else 0
                if failure is None:
                    pause = FIRST_PAUSE_SECONDS
                elif refused >= self.nodes and (self.nodes > 1 or not self._look_again()):
                    if self.welcome is None:
                        raise failure
                    self._end(failure)
                    return
                elif (
                    self.welcome is None and tried >= self.nodes and trio.current_time() >= patience
                ):
                    raise failure
                await trio.sleep(pause * random.uniform(0.5, 1.0))  # not all clients at once
                pause = min(2 * pause, self._last_pause)
                self._look_again()
        finally:
            if self._failure is None:
                self._end(ConflictError(CLOSED))

    async def _serve_once(self, task_status: trio.TaskStatus[None]) -> CallboardError | None:
        """Serve one connection to its end; return the error if it never began or broke a rule."""
        failure: CallboardError | None = NetworkError(
            f"the daemon at {self.url} says nothing, or hangs up"
        )
        try:
            with trio.fail_after(CONNECT_SECONDS):
                stream = await open_stream(self._address)
        except trio.TooSlowError:
            return failure
        except NetworkError as error:
            return error
        patience = trio.CancelScope(deadline=trio.current_time() + CONNECT_SECONDS)
        watched = WatchedStream(stream, patience.cancel)
        try:
            async with trio.open_nursery() as nursery:
                self._connection = nursery.cancel_scope
                is_first = self.welcome is None
                with patience:
                    failure = await self._connect(watched, nursery)
                if failure is None:
                    watched.allow_all()
                    if self.prepare is None:
                        self._open()
                    else:
                        nursery.start_soon(self._prepare, self.prepare, name="client preparation")
                    if is_first:
                        task_status.started()
                    nursery.start_soon(self._cut_when_silent, watched, name="client silence")
                    failure = await self._read()
                nursery.cancel_scope.cancel(reason="the connection has ended")
        except* HANDSHAKE_FAILURES as group:  # raised by the library's own task
            failure = refusal(self.url, group)
        finally:
            self._lose()
            await trio.aclose_forcefully(stream)
        return failure

    def _open(self) -> None:
        if self._socket is None:
            return  # lost again
        self._there.set()
        self._listener.connected()

    async def _prepare(self, prepare: Callable[[], Awaitable[None]]) -> None:
        try:
            await prepare()
        except (ConnectionBroke, DeadlineError, OverloadedError):
            self._connection.cancel(reason="the next connection may be prepared")
        except CallboardError as error:
            self._end(error)
            self._connection.cancel(reason="the connection can't be used")
        else:
            self._open()

    def _end(self, failure: CallboardError) -> None:
        self._failure = failure
        self._there.set()
        self._listener.ended(failure)

    def give_up(self, failure: CallboardError) -> None:
        """End the link: whatever waits, and whatever is asked later, fails with this error."""
        if self._failure is None:
            self._end(failure)
            self._connection.cancel(reason="given up")

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection right now."""
        return self._socket is not None and self._there.is_set()

    async def request(
        self,
        method: str,
        params: msgspec.Struct,
        result: type[Result],
        *,
        key: str | None = None,
    ) -> Result:
        """Send a request and wait for its answer; again over the next connection with a key, or where that does no harm.

        Raises:
            CallboardError: What the daemon says is wrong, by its type.
            NetworkError: The connection broke before the answer came, or the daemon is away.
            DeadlineError: The daemon is there, and does not answer.
        """
        text = _params_text(params, key)
        is_sent_again = key is not None or _may_repeat(method)
        deadline = trio.current_time() + AWAY_SECONDS
        refused: OverloadedError | None = None
        while True:
            await self._wait_there(method, deadline, refused)
            gone = self._gone
            try:
                return read_result(await self._ask(method, text), result, method, self.url)
            except ConnectionBroke:
                if not is_sent_again or trio.current_time() > deadline:
                    raise
            except OverloadedError as error:
                if not is_sent_again or error.kind not in ("stopping", "owner"):
                    raise
                refused = error
            if refused is not None:
                pause = OWNER_SECONDS if refused.kind == "owner" else AWAY_SECONDS
                with trio.move_on_at(until := min(deadline, trio.current_time() + pause)):
                    await gone.wait()
                if not gone.is_set() and until >= deadline:
                    raise refused

    async def request_first(
        self, method: str, params: msgspec.Struct, result: type[Result]
    ) -> Result:
        """Send a request over the connection that is being prepared; raises as `request`."""
        return read_result(await self._ask(method, _params_text(params)), result, method, self.url)

    async def wait_connected(self, method: str) -> None:
        """Wait until there is a connection for a request; raises as `request` when none comes."""
        await self._wait_there(method, trio.current_time() + AWAY_SECONDS, None)

    async def wait_back(self, seconds: float) -> None:
        """Wait so long, or until there is a connection."""
        with trio.move_on_after(seconds):
            await self._there.wait()
            if not self.is_connected:
                await trio.sleep_forever()

    async def _wait_there(
        self, method: str, deadline: float, refused: OverloadedError | None
    ) -> None:
        """Wait for a connection; raise the error if there will be none.

        A request that a stopping daemon `refused` fails with that refusal: it was not done.
        """
        with trio.move_on_at(deadline):
            await self._there.wait()
            while self._failure is None and not self.is_connected:  # lost again meanwhile
                await self._there.wait()
        if self._failure is None and self.is_connected:
            return
        raise (
            refused
            or self._failure
            or NetworkError(
                f"{method}: the daemon at {self.url} has been away for {AWAY_SECONDS:g} seconds. Ask "
                "again when it is back."
            )
        )

    # ── the connection ───────────────────────────────────────────────────────────────────────────

    async def _connect(self, stream: WatchedStream, nursery: trio.Nursery) -> CallboardError | None:
        """Do the handshake and the first request; return the error if that failed."""
        try:
            self._socket = await trio_websocket.wrap_client_stream(
                nursery,
                stream,  # type: ignore[arg-type]  # any stream will do
                self._address.host_header,
                self._address.path,
                extra_headers=self._authorization,
                max_message_size=MAX_MESSAGE_BYTES,
            )
            self.welcome = await self._hello(self._socket)
            self.welcomed(self.welcome)
        except trio_websocket.ConnectionClosed as error:
            return farewell(self.url, error)
        except CallboardError as error:
            return error
        self._gone = trio.Event()
        return None

    async def _hello(self, socket: trio_websocket.WebSocketConnection) -> Welcome:
        hello = Hello(Versions(PROTOCOL, PROTOCOL), ClientName("callboard", VERSION))
        await self._send(socket, _request_text("hello", "initialize", _params_text(hello)))
        answer = read_params(await socket.get_message(), ServerFrame, self.url)
        if answer.error is not None:
            raise error_from(answer.error)
        return read_params(answer.result, Welcome, self.url)

    async def _read(self) -> CallboardError | None:
        """Read frames until the connection ends; return the error if they are not a daemon's."""
        assert self._socket is not None
        try:
            while True:
                self._take(await self._socket.get_message())
        except trio_websocket.ConnectionClosed:
            return None
        except NetworkError as error:
            return error

    async def _cut_when_silent(self, stream: WatchedStream) -> None:
        assert self._socket is not None
        await wait_silent(self._socket, stream, self.quiet_seconds, self.silent_seconds)
        self._connection.cancel(reason="the connection is silent")

    def _take(self, message: str | bytes) -> None:
        frame = read_params(message, ServerFrame, self.url)
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
        self._gone.set()
        if self._there.is_set():  # else others still wait for it
            self._there = trio.Event()
        waiting, self._asked = self._asked, {}
        for asked in waiting.values():
            asked.fail(ConnectionBroke(BROKE))
        self.lost()

    async def _ask(self, method: str, params: msgspec.Raw) -> msgspec.Raw:
        socket = self._socket
        if socket is None:
            raise ConnectionBroke(BROKE)
        self._last_id += 1
        number = self._last_id
        text = _request_text(number, method, params)
        self._check_size(method, len(text))
        asked = self._asked[number] = _Asked()
        seconds = LONG_ANSWER_SECONDS if method in LONG_METHODS else ANSWER_SECONDS
        try:
            await self._send(socket, text)
            with trio.fail_after(seconds):
                await asked.done.wait()
        except trio_websocket.ConnectionClosed:
            raise ConnectionBroke(BROKE) from None
        except trio.TooSlowError:
            raise DeadlineError(
                f"{method}: the daemon at {self.url} is there, and has not answered for {seconds:g} "
                "seconds. Whether it was done is not known: look before asking again."
            ) from None
        finally:
            self._asked.pop(number, None)
        if asked.error is not None:
            raise asked.error
        return asked.result

    async def _send(self, socket: trio_websocket.WebSocketConnection, text: bytes) -> None:
        connection = self._connection

        def cut() -> None:
            connection.cancel(reason="half of a frame was sent")
            if self._socket is socket:
                self._lose()  # at once: the next request waits for another connection

        try:
            await send_whole(socket, text, self._turn, cut)
        except LocalProtocolError:
            raise ConnectionBroke(BROKE) from None

    def _check_size(self, method: str, size: int) -> None:
        """Raise `ValidationError` for a request that is larger than the daemon accepts."""
        assert self.welcome is not None
        most = self.welcome.limits.max_frame_bytes
        if size > most:
            raise ValidationError(
                f"{method}: the request has {size} bytes, and the daemon at {self.url} takes {most} at "
                "most: send less at a time, or raise [server] max_frame_bytes there"
            )


def _may_repeat(method: str) -> bool:
    return method in REPEATED_METHODS or method.endswith(("/get", "/list"))


def _params_text(params: msgspec.Struct, key: str | None = None) -> msgspec.Raw:
    try:
        data = msgspec.json.encode(params)
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"a text of the request can't be sent: it has {error.object[error.start]!r}, which is no character "
            "(bytes that were not UTF-8, or half of one)"
        ) from None
    if key is not None:
        comma = b"," if len(data) > len(b"{}") else b""
        data = data[:-1] + comma + b'"idempotency_key":' + msgspec.json.encode(key) + b"}"
    return msgspec.Raw(data)


def _request_text(number: int | str, method: str, params: msgspec.Raw) -> bytes:
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return msgspec.json.encode(request)

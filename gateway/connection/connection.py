"""One client's connection: a reader, a writer and a pinger, and one task for each slow request.

The reader decodes a frame, checks it and does it. Fast methods run in the reader itself, so that
requests are answered in their order; slow ones get a task each and overtake. All output goes through
the outbox, which never makes anyone wait; the writer alone waits for the client.

Whatever goes wrong here ends this connection alone. At its end nothing more is read, the outbox is sent
within a bounded time, and then the close frame says why.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import msgspec
import trio
import trio_websocket

from ...config.keys.console_logins import ConsoleLogin
from ...config.keys.tokens import Credential
from ...runtime.errors import CallboardError, ConflictError, InternalError, OverloadedError
from ...runtime.events import DurableEvent, LiveEvent
from ...runtime.identity import VERSION
from ...runtime.redaction import redacting_logger
from ...runtime.wire.fields import Role
from ...runtime.wire.hello import Hello, ServerName, Welcome, WireLimits
from ...runtime.wire.rpc import (
    METHOD_NOT_FOUND,
    NOT_AUTHORIZED,
    PROTOCOL,
    RequestId,
    RpcAnswer,
    RpcError,
    RpcRequest,
    rpc_error,
)
from ..feeds.frames import answer_frame, notification, wire_json
from ..feeds.outbox import Outbox
from ..quotas import MAX_TOKEN_REQUESTS, Holding, Quota
from ..shared.idempotency import check_digest, request_key
from ..shared.state import DaemonState
from .caller import Caller
from .frame_budget import BudgetedStream
from .incoming import Refused, read_params, read_request
from .method_table import Method, MethodTable
from .subscriptions import ConnectionEnded, Subscriptions

logger = redacting_logger(__name__)

MAX_RUNNING_REQUESTS = 64
"""Slow requests of one connection at once; further ones are refused with `overloaded`."""
HELLO_SECONDS = 5.0
"""Within which the first request must come."""
CLOSE_SECONDS = 1.0
"""The time to send the outbox, and for the client's part of the closing handshake."""
LATE_CLOSE_SECONDS = 3.0
"""The time for a client that did not read to take the frame in flight, before the close reason."""
MAX_MISSED_PINGS = 2
LEAST_UPLOAD = 64 << 10
"""Bytes that excuse an unanswered ping: the client's pong waits for a large frame of its own."""

HELLO = "initialize"
FEATURES = ("resume", "snapshot", "topics", "idempotency")

EVENTS = tuple(str(kind.__struct_config__.tag) for kind in get_args(DurableEvent | LiveEvent))
"""The events that a `session/update` may bring."""

NORMAL, GOING_AWAY, RULES_BROKEN, TOO_SLOW = 1000, 1001, 1008, 1013
FAILED = 1011, "an error of the server; its log says more"


class Connection:
    """A client that has shown its credential.

    Ends: when the client leaves, breaks the rules or does not read, when its credential is revoked, and
        with the server.
    """

    def __init__(
        self,
        socket: trio_websocket.WebSocketConnection,
        stream: BudgetedStream,
        credential: Credential,
        quota: Quota,
        daemon: DaemonState,
        table: MethodTable,
        login: ConsoleLogin | None = None,
    ) -> None:
        self.credential = credential
        self.login = login
        self._quota = quota
        self._socket = socket
        self._stream = stream
        self._daemon = daemon
        self._table = table
        self._outbox = Outbox(daemon.settings.max_outbox_bytes, Holding(quota, self._cut_off))
        self._ended = trio.Event()
        self._hurry = trio.CancelScope()
        self._patience = CLOSE_SECONDS
        self._farewell = (NORMAL, "")
        self._running = 0

    @property
    def waiting_size(self) -> int:
        """Bytes that wait to be sent."""
        return self._outbox.size

    def close(self, code: int, reason: str, *, at_once: bool = False) -> None:
        """Begin to end it; returns at once. `at_once` drops frames that are not sent yet."""
        if not self._ended.is_set():
            self._farewell = (code, reason)
            self._ended.set()
        if at_once:
            self._hurry.cancel(reason="the connection ends at once")

    def tell(self, method: str, params: object) -> None:
        """Send a notification, unless the outbox is full."""
        if self._outbox.has_room:
            self._outbox.put(notification(method, params))

    async def run(self) -> None:
        """Serve the client until either side leaves."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, name="connection writer")
                await self._serve_requests()
                if self._socket.closed is None:
                    with self._hurry, trio.move_on_after(self._patience):
                        await self._outbox.wait_sent()
                nursery.cancel_scope.cancel(reason="the connection has ended")
        finally:
            self._outbox.drop()
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                code, reason = self._farewell if self._ended.is_set() else FAILED
                await self._socket.aclose(code, reason)

    async def _serve_requests(self) -> None:
        """Read and do requests until the end begins; running ones are cancelled then."""
        async with trio.open_nursery() as nursery:
            subscriptions = self._new_subscriptions(nursery)
            nursery.start_soon(self._read, nursery, subscriptions, name="connection reader")
            try:
                await self._ended.wait()
            finally:
                subscriptions.end()  # before the nursery closes: feeds start tasks in it
            nursery.cancel_scope.cancel(reason="the connection ends")

    def _new_subscriptions(self, nursery: trio.Nursery) -> Subscriptions:
        return Subscriptions(self._daemon, self.credential, self._outbox, nursery)

    # ── what comes in ────────────────────────────────────────────────────────────────────────────

    async def _read(self, nursery: trio.Nursery, subscriptions: Subscriptions) -> None:
        try:
            is_welcome = False
            with trio.move_on_after(HELLO_SECONDS):
                is_welcome = await self._hello(await self._socket.get_message(), subscriptions)
                self._stream.done(self._stream.taken())
            if not is_welcome:
                self.close(RULES_BROKEN, "the first request is `initialize`")
                return
            nursery.start_soon(self._ping, name="connection pings")
            while not self._ended.is_set():
                # Not kept in a variable: it would stay in memory until the next one has come.
                await self._receive(await self._socket.get_message(), nursery, subscriptions)
        except trio_websocket.ConnectionClosed:
            self._ended.set()

    async def _hello(self, message: str | bytes, subscriptions: Subscriptions) -> bool:
        request_id = None
        try:
            request = await read_request(message)
            request_id = request.id
            if request.method != HELLO:
                return False
            hello = await read_params(request, Hello)
            seq = await self._head_seq(hello)
            answer = self._welcome(hello, seq)
        except Refused as refused:
            self._refuse(refused)
            return False
        except CallboardError as error:
            self._answer_error(request_id, rpc_error(error))
            return False
        self._answer(request.id, answer)
        for topic in dict.fromkeys(hello.subscribe):
            subscriptions.subscribe_topic(topic, seq)()
        if (unavailable := self._daemon.store_unavailable) is not None:
            self.tell("runtime/store_unavailable", unavailable)
        return True

    async def _head_seq(self, hello: Hello) -> int:
        """Return the last seq of all topics: the last that was known, while the database of a cluster is away.

        So whoever wants to see how a node is that has lost its database can. An older seq loses nobody an event.
        """
        daemon = self._daemon
        if daemon.store_unavailable is None or hello.subscribe:
            daemon.known_seq = await daemon.runtime.store.log_head()
        return daemon.known_seq

    def _welcome(self, hello: Hello, seq: int) -> Welcome:
        """Return the answer to the hello; raise `ConflictError` without a common protocol version."""
        if not hello.protocol.min <= PROTOCOL <= hello.protocol.max:
            raise ConflictError(
                f"this server speaks protocol {PROTOCOL}, the client {hello.protocol.min} to "
                f"{hello.protocol.max}: upgrade the older of the two"
            )
        settings, credential = self._daemon.settings, self.credential
        relays = self._daemon.relays
        return Welcome(
            protocol=PROTOCOL,
            server=ServerName("callboard", VERSION),
            epoch=self._daemon.epoch,
            seq=seq,
            role=str(credential.role),
            limits=WireLimits(
                settings.max_frame_bytes, settings.max_outbox_bytes, settings.ping_seconds
            ),
            features=FEATURES,
            methods=tuple(each.name for each in self._table if each.refusal(credential) is None),
            events=EVENTS,
            nodes=() if relays is None or credential.is_limited else relays.nodes(),
        )

    async def _receive(
        self, message: str | bytes, nursery: trio.Nursery, subscriptions: Subscriptions
    ) -> None:
        """Do what a message asks for, or leave it to a task."""
        size, is_left = self._stream.taken(), False
        if self._ended.is_set():
            return
        try:
            is_left = await self._begin(message, size, nursery, subscriptions)
        finally:
            if not is_left:
                self._stream.done(size)

    async def _begin(
        self, message: str | bytes, size: int, nursery: trio.Nursery, subscriptions: Subscriptions
    ) -> bool:
        """Return whether a task does it, which gives its size back."""
        try:
            request = await read_request(message)
            if request.method == HELLO:
                self.close(RULES_BROKEN, "a connection says `initialize` once")
                return False
            method = self._method(request)
            params = await read_params(request, method.params)
        except Refused as refused:
            self._refuse(refused)
            return False
        try:
            # In the reader, also for slow methods: a large request is hashed in a thread, and must
            # not be overtaken by the one after it.
            key = None
            if method.role is not Role.OBSERVER:  # those change nothing
                key = await request_key(self.credential.sender, method.name, request.params, params)
        except CallboardError as error:
            self._answer_error(request.id, rpc_error(error))
            return False
        is_page = self.login is not None
        caller = Caller(self._daemon, self.credential, subscriptions, key, is_page=is_page)
        if not method.is_slow:
            await self._call(method, request.id, params, caller)
            return False
        if self._running >= MAX_RUNNING_REQUESTS or self._quota.requests >= MAX_TOKEN_REQUESTS:
            text = (
                f"{MAX_RUNNING_REQUESTS} requests of this connection, or {MAX_TOKEN_REQUESTS} of "
                "this token, run already"
            )
            self._answer_error(request.id, rpc_error(OverloadedError(text)))
            return False
        self._running += 1
        self._quota.requests += 1
        nursery.start_soon(
            self._call_slow, method, request.id, params, caller, size, name=method.name
        )
        return True

    def _method(self, request: RpcRequest) -> Method:
        method = self._table.get(request.method)
        if method is None:
            raise Refused(
                METHOD_NOT_FOUND, f"there is no method {request.method[:100]!r:.100}", request.id
            )
        if (reason := method.refusal(self.credential)) is not None:
            raise Refused(NOT_AUTHORIZED, reason, request.id)
        return method

    async def _call_slow(
        self,
        method: Method,
        request_id: RequestId,
        params: msgspec.Struct,
        caller: Caller,
        size: int,
    ) -> None:
        try:
            await self._call(method, request_id, params, caller)
        finally:
            self._running -= 1
            self._quota.requests -= 1
            self._stream.done(size)

    async def _call(
        self, method: Method, request_id: RequestId, params: msgspec.Struct, caller: Caller
    ) -> None:
        try:
            result = await _call_once(method, caller, params)
        except CallboardError as error:
            self._answer_error(request_id, rpc_error(error))
        except ConnectionEnded:
            pass
        except Exception:
            logger.exception("%s failed", method.name)
            fault = InternalError(f"{method.name} failed; the log says why")
            self._answer_error(request_id, rpc_error(fault))
        else:
            self._answer(request_id, result)
            caller.answered()

    # ── what goes out ────────────────────────────────────────────────────────────────────────────

    def _refuse(self, refused: Refused) -> None:
        self._answer_error(refused.request_id, refused.error)

    def _answer(self, request_id: RequestId, result: object) -> None:
        raw = msgspec.Raw(wire_json(result))
        self._put(answer_frame(RpcAnswer(id=request_id, result=raw)))

    def _answer_error(self, request_id: RequestId | None, error: RpcError) -> None:
        self._put(answer_frame(RpcAnswer(id=request_id, error=error)))

    def _put(self, frame: bytes) -> None:
        self._outbox.put(frame)
        if self._outbox.is_overfull:
            self._cut_off()

    def _cut_off(self) -> None:
        if not self._ended.is_set():
            # The frame in flight is sent whole, or the client could not read the close reason.
            self._outbox.drop()
            self._patience = LATE_CLOSE_SECONDS
            self.close(TOO_SLOW, "the client does not read its answers")

    async def _write(self) -> None:
        try:
            while self._socket.closed is None:
                await self._stream.send_all(await self._outbox.take())
                self._outbox.sent()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self._ended.set()

    async def _ping(self) -> None:
        seconds = self._daemon.settings.ping_seconds
        while self._socket.closed is None:
            await trio.sleep(seconds)
            # A ping is never cancelled while the connection goes on: half a frame would break it.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_silence, seconds, name="connection silence")
                with suppress(trio_websocket.ConnectionClosed):
                    await self._socket.ping()
                nursery.cancel_scope.cancel(reason="the ping is answered")

    async def _watch_silence(self, seconds: float) -> None:
        """Close the connection when neither a pong comes nor a large frame ahead of it."""
        while True:
            before = self._stream.bytes_read
            await trio.sleep(seconds * MAX_MISSED_PINGS)
            if self._stream.bytes_read - before < LEAST_UPLOAD:
                self.close(GOING_AWAY, "no answer to pings")
                return


async def _call_once(method: Method, caller: Caller, params: msgspec.Struct) -> Any:
    """Call a method; for a request with a key that was done before, return its earlier answer."""
    request = caller.request
    if request is None:
        return await method.call(caller, params)

    async def recalled() -> Any | None:
        assert method.recall is not None
        done = await caller.runtime.store.request(request)
        if done is None:
            return None
        check_digest(request, done.digest)
        return await method.recall(caller, done)

    return await caller.daemon.idempotency.once(
        request,
        lambda: method.call(caller, params),
        None if method.recall is None else recalled,
        is_secret=method.is_secret,
    )

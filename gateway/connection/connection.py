"""One client's connection: frames come in, are checked and done; answers and updates go out.

Whatever goes wrong here ends this connection alone.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
import trio
import trio_websocket

from ...config.keys.tokens import Credential
from ...runtime.errors import CallboardError, InternalError, OverloadedError
from ...runtime.redaction import redacting_logger
from ...runtime.wire.hello import Hello
from ...runtime.wire.rpc import (
    METHOD_NOT_FOUND,
    NOT_AUTHORIZED,
    RequestId,
    RpcAnswer,
    RpcError,
    RpcRequest,
    rpc_error,
)
from ..feeds.frames import answer_frame, notification, wire_json
from ..feeds.outbox import Outbox
from ..shared.state import Daemon
from .caller import Caller
from .frame_budget import BudgetedStream
from .hello import HELLO, welcome
from .idempotent_call import call_once, request_key
from .incoming import Refused, read_params, read_request
from .method_table import Method, MethodTable
from .subscriptions import Hearing

logger = redacting_logger(__name__)

MAX_RUNNING_REQUESTS = 64
"""Slow requests of one connection at once; past that it is told to wait."""
HELLO_SECONDS = 5.0
"""For the first request."""
CLOSE_SECONDS = 1.0
"""For a client's part of the farewell."""
LATE_CLOSE_SECONDS = 3.0
"""For a client that does not read to take what is on its way, behind which it reads why it leaves."""
MAX_MISSED_PINGS = 2
LEAST_UPLOAD = 64 << 10
"""What comes meanwhile of a client that answers no ping: its answer waits behind a large frame."""

NORMAL, GOING_AWAY, RULES_BROKEN, TOO_SLOW = 1000, 1001, 1008, 1013
FAILED = 1011, "an error of the server; its log says more"


class Connection:
    """A client that is known by its credential.

    Ends: when the client leaves, breaks the rules, or does not read; when its credential is gone; and
        with the server.
    """

    def __init__(
        self,
        socket: trio_websocket.WebSocketConnection,
        stream: BudgetedStream,
        credential: Credential,
        daemon: Daemon,
        table: MethodTable,
    ) -> None:
        self.credential = credential
        self._socket = socket
        self._stream = stream
        self._daemon = daemon
        self._table = table
        self._outbox = Outbox(daemon.settings.max_outbox_bytes)
        self._ended = trio.Event()
        self._hurry = trio.CancelScope()
        self._patience = CLOSE_SECONDS
        self._farewell = (NORMAL, "")
        self._running = 0

    @property
    def waiting_size(self) -> int:
        """See `OpenConnection`."""
        return self._outbox.size

    def close(self, code: int, reason: str, *, at_once: bool = False) -> None:
        """Ends it: nothing more is read, and `at_once` leaves out what was not sent; never waits."""
        if not self._ended.is_set():
            self._farewell = (code, reason)
            self._ended.set()
        if at_once:
            self._hurry.cancel(reason="the connection ends at once")

    def tell(self, method: str, params: object) -> None:
        """Sends a notification, as far as there is room."""
        if self._outbox.has_room:
            self._outbox.put(notification(method, params))

    async def run(self) -> None:
        """Serves the client until either side leaves."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, name="connection writer")
                await self._obey()
                if self._socket.closed is None:
                    with self._hurry, trio.move_on_after(self._patience):
                        await self._outbox.wait_sent()
                nursery.cancel_scope.cancel(reason="the connection has ended")
        finally:
            with trio.move_on_after(CLOSE_SECONDS, shield=True):
                code, reason = self._farewell if self._ended.is_set() else FAILED
                await self._socket.aclose(code, reason)

    async def _obey(self) -> None:
        """Reads, and does what is asked, until the end begins: not a request more."""
        async with trio.open_nursery() as nursery:
            hearing = Hearing(self._daemon, self.credential, self._outbox, nursery)
            nursery.start_soon(self._read, nursery, hearing, name="connection reader")
            try:
                await self._ended.wait()
            finally:
                hearing.end()  # while the nursery is open: feeds start tasks in it
            nursery.cancel_scope.cancel(reason="the connection ends")

    # ── what comes in ────────────────────────────────────────────────────────────────────────────

    async def _read(self, nursery: trio.Nursery, hearing: Hearing) -> None:
        try:
            is_welcome = False
            with trio.move_on_after(HELLO_SECONDS):
                is_welcome = await self._hello(await self._socket.get_message(), hearing)
            if not is_welcome:
                self.close(RULES_BROKEN, "the first request is `initialize`")
                return
            nursery.start_soon(self._ping, name="connection pings")
            while True:
                message = await self._socket.get_message()
                if self._ended.is_set():
                    return
                await self._receive(message, nursery, hearing)
        except trio_websocket.ConnectionClosed:
            self._ended.set()

    async def _hello(self, message: str | bytes, hearing: Hearing) -> bool:
        request_id = None
        try:
            request = await read_request(message)
            request_id = request.id
            if request.method != HELLO:
                return False
            hello = await read_params(request, Hello)
            seq = await self._daemon.runtime.store.log_head()
            answer = welcome(
                hello,
                self.credential,
                self._table,
                self._daemon.settings,
                self._daemon.epoch,
                seq,
            )
        except Refused as refused:
            self._refuse(refused)
            return False
        except CallboardError as error:
            self._answer_error(request_id, rpc_error(error))
            return False
        self._answer(request.id, answer)
        for topic in dict.fromkeys(hello.subscribe):
            hearing.subscribe_topic(topic, seq)()
        return True

    async def _receive(self, message: str | bytes, nursery: trio.Nursery, hearing: Hearing) -> None:
        try:
            request = await read_request(message)
            if request.method == HELLO:
                self.close(RULES_BROKEN, "a connection says `initialize` once")
                return
            method = self._method(request)
            params = await read_params(request, method.params)
        except Refused as refused:
            self._refuse(refused)
            return
        try:
            # Before it begins: a large one takes a thread, and none overtakes the one before it.
            key = await request_key(method, self.credential, request.params, params)
        except CallboardError as error:
            self._answer_error(request.id, rpc_error(error))
            return
        caller = Caller(self._daemon, self.credential, hearing, key)
        if not method.is_slow:
            await self._call(method, request.id, params, caller)
            return
        if self._running >= MAX_RUNNING_REQUESTS:
            text = f"{MAX_RUNNING_REQUESTS} requests of this connection run already"
            self._answer_error(request.id, rpc_error(OverloadedError(text)))
            return
        self._running += 1
        nursery.start_soon(self._call_slow, method, request.id, params, caller, name=method.name)

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
        self, method: Method, request_id: RequestId, params: msgspec.Struct, caller: Caller
    ) -> None:
        try:
            await self._call(method, request_id, params, caller)
        finally:
            self._running -= 1

    async def _call(
        self, method: Method, request_id: RequestId, params: msgspec.Struct, caller: Caller
    ) -> None:
        try:
            result = await call_once(method, caller, params)
        except CallboardError as error:
            self._answer_error(request_id, rpc_error(error))
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
        if self._outbox.is_overfull and not self._ended.is_set():
            # What is on its way is sent whole, or the client could not read why it has to leave.
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
            # Its sending is never cut off while the connection is to go on: half a frame would spoil it.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_silence, seconds, name="connection silence")
                with suppress(trio_websocket.ConnectionClosed):
                    await self._socket.ping()
                nursery.cancel_scope.cancel(reason="the ping is answered")

    async def _watch_silence(self, seconds: float) -> None:
        """Closes it when neither an answer comes, nor a large frame behind which that waits."""
        while True:
            before = self._stream.bytes_read
            await trio.sleep(seconds * MAX_MISSED_PINGS)
            if self._stream.bytes_read - before < LEAST_UPLOAD:
                self.close(GOING_AWAY, "no answer to pings")
                return

"""A model server that follows a script: the real wire formats over a real socket.

    async with open_scripted_server([reply("Hello.")]) as server:
        ...  # point a provider's base URL at server.base_url, whatever its dialect
    server.assert_complete()

Listens on 127.0.0.1 at a port of its own. The n-th request for an answer gets the n-th step, in the
wire format that its path names (`wires`), whichever connection it comes over. It also
lists its models at `/models`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, assert_never

import msgspec
import trio

from .script import (
    Answered,
    Broken,
    CutAfter,
    Drip,
    Events,
    Fail,
    ScriptedReply,
    Stall,
    Step,
    status,
)
from .wires import ScriptedWire, dialect_of, wire_named

MAX_HEAD_BYTES = 64 * 1024
"""Bytes of a request's head; our client sends a few hundred."""
MAX_BODY_BYTES = 256 * 1024 * 1024
"""Bytes of a request's body; several times the longest history that a test may send."""

_Gone = (trio.BrokenResourceError, trio.ClosedResourceError)


class ScriptedRequest(msgspec.Struct, frozen=True):
    """A request as it came.

    Attributes:
        method: `GET` or `POST`.
        path: With its query.
        headers: By lower-case name.
        body: The decoded JSON; `None` where there is none.
        dialect: The wire format that it was made in; empty for addresses where nothing is served.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    dialect: str = ""

    @property
    def wire(self) -> ScriptedWire:
        """The wire format of the answer; OpenAI's where nothing is served."""
        return wire_named(self.dialect or "openai_chat")


ServerStep = Step | Callable[[ScriptedRequest], Step]


class ScriptedServer:
    """A running server, from `open_scripted_server`.

    Attributes:
        base_url: The base URL for a provider; ends in `/v1`.
        requests: The requests for an answer, in order; those beyond the script too.
        connections: Number of connections so far.
    """

    def __init__(
        self,
        steps: Sequence[ServerStep],
        models: Sequence[str],
        beside: Mapping[str, bytes],
        port: int,
    ) -> None:
        self._steps = tuple(steps)
        self._beside = beside
        self._models = tuple(models)
        self._authority = f"127.0.0.1:{port}"
        self.base_url = f"http://{self._authority}/v1"
        self.requests: list[ScriptedRequest] = []
        self.connections = 0

    def assert_complete(self) -> None:
        """Raise `AssertionError` unless every step was taken, and no further request came."""
        if len(self.requests) != len(self._steps):
            raise AssertionError(
                f"the script has {len(self._steps)} steps, and {len(self.requests)} requests came"
            )

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until the client leaves or a step ends it."""
        self.connections += 1
        with stream.socket:
            try:
                connection = _Connection(stream)
                while (request := await connection.receive()) is not None:
                    if not await self._answer(connection, request):
                        return
            except _Gone:
                # The client left, which it may at any time: that is what tests of cancelling do.
                return

    async def _answer(self, connection: _Connection, request: ScriptedRequest) -> bool:
        """Answer a request; return whether the connection may take another."""
        await trio.lowlevel.checkpoint()
        wire = request.wire
        if (beside := self._beside.get(request.path)) is not None:
            return await connection.send_whole(status(200, beside), wire)
        if not request.dialect:
            text = f"Nothing is served at {request.method} {request.path}."
            return await connection.send_whole(status(404, message=text), wire)
        if request.method == "GET":
            return await connection.send_whole(status(200, wire.model_list(self._models)), wire)
        if not isinstance(request.body, dict):
            refusal = status(400, message="The body is not a JSON object.")
            return await connection.send_whole(refusal, wire)
        self.requests.append(request)
        number = len(self.requests)
        if number > len(self._steps):
            text = f"The script of this server has {len(self._steps)} steps: one request too many."
            return await connection.send_whole(status(400, message=text), wire)
        step = self._steps[number - 1]
        step = step if isinstance(step, Step) else step(request)
        return await _Play(connection, wire, number).play(step)


@asynccontextmanager
async def open_scripted_server(
    steps: Sequence[ServerStep],
    *,
    models: Sequence[str] = ("scripted",),
    beside: Mapping[str, bytes] = MappingProxyType({}),
) -> AsyncGenerator[ScriptedServer]:
    """Run a server until the block is left, which closes all its connections.

    Args:
        steps: What it answers, request by request.
        models: The models that it lists.
        beside: Bodies that it serves at other paths, as Ollama has `/api/ps`.
    """
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    server = ScriptedServer(steps, models, beside, port)
    mistakes: list[BaseException] = []
    try:
        async with trio.open_nursery() as nursery:

            async def serve(stream: trio.SocketStream) -> None:
                try:
                    await server.serve(stream)
                except Exception as mistake:
                    # The script is wrong. The block ends at once, so that it does not see the
                    # broken connection instead. (The mistake is kept here: closing the connection
                    # under the cancellation replaces it.)
                    mistakes.append(mistake)
                    nursery.cancel_scope.cancel("the script is wrong")
                    raise

            await nursery.start(trio.serve_listeners, serve, [listener], name="scripted server")
            yield server
            nursery.cancel_scope.cancel("the scripted server is closed")
    except BaseExceptionGroup as group:
        # The nurseries are an implementation detail: unwrap their groups.
        raise (mistakes or [_lone(group)])[0] from None
    if mistakes:
        raise mistakes[0]


def _lone(fault: BaseException) -> BaseException:
    """Return the only exception within nested groups, else the group."""
    while isinstance(fault, BaseExceptionGroup) and len(fault.exceptions) == 1:
        fault = fault.exceptions[0]
    return fault


class _Connection:
    """HTTP/1.1 written by hand, so that a test can break it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def receive(self) -> ScriptedRequest | None:
        """Return the next request, `None` if the client has left."""
        head = await self._receive_until(b"\r\n\r\n")
        if head is None:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        size = int(headers.get("content-length", "0"))
        if size > MAX_BODY_BYTES:
            raise ValueError(f"a request body of {size} bytes is more than the test server takes")
        while len(self._buffer) < size:
            await self._receive_more()
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        dialect = dialect_of(method, path, headers)
        return ScriptedRequest(method, path, headers, _decode(body), dialect)

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self._stream.send_all(data)

    async def send_head(self, code: int, headers: Mapping[str, str]) -> None:
        """Send a response's head."""
        known = {each.value: each.phrase for each in HTTPStatus}
        lines = [f"HTTP/1.1 {code} {known.get(code, 'Scripted')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def send_stream_head(self) -> None:
        """Begin a stream of events in HTTP chunks."""
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        await self.send_head(200, headers)

    async def send_chunk(self, data: bytes) -> None:
        """Send one HTTP chunk; an empty one ends the body."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def send_whole(self, answer: Answered, wire: ScriptedWire) -> bool:
        """Send an answer that is not a stream."""
        body = wire.error_body(answer.status, answer.message) if answer.message else answer.body
        headers = {"content-type": "application/json", **dict(answer.headers)}
        await self.send_head(answer.status, {**headers, "content-length": str(len(body))})
        await self.send(body)
        return True

    async def wait_gone(self) -> None:
        """Wait until the client leaves."""
        while await self._stream.receive_some(1024):
            pass

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        linger = struct.pack("ii", 1, 0)
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._stream.socket.close()

    async def _receive_until(self, end: bytes) -> bytes | None:
        while (at := self._buffer.find(end)) < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise ValueError("a request head is more than the test server takes")
            try:
                await self._receive_more()
            except trio.BrokenResourceError:
                if self._buffer:
                    raise
                return None
        head = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return head

    async def _receive_more(self) -> None:
        data = await self._stream.receive_some(65536)
        if not data:
            raise trio.BrokenResourceError
        self._buffer += data


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


class _Play:
    """The n-th answer, over one connection in one wire format."""

    def __init__(self, connection: _Connection, wire: ScriptedWire, number: int) -> None:
        self._connection = connection
        self._wire = wire
        self._number = number

    async def play(self, step: Step) -> bool:
        """Play a step; return whether the connection may take another request."""
        await trio.lowlevel.checkpoint()
        match step:
            case ScriptedReply():
                await self._send_reply(step)
                await self._connection.send_chunk(b"")
                return True
            case Fail(error, text):
                said = ScriptedReply(text=(text,))
                begun = self._wire.reply_events(said, self._number) if text else []
                await self._connection.send_stream_head()
                await self._connection.send_chunk(
                    b"".join([*begun, *self._wire.error_events(error)])
                )
                await self._connection.send_chunk(b"")
                return True
            case Answered():
                return await self._connection.send_whole(step, self._wire)
            case Stall(reply):
                await self._send_reply(reply)
                await self._connection.wait_gone()
            case Drip(interval_seconds):
                await self._connection.send_stream_head()
                while True:
                    await self._connection.send_chunk(self._wire.PING)
                    await trio.sleep(interval_seconds)
            case CutAfter():
                await self._cut(step)
            case Broken("garbage"):
                await self._connection.send(b"SSH-2.0-scripted\r\n\x00\xff\r\n\r\n")
            case Broken(how):
                if how == "reset":
                    self._connection.reset()
            case Events():
                raise ValueError("a scripted server can't play raw stream events")
            case _:
                assert_never(step)
        return False

    async def _send_reply(self, reply: ScriptedReply) -> None:
        """Send a reply without the end of its body."""
        await trio.sleep(reply.delay_seconds)
        await self._connection.send_stream_head()
        for index, chunk in enumerate(self._chunks(reply)):
            if index:
                await trio.sleep(reply.piece_seconds)
            await self._connection.send_chunk(chunk)

    async def _cut(self, step: CutAfter) -> None:
        body = b"".join(self._wire.reply_events(step.reply, self._number))[: step.size_bytes]
        if step.clean:
            # Without a length, the end of the connection is the end of the body.
            headers = {"content-type": "text/event-stream", "connection": "close"}
            await self._connection.send_head(200, headers)
            await self._connection.send(body)
        else:
            await self._connection.send_stream_head()
            if body:
                await self._connection.send_chunk(body)

    def _chunks(self, reply: ScriptedReply) -> Iterator[bytes]:
        # An empty reply sends nothing.
        events = self._wire.reply_events(reply, self._number) if reply != ScriptedReply() else []
        if reply.chunk == "event":
            yield from events
            return
        body = b"".join(events)
        kind, _, size = reply.chunk.partition(":")
        if reply.chunk != "all" and (kind != "bytes" or not size.isdigit() or not int(size)):
            raise ValueError(f"chunk is `event`, `all` or `bytes:N`, not {reply.chunk!r}")
        width = int(size) if size else len(body)
        for at in range(0, len(body), width):
            yield body[at : at + width]

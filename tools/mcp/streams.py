"""The lines of a server's program as the messages that the package `mcp` reads and writes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Protocol, Self

import anyio
import msgspec
import trio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ...config.mcp.wire import MAX_TOOLS
from ...runtime.redaction import redact
from .state import CallFaults, ConnectionLost

MAX_LINE_BYTES = 4 * 1024 * 1024
"""One message; a server that writes a longer line is ended."""
MAX_BAD_LINES = 100
"""Lines that are no messages; then the server is ended. Some print a greeting."""
MAX_SHOWN = 200
"""Characters of such a line in the log."""
MAX_UNSENT_BYTES = 8 * 1024 * 1024
"""What waits for a server that does not read its input; then it is ended."""
MAX_WRITERS = 1000
"""Messages that wait to be sent; a server that asks much, and reads no answer, makes them."""

MAX_LISTED = MAX_TOOLS + 1
"""Entries of a list of tools that are read; the last one says that there are too many."""
CUT_BYTES = 64 * 1024
"""A shorter message is not looked at: what it holds costs little."""

_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENTRIES = msgspec.json.Decoder(list[msgspec.Raw])

logger = logging.getLogger(__name__)


def cut_listing(message: bytes) -> bytes:
    """Return a message without the tools of a list that are too many; what is no such list stays as it is.

    The package makes objects of all that a message holds: thirty times its size for 10,000 tools.
    """
    if len(message) < CUT_BYTES or b'"tools"' not in message:
        return message
    try:
        said = _PARTS.decode(message)
        result = _PARTS.decode(said["result"])
        tools = _ENTRIES.decode(result["tools"])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError):
        return message
    if len(tools) <= MAX_LISTED:
        return message
    result["tools"] = msgspec.Raw(msgspec.json.encode(tools[:MAX_LISTED]))
    said["result"] = msgspec.Raw(msgspec.json.encode(result))
    return msgspec.json.encode(said)


class Pipes(Protocol):
    """A program's output and input."""

    async def receive_some(self) -> bytes:
        """Return some of its output; `b""` at its end."""
        ...

    async def write(self, text: bytes) -> None:
        """Write to its input; raise `BrokenPipeError` when it does not read any more."""
        ...

    def kill(self, why: str) -> None:
        """End it at once."""
        ...


class LineWire:
    """The way to a program; see `connection.ServerWire`."""

    def __init__(self, pipes: Pipes, name: str) -> None:
        self._reader = LineReader(pipes, name)
        self._writer = LineWriter(pipes, self._reader)

    @property
    def lost(self) -> trio.Event:
        """Set when the program can't be spoken with any more."""
        return self._reader.lost

    @asynccontextmanager
    async def open(
        self, doubt: Callable[[], None]
    ) -> AsyncGenerator[tuple[LineReader, LineWriter]]:
        """Give the streams of the package around the block."""
        await trio.lowlevel.checkpoint()
        try:
            yield self._reader, self._writer
        finally:
            if self._reader.problem:
                raise ConnectionLost(self._reader.problem)

    @contextmanager
    def calling(self) -> Generator[CallFaults]:
        """Note nothing: what fails ends the connection."""
        yield CallFaults()


class LineReader:
    """The messages that a program writes, one a line; the iteration ends with its output.

    Attributes:
        problem: Why no more is read, when that is not the end of the output.
        lost: Set when no more is read.
    """

    def __init__(self, pipes: Pipes, name: str) -> None:
        self.problem = ""
        self.lost = trio.Event()
        self._pipes = pipes
        self._name = name
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._bad = 0

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            if (found := self._next()) is not None:
                await trio.lowlevel.checkpoint()  # a flood of messages must not hold the others up
                return found
            if self.lost.is_set():
                raise StopAsyncIteration
            chunk = await self._pipes.receive_some()
            if not chunk:
                self.lost.set()
            self._split(chunk)

    def _split(self, chunk: bytes) -> None:
        *lines, rest = chunk.split(b"\n")
        if lines:
            self._lines.append(bytes(self._rest) + lines[0])
            self._lines.extend(lines[1:])
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > MAX_LINE_BYTES:
            self.fail(f"it wrote a line of more than {MAX_LINE_BYTES} bytes")
            self._rest.clear()

    def fail(self, problem: str) -> None:
        """Read no more, and end the program, for this reason."""
        self.problem = self.problem or problem
        self.lost.set()
        self._pipes.kill("protocol")

    def _next(self) -> SessionMessage | None:
        while self._lines and not self.problem:
            line = self._lines.popleft()
            if not line.strip():
                continue
            try:
                return SessionMessage(
                    jsonrpc_message_adapter.validate_json(cut_listing(line), by_name=False)
                )
            except ValueError:
                self._bad += 1
                text = redact(line[: 2 * MAX_SHOWN].decode(errors="replace"))[:MAX_SHOWN]
                logger.info("%s wrote a line that is no message: %r", self._name, text)
                if self._bad >= MAX_BAD_LINES:
                    self.fail(f"it wrote {MAX_BAD_LINES} lines that are no messages")
        return None

    async def aclose(self) -> None:
        """Do nothing: the program's owner ends it."""
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.lost.set()
        await trio.lowlevel.cancel_shielded_checkpoint()


class LineWriter:
    """Writes messages to a program, one a line; a line that was begun is finished by the next writer.

    A caller that is cancelled while it writes leaves no half message behind.
    """

    def __init__(self, pipes: Pipes, reader: LineReader) -> None:
        self._pipes = pipes
        self._reader = reader
        self._unsent = bytearray()
        self._writing = trio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._unsent += text.encode() + b"\n"
        waiting = self._writing.statistics().tasks_waiting
        if len(self._unsent) > MAX_UNSENT_BYTES or waiting > MAX_WRITERS:
            self._reader.fail("it does not read what it is sent")
            raise anyio.BrokenResourceError
        try:
            async with self._writing:
                while self._unsent:
                    piece = bytes(self._unsent[:PIECE_BYTES])
                    await self._pipes.write(piece)
                    del self._unsent[: len(piece)]
        except (BrokenPipeError, trio.ClosedResourceError):
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Do nothing: the program's owner ends it."""
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()


PIECE_BYTES = 4096
"""A pipe that is writable takes so much at once, so a piece is written as a whole or not at all (POSIX `PIPE_BUF`)."""

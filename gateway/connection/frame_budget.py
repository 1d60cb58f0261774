"""A stream that hands a websocket library its handshake again, and bounds what it reads in between.

trio-websocket bounds whole messages alone: a message of a million empty fragments, or a million
pings, costs it as much time and is never too large; and one that never ends stays in memory. So frames are
counted here, by their heads, and who sends too many, or does not go on with a message, is told why and
cut off. What a message holds counts in its token's quota from its first byte until its request is done.
"""

from __future__ import annotations

from collections import deque

import trio

from ..quotas import Holding, Quota

MAX_FRAGMENTS = 1024
"""Frames of one message: a proxy may cut 32 MiB into pieces of 32 KiB."""
MAX_CONTROLS = 256
"""Pings, pongs and the like within `CONTROL_SECONDS`; one every twenty seconds is usual."""
CONTROL_SECONDS = 60.0
"""After which those are forgiven."""
SEND_SIZE = 64 * 1024
"""Bytes that a client must receive within `send_seconds`, or send of a message, even on a slow line."""
PIECE_BYTES = 64
"""What each piece of an unfinished message costs the library beside its bytes."""
TELL_SECONDS = 1.0
"""The time to tell a client why it is cut off, after what is being sent to it."""
MAX_HEAD = 14
"""Bytes of a frame's head at most: two, eight of length, four of mask."""

RULES_BROKEN, TOO_LARGE, TRY_LATER = 1008, 1009, 1013


class TooManyFrames(trio.BrokenResourceError):
    """The client sends frames and no messages, or too much at once; `code` is what it is told."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class BudgetedStream(trio.abc.Stream):
    """A stream of a websocket's server side.

    Args:
        stream: Where the bytes come from and go to.
        received: What was read of it already: the handshake.
        max_message_bytes: Of the payloads of one message together.
        send_seconds: For each `SEND_SIZE` bytes; a client that does not read, or does not go on with its
            message, is cut off after it.
        quota: Of the token.

    Attributes:
        bytes_read: How much has come behind the handshake.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        received: bytes,
        max_message_bytes: int,
        send_seconds: float,
        quota: Quota,
    ) -> None:
        self._stream = stream
        self._received = received
        self._frames = FrameCount(max_message_bytes)
        self._send_seconds = send_seconds
        self._sending = trio.Lock()
        self.bytes_read = 0
        self._holding = Holding(quota, self._give_way)
        self._unfinished = self._whole = 0
        self._gives_way = False
        self._due_at, self._due_bytes = 0.0, 0
        self._reading = trio.CancelScope()
        self._done = trio.lowlevel.ParkingLot()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Read; for a flood of frames, send a close frame with the reason and raise `TooManyFrames`."""
        if self._received:
            await trio.lowlevel.checkpoint()
            size = len(self._received) if max_bytes is None else max_bytes
            data, self._received = self._received[:size], self._received[size:]
            return data
        try:
            if self._frames.is_unfinished:
                return await self._go_on(max_bytes)
            data = bytes(await self._stream.receive_some(max_bytes))
            self._count(data)
        except TooManyFrames as flood:
            with trio.move_on_after(TELL_SECONDS):
                await self.send_all(_close_frame(flood))  # noqa: ASYNC120  a cancel ends it as well
            raise
        return data

    async def _go_on(self, max_bytes: int | None) -> bytes:
        """Read more of a message, for which there must be room, within its time."""
        with trio.CancelScope() as self._reading:  # noqa: ASYNC912  left at once, it is over
            if self._holding.is_over:
                await self._wait_room()
                self._due_at = trio.current_time() + self._send_seconds
            self._reading.deadline = self._due_at
            if not self._gives_way:
                data = bytes(await self._stream.receive_some(max_bytes))
                self._count(data)
                return data
        if self._gives_way:
            raise TooManyFrames(TRY_LATER, "no room for so large a message; try again soon")
        raise TooManyFrames(RULES_BROKEN, "a message was begun, and does not go on")

    async def _wait_room(self) -> None:
        """Wait for the requests ahead of this message; without any, the costliest message gives way."""
        with trio.move_on_after(self._send_seconds):  # noqa: ASYNC912  there may be nothing to wait for
            while self._whole and self._holding.is_over:
                await self._done.park()
        while self._holding.is_over:
            if not self._holding.make_room():
                self._give_way()
                return

    def _give_way(self) -> None:
        self._gives_way = True
        self._reading.cancel(reason="its message gives way to others")

    def _count(self, data: bytes) -> None:
        """Count what was read, in frames and in bytes that are held; raise `TooManyFrames`."""
        self.bytes_read += len(data)
        now = trio.current_time()
        before = self._frames.is_unfinished
        sizes = self._frames.count(data, now)
        if not self._frames.is_unfinished:
            if before:
                self._holding.finish()
            self._unfinished = 0
        elif sizes or not before:
            self._unfinished = 0  # what little of the next one came with this read
            self._holding.finish()
            self._holding.begin()
            self._due_at, self._due_bytes = now + self._send_seconds, self.bytes_read + SEND_SIZE
        else:
            self._unfinished += len(data) + PIECE_BYTES
            if self.bytes_read >= self._due_bytes:
                self._due_at, self._due_bytes = (
                    now + self._send_seconds,
                    self.bytes_read + SEND_SIZE,
                )
        self._whole += sum(sizes)
        self._holding.set(self._unfinished + self._whole)

    def taken(self) -> int:
        """Return the size of the message that the library gave last; `done` gives it back."""
        return self._frames.whole.popleft()

    def done(self, size: int) -> None:
        """Note that a message of that size is done with."""
        self._whole -= size
        self._holding.set(self._unfinished + self._whole)
        self._done.unpark_all()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write whole frames; raise `trio.BrokenResourceError` when the client does not read."""
        async with self._sending:
            await send_in_time(self._stream, data, self._send_seconds)

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._stream.aclose()

    def forget(self) -> None:
        """Hold nothing any more: the connection has ended."""
        self._holding.close()


async def send_in_time(
    stream: trio.abc.Stream, data: bytes | bytearray | memoryview, seconds: float
) -> None:
    """Send; close the stream and raise `trio.BrokenResourceError` when the client does not read.

    Args:
        seconds: For each `SEND_SIZE` bytes.
    """
    with memoryview(data) as left:
        for at in range(0, len(left), SEND_SIZE):
            with trio.move_on_after(seconds):
                await stream.send_all(left[at : at + SEND_SIZE])
                continue
            await trio.aclose_forcefully(stream)
            raise trio.BrokenResourceError("the client does not read")


class FrameCount:
    """Reads the heads of frames (RFC 6455, 5.2) out of bytes that come in any pieces.

    Args:
        max_message_bytes: Of the payloads of one message together.

    Attributes:
        whole: The sizes of messages that have come whole and that nobody has taken yet.
    """

    def __init__(self, max_message_bytes: int) -> None:
        self._max_bytes = max_message_bytes
        self._head = b""
        self._skip = 0
        self._is_last = False
        self._fragments = self._controls = self._bytes = 0
        self._forgiven_at = 0.0
        self.whole: deque[int] = deque()

    @property
    def is_unfinished(self) -> bool:
        """Whether a message or a frame has begun, and not all of it has come."""
        return bool(self._skip or self._fragments or self._head)

    def count(self, data: bytes, now: float) -> list[int]:
        """Count the frames in the bytes of one read; return the sizes of messages that it completes.

        Raises:
            TooManyFrames: They are more, or larger, than they may be.
        """
        sizes: list[int] = []
        if now - self._forgiven_at > CONTROL_SECONDS:
            self._controls, self._forgiven_at = 0, now
        position = 0
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                if not self._skip:
                    self._end_frame(sizes)
                continue
            known = len(self._head)
            head = self._head + data[position : position + MAX_HEAD - known]
            size = _head_size(head)
            if len(head) < size:
                self._head = head
                break
            self._head = b""
            position += size - known
            self._take_head(head[:size])
            if not self._skip:
                self._end_frame(sizes)
        self.whole.extend(sizes)
        return sizes

    def _end_frame(self, sizes: list[int]) -> None:
        if self._is_last:
            sizes.append(self._bytes)
            self._is_last = False
            self._fragments = self._bytes = 0

    def _take_head(self, head: bytes) -> None:
        self._skip = _payload_size(head)
        if head[0] & 0x08:
            self._controls += 1
            if self._controls > MAX_CONTROLS:
                raise TooManyFrames(RULES_BROKEN, "too many pings and pongs")
            return
        self._fragments += 1
        self._bytes += self._skip
        if self._fragments > MAX_FRAGMENTS:
            raise TooManyFrames(RULES_BROKEN, f"more than {MAX_FRAGMENTS} frames of one message")
        if self._bytes > self._max_bytes:
            raise TooManyFrames(TOO_LARGE, f"a message of more than {self._max_bytes} bytes")
        self._is_last = bool(head[0] & 0x80)


def _head_size(head: bytes) -> int:
    """How long the head is that begins so, as far as that can be told."""
    if len(head) < 2:
        return 2
    size = 2 + {126: 2, 127: 8}.get(head[1] & 0x7F, 0)
    return size + 4 if head[1] & 0x80 else size


def _payload_size(head: bytes) -> int:
    size = head[1] & 0x7F
    if size == 126:
        return int.from_bytes(head[2:4])
    return int.from_bytes(head[2:10]) if size == 127 else size


def _close_frame(error: TooManyFrames) -> bytes:
    """A server's frames have no mask; a short one has its length in one byte."""
    body = error.code.to_bytes(2) + error.reason.encode()
    return bytes((0x88, len(body))) + body

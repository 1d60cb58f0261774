"""The frames that wait to be sent to one client: bounded in bytes, and filled without waiting."""

from __future__ import annotations

from collections import deque

import trio

from ..quotas import OWN_BYTES, Holding
from .frames import SharedFrame, TopicFrame

MERGE_AFTER = 8
"""Frames that wait before neighbours are merged: clients that keep up get the shared bytes."""
MERGE_SIZE = 16 * 1024
"""Bytes of a frame that is merged no further: each merge copies the whole of it."""

SEND_SIZE = 64 * 1024
"""Bytes of waiting frames sent in one system call, which costs as much as sending these."""

Frame = bytes | SharedFrame | TopicFrame


class Outbox:
    """The frames of one connection, in order.

    Answers are always taken; when more than `max_size` bytes of them wait, `is_overfull` says that the
    client does not read its answers. Updates are taken only while half of the bound is free: a
    subscriber whose update is refused catches up from the record later. While its token has no room,
    updates are taken up to `OWN_BYTES`, and an answer beyond that makes what is costliest give way.

    Args:
        max_size: In bytes.
        holding: What counts them.
    """

    def __init__(self, max_size: int, holding: Holding) -> None:
        self._max_size = max_size
        self._holding = holding
        self._frames: deque[tuple[Frame, int, bool]] = deque()
        self._size = 0
        self._answers_size = 0
        self._waking = trio.lowlevel.ParkingLot()
        self._draining = trio.lowlevel.ParkingLot()
        self._in_flight = 0
        self._is_held = False
        self.is_overfull = False

    @property
    def has_room(self) -> bool:
        """Whether updates are taken."""
        size = self._size
        return size < self._max_size // 2 and (size < OWN_BYTES or not self._holding.is_over)

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return self._size

    @property
    def is_sending(self) -> bool:
        """Whether frames wait, or are on their way into the socket."""
        return bool(self._in_flight or self._frames)

    def put(self, data: bytes) -> None:
        """Add an answer."""
        if self._answers_size > self._max_size:
            self.is_overfull = True
        self._answers_size += len(data)
        self._append(data, len(data), is_answer=True)
        while self._holding.is_over and self._holding.make_room():
            pass

    def drop(self) -> None:
        """Drop everything but the frame in flight, for a client that is disconnected."""
        self._frames.clear()
        self._size = self._answers_size = 0
        self._holding.close()
        self._draining.unpark_all()

    def add(self, data: bytes) -> None:
        """Add a frame for a subscriber that catches up; the caller has waited for room."""
        self._append(data, len(data))

    def offer(self, frame: SharedFrame | TopicFrame) -> bool:
        """Add an update if there is room, merged into the last one if possible; return whether."""
        if not self.has_room:
            return False
        size = len(frame.data)
        if len(self._frames) > MERGE_AFTER:
            last, last_size, _ = self._frames[-1]
            if (
                isinstance(last, SharedFrame)
                and isinstance(frame, SharedFrame)
                and last_size < MERGE_SIZE
            ):
                merged = last.merged(frame)
                if merged is not None:
                    self._frames[-1] = merged, last_size + size, False  # at most
                    self._size += size
                    self._hold()
                    return True
        self._append(frame, size)
        return True

    def _append(self, frame: Frame, size: int, *, is_answer: bool = False) -> None:
        self._frames.append((frame, size, is_answer))
        self._size += size
        self._hold()
        self._waking.unpark_all()

    def _hold(self) -> None:
        size = self._size + self._in_flight
        if size > OWN_BYTES:
            self._holding.set(size)
            self._holding.begin()
            self._is_held = True
        elif self._is_held:
            self._holding.set(0)
            self._holding.finish()
            self._is_held = False

    async def take(self) -> bytes:
        """Wait for frames and return the next ones, in one piece."""
        while not self._frames:
            await self._waking.park()
        taken: list[bytes] = []
        left = SEND_SIZE
        while self._frames and left > 0:
            frame, size, is_answer = self._frames.popleft()
            self._size -= size
            if is_answer:
                self._answers_size -= size
            taken.append(frame if isinstance(frame, bytes) else frame.data)
            left -= len(taken[-1])
        data = taken[0] if len(taken) == 1 else b"".join(taken)
        self._in_flight = len(data)
        self._hold()
        if self.has_room:
            self._draining.unpark_all()
        return data

    async def wait_room(self) -> None:
        """Wait until updates are taken."""
        while not self.has_room:
            await self._draining.park()

    def sent(self) -> None:
        """Note that the frames taken last are sent."""
        self._in_flight = 0
        self._hold()
        self._draining.unpark_all()

    async def wait_sent(self) -> None:
        """Wait until everything is sent."""
        while self._frames or self._in_flight:
            await self._draining.park()

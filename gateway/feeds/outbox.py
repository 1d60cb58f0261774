"""What waits to be sent to one client: bounded in bytes, filled without waiting."""

from __future__ import annotations

from collections import deque

import trio

from .frames import SharedFrame, TopicFrame

MERGE_AFTER = 8
"""Frames that wait before neighbours are merged: a client that keeps up gets the shared bytes."""
MERGE_SIZE = 16 * 1024
"""Bytes of a frame to which no other is joined: each join copies what is there."""

SEND_SIZE = 64 * 1024
"""Bytes of frames that are sent together, if they wait: a system call costs as much as they do."""

Frame = bytes | SharedFrame | TopicFrame


class Outbox:
    """The frames of one connection, in order.

    Answers are taken however large they are, until what waits of them is beyond the bound: a client
    that reads its answers does not get there (`is_overfull`). Updates are taken while half of the
    bound is free; what is not is made good from the record when there is room.

    Args:
        max_size: In bytes.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._frames: deque[tuple[Frame, int, bool]] = deque()
        self._size = 0
        self._answers_size = 0
        self._waking = trio.lowlevel.ParkingLot()
        self._draining = trio.lowlevel.ParkingLot()
        self._in_flight = False
        self.is_overfull = False

    @property
    def has_room(self) -> bool:
        """Whether updates are taken."""
        return self._size < self._max_size // 2

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return self._size

    def put(self, data: bytes) -> None:
        """Adds an answer."""
        self.is_overfull = self.is_overfull or self._answers_size > self._max_size
        self._answers_size += len(data)
        self._append(data, len(data), is_answer=True)

    def drop(self) -> None:
        """Leaves out what is not on its way yet, of a client that is told to leave."""
        self._frames.clear()
        self._size = self._answers_size = 0
        self._draining.unpark_all()

    def add(self, data: bytes) -> None:
        """Adds what a subscriber is brought up to date with; who does it looks for room before."""
        self._append(data, len(data))

    def offer(self, frame: SharedFrame | TopicFrame) -> bool:
        """Adds an update, unless there is no room; merges it into the last one where it can."""
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
                    return True
        self._append(frame, size)
        return True

    def _append(self, frame: Frame, size: int, *, is_answer: bool = False) -> None:
        self._frames.append((frame, size, is_answer))
        self._size += size
        self._waking.unpark_all()

    async def take(self) -> bytes:
        """The next frames, in one piece; waits for the first."""
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
        self._in_flight = True
        if self.has_room:
            self._draining.unpark_all()
        return taken[0] if len(taken) == 1 else b"".join(taken)

    async def wait_room(self) -> None:
        """Waits until updates are taken."""
        while not self.has_room:
            await self._draining.park()

    def sent(self) -> None:
        """What was taken last is on its way."""
        self._in_flight = False
        self._draining.unpark_all()

    async def wait_sent(self) -> None:
        """Waits until everything is on its way."""
        while self._frames or self._in_flight:
            await self._draining.park()

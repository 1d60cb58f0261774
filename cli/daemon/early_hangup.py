"""Notes a SIGHUP that comes before the daemon listens for it; it would end the process."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class EarlyHangup:
    """Notes SIGHUP around the block, wherever nobody else handles it.

    Attributes:
        has_come: Whether one came: the configuration may have been read before.
    """

    def __init__(self) -> None:
        self.has_come = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGHUP, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGHUP, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True

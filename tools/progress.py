"""The way of a progress line from wherever a tool runs to the Trio thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import trio

MAX_WAITING_LINES = 64
"""Lines of one call that another thread told and the Trio thread has not shown yet; as many as the
turn keeps. More are dropped: a thread in a tight loop must neither wait nor fill the memory."""


class ProgressRelay:
    """Calls `show` in the thread that made the relay, from any thread, without blocking.

    Args:
        show: Must not raise: in the Trio thread, it would end the run.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._home = threading.get_ident()
        # A worker process has no run; there `show` writes to a pipe, which any thread may do.
        in_run = trio.lowlevel.in_trio_run()
        self._token = trio.lowlevel.current_trio_token() if in_run else None
        self._lines: deque[str] = deque()

    def tell(self, text: str) -> None:
        """Shows a line now, or soon when this is another thread."""
        if self._token is None or threading.get_ident() == self._home:
            self._show_waiting()
            self._show(text)
        elif len(self._lines) < MAX_WAITING_LINES:
            self._lines.append(text)
            try:
                self._token.run_sync_soon(self._show_waiting, idempotent=True)
            except trio.RunFinishedError:
                self._lines.clear()  # The thread outlived the run: nobody listens any more.

    def _show_waiting(self) -> None:
        while self._lines:
            self._show(self._lines.popleft())

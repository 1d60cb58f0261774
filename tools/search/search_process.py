"""Matching of a costly pattern in a process that can be killed, since `re` can't be interrupted.

The thread of a search uses it, and polls whether its call was cancelled. The process starts with the
first file that needs it, is killed when a file takes too long, and is gone after `close`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import BoundedSemaphore
from typing import Self

from ..failures import failed

FILE_SECONDS = 2.0
"""The time for one file: a hundred times what an honest pattern takes."""
MAX_MATCHERS = 4
"""Processes at once: they compute, and more of them than cores only take memory."""
POLL_SECONDS = 0.05
"""How soon a cancelled search ends."""

_START = "from callboard.tools.search.search_worker import main; main()"
_PIECE = 65536

_slots = BoundedSemaphore(MAX_MATCHERS)


class SearchProcess:
    """The process of one valid pattern; `must_stop` is called while it waits, and may raise."""

    def __init__(self, pattern: str, line_length: int, must_stop: Callable[[], bool]) -> None:
        head = {"pattern": pattern, "line_length": line_length}
        self._head = json.dumps(head).encode() + b"\n"
        self._must_stop = must_stop
        self._process: subprocess.Popen[bytes] | None = None
        self._has_slot = False
        self.is_whole = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def numbers(self, data: bytes, most: int) -> Iterator[int]:
        """Yield the numbers of a file's matching lines, at most so many.

        Afterwards `is_whole` is false when it took too long to search all lines.
        """
        self.is_whole = False
        work = json.dumps({"size": len(data), "most": most}).encode() + b"\n" + data
        while not self._has_slot:
            if self._must_stop():
                return
            self._has_slot = _slots.acquire(timeout=POLL_SECONDS)
        if self._process is None:
            self._process = _started()
            work = self._head + work
        rest = b""
        for piece in self._exchange(self._process, work):
            *lines, rest = (rest + piece).split(b"\n")
            for number in map(int, lines):
                if number == 0:
                    self.is_whole = True
                    return
                yield number
        self._kill()

    def close(self) -> None:
        """Kill the process, if there is one, and wait until it is gone."""
        self._kill()
        if self._has_slot:
            self._has_slot = False
            _slots.release()

    def _exchange(self, process: subprocess.Popen[bytes], work: bytes) -> Iterator[bytes]:
        """Send and receive at the same time, until the process ends or takes too long."""
        assert process.stdin is not None
        assert process.stdout is not None
        to, answers = process.stdin.fileno(), process.stdout.fileno()
        unsent = memoryview(work)
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        poll.register(to, select.POLLOUT)
        deadline = time.monotonic() + FILE_SECONDS
        while time.monotonic() < deadline and not self._must_stop():
            ready = {fd for fd, _ in poll.poll(POLL_SECONDS * 1000)}
            if to in ready:
                try:
                    unsent = unsent[os.write(to, unsent[:_PIECE]) :]
                except BrokenPipeError:
                    return
                if not unsent:
                    poll.unregister(to)
            if answers in ready:
                piece = os.read(answers, _PIECE)
                if not piece:
                    return
                yield piece

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def _started() -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path}; {_START}"],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
    except OSError as error:
        raise failed(
            f"search_files: the process for this pattern could not be started ({error.strerror}). "
            "A simpler pattern needs none."
        ) from error
    assert process.stdin is not None
    # A process that reads nothing must not block us.
    os.set_blocking(process.stdin.fileno(), False)
    return process

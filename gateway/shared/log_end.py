"""The end of the log, kept in memory for administrators: what this process logged last, with secrets masked."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress

import trio

from ...runtime.redaction import RedactingFilter, redactor
from ...runtime.wire.turns import LogLevel, LogRecord, LogTail
from ..feeds.frames import wire_json
from .pages import PAGE_BYTES

MAX_RECORDS = 2000
"""Some hours of a busy daemon; the log file has more."""
MAX_RECORD_CHARS = 4000
"""Of a message, and of a traceback: the end of which says what happened."""

WAIT_SECONDS = 25.0
"""A wait for the next record ends then, with none: less than any client waits for an answer."""
GATHER_SECONDS = 0.1
"""Records that come close together go out in one answer: whoever follows a busy log asks ten times a second at most."""

_LEVELS: dict[LogLevel, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class LogEnd(logging.Handler):
    """Keeps the last records of the process, whatever thread logs them.

    Attributes:
        followers: How many wait for the next one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(RedactingFilter(redactor))
        self._records: deque[LogRecord] = deque(maxlen=MAX_RECORDS)
        self._head = 0
        self._arrived = trio.Event()
        self.followers = 0
        self._loop: trio.lowlevel.TrioToken | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record; the oldest one makes room for it."""
        # `handle` holds this handler's lock around it, and the filter has made the text.
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not _others(self):
            # The program set up no log: warnings still go to stderr, as they did without this.
            last.handle(record)
        self._head += 1
        crash = record.exc_text or ""
        if len(crash) > MAX_RECORD_CHARS:
            crash = f"…{crash[-MAX_RECORD_CHARS:]}"
        self._records.append(
            LogRecord(
                number=self._head,
                at_ms=int(record.created * 1000),
                level=_level_of(record.levelno),
                logger=record.name.removeprefix("callboard."),
                message=record.getMessage()[:MAX_RECORD_CHARS],
                traceback=crash,
            )
        )
        if self.followers and self._loop is not None:
            with suppress(trio.RunFinishedError):  # a thread may log when the loop has ended
                self._loop.run_sync_soon(self._wake, idempotent=True)

    async def wait(self, after: int, level: LogLevel) -> None:
        """Wait until there is a record behind one, of at least a level; return in any case after `WAIT_SECONDS`.

        Nothing is kept for who waits: a reader that is slow finds what the end of the log has then, and reads
        in its `is_cut` that there was more.
        """
        self._loop = trio.lowlevel.current_trio_token()
        self.followers += 1
        try:
            with trio.move_on_after(WAIT_SECONDS):
                while not self._has(after, level):
                    await self._arrived.wait()
                await trio.sleep(GATHER_SECONDS)
        finally:
            self.followers -= 1

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = trio.Event()

    def _has(self, after: int, level: LogLevel) -> bool:
        """Whether there is something to answer; also for a number of an earlier process."""
        known, head = self._snapshot()
        if after > head:
            return True
        least = _LEVELS[level]
        newer = itertools.takewhile(lambda each: each.number > after, reversed(known))
        return any(_LEVELS[each.level] >= least for each in newer)

    def _snapshot(self) -> tuple[list[LogRecord], int]:
        self.acquire()
        try:
            return [*self._records], self._head
        finally:
            self.release()

    def tail(self, after: int, level: LogLevel, limit: int) -> LogTail:
        """Return the latest records behind one, of at least a level."""
        known, head = self._snapshot()
        least = _LEVELS[level]
        wanted = [each for each in known if each.number > after and _LEVELS[each.level] >= least]
        is_lost = bool(known) and after < known[0].number - 1
        fitting = _fitting(wanted[-limit:])
        return LogTail(records=fitting, head=head, is_cut=is_lost or len(wanted) > len(fitting))

    @contextmanager
    def kept(self) -> Generator[None]:
        """Keep what is logged in the block."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)


def _others(own: logging.Handler) -> bool:
    return any(each is not own for each in logging.getLogger().handlers)


def _fitting(records: list[LogRecord]) -> list[LogRecord]:
    """Return the last records that fit into an answer."""
    size = 0
    for count, each in enumerate(reversed(records)):
        size += len(wire_json(each))
        if size > PAGE_BYTES:
            return records[-count:]  # a record is smaller than that, so `count` is not 0
    return records


def _level_of(number: int) -> LogLevel:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"

"""The log of a daemon: one line a record, as text or JSON, to stderr and to the log file."""

from __future__ import annotations

import json
import logging
import logging.handlers
import queue
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ...runtime.redaction import RedactingFilter, redactor
from ..log_file import LogFile
from ..terminal.escaping import safe_line

LogFormat = Literal["text", "json"]

MAX_QUEUED = 10_000
"""Records that wait for a slow disk or a reader that has stopped; more are counted and dropped: a
daemon never waits for its log."""
MAX_SERVE_LOG_BYTES = 10 * 1024 * 1024
"""Some weeks of a daemon; one older file of the same size is kept."""


class TextLine(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO gateway: ready`; line breaks of a traceback are `\\n`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        text = f"{moment(record)} {record.levelname} {short_name(record)}: {record.getMessage()}"
        crash = (record.exc_text or "").replace("\n", "\\n")
        return safe_line(f"{text} | {crash}" if crash else text)


class JsonLine(logging.Formatter):
    """An object with `at`, `level`, `logger`, `message`, and `traceback` of a crash."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        said = {
            "at": moment(record),
            "level": record.levelname.lower(),
            "logger": short_name(record),
            "message": record.getMessage(),
        }
        if record.exc_text:
            said["traceback"] = record.exc_text
        return json.dumps(said)


def moment(record: logging.LogRecord) -> str:
    """Return the time of a record, in UTC."""
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03}Z"


def short_name(record: logging.LogRecord) -> str:
    """Return the logger's name without the package."""
    return record.name.removeprefix("callboard.")


class _Queue(logging.handlers.QueueHandler):
    """Takes a record without waiting; what does not fit is counted, and logged later."""

    def __init__(self, waiting: queue.Queue[logging.LogRecord]) -> None:
        super().__init__(waiting)
        self._dropped = 0
        self.addFilter(RedactingFilter(redactor))

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record unchanged: the filter has made its text, and formatters need the traceback."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Put a record in the queue, or count it as dropped."""
        try:
            if self._dropped:
                record.msg = f"({self._dropped} records before this one were dropped) {record.msg}"
            self.queue.put_nowait(record)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1


@contextmanager
def serve_log(folder: Path, log_format: LogFormat) -> Generator[None]:
    """Log around the block; at its end everything that waits is written."""
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(MAX_QUEUED)
    outlets: list[logging.Handler] = [
        LogFile(folder, max_bytes=MAX_SERVE_LOG_BYTES),
        logging.StreamHandler(sys.stderr),
    ]
    formatter = JsonLine() if log_format == "json" else TextLine()
    for outlet in outlets:
        outlet.setFormatter(formatter)
    handler = _Queue(waiting)
    listener = logging.handlers.QueueListener(waiting, *outlets)
    root, own = logging.getLogger(), logging.getLogger("callboard")
    level = own.level
    own.setLevel(logging.INFO)  # until the configuration is read: `[server] log_level`
    root.addHandler(handler)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        own.setLevel(level)
        listener.stop()
        for outlet in outlets:
            outlet.close()

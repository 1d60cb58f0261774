"""The log of commands: warnings and crashes go to a bounded file in the data folder."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from ..runtime.redaction import RedactingFilter, redactor

LOG_NAME = "callboard.log"

MAX_LOG_BYTES = 1024 * 1024
"""Some hundred crashes with their tracebacks; one older file of the same size is kept."""

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFile(logging.FileHandler):
    """A log file for its owner alone, made with the first record; a failure to write it is ignored.

    Prompts, answers and results are not logged by callboard; keys are masked. A full one is kept as `.1`, and another
    begun. (`logging.handlers` does that, too, and brings pickle along: half a megabyte of each command.)
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_LOG_BYTES) -> None:
        super().__init__(folder / LOG_NAME, encoding="utf-8", errors="backslashreplace", delay=True)
        self._max_bytes = max_bytes

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, for which there is room in the file."""
        line = super().format(record)
        with suppress(OSError):  # then writing fails, which is ignored
            self._make_room(len(line) + 1)
        return line

    def _make_room(self, size: int) -> None:
        if self.stream is None:
            self.stream = self._open()
        self.stream.seek(0, os.SEEK_END)
        if self.stream.tell() + size >= self._max_bytes and os.path.isfile(self.baseFilename):
            full, self.stream = self.stream, None
            full.close()
            try:
                os.replace(self.baseFilename, f"{self.baseFilename}.1")
            finally:
                self.stream = self._open()

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.baseFilename, flags, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore that the log can't be written: it must not disturb the run."""


def close_log_files() -> None:
    """Close the files of this process's log; the next record opens them again.

    A forked process closes what it inherited. A file that it opens then may get the number of the log's, and
    would get its lines.
    """
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.close()


def wants_log_on_terminal(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether CALLBOARD_DEBUG is set."""
    return environ.get("CALLBOARD_DEBUG", "") not in {"", "0"}


def start_logging(folder: Path, *, verbose: bool) -> None:
    """Send warnings of the whole process to a file in the data directory that it writes to.

    With `verbose` stderr gets them too, and callboard's own informational records.
    """
    handlers: list[logging.Handler] = [LogFile(folder)]
    if verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
        logging.getLogger("callboard").setLevel(logging.INFO)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(_FORMAT))
        handler.addFilter(RedactingFilter(redactor))
        logging.getLogger().addHandler(handler)

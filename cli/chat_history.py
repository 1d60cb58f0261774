"""What was typed in chats before: a file of the user's own, for the arrow keys."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from ..runtime.redaction import redact

FILE_NAME = "chat_history.jsonl"
MAX_ENTRIES = 1000
"""The latest: nobody presses an arrow more often."""
MAX_ENTRY_CHARS = 10_000
"""Longer texts were pasted, and are on record in their session."""
MAX_FILE_BYTES = 8 * 1024 * 1024
"""What is read of it; past that it is begun anew."""


class ChatHistory(History):
    """The lines of earlier chats, the latest first; keys in them are masked.

    A file that can't be used is done without: nothing depends on it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / FILE_NAME

    def load_history_strings(self) -> Iterable[str]:
        """Those on file."""
        entries = self._entries()
        if len(entries) > 2 * MAX_ENTRIES:
            with suppress(OSError):
                self._path.unlink()
                for entry in entries[-MAX_ENTRIES:]:
                    self._append(entry)
        return reversed(entries[-MAX_ENTRIES:])

    def store_string(self, string: str) -> None:
        """Adds one."""
        if len(string) <= MAX_ENTRY_CHARS:
            with suppress(OSError):
                self._append(redact(string))

    def _append(self, entry: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._path, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(entry).encode() + b"\n")

    def _entries(self) -> list[str]:
        try:
            with open(self._path, "rb") as file:
                lines = file.read(MAX_FILE_BYTES).split(b"\n")
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):
                if isinstance(entry := json.loads(line), str):
                    entries.append(entry)
        return entries

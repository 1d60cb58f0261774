"""What helps to type: the inputs of earlier chats, and a menu of commands and files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from ...runtime.redaction import redact

FILE_NAME = "chat_history.jsonl"
MAX_ENTRIES = 1000
"""Entries that are kept, the latest: nobody presses an arrow more often."""
MAX_ENTRY_CHARS = 10_000
"""Longer texts were pasted, and are on record in their session."""
MAX_FILE_BYTES = 8 * 1024 * 1024
"""The part of the history file that is read."""


class InputHistory(History):
    """The lines of earlier chats, the latest first; keys in them are masked.

    A file that can't be used is done without: nothing depends on it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._path = folder / FILE_NAME

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries on file, the latest first."""
        entries = self._entries()
        if len(entries) > 2 * MAX_ENTRIES:
            with suppress(OSError):
                self._path.unlink()
                for entry in entries[-MAX_ENTRIES:]:
                    self._append(entry)
        return reversed(entries[-MAX_ENTRIES:])

    def store_string(self, string: str) -> None:
        """Add one."""
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


MAX_OFFERED = 50
"""Files that the menu offers: more are no help."""
MAX_LOOKED_AT = 2_000
"""Entries of a folder that are looked at for them."""

_TYPING = re.compile(r"(?<!\S)@(\S*)$")
_ENDS_COMMAND = re.compile(r"\s|^/.*/")
"""A path that begins with a slash is no command."""


class ChatCompleter(Completer):
    """Completes commands at the beginning of a line, and files behind an `@`.

    Args:
        commands: What each command does, by its name with the slash.

    Attributes:
        folder: Where files are looked for.
        further: What further commands do, those of servers.
    """

    def __init__(self, commands: Mapping[str, str]) -> None:
        self.folder = Path()
        self.further: Mapping[str, str] = {}
        self._commands = sorted(commands.items())

    @staticmethod
    def is_wanted(text: str) -> bool:
        """Return whether a menu opens while this is typed."""
        return (text.startswith("/") and not _ENDS_COMMAND.search(text)) or bool(
            _TYPING.search(text)
        )

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield what may stand at the cursor."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for name, summary in (*self._commands, *sorted(self.further.items())):
                if name.startswith(text):
                    yield Completion(name, start_position=-len(text), display_meta=summary)
        elif (typing := _TYPING.search(text)) is not None:
            yield from self._files(typing[1])

    def _files(self, begun: str) -> Iterator[Completion]:
        parent, _, name = begun.rpartition("/")
        place = f"{parent}/" if "/" in begun else ""
        entries = []
        try:
            with os.scandir(self.folder / Path(place or ".").expanduser()) as found:
                for _, entry in zip(range(MAX_LOOKED_AT), found, strict=False):
                    is_hidden = entry.name.startswith(".") and not name.startswith(".")
                    if entry.name.startswith(name) and not is_hidden and " " not in entry.name:
                        entries.append(entry.name + ("/" if entry.is_dir() else ""))
        except (OSError, RuntimeError):  # RuntimeError: the home of nobody
            return
        for each in sorted(entries)[:MAX_OFFERED]:
            if each.isprintable():
                yield Completion(f"{place}{each}", start_position=-len(begun))


# ── pastes ───────────────────────────────────────────────────────────────────────────────────────

SHOWN_LINES = 8
SHOWN_CHARS = 1000
"""A paste of more lines or characters is folded: it would push what is typed, and the session, off the screen."""
MAX_FOLDED_CHARS = 16_000_000
"""Of all folded pastes of a chat, which are kept as long as it runs; one that is too many stands there whole."""

_SIGN = re.compile(r"\[pasted text \d+: [\d,]+ (?:lines|characters)\]")


class Pastes:
    """The texts behind the signs."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._chars = 0

    def fold(self, text: str) -> str:
        """Return what stands in the input line for a paste."""
        lines = max(text.count("\n") + (not text.endswith("\n")), 1)
        if lines <= SHOWN_LINES and len(text) <= SHOWN_CHARS:
            return text
        if self._chars + len(text) > MAX_FOLDED_CHARS:
            return text
        self._chars += len(text)
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        sign = f"[pasted text {len(self._texts) + 1}: {size}]"
        self._texts[sign] = text
        return sign

    def unfold(self, typed: str) -> str:
        """Return what was typed with the whole text of each paste whose sign stands there unchanged."""
        if not self._texts:
            return typed
        return _SIGN.sub(lambda found: self._texts.get(found[0], found[0]), typed)

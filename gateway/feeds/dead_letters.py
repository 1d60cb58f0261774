"""Dead letters: notices that no attempt could deliver, kept on disk until somebody sends them again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ...config.private_file import make_private_folder, read_private, write_private
from ...runtime.errors import StorageError
from ...runtime.redaction import redacting_logger
from ...runtime.wire.hooks import DeadLetter

logger = redacting_logger(__name__)

FILE_NAME = "dead-letters.json"
MAX_DEAD = 500
"""Letters that are kept; then the oldest go. A receiver that is away for a day misses fewer."""
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Room for them, of a few hundred bytes each."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A notice on its way to one webhook.

    Attributes:
        identity: The notice's, the same in each attempt.
        webhook: The name of the webhook.
        type, session_id: Of the notice.
        body: The notice as JSON.
        at_ms: When it was made, in Unix milliseconds.
        attempts: How often it was sent.
        problem: Why the last attempt failed.
    """

    identity: str
    webhook: str
    type: str
    session_id: str
    body: str
    at_ms: int
    attempts: int = 0
    problem: str = ""

    @property
    def name(self) -> str:
        """What people call it; the same notice may have gone to other webhooks, too."""
        return f"{self.webhook}/{self.identity}"

    @property
    def row(self) -> DeadLetter:
        """The letter in a list."""
        return DeadLetter(
            name=self.name,
            webhook=self.webhook,
            type=self.type,
            session_id=self.session_id,
            at_ms=self.at_ms,
            attempts=self.attempts,
            problem=self.problem,
        )


# Made here, by one thread: two that meet a type for the first time at once would crash.
_LETTERS = msgspec.json.Decoder(list[Letter])


class DeadLetters:
    """The dead letters of a data folder; `load` and `save` block.

    Args:
        data: The folder, or `None` to keep them in memory.

    Attributes:
        letters: The oldest first.
    """

    def __init__(self, data: Path | None) -> None:
        self._path = None if data is None else data / FILE_NAME
        self.letters: list[Letter] = []

    def load(self) -> list[Letter]:
        """Return the letters on disk; none, and a line in the log, when they can't be read."""
        if self._path is None:
            return []
        try:
            data = read_private(self._path, MAX_FILE_BYTES)
            return [] if data is None else _LETTERS.decode(data)
        except (StorageError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            logger.error("%s can't be read, and is left out: %s", self._path, error)
            return []

    def save(self, letters: list[Letter]) -> None:
        """Write these letters; a failure is logged, and they stay in memory."""
        if self._path is None:
            return
        try:
            make_private_folder(self._path.parent)
            write_private(self._path, msgspec.json.encode(letters), replace=True)
        except StorageError as error:
            logger.error("%s can't be written: %s", self._path, error)

    def add(self, letter: Letter) -> None:
        """Add a letter; beyond the bound the oldest goes."""
        self.letters.append(letter)
        del self.letters[:-MAX_DEAD]

    def remove(self, letter: Letter) -> None:
        """Remove a letter, if it is still there."""
        if letter in self.letters:
            self.letters.remove(letter)

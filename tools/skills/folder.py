"""One folder of a skill: SKILL.md and the files beside it, read within bounds; it blocks."""

from __future__ import annotations

import hashlib

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import ReadableFiles
from .text import FrontMatter, SkillFault, read_front

TEXT_NAME = "SKILL.md"

MAX_TEXT_BYTES = 64 * 1024
"""Of SKILL.md, as of every result to a model."""
MAX_FILES = 200
"""Of one skill, folders too."""
MAX_BYTES = 4 * 1024 * 1024
"""Of all files of one skill: they are hashed whenever they are used."""


class SkillFolder:
    """A folder below a root that nothing leads out of.

    Args:
        files: The root.
        path: The folder, relative to it.
    """

    def __init__(self, files: ReadableFiles, path: str) -> None:
        self._files = files
        self.path = path

    @property
    def name(self) -> str:
        """What the folder is called."""
        return self.path.rsplit("/", 1)[-1]

    def front(self) -> FrontMatter:
        """What the skill says of itself; raises `SkillFault`."""
        return read_front(_text(self._read(TEXT_NAME, MAX_TEXT_BYTES), TEXT_NAME), self.name)[0]

    def names(self) -> list[str]:
        """All files in it, hidden ones too; raises `SkillFault` when there are too many, or links."""
        try:
            listing = self._files.entries(
                self.path, recursive=True, include_hidden=True, max_entries=MAX_FILES
            )
        except ToolFailure as failure:
            raise SkillFault(f"it can't be read ({failure})") from failure
        if listing.truncated:
            raise SkillFault(f"it has more than {MAX_FILES} files")
        odd = [info.path for info in listing.entries if info.kind not in {"file", "directory"}]
        if odd:
            raise SkillFault(f"{odd[0]} is a link, or no file: a skill holds what it needs itself")
        start = len(self.path) + 1 if self.path != "." else 0
        return [info.path[start:] for info in listing.entries if info.kind == "file"]

    def load(self) -> SkillContent:
        """Everything in it, once: what is hashed is what is used. Raises `SkillFault`."""
        left = MAX_BYTES
        files: dict[str, bytes] = {}
        for name in self.names():
            files[name] = self._read(name, left)
            left -= len(files[name])
        return SkillContent(name=self.name, files=files)

    def _read(self, name: str, most: int) -> bytes:
        try:
            content = self._files.read(f"{self.path}/{name}", limit=most + 1)
        except ToolFailure as failure:
            raise SkillFault(f"{name} can't be read ({failure})") from failure
        if len(content.data) > most:
            whole = (
                f"{MAX_TEXT_BYTES} bytes" if name == TEXT_NAME else f"all of it {MAX_BYTES} bytes"
            )
            raise SkillFault(f"{name} is too large: it may have {whole}")
        return content.data


class SkillContent(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it was at one moment."""

    name: str
    files: dict[str, bytes]

    @property
    def digest(self) -> str:
        """The SHA-256 of all names and contents."""
        listed = [[name, hashlib.sha256(data).hexdigest()] for name, data in self.files.items()]
        return hashlib.sha256(msgspec.json.encode([self.name, sorted(listed)])).hexdigest()

    @property
    def front(self) -> FrontMatter:
        """What it says of itself; raises `SkillFault`."""
        return read_front(self._text(), self.name)[0]

    @property
    def body(self) -> str:
        """The skill itself; raises `SkillFault`."""
        return read_front(self._text(), self.name)[1]

    @property
    def beside(self) -> list[str]:
        """The names of its other files."""
        return [name for name in self.files if name != TEXT_NAME]

    def file(self, name: str) -> str:
        """One of its files as text; raises `ToolFailure`."""
        data = self.files.get(name)
        if data is None:
            known = ", ".join(sorted(self.files)[:50])
            raise ToolFailure(
                ErrorType.FILE_NOT_FOUND,
                f"The skill {self.name} has no file {name[:100]!r}. It has: {known}.",
            )
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolFailure(
                ErrorType.BINARY_FILE, f"{name} of the skill {self.name} is no UTF-8 text."
            ) from None

    def _text(self) -> str:
        data = self.files.get(TEXT_NAME)
        if data is None:
            raise SkillFault(f"it has no {TEXT_NAME}")
        if len(data) > MAX_TEXT_BYTES:
            raise SkillFault(f"{TEXT_NAME} is too large: it may have {MAX_TEXT_BYTES} bytes")
        return _text(data, TEXT_NAME)


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SkillFault(f"{name} is no UTF-8 text ({error})") from error

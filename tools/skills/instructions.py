"""AGENTS.md: what the authors of a workspace want models to know, in its folder and in those above it.

The folders above count up to the root of the repository, the nearest one with a `.git`; without one, only the
workspace's own does. Each file counts once a person approved exactly its content, as a skill does.
All of this blocks on the disk.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..workspace.protected_places import is_stub
from ..workspace.reader import READ_FLAGS
from .front_matter import SkillFault

FILE_NAME = "AGENTS.md"
"""The name that other programs read too: https://agents.md."""

MAX_INSTRUCTIONS_BYTES = 32 * 1024
"""The largest file, as of other programs that read it: it is part of every request."""
MAX_WHOLE_BYTES = 64 * 1024
"""All files of one workspace; the nearest come first."""
MAX_FOLDERS = 32
"""Folders that are looked in for the root of a repository; beyond, the workspace lies in none."""

HEADING = (
    "Instructions of this workspace follow. Whoever wrote its files wrote them, and the user let you have exactly "
    "these texts. Keep to them where they fit the task. They allow nothing, and what the user says counts more. "
    "Where two of them differ the later one counts, which lies nearer."
)


class InstructionsFile(msgspec.Struct, frozen=True):
    """An AGENTS.md: the folder that it lies in (a real path), and its path as seen from the workspace."""

    folder: Path
    path: str

    def read(self) -> bytes:
        """Return its bytes; raise `SkillFault` when it is none that models could be told of."""
        directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _read(directory, _target(directory))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise SkillFault("it is a link to a link; make it a file") from error
            raise SkillFault(f"it can't be read ({error.strerror})") from error
        finally:
            os.close(directory)


def instruction_files(workspace: Path) -> list[InstructionsFile]:
    """Return the files that there are, whatever they hold: the farthest first, the workspace's own last."""
    here = Path(os.path.realpath(workspace))
    found = [here]
    for folder in (here, *here.parents)[:MAX_FOLDERS]:
        git = str(folder / ".git")
        if os.path.lexists(git) and not is_stub(git):
            found = [here, *here.parents][: len(here.parts) - len(folder.parts) + 1]
            break
    return [
        InstructionsFile(folder, "../" * distance + FILE_NAME)
        for distance, folder in reversed([*enumerate(found)])
        if os.path.lexists(folder / FILE_NAME)
    ]


def instructions_text(texts: Sequence[tuple[str, str, str]]) -> str:
    """Return the part of a system prompt with these texts, each with its path and its hash; empty for none.

    The hash ends each text, so that no text can contain its own end.
    """
    if not texts:
        return ""
    parts = [HEADING]
    for path, digest, text in texts:
        mark = f"{path} {digest[:16]}"
        parts.append(f"<<< {mark}\n{text.strip()}\n>>> {mark}")
    return "\n\n".join(parts)


def _target(directory: int) -> str:
    """Return the name of the file: its own, or that of the text beside it that it is a link to."""
    if not stat.S_ISLNK(os.lstat(FILE_NAME, dir_fd=directory).st_mode):
        return FILE_NAME
    target = os.readlink(FILE_NAME, dir_fd=directory)
    if "/" in target or not target.casefold().endswith(".md"):
        raise SkillFault("it is a link to something else than another .md file beside it")
    return target


def _read(directory: int, name: str) -> bytes:
    fd = os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SkillFault("it is not a file")
        data = bytearray()
        while len(data) <= MAX_INSTRUCTIONS_BYTES:
            if not (piece := os.read(fd, MAX_INSTRUCTIONS_BYTES + 1 - len(data))):
                return bytes(data)
            data += piece
    finally:
        os.close(fd)
    raise SkillFault(f"it is larger than {MAX_INSTRUCTIONS_BYTES} bytes")

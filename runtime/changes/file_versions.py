"""What files were before calls changed them: the words in which it is kept.

A change is written down, with the content that it replaces, before it happens. Whatever ends the
process in between, each path is then as it was or as it was to be, and both are on record.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

MAX_KEPT_FILE_BYTES = 64 * 1024 * 1024
"""Of one file: what people write and most of what they generate; a larger one is a build product or
a data set, and copying it would take seconds of every call that touches it."""

MAX_SESSION_BYTES = 512 * 1024 * 1024
"""Of all versions of one session: as much as a large repository, and little of a disk of today."""

MAX_MEMORY_BYTES = 256 * 1024 * 1024
"""Of all sessions of a runtime that keeps its record in memory: the temporary folder is memory too
on many machines."""


class FileKind(StrEnum):
    """What is at a path."""

    NOTHING = "nothing"
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


class FileState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What is, or was, at a path.

    Attributes:
        kind: What it is.
        mode: Its permission bits, of a file or a directory.
        size_bytes: Of a file.
        digest: SHA-256 of a file's content; empty when it was not read.
        target: Where a link leads.
        kept_at: Where the log has the content; `None` when it has not.
        why: Why it has not, in words.
        is_marked: Whether its content may be the words of strangers.
    """

    kind: FileKind
    mode: int = 0
    size_bytes: int = 0
    digest: bytes = b""
    target: bytes = b""
    kept_at: int | None = None
    why: str = ""
    is_marked: bool = False

    @property
    def can_come_back(self) -> bool:
        """Whether enough of it is known to make it again."""
        if self.kind is FileKind.FILE:
            return self.kept_at is not None
        return self.kind is not FileKind.OTHER

    def holds_as(self, other: FileState) -> bool:
        """Whether the content is the same; of files that were not read, as far as the size tells."""
        if self.kind is not other.kind or self.target != other.target:
            return False
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.size_bytes == other.size_bytes


NOTHING = FileState(FileKind.NOTHING)


class PathStep(msgspec.Struct, frozen=True, tag="step", gc=False):
    """One path becomes something else; `path` is relative to the workspace, links resolved."""

    path: bytes
    before: FileState
    after: FileState


class PathMove(msgspec.Struct, frozen=True, tag="move", gc=False):
    """Something gets another path, with all that it holds.

    `inode` tells whether it is still the same thing; `likeness` stands for its content, or for the
    names below it, where it is another but was put back as it was.
    """

    source: bytes
    destination: bytes
    inode: int
    likeness: bytes


Action = PathStep | PathMove


class Change(msgspec.Struct, frozen=True, kw_only=True, tag="change", omit_defaults=True):
    """What one operation is about to do.

    Attributes:
        call_id: The call, or the undoing, that it belongs to.
        actions: In their order.
        undoes: The changes that are taken back by it.
        left: Which actions of those, by their place, are not: they can be taken back later.
        unkept: What a program changed besides and can't be put back, with why.
    """

    change_id: str
    session_id: str
    call_id: str
    at_ms: int
    actions: tuple[Action, ...]
    undoes: tuple[str, ...] = ()
    left: tuple[int, ...] = ()
    unkept: tuple[str, ...] = ()


class ChangeEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended", omit_defaults=True):
    """The change is whole; with `is_void` it failed, and nothing is other than before."""

    change_id: str
    is_void: bool = False


class KnownChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change on record.

    Attributes:
        change: What it does.
        is_whole: Whether it ended; one that did not may have been done in part.
        remaining: Which of its actions, by their place, were not taken back since.
        is_undone: Whether it was taken back since, as a whole.
    """

    change: Change
    is_whole: bool
    remaining: tuple[int, ...]
    is_undone: bool = False


@runtime_checkable
class KeepsVersions(Protocol):
    """Writable files whose versions are kept."""

    @property
    def unkept(self) -> tuple[str, ...]:
        """What was changed and can't be put back, with why."""
        ...

    def why_unkept(self, path: str) -> tuple[str, ...]:
        """What would be lost for good if the path were changed now, with why. Looks at the disk."""
        ...


def known_changes(entries: list[Change | ChangeEnded]) -> list[KnownChange]:
    """The changes that happened, in their order; those of nothing are left out."""
    changes = {entry.change_id: entry for entry in entries if isinstance(entry, Change)}
    ended = {entry.change_id: entry for entry in entries if isinstance(entry, ChangeEnded)}
    undoings: dict[str, list[Change]] = {}
    known: list[KnownChange] = []
    # From the end: an undoing that was itself taken back takes nothing back.
    for change in reversed(changes.values()):
        end = ended.get(change.change_id)
        if end is not None and end.is_void:
            continue
        taken_back = undoings.get(change.change_id, [])
        remaining = set(range(len(change.actions)))
        for undoing in taken_back:
            remaining &= set(undoing.left)
        is_undone = bool(taken_back) and not remaining
        if end is not None and not is_undone:
            for change_id in change.undoes:
                undoings.setdefault(change_id, []).append(change)
        known.append(
            KnownChange(
                change=change,
                is_whole=end is not None,
                remaining=tuple(sorted(remaining)),
                is_undone=is_undone,
            )
        )
    known.reverse()
    return known


def path_bytes(names: tuple[str, ...]) -> bytes:
    """Names as they are kept."""
    return os.fsencode("/".join(names))


def path_names(path: bytes) -> tuple[str, ...]:
    """The names of a kept path."""
    return tuple(os.fsdecode(path).split("/"))

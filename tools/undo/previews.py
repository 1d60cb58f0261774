"""What an undo would change inside files, shown before anybody agrees to it."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...runtime.changes.file_versions import FileKind, FileState, PathMove, path_names
from ...runtime.changes.undo_report import UndoneFile
from ...runtime.changes.version_log import VersionLog
from ...runtime.errors import StorageError
from ..files.text_diff import diff
from ..workspace.paths import shown
from ..workspace.reader import READ_FLAGS
from ..workspace.resolver import Names, Resolver
from .file_states import pieces_of
from .plan import UndoPlan

MAX_SHOWN_FILES = 20
"""Files whose changes are shown; more are only named."""
MAX_SHOWN_LINES = 12
"""Of each file: enough to know it again. `+` and `-` are counted over all of it."""
MAX_LINE_CHARS = 200
MAX_COMPARED_BYTES = 256 * 1024
"""Of each side: a longer text is only named."""


def undone_files(
    resolver: Resolver, plan: UndoPlan, log: Callable[[str], VersionLog]
) -> tuple[UndoneFile, ...]:
    """Return what would become of text files, as they are now; those that only move have no changes.

    Raises:
        OSError: The workspace can't be read.
    """
    wanted: dict[bytes, tuple[str, FileState]] = {}
    moved: set[Names] = set()
    for reversal in plan.reversals:
        for action in reversal.actions:
            if isinstance(action, PathMove):
                moved |= {path_names(action.source), path_names(action.destination)}
            else:
                wanted[action.path] = reversal.change.session_id, action.after
    found: list[UndoneFile] = []
    for path, (session_id, state) in wanted.items():
        names = path_names(path)
        if any(names[: len(each)] == each for each in moved) or len(found) == MAX_SHOWN_FILES:
            continue
        before, after = _now(resolver, names), _kept(log(session_id), state)
        if before is not None and after is not None and before != after:
            found.append(_undone_file(names, before, after))
    return tuple(found)


def _undone_file(names: Names, before: str, after: str) -> UndoneFile:
    name = shown("/".join(names))
    lines = diff(before, after, name).split("\n")
    if lines[0].startswith("("):  # too much differs to be compared
        added, removed = len(after.splitlines()), len(before.splitlines())
        return UndoneFile(path=name, added=added, removed=removed, diff=(lines[0],))
    body = [line[:MAX_LINE_CHARS] for line in lines[2:] if line]  # without the two names
    return UndoneFile(
        path=name,
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
        diff=tuple(body[:MAX_SHOWN_LINES]),
        more=max(len(body) - MAX_SHOWN_LINES, 0),
    )


def _now(resolver: Resolver, names: Names) -> str | None:
    """Return the text of a file as it is; `None` if it is none."""
    try:
        with resolver.open_directory(names[:-1], follow=False) as parent:
            fd = resolver.open_at(parent, names[-1], READ_FLAGS)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    try:
        if os.fstat(fd).st_size > MAX_COMPARED_BYTES:
            return None
        return _text(b"".join(pieces_of(fd)))
    except OSError:
        return None
    finally:
        os.close(fd)


def _kept(log: VersionLog, state: FileState) -> str | None:
    if state.kind is FileKind.NOTHING:
        return ""
    if state.kind is not FileKind.FILE or state.size_bytes > MAX_COMPARED_BYTES or state.why:
        return None
    try:
        return _text(b"".join(log.content(state)))
    except StorageError:
        return None


def _text(data: bytes) -> str | None:
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None

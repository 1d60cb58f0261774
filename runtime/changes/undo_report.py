"""What can be undone in a session and those below it, and the report of an undoing."""

from __future__ import annotations

from typing import Literal

import msgspec


class ChangedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What one call, or one undoing, changed in files.

    Attributes:
        call_id: The call, or the id of the undoing.
        session_id: The session of the call: the one that was asked about, or one below it.
        at_ms: When it began, in Unix milliseconds.
        paths: The first `MAX_PATHS` paths that it wrote, moved or removed, relative to the workspace.
        path_count: How many paths there are.
        state: `changed`, `undone`, or `broken_off` when the process ended within it.
        is_undoing: Whether it undid changes of calls.
    """

    call_id: str
    at_ms: int
    paths: tuple[str, ...]
    path_count: int
    state: Literal["changed", "undone", "broken_off"]
    is_undoing: bool = False
    session_id: str = ""


class UndoneFile(msgspec.Struct, frozen=True, kw_only=True):
    """What an undoing would change inside a text file.

    Attributes:
        path: Relative to the workspace.
        added: Lines that it gets.
        removed: Lines that it loses.
        diff: The first lines of a unified diff, from how the file is now.
        more: How many lines follow.
    """

    path: str
    added: int
    removed: int
    diff: tuple[str, ...] = ()
    more: int = 0


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an undoing did, or would do.

    Attributes:
        undo_id: Its id; empty if nothing was done.
        call_ids: The calls whose changes were undone, the latest first.
        lines: What was done, path by path.
        left: What was left as it is, with why.
        programs: What programs of these calls changed and can't be undone, call by call.
        running: Background programs of the session that may write to these files.
        files: Of a dry run, what would change inside the first text files.
    """

    undo_id: str
    call_ids: tuple[str, ...]
    lines: tuple[str, ...]
    left: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    files: tuple[UndoneFile, ...] = ()


MAX_PATHS = 100
"""Paths to list for one call; a removed tree has thousands."""

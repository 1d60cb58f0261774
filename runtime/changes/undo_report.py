"""What can be undone in a session, and what came of an undoing."""

from __future__ import annotations

from typing import Literal

import msgspec


class ChangedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What one call, or one undoing, changed in files.

    Attributes:
        call_id: The call, or the id of the undoing.
        at_ms: When it began, in Unix milliseconds.
        paths: What it wrote, moved or removed, relative to the workspace; at most `MAX_PATHS`.
        path_count: How many those are.
        state: `changed`, `undone`, or `broken_off` when the process ended within it.
        is_undoing: Whether it took changes of calls back.
    """

    call_id: str
    at_ms: int
    paths: tuple[str, ...]
    path_count: int
    state: Literal["changed", "undone", "broken_off"]
    is_undoing: bool = False


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an undoing did, or would do.

    Attributes:
        undo_id: Names it; empty when nothing was done.
        call_ids: Whose changes were taken back, the latest first.
        lines: What was done, path by path, in words.
        left: What was left as it is, with why.
        programs: What programs of these calls changed and can't be undone, call by call.
        running: Programs of the session that run in the background, and may write to these files.
    """

    undo_id: str
    call_ids: tuple[str, ...]
    lines: tuple[str, ...]
    left: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    running: tuple[str, ...] = ()


MAX_PATHS = 100
"""Of one call in a list; a removed tree has thousands."""

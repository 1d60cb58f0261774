"""What a person took back of a session's changes."""

from __future__ import annotations

from ..text import StoredInteger
from .durable import Event


class ChangesUndone(Event, frozen=True, kw_only=True, tag="changes_undone"):
    """Changes that calls made to files were taken back; the model is not told, and sees the files.

    Attributes:
        undo_id: Names the undoing, which can be taken back too.
        call_ids: The calls, or undoings, whose changes they were, the latest first.
        paths: How many paths were put back, moved back or removed.
        left: How many were left as they are: changed since, or not kept.
        undone_by: Who, in words.
        is_forced: Whether what was changed since was replaced.
    """

    undo_id: str
    call_ids: tuple[str, ...]
    paths: StoredInteger
    left: StoredInteger = 0
    undone_by: str = ""
    is_forced: bool = False

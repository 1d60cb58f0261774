"""The durable event of an undo."""

from __future__ import annotations

from ..text import StoredInteger
from .durable import Event


class ChangesUndone(Event, frozen=True, kw_only=True, tag="changes_undone"):
    """A person undid changes that calls made to files. The model gets no message about it.

    Attributes:
        undo_id: The id of the undo, which can be undone too.
        call_ids: The calls, or undos, whose changes were undone, the latest first.
        paths: How many paths were restored, moved back or removed.
        left: How many were left alone: changed since, or without a kept version.
        is_forced: Whether files that were changed since were replaced.
    """

    undo_id: str
    call_ids: tuple[str, ...]
    paths: StoredInteger
    left: StoredInteger = 0
    undone_by: str = ""
    is_forced: bool = False

"""`session/undo`, `session/changes` and `root/…` on the wire: what happens to files."""

from __future__ import annotations

import msgspec

from ..undo_report import ChangedCall
from .sizes import Line, Word


class UndoChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What to take back: all of a session, or one call, or one undoing (`call_id`)."""

    session_id: Word
    call_id: Word | None = None
    force: bool = False
    dry_run: bool = False


class Changes(msgspec.Struct, frozen=True):
    """The calls that changed files, in their order."""

    changes: list[ChangedCall]


class Root(msgspec.Struct, frozen=True):
    """A folder below which sessions may work, as an absolute path."""

    path: Line


class Roots(msgspec.Struct, frozen=True):
    """The folders below which sessions may work."""

    roots: list[str]

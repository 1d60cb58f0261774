"""`session/export` and `session/import` on the wire: files of sessions, a page at a time."""

from __future__ import annotations

import msgspec

from ..integers import WireInteger
from .sizes import FileText, Line, Word


class ExportSession(msgspec.Struct, frozen=True, kw_only=True):
    """The next lines of a session's events, behind an event and so many characters of the next line."""

    session_id: Word
    after_seq: WireInteger = 0
    offset: WireInteger = 0


class ExportedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of events, the last of them perhaps in part; `after_seq` and `offset` are where it ends.

    `head_seq` is the last event by now, and `session_ids` are the session and all below it: each has
    pages of its own, and the head of the file counts all their events.
    """

    session_ids: tuple[str, ...]
    head_seq: int
    text: str
    after_seq: int
    offset: int


class ImportSessions(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file of sessions; `upload_id` is a word of the client's for all its parts.

    Parts count from 0; with the last one the sessions are stored, all or none, and work in
    `workspace`, or in a folder of their own.
    """

    upload_id: Word
    part: WireInteger
    text: FileText
    is_last: bool = False
    workspace: Line | None = None


class ImportedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes of the file have come; behind the last part, the id of its first session."""

    received_bytes: int
    session_id: str | None = None

"""Exported sessions as JSON Lines: a head, and then each event of each session, in order.

The head has the version of the format, the sessions and the number of events. Events are as in the store,
with secrets masked. Reading a file proves that it is complete and its sessions are sound, so an import
takes all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..errors import ValidationError
from ..events import (
    ApprovalAnswered,
    ApprovalAsked,
    ChildAsks,
    FilesMarked,
    GrantGiven,
    GrantRevoked,
    MemoryForgotten,
    MemoryStored,
    QuestionAnswered,
    QuestionAsked,
    SessionCreated,
    SessionPurged,
    Stored,
)

VERSION = 1
"""The version of the format; other versions are not read."""
MAX_LINE_BYTES = 64 * 1024 * 1024 + 1024
"""The largest event that the store takes, with room for the fields around it."""
MAX_FILE_EVENTS = 1_000_000
"""The most events of a file: some hundred megabytes in memory while they are checked."""

NOT_IMPORTED = (
    ApprovalAnswered,
    ApprovalAsked,
    ChildAsks,
    QuestionAnswered,
    QuestionAsked,
    GrantGiven,
    GrantRevoked,
    MemoryStored,
    MemoryForgotten,
    FilesMarked,
    SessionPurged,
)
"""Events that are allowed in a file but not imported: they would ask people, let calls run, reach other
sessions, mark files here, or tell clients that the session is gone."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. The first session is the exported one; the others are below it."""

    callboard_sessions: int
    sessions: tuple[str, ...]
    events: int
    exported_at_ms: int


_HEAD = msgspec.json.Decoder(Head)
_EVENT = msgspec.json.Decoder(Stored)
_ENCODER = msgspec.json.Encoder()


def head_line(sessions: Iterable[str], events: int, exported_at_ms: int) -> bytes:
    """Encode the head as its line."""
    head = Head(
        callboard_sessions=VERSION,
        sessions=tuple(sessions),
        events=events,
        exported_at_ms=exported_at_ms,
    )
    return _ENCODER.encode(head) + b"\n"


def event_line(stored: Stored) -> bytes:
    """Encode an event as its line."""
    return _ENCODER.encode(stored) + b"\n"


def read_sessions(lines: Iterable[bytes]) -> dict[str, list[Stored]]:
    """Return the sessions of a file, in order; raise `ValidationError` if it is not complete."""
    numbered = enumerate(lines, 1)
    head = _head(next(numbered, (1, b""))[1])
    sessions: dict[str, list[Stored]] = {each: [] for each in head.sessions}
    count = 0
    for stored in _events(numbered):
        events = sessions.get(stored.session_id)
        if events is None or stored.seq != len(events) + 1:
            raise _wrong(count + 2, "an event that does not follow those before it")
        if isinstance(stored.event, SessionCreated) != (stored.seq == 1):
            raise _wrong(count + 2, "a session that does not begin with its creation, once")
        events.append(stored)
        count += 1
    if count != head.events or not all(sessions.values()):
        raise ValidationError(
            f"The file is not complete: it has {count} of {head.events} events. Export it again."
        )
    return sessions


def _head(line: bytes) -> Head:
    try:
        head = _HEAD.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _wrong(1, "no head: callboard did not export this file") from None
    if head.callboard_sessions != VERSION:
        raise ValidationError(
            f"The file has version {head.callboard_sessions} of the format, and this callboard "
            f"reads {VERSION}. Import it with the callboard that exported it, or a newer one."
        )
    if not head.sessions or not 0 < head.events <= MAX_FILE_EVENTS:
        raise _wrong(1, f"no session, or more than {MAX_FILE_EVENTS} events")
    return head


def _events(numbered: Iterable[tuple[int, bytes]]) -> Iterator[Stored]:
    for number, line in numbered:
        if number > MAX_FILE_EVENTS + 1 or len(line) > MAX_LINE_BYTES:
            raise _wrong(number, "more than a file may hold")
        try:
            yield _EVENT.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _wrong(number, f"no event ({error})") from error


def _wrong(number: int, what: str) -> ValidationError:
    return ValidationError(f"Line {number} of the file has {what}. Nothing was imported.")

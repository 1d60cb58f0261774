"""Sessions as a file of JSON Lines: a head, and then each event of each session, in order.

The head says what it is, in which version, and whose sessions follow; an event stands on its line as
the journal has it, with secrets masked. Reading one proves that it is whole, and that its sessions are
sound: whoever imports it takes all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..errors import ValidationError
from ..events import (
    FilesMarked,
    GrantGiven,
    GrantRevoked,
    MemoryForgotten,
    MemoryStored,
    SessionCreated,
    SessionPurged,
    Stored,
)

VERSION = 1
"""Of the format; a reader takes its own and no other."""
MAX_LINE_BYTES = 64 * 1024 * 1024 + 1024
"""Of one event, which is as large as the store takes, and what stands around it."""
MAX_FILE_EVENTS = 1_000_000
"""Of all sessions of a file: some hundred megabytes in memory while it is checked."""

NOT_IMPORTED = (
    GrantGiven,
    GrantRevoked,
    MemoryStored,
    MemoryForgotten,
    FilesMarked,
    SessionPurged,
)
"""What a file may say, and nobody takes over: what would let calls run, be told to other sessions, mark
files here, or tell clients that the session is gone."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line; the first session is the one that was asked for, the others are below it."""

    callboard_sessions: int
    sessions: tuple[str, ...]
    events: int
    exported_at_ms: int


_HEAD = msgspec.json.Decoder(Head)
_EVENT = msgspec.json.Decoder(Stored)
_ENCODER = msgspec.json.Encoder()


def head_line(sessions: Iterable[str], events: int, exported_at_ms: int) -> bytes:
    """The line that stands before the events."""
    head = Head(
        callboard_sessions=VERSION,
        sessions=tuple(sessions),
        events=events,
        exported_at_ms=exported_at_ms,
    )
    return _ENCODER.encode(head) + b"\n"


def event_line(stored: Stored) -> bytes:
    """An event as its line."""
    return _ENCODER.encode(stored) + b"\n"


def read_sessions(lines: Iterable[bytes]) -> dict[str, list[Stored]]:
    """The sessions of a file, in its order; raises `ValidationError` when it is not a whole one."""
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
            f"The file is not whole: it has {count} of {head.events} events. Export it again."
        )
    return sessions


def _head(line: bytes) -> Head:
    try:
        head = _HEAD.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _wrong(1, "no head: this is no file that callboard exported") from None
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

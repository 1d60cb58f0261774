"""Durable events as bytes: encoded, checked and with secrets masked before they are stored.

Each is stored with a checksum, since SQLite has none for what is in its pages: whoever reads events reads them by
`event_of`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..errors import ValidationError
from ..events import CallFinished, DurableEvent, InputAccepted, MessageCompleted
from ..history import Opaque
from ..redaction import mask, redactor
from ..text import without_surrogates

if TYPE_CHECKING:
    import apsw

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""A result for the model is at most 64 KiB, an answer a few MiB; more would take too much memory."""

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(DurableEvent)

_Value = TypeVar("_Value")


def encode_event(event: DurableEvent) -> tuple[DurableEvent, bytes]:
    """Encode an event; return the event that the bytes decode to, and the bytes.

    The event may change in two ways. A lone surrogate (from a file name that is not UTF-8, or half of a
    character in a model's JSON) becomes U+FFFD, since UTF-8 can't express it. A secret in a text (a tool
    printed it) is masked, because models, exports and other programs read what is stored.

    Raises:
        ValidationError: The event is too large, can't be decoded again, or an opaque part is not JSON.
    """
    has_files = isinstance(event, InputAccepted | CallFinished) and event.attachments != ()
    if has_files:
        event = _with_files(event, redactor.mask_file)
    try:
        data = _ENCODER.encode(event)
    except UnicodeEncodeError:
        event = with_texts(event, without_surrogates)
        data = _ENCODER.encode(event)
    # Base64 is not searched: its files were searched above, and megabytes take long.
    if redactor.finds(_ENCODER.encode(_with_files(event, _emptied)) if has_files else data):
        event = with_texts(event, mask)
        data = _ENCODER.encode(event)
    if len(data) > MAX_EVENT_BYTES:
        raise ValidationError(
            f"An event of {len(data)} bytes is too large to be stored; the limit is "
            f"{MAX_EVENT_BYTES}.",
            field=type(event).__name__,
        )
    if isinstance(event, MessageCompleted):
        _check_opaque_parts(event)
    try:
        # An event that can't be decoded would make its session unreadable. Structs don't check the
        # types of their fields, and an embedding program may pass others.
        _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        name = type(event).__name__
        raise ValidationError(f"{name} can't be stored: {error}.", field=name) from error
    return event, data


_FACTOR, _PRIME = 1_000_003, 4_294_967_291


def checksum(data: bytes, session: int, seq: int, at_ms: int) -> int:
    """Return what is stored beside an event: any one flipped bit in it or in its place changes this."""
    return zlib.crc32(data, ((session * _FACTOR + seq) * _FACTOR + at_ms) % _PRIME)


def is_sound(row: Sequence[Any]) -> bool:
    """Whether an event, its session, seq, time and checksum belong together.

    An event of an older callboard has no checksum, which counts as sound.
    """
    data, session, seq, at_ms, stored = row
    if stored is None:
        return True
    # A damaged row may have anything anywhere.
    is_row = type(data) is bytes and type(session) is type(seq) is type(at_ms) is int
    return is_row and checksum(data, session, seq, at_ms) == stored


def add_check(connection: apsw.Connection) -> None:
    """Let statements of a connection read events by `EVENT`, which raises `apsw.CorruptError`."""
    connection.create_scalar_function("sound", _checked, 5, deterministic=True)


def _checked(*row: Any) -> bytes:
    if not is_sound(row):
        from apsw import CorruptError  # here: clients read events, and have no SQLite

        raise CorruptError(f"event {row[2]} of session {row[1]} is not what was stored")
    data: bytes = row[0]
    return data


def has_checksums(connection: apsw.Connection) -> bool:
    """Return whether a store is new enough to have a checksum beside each event."""
    columns = connection.execute("select name from pragma_table_info('events')")
    return ("checksum",) in columns.fetchall()


def event_of(table: str) -> str:
    """Return the SQL of an event of `events`, checked, where the table has this name."""
    columns = ("event", "session", "seq", "at_ms", "checksum")
    return f"sound({', '.join(f'{table}.{column}' for column in columns)})"


def decode_event(data: bytes) -> DurableEvent:
    """Decode an event; raise `msgspec.MsgspecError` if the bytes are not one."""
    try:
        event: DurableEvent = _DECODER.decode(data)
    except UnicodeDecodeError as error:  # msgspec's own errors do not cover broken UTF-8
        raise msgspec.DecodeError(str(error)) from error
    return event


def _check_opaque_parts(message: MessageCompleted) -> None:
    # Opaque parts are copied into the event's JSON as they are; a broken one would make the session
    # unreadable.
    for part in message.parts:
        if isinstance(part, Opaque):
            try:
                msgspec.json.decode(part.data)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ValidationError(
                    f"An opaque part of message {message.message_id} is not JSON: {error}",
                    field="parts",
                ) from error


def _with_files(event: DurableEvent, change: Callable[[bytes], bytes]) -> DurableEvent:
    assert isinstance(event, InputAccepted | CallFinished)
    files = tuple(
        msgspec.structs.replace(file, data=change(file.data)) for file in event.attachments
    )
    return msgspec.structs.replace(event, attachments=files)


def _emptied(_: bytes) -> bytes:
    return b""


def with_texts(value: _Value, change: Callable[[str], str]) -> _Value:
    """Return a struct with all texts in it changed, however deep."""
    changed: Any = value
    if type(value) is str:  # not a member of a StrEnum
        changed = change(changed)
    elif isinstance(value, msgspec.Raw):
        text = bytes(value).decode(errors="replace")
        if (masked := change(text)) != text:
            changed = msgspec.Raw(masked.encode())
    elif isinstance(value, tuple):
        changed = tuple(with_texts(item, change) for item in value)
    elif isinstance(value, msgspec.Struct):
        fields = {
            name: with_texts(getattr(value, name), change) for name in value.__struct_fields__
        }
        changed = msgspec.structs.replace(value, **fields)
    return changed  # type: ignore[no-any-return]

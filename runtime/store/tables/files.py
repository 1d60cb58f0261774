"""The column `messages.files`: which files came with a message, and the event that has them.

It is JSON: `{"seq": 7, "files": [{"name": …, "media_type": …, "size_bytes": …}]}`. The bytes are in the event alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ...definitions import Attachment
from ...events import CallFinished, InputAccepted, Stored
from ..rows import MessageFile


class KeptFiles(msgspec.Struct, frozen=True):
    """The files of one message: the `seq` of their event, and what they are, in its order."""

    seq: int
    files: tuple[MessageFile, ...]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(KeptFiles)

_SELECT = (
    "select m.files from messages m join sessions s on s.id = m.session"
    " where s.session_id = ? and m.message_id = ? and m.files is not null"
)


def kept_files(seq: int, attachments: Sequence[Attachment]) -> str:
    """Return what the column holds of these files."""
    files = [MessageFile(each.name, each.media_type, len(each.data)) for each in attachments]
    return _ENCODER.encode(KeptFiles(seq, tuple(files))).decode()


def read_file(
    rows: Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]],
    events: Callable[..., list[Stored]],
    session_id: str,
    message_id: str,
    number: int,
) -> Attachment | None:
    """Return one file of a message, counted from 0, or `None` if it has no such file."""
    found = rows(_SELECT, (session_id, message_id))
    if not found:
        return None
    kept = _DECODER.decode(found[0][0])
    if not 0 <= number < len(kept.files):
        return None
    (stored,) = events(session_id, after_seq=kept.seq - 1, limit=1)
    assert isinstance(stored.event, InputAccepted | CallFinished)
    return stored.event.attachments[number]

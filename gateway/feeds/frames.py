"""Updates and answers as the bytes of websocket frames; an update is encoded once for all clients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from ...runtime.events import (
    CallFinished,
    CallProgress,
    DurableEvent,
    InputAccepted,
    LiveEvent,
    Stored,
    StreamBatch,
)
from ...runtime.store.feeds import LogEntry, StoredBytes
from ...runtime.text import without_surrogates
from ...runtime.turns.live_state import joined, text_of
from ...runtime.wire.rpc import RpcAnswer, RpcNotification

_WHOLE_TEXT = 0x81
"""The first byte of a text message in one frame (RFC 6455, 5.2)."""


def text_frame(text: bytes) -> bytes:
    """Return the frame of a text in UTF-8."""
    size = len(text)
    if size < 126:
        return bytes((_WHOLE_TEXT, size)) + text
    if size < 1 << 16:
        return bytes((_WHOLE_TEXT, 126)) + size.to_bytes(2) + text
    return bytes((_WHOLE_TEXT, 127)) + size.to_bytes(8) + text


_ENCODER = msgspec.json.Encoder()


def wire_json(value: object) -> bytes:
    """Return a value as JSON; lone surrogates become U+FFFD, as on record."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(_whole(msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


LARGE_EVENT = 256 * 1024
"""Bytes of an event that is encoded in a thread, from the record, so that no other client waits."""


def is_large(event: DurableEvent) -> bool:
    """Return whether an event may exceed `LARGE_EVENT`, by the fields that can be long."""
    size = 0
    if isinstance(event, InputAccepted):
        size = len(event.text) + sum(len(file.data) for file in event.attachments)
    elif isinstance(event, CallFinished):
        size = len(event.full_output or "") + sum(len(file.data) for file in event.attachments)
    return size > LARGE_EVENT


class SharedFrame:
    """An update on its way to any number of connections."""

    __slots__ = ("_data", "session_id", "update")

    def __init__(self, session_id: str, update: Stored | LiveEvent) -> None:
        self.session_id = session_id
        self.update = update
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:
        """The bytes of the frame."""
        if self._data is None:
            self._data = update_frame(self.session_id, self.update)
        return self._data

    def merged(self, later: SharedFrame) -> SharedFrame | None:
        """Return both in one, if they are live text of the same answer or call; else `None`."""
        first, second = self.update, later.update
        if (
            later.session_id != self.session_id
            or not isinstance(first, StreamBatch | CallProgress)
            or not isinstance(second, StreamBatch | CallProgress)
            or _source(first) != _source(second)
        ):
            return None
        return merged_frames(self.session_id, (first, second))[0]


def merged_frames(
    session_id: str, updates: Sequence[StreamBatch | CallProgress]
) -> list[SharedFrame]:
    """Return these updates as frames, neighbours of one answer or call in one frame."""
    frames: list[SharedFrame] = []
    for _, group in groupby(updates, key=_source):
        alike = list(group)
        first, pieces, text = alike[0], [], []
        for each in alike:
            if isinstance(each, StreamBatch):
                pieces += each.events
            else:
                text.append(each.text)
        merged: LiveEvent
        if isinstance(first, StreamBatch):
            merged = StreamBatch(first.stream_id, first.offset, joined(pieces))
        else:
            merged = CallProgress(first.call_id, "\n".join(text))
        frames.append(SharedFrame(session_id, merged))
    return frames


def text_size(update: StreamBatch | CallProgress) -> int:
    """Return how many characters of text an update brings, and one more, so that nothing is free."""
    if isinstance(update, CallProgress):
        return 1 + len(update.text)
    return 1 + sum(len(text_of(event) or "") for event in update.events)


def _source(update: StreamBatch | CallProgress) -> tuple[type, str]:
    its = update.stream_id if isinstance(update, StreamBatch) else update.call_id
    return type(update), its


class TopicFrame:
    """An event of a topic on its way to any number of connections."""

    __slots__ = ("_data", "_entry")

    def __init__(self, entry: LogEntry) -> None:
        self._entry = entry
        self._data: bytes | None = None

    @property
    def data(self) -> bytes:
        """The bytes of the frame."""
        if self._data is None:
            entry = self._entry
            params = {"topic": entry.topic, "seq": entry.seq, "update": entry.stored}
            self._data = notification("topic/update", params)
        return self._data


def update_frame(session_id: str, update: Stored | StoredBytes | LiveEvent) -> bytes:
    """Return a `session/update`."""
    if isinstance(update, Stored | StoredBytes):
        return notification("session/update", update)
    return notification("session/update", {"session_id": session_id, "event": update})


def notification(method: str, params: object) -> bytes:
    """Return the frame of a notification."""
    return text_frame(wire_json(RpcNotification(method=method, params=params)))


def answer_frame(answer: RpcAnswer) -> bytes:
    """Return the frame of an answer."""
    return text_frame(wire_json(answer))

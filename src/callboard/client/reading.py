"""Decode what a daemon sends, which may be newer than this client, or another program altogether.

What is new in a later version is skipped: events and topics that this version does not know, and unknown
pieces of a live event. A known event in a form that it cannot decode is an error instead: whoever skipped
the end of a turn would wait for it for ever.
"""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import msgspec

from ..runtime.errors import ConflictError, NetworkError
from ..runtime.events import DurableEvent, LiveEvent
from ..runtime.store.feeds import Topic
from ..runtime.stream import AnyStreamEvent
from ..runtime.wire.topics import Snapshot, TopicUpdate, Update

Known = TypeVar("Known")


class UnknownUpdate(msgspec.Struct, frozen=True):
    """An event of a session that only a later version knows; with a `seq` it is on record."""

    session_id: str
    seq: int | None = None


class OtherForm(msgspec.Struct, frozen=True):
    """An event of a known kind in a form that this version cannot decode.

    Attributes:
        name: The session's id, or the topic.
        error: Raised to the reader of that session or topic.
    """

    name: str
    error: ConflictError


_TAGS = frozenset(
    kind.__struct_config__.tag for kind in (*get_args(DurableEvent), *get_args(LiveEvent))
)


class _Tagged(msgspec.Struct, frozen=True):
    type: str


class _AnyUpdate(msgspec.Struct, frozen=True):
    session_id: str
    event: _Tagged


class _AnySnapshot(msgspec.Struct, frozen=True):
    session_id: str
    seq: int


class _AnyTopicUpdate(msgspec.Struct, frozen=True):
    topic: Topic
    update: _AnyUpdate


class _Garbage(Exception):
    """Not JSON, or not of this form."""


def read_params(params: msgspec.Raw | str | bytes, known: type[Known], url: str) -> Known:
    """Return a frame, or a notification's parameters; raise `NetworkError` for what no version sends."""
    try:
        return _decode(params, known)
    except _Garbage as error:
        raise NetworkError(
            f"what is at {url} does not speak as callboard does ({error}): look at the address, and at "
            "what stands between",
            stage="http",
        ) from None


def read_result(raw: msgspec.Raw, result: type[Known], method: str, url: str) -> Known:
    """Return an answer's result; raise `ConflictError` if this version does not know its form."""
    try:
        return _decode(raw, result)
    except _Garbage as error:
        raise ConflictError(
            f"the daemon at {url} answers {method} in a form that this client does not know ({error}):"
            " upgrade the older of the two"
        ) from None


def read_update(params: msgspec.Raw, url: str) -> Update | UnknownUpdate | OtherForm:
    """Return a `session/update`; raise `NetworkError`."""
    try:
        return _decode(params, Update)
    except _Garbage:
        pass
    try:
        return _decode(_with_known_pieces(params, "event"), Update)
    except _Garbage as error:
        why = error
    try:
        update = _decode(params, _AnyUpdate)
    except _Garbage:
        return read_params(params, UnknownUpdate, url)
    if update.event.type in _TAGS:
        return _other_form(update.session_id, f"the event {update.event.type}", url, why)
    return read_params(params, UnknownUpdate, url)


def read_snapshot(params: msgspec.Raw, url: str) -> Snapshot | OtherForm:
    """Return a `session/snapshot`; raise `NetworkError`."""
    try:
        return _decode(params, Snapshot)
    except _Garbage:
        pass
    try:
        return _decode(_with_known_pieces(params, "answer"), Snapshot)
    except _Garbage as error:
        known = read_params(params, _AnySnapshot, url)
        return _other_form(known.session_id, "session/snapshot", url, error)


def read_topic_update(params: msgspec.Raw, url: str) -> TopicUpdate | OtherForm | None:
    """Return a `topic/update`; `None` for one that only a later version knows.

    Leaving it out is safe: the numbers of a topic have gaps anyway.
    """
    try:
        return _decode(params, TopicUpdate)
    except _Garbage as error:
        why = error
    try:
        update = _decode(params, _AnyTopicUpdate)
    except _Garbage:
        return None
    kind = update.update.event.type
    return _other_form(update.topic, f"the event {kind}", url, why) if kind in _TAGS else None


def _other_form(name: str, what: str, url: str, why: _Garbage) -> OtherForm:
    return OtherForm(
        name,
        ConflictError(
            f"the daemon at {url} sends {what} of {name} in a form that this client does not know "
            f"({why}): upgrade the older of the two"
        ),
    )


def _decode(data: msgspec.Raw | str | bytes, known: type[Known]) -> Known:
    try:
        decoded: Any = msgspec.json.decode(data, type=known)
    except RecursionError:
        raise _Garbage("it is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _Garbage(str(error)) from None
    return decoded  # type: ignore[no-any-return]


def _with_known_pieces(params: msgspec.Raw, name: str) -> msgspec.Raw:
    """Return the parameters without the pieces of an answer that this version does not know.

    Such pieces are not text, so the offsets of the text still have no gap.
    """
    try:
        whole = _decode(params, dict[str, Any])
    except _Garbage:
        return params
    batch = whole.get(name)
    if not isinstance(batch, dict) or not isinstance(batch.get("events"), list):
        return params
    batch["events"] = [piece for piece in batch["events"] if _is_known(piece)]
    return msgspec.Raw(msgspec.json.encode(whole))


def _is_known(piece: object) -> bool:
    try:
        msgspec.convert(piece, AnyStreamEvent)
    except msgspec.ValidationError:
        return False
    return True

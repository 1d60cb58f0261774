"""Everything that the server says by itself, by its name on the wire."""

from __future__ import annotations

import msgspec

from ..rpc import RpcError
from ..topics import Topic
from .topics import TopicCurrent, TopicUpdate
from .updates import Snapshot, Update


class SessionLost(msgspec.Struct, frozen=True):
    """`session/lost`: this session is heard no more, and why."""

    session_id: str
    error: RpcError


class TopicLost(msgspec.Struct, frozen=True):
    """`topic/lost`: this topic is heard no more, and why."""

    topic: Topic
    error: RpcError


class Stopping(msgspec.Struct, frozen=True):
    """`runtime/stopping`: the server ends soon; turns have so many seconds to end."""

    seconds: float = 0.0


NOTIFICATIONS: dict[str, type[msgspec.Struct]] = {
    "session/update": Update,
    "session/snapshot": Snapshot,
    "session/lost": SessionLost,
    "topic/update": TopicUpdate,
    "topic/current": TopicCurrent,
    "topic/lost": TopicLost,
    "runtime/stopping": Stopping,
}

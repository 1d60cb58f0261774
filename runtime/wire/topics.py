"""`topic/…` on the wire: what happens in all sessions."""

from __future__ import annotations

import msgspec

from ..events import DurableEvent, LiveEvent, Stored, StreamBatch
from ..store.feeds import Topic
from ..text import WireInteger
from ..turns.live_state import RunningOutput
from .fields import Word
from .rpc import RpcError


class SubscribeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Hear a topic: all on record behind `after_seq`, then live. Without it, from now on.

    `after_seq` counts in the store of `epoch`; without one, in the store that there is.
    """

    topic: Topic
    after_seq: WireInteger | None = None
    epoch: Word | None = None


class OneTopic(msgspec.Struct, frozen=True):
    """A topic by its name."""

    topic: Topic


class SubscribedTopic(msgspec.Struct, frozen=True):
    """`seq` is the last one of all topics by now."""

    seq: int


class TopicUpdate(msgspec.Struct, frozen=True):
    """`topic/update`: an event of a session; `seq` grows over all topics, with gaps."""

    topic: Topic
    seq: int
    update: Stored


class TopicCurrent(msgspec.Struct, frozen=True):
    """`topic/current`: everything up to `seq` was told; what follows has just happened."""

    topic: Topic
    seq: int


class Update(msgspec.Struct, frozen=True):
    """`session/update`: an event on record, which has a `seq`, or a live one."""

    session_id: str
    event: DurableEvent | LiveEvent
    seq: int | None = None
    at_ms: int | None = None

    def known(self) -> Stored | LiveEvent:
        """The event as the runtime knows it."""
        if self.seq is None or self.at_ms is None:
            return self.event  # type: ignore[return-value]
        return Stored(self.session_id, self.seq, self.at_ms, self.event)  # type: ignore[arg-type]


class Snapshot(msgspec.Struct, frozen=True):
    """`session/snapshot`: what is under way behind the event `seq`; it replaces what was live before.

    `answer` is all of the answer so far; live events go on behind it.
    """

    session_id: str
    seq: int
    answer: StreamBatch | None = None
    outputs: tuple[RunningOutput, ...] = ()


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

"""`topic/…` on the wire, and all notifications of the server."""

from __future__ import annotations

import msgspec

from ..events import ChildCall, DurableEvent, LiveEvent, Stored, StreamBatch
from ..store.feeds import Topic
from ..text import WireInteger
from ..turns.live_state import RunningOutput
from .fields import Word
from .rpc import RpcError


class SubscribeTopic(msgspec.Struct, frozen=True, kw_only=True):
    """Subscribe to a topic: stored events after `after_seq`, then new ones. Without it, only new ones.

    `after_seq` is of the store with `epoch`; without `epoch`, of the present store.
    """

    topic: Topic
    after_seq: WireInteger | None = None
    epoch: Word | None = None


class OneTopic(msgspec.Struct, frozen=True):
    """A topic by its name."""

    topic: Topic


class SubscribedTopic(msgspec.Struct, frozen=True):
    """`seq` is the last one of all topics now."""

    seq: int


class TopicUpdate(msgspec.Struct, frozen=True):
    """`topic/update`: an event of a session; `seq` grows over all topics, with gaps."""

    topic: Topic
    seq: int
    update: Stored


class TopicCurrent(msgspec.Struct, frozen=True):
    """`topic/current`: all stored events up to `seq` were sent; new events follow."""

    topic: Topic
    seq: int


class Update(msgspec.Struct, frozen=True):
    """`session/update`: a stored event, which has a `seq`, or a live one."""

    session_id: str
    event: DurableEvent | LiveEvent
    seq: int | None = None
    at_ms: int | None = None

    def known(self) -> Stored | LiveEvent:
        """Return the event as the runtime has it."""
        if self.seq is None or self.at_ms is None:
            return self.event  # type: ignore[return-value]
        return Stored(self.session_id, self.seq, self.at_ms, self.event)  # type: ignore[arg-type]


class Snapshot(msgspec.Struct, frozen=True):
    """`session/snapshot`: the live state after the event `seq`; it replaces all earlier live events.

    `answer` is the whole answer so far; live events continue it. `below` has the calls of sessions below that have not
    ended.
    """

    session_id: str
    seq: int
    answer: StreamBatch | None = None
    outputs: tuple[RunningOutput, ...] = ()
    below: tuple[ChildCall, ...] = ()


class SessionLost(msgspec.Struct, frozen=True):
    """`session/lost`: the subscription to a session has ended, and why."""

    session_id: str
    error: RpcError


class TopicLost(msgspec.Struct, frozen=True):
    """`topic/lost`: the subscription to a topic has ended, and why."""

    topic: Topic
    error: RpcError


class Stopping(msgspec.Struct, frozen=True):
    """`runtime/stopping`: the server stops soon; turns have this many seconds to end."""

    seconds: float = 0.0


class StoreAway(msgspec.Struct, frozen=True):
    """`runtime/store_unavailable`: the database does not answer this node; sessions stand still until it does.

    `since_ms` is in Unix milliseconds.
    """

    since_ms: int
    reason: str = ""


class StoreBack(msgspec.Struct, frozen=True):
    """`runtime/store_available`: the database answers again, after so many seconds."""

    seconds: float = 0.0


NOTIFICATIONS: dict[str, type[msgspec.Struct]] = {
    "session/update": Update,
    "session/snapshot": Snapshot,
    "session/lost": SessionLost,
    "topic/update": TopicUpdate,
    "topic/current": TopicCurrent,
    "topic/lost": TopicLost,
    "runtime/stopping": Stopping,
    "runtime/store_unavailable": StoreAway,
    "runtime/store_available": StoreBack,
}

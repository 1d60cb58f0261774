"""`topic/…` on the wire: what happens in all sessions."""

from __future__ import annotations

import msgspec

from ..events import Stored
from ..integers import WireInteger
from ..topics import Topic
from .sizes import Word


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

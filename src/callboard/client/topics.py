"""What happens in all sessions, by topic, as a client far away hears it."""

from __future__ import annotations

from typing import Protocol

from ..runtime.store.feeds import Topic
from ..runtime.wire.topics import TopicCurrent, TopicUpdate
from .feed import RemoteFeed

RemoteTopicEvent = TopicUpdate | TopicCurrent
"""What an iteration over a topic far away gives."""


class TopicHearing(Protocol):
    """Where subscriptions to topics are made."""

    async def subscribe_topic(self, feed: RemoteTopic, after_seq: int | None) -> int:
        """From here on it is told what is behind this `seq`, or all that is new."""
        ...

    async def begin_topic_anew(self, feed: RemoteTopic) -> None:
        """Ends a subscription of this connection that may be there still."""
        ...

    def drop_topic(self, feed: RemoteTopic) -> bool:
        """It is told no more, whatever comes; never waits."""
        ...

    async def forget_topic(self, feed: RemoteTopic) -> None:
        """It is told no more, and the daemon hears of it."""
        ...


class RemoteTopic(RemoteFeed[RemoteTopicEvent]):
    """A topic of a daemon; made by `Client.topic`: enter it, then iterate.

    Gives a `TopicUpdate` for each event, and a `TopicCurrent` when all on record was given: at the start,
    and behind a broken connection.
    """

    def __init__(
        self,
        hearing: TopicHearing,
        topic: Topic,
        after_seq: int | None,
        epoch: str | None = None,
    ) -> None:
        super().__init__(after_seq, epoch)
        self.topic = topic
        self._hearing = hearing

    async def _begin_anew(self) -> None:
        # The numbers of a topic have gaps: what one subscription missed can't be seen in the next.
        await self._hearing.begin_topic_anew(self)

    async def _follow(self, after_seq: int | None) -> int:
        return await self._hearing.subscribe_topic(self, after_seq)

    def _drop(self) -> None:
        self._hearing.drop_topic(self)

    async def _forget(self) -> None:
        await self._hearing.forget_topic(self)

    def _continues(self, item: RemoteTopicEvent) -> bool:
        return self._taken_seq is None or item.seq > self._taken_seq or self._is_current(item)

    def _is_current(self, item: RemoteTopicEvent) -> bool:
        return isinstance(item, TopicCurrent) and item.seq == self._taken_seq

    def _take(self, item: RemoteTopicEvent) -> None:
        self._taken_seq = item.seq

    def _seq_of(self, item: RemoteTopicEvent) -> int | None:
        return item.seq

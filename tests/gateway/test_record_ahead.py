"""Who subscribes from now on, while the record is ahead of what the session has told, gets no older state than it was told."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import trio
import trio.testing

from callboard.config.sections import ServerSettings
from callboard.gateway.feeds.outbox import Outbox
from callboard.gateway.feeds.session_feed import SessionFeed, SessionSubscriber
from callboard.gateway.quotas import Holding, Quota, Quotas
from callboard.runtime.events import Stored, TurnEnded
from callboard.runtime.kernel.delivery import Subscription
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.messages import DirectoryMessage, FollowSession, FollowStart
from callboard.runtime.turns.live_state import UnderWay


@asynccontextmanager
async def open_feed(head_seq: int) -> AsyncGenerator[tuple[SessionFeed, Subscription]]:
    """A feed that has seen so many events, and what brings it more."""
    directory: Mailbox[DirectoryMessage] = Mailbox("directory", 8)
    feed = SessionFeed("session_1", directory)
    with directory.open() as requests:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            request = await anext(requests)
            assert isinstance(request, FollowSession)
            request.reply.send(FollowStart(head_seq=head_seq, under_way=UnderWay()))
            await feed.joined.wait()
            try:
                yield feed, request.subscription
            finally:
                nursery.cancel_scope.cancel()


class Client:
    """A subscriber with its outbox, brought up to date as its connection does it."""

    def __init__(self, feed: SessionFeed, position: int) -> None:
        quota = Quota(Quotas(ServerSettings()), is_local=True)
        self.outbox = Outbox(1 << 20, Holding(quota, lambda: None))
        self.subscriber = SessionSubscriber(feed, self.outbox, position, lambda: None)
        feed.add(self.subscriber)

    async def bring_up(self) -> None:
        while not self.subscriber.is_live:
            await self.subscriber.joined()
            await self.subscriber.catch_up(None)  # type: ignore[arg-type]  # nothing of the record is wanted

    async def read(self) -> list[int]:
        """The `seq` of all that has come."""
        found: list[int] = []
        data = await self.outbox.take() if self.outbox.is_sending else b""
        while data:
            size, start = data[1], 2
            if size == 126:
                size, start = int.from_bytes(data[2:4]), 4
            found.append(msgspec.json.decode(data[start : start + size])["params"]["seq"])
            data = data[start + size :]
        return found


def stored(seq: int) -> Stored:
    return Stored("session_1", seq, 0, TurnEnded(turn_id="turn_1", outcome="answered"))


async def test_a_snapshot_is_never_older_than_the_position_of_its_subscriber() -> None:
    async with open_feed(3) as (feed, session), trio.open_nursery() as nursery:
        client = Client(feed, 5)
        nursery.start_soon(client.bring_up)
        await trio.testing.wait_all_tasks_blocked()
        session.put([stored(4)])
        await trio.testing.wait_all_tasks_blocked()
        assert not client.subscriber.is_live
        session.put([stored(5)])
        await trio.testing.wait_all_tasks_blocked()
        assert client.subscriber.is_live
        session.put([stored(6)])
        await trio.testing.wait_all_tasks_blocked()
        assert await client.read() == [5, 6]  # the snapshot, and what came behind it


async def test_who_is_where_the_feed_is_gets_the_snapshot_at_once() -> None:
    async with open_feed(3) as (feed, _):
        client = Client(feed, 3)
        await client.bring_up()
        assert await client.read() == [3]


async def test_who_waits_for_a_feed_that_is_followed_again_goes_on_with_it() -> None:
    directory: Mailbox[DirectoryMessage] = Mailbox("directory", 8)
    feed = SessionFeed("session_1", directory)
    with directory.open() as requests:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            first = await anext(requests)
            assert isinstance(first, FollowSession)
            first.reply.send(FollowStart(head_seq=3, under_way=UnderWay()))
            client = Client(feed, 5)
            nursery.start_soon(client.bring_up)
            await trio.testing.wait_all_tasks_blocked()
            first.subscription.close()  # the session's actor has crashed
            again = await anext(requests)
            assert isinstance(again, FollowSession)
            assert not client.subscriber.is_live
            again.reply.send(FollowStart(head_seq=5, under_way=UnderWay()))
            await trio.testing.wait_all_tasks_blocked()
            assert client.subscriber.is_live
            assert await client.read() == [5]
            nursery.cancel_scope.cancel()

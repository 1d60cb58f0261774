"""Text is held for some milliseconds while earlier frames are on their way, and nothing else ever is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from callboard.config.sections import ServerSettings
from callboard.gateway.feeds.outbox import MERGE_SIZE, Outbox
from callboard.gateway.feeds.session_feed import HOLD_SECONDS, SessionFeed, SessionSubscriber
from callboard.gateway.quotas import Holding, Quota, Quotas
from callboard.runtime.events import CallProgress, Stored, StreamBatch, TurnEnded
from callboard.runtime.kernel.delivery import Subscription
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.messages import DirectoryMessage, FollowSession, FollowStart
from callboard.runtime.stream import TextDelta
from callboard.runtime.turns.live_state import UnderWay

STREAM = "message_1"


class Stage:
    """A feed, the session behind it, and clients in front of it."""

    def __init__(self, feed: SessionFeed, session: Subscription) -> None:
        self._feed = feed
        self._session = session
        self._said = 0
        self._seq = 0

    def client(self) -> Outbox:
        """A new subscriber's outbox; it is live once it has caught up."""
        quota = Quota(Quotas(ServerSettings()), is_local=True)
        outbox = Outbox(1 << 20, Holding(quota, lambda: None))
        self._feed.add(SessionSubscriber(self._feed, outbox, self._seq, lambda: None))
        return outbox

    async def catch_up(self) -> None:
        for each in self._feed._subscribers:
            if not each.is_live:
                await each.catch_up(None)  # type: ignore[arg-type]  # its position is the head

    async def say(self, text: str) -> None:
        """A piece of the answer, as one network read brought it."""
        await self.update(StreamBatch(STREAM, self._said, [TextDelta(text)]))
        self._said += len(text)

    async def update(self, update: Any) -> None:
        self._session.put([update])
        await trio.testing.wait_all_tasks_blocked()

    async def end(self) -> None:
        """Something durable."""
        self._seq += 1
        event = TurnEnded(turn_id="turn_1", outcome="answered")
        await self.update(Stored("session_1", self._seq, 0, event))


@asynccontextmanager
async def open_stage() -> AsyncGenerator[Stage]:
    directory: Mailbox[DirectoryMessage] = Mailbox("directory", 8)
    feed = SessionFeed("session_1", directory)
    with directory.open() as requests:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.run)
            request = await anext(requests)
            assert isinstance(request, FollowSession)
            request.reply.send(FollowStart(head_seq=0, under_way=UnderWay()))
            await feed.joined.wait()
            try:
                yield Stage(feed, request.subscription)
            finally:
                nursery.cancel_scope.cancel()


async def took(outbox: Outbox) -> list[str]:
    """What a client reads in one go: the texts, or the types, of its frames."""
    if not outbox.is_sending:
        return []
    return list(shown(await outbox.take()))


def shown(data: bytes) -> Iterable[str]:
    while data:
        size, start = data[1], 2
        if size == 126:
            size, start = int.from_bytes(data[2:4]), 4
        params = msgspec.json.decode(data[start : start + size])["params"]
        data = data[start + size :]
        if "event" not in params:
            answer = params["answer"]
            yield f"snapshot: {answer['events'][0]['text'] if answer else ''}"
            continue
        event = params["event"]
        texts = [each["text"] for each in event.get("events", ())]
        yield event.get("text") or "".join(texts) or event["type"]


async def joined(stage: Stage, count: int = 1) -> list[Outbox]:
    """Clients that have read their snapshot, and wait for more."""
    clients = [stage.client() for _ in range(count)]
    await stage.catch_up()
    for client in clients:
        await took(client)
        client.sent()
    return clients


async def test_text_that_comes_alone_goes_at_once(mock_clock: trio.testing.MockClock) -> None:
    async with open_stage() as stage:
        [client] = await joined(stage)
        for word in ("one ", "two "):
            await stage.say(word)
            assert await took(client) == [word]
            client.sent()


async def test_text_behind_frames_on_their_way_is_held_and_goes_in_one(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_stage() as stage:
        clients = await joined(stage, 3)
        await stage.say("one ")
        assert [await took(client) for client in clients] == [["one "]] * 3
        for word in ("two ", "three ", "four "):
            await stage.say(word)
        for client in clients:
            client.sent()
        mock_clock.jump(HOLD_SECONDS / 2)
        await stage.say("five ")
        assert [await took(client) for client in clients] == [[]] * 3
        mock_clock.jump(HOLD_SECONDS / 2)
        await trio.testing.wait_all_tasks_blocked()
        assert [await took(client) for client in clients] == [["two three four five "]] * 3


async def test_text_is_held_once_more_when_its_time_went_by_while_others_were_sent_to(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_stage() as stage:
        [client] = await joined(stage)
        for word in ("one ", "two "):
            await stage.say(word)
        assert await took(client) == ["one "]
        for wait, expected in ((5 * HOLD_SECONDS, []), (5 * HOLD_SECONDS, ["two three "])):
            client.sent()
            mock_clock.jump(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert await took(client) == expected
            if not expected:
                await stage.say("three ")


async def test_what_is_durable_is_never_held_and_comes_after_the_text(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_stage() as stage:
        [client] = await joined(stage)
        await stage.say("one ")
        await stage.say("two ")
        await stage.end()
        assert await took(client) == ["one ", "two ", "turn_ended"]


async def test_output_of_calls_and_text_keep_their_order(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_stage() as stage:
        [client] = await joined(stage)
        await stage.say("one ")
        await stage.update(CallProgress("call_1", "a"))
        await stage.update(CallProgress("call_1", "b"))
        await stage.update(CallProgress("call_2", "c"))
        await stage.say("two ")
        mock_clock.jump(HOLD_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        assert await took(client) == ["one ", "a\nb", "c", "two "]


async def test_who_joins_meanwhile_reads_the_held_text_once(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_stage() as stage:
        [client] = await joined(stage)
        await stage.say("one ")
        await stage.say("two ")
        late = stage.client()
        await stage.catch_up()
        assert await took(late) == ["snapshot: one two "]
        assert await took(client) == ["one ", "two "]
        mock_clock.jump(HOLD_SECONDS)
        await stage.end()
        assert await took(late) == ["turn_ended"]


async def test_one_slow_client_holds_nothing_up_for_the_others(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with open_stage() as stage:
        slow, *others = await joined(stage, 3)
        for word in ("one ", "two "):
            await stage.say(word)
            for client in others:
                assert await took(client) == [word]
                client.sent()
        assert await took(slow) == ["one ", "two "]


@pytest.mark.parametrize("size", [MERGE_SIZE, 3 * MERGE_SIZE])
async def test_so_much_text_is_not_held(mock_clock: trio.testing.MockClock, size: int) -> None:
    async with open_stage() as stage:
        [client] = await joined(stage)
        await stage.say("one ")
        await stage.say("x" * size)
        assert await took(client) == ["one ", "x" * size]

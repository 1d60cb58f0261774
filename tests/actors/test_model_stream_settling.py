"""The end of a whole answer: how long its last bytes are waited for, whatever comes meanwhile."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.testing import MockClock

from callboard.actors.model.stream import (
    MAX_WAITING_BATCHES,
    SETTLE_SECONDS,
    ModelStream,
    StartModelCall,
)
from callboard.config.settings import Limits
from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.providers.provider import Endpoint, ModelRequest, ModelTarget
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.stream import AnyStreamEvent, Done, StreamError, TextDelta

PING = b": ping\n\n"
PING_SECONDS = 0.25
Reads = list[tuple[float, bytes]]
"""What comes, and after how long."""


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


BEGINNING = event("message_start", message={"type": "message", "content": []}) + event(
    "content_block_start", index=0, content_block={"type": "text", "text": ""}
)
SAID = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi."})
WHOLE = event("content_block_stop", index=0) + event(
    "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}
)
WHOLE += event("message_stop")
END = b""


class Body:
    """The answer's bytes by the clock, and then pings without an end."""

    status = 200

    def __init__(self, reads: Reads) -> None:
        self.headers: dict[str, str] = {}
        self._reads = reads

    async def read_some(self) -> bytes:
        seconds, data = self._reads.pop(0) if self._reads else (PING_SECONDS, PING)
        await trio.sleep(seconds)
        return data


class Http:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    @asynccontextmanager
    async def stream_post(self, *_: object) -> AsyncGenerator[Body]:
        yield Body(self._reads)


async def heard(
    reads: Reads, *, capacity: int = MAX_WAITING_BATCHES, pause: float = 0.0
) -> list[AnyStreamEvent]:
    """What comes up of a call, to a reader that begins after a pause."""
    http: Any = Http(reads)
    mailbox: Mailbox[StartModelCall] = Mailbox("model stream", 2)
    outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](capacity)
    endpoint = Endpoint(name="p", dialect=ANTHROPIC, base_url="http://x")
    async with trio.open_nursery() as nursery:
        await nursery.start(ModelStream(mailbox, http, Limits()).run)
        await mailbox.tell(
            StartModelCall(
                target=ModelTarget(provider="p", model="m", endpoint=endpoint),
                request=ModelRequest(model="m", rounds=[]),
                outlet=outlet,
                scope=trio.CancelScope(),
            )
        )
        await trio.sleep(pause)
        with batches:
            events = [event async for batch in batches for event in batch]
        nursery.cancel_scope.cancel()
    return events


def terminals(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    return [event for event in events if isinstance(event, Done | StreamError)]


async def test_pings_behind_a_whole_answer_don_t_put_its_end_off(autojump_clock: MockClock) -> None:
    events = await heard([(0, BEGINNING), (0, SAID + WHOLE)])
    assert trio.current_time() <= SETTLE_SECONDS + PING_SECONDS
    assert TextDelta("Hi.") in events
    assert isinstance(events[-1], Done)
    assert len(terminals(events)) == 1


async def test_pings_ahead_of_it_are_waited_through(autojump_clock: MockClock) -> None:
    pings = [(PING_SECONDS, PING)] * 20
    events = await heard([(0, BEGINNING), (0, SAID), *pings, (0, WHOLE), (0, END)])
    assert isinstance(events[-1], Done)
    assert trio.current_time() >= 20 * PING_SECONDS > 2 * SETTLE_SECONDS


async def test_an_end_just_in_time_is_the_only_one(autojump_clock: MockClock) -> None:
    late = SETTLE_SECONDS - 0.01
    events = await heard([(0, BEGINNING), (0, SAID + WHOLE), (late, END)])
    assert [type(event) for event in terminals(events)] == [Done]


async def test_a_reader_that_pauses_behind_a_whole_answer_has_all_of_it(
    autojump_clock: MockClock,
) -> None:
    reads = [(0.0, BEGINNING), (0.0, SAID + WHOLE), (0.5, END)]
    events = await heard(reads, capacity=0, pause=5 * SETTLE_SECONDS)
    assert TextDelta("Hi.") in events
    assert [type(event) for event in terminals(events)] == [Done]

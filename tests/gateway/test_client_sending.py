"""Whoever sends over a slow line can be called off; nobody is heard by halves."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from callboard.client import link as client_link
from callboard.client import link as client_sending
from callboard.client.address import Address
from callboard.client.client import Client, connect
from callboard.client.stream import (
    LEAST_BYTES_PER_SECOND,
    PIECE_BYTES,
    SEND_SECONDS,
    WatchedStream,
    open_stream,
)
from support.gateway.false_daemon import FalseDaemon, open_false
from support.gateway.raw_door import PATIENCE
from support.waits import until

SLOW = b"x" * 3000
"""In a prompt that the line takes slowly; it is masked on the wire, so frames are told by their size."""


class SlowLine(trio.abc.Stream):
    """Takes half of a large piece, and the rest when it is told to."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.is_stuck = False
        self.goes_on = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        half = len(data) // 2 if len(data) > len(SLOW) else len(data)
        await self._stream.send_all(data[:half])
        if half < len(data):
            self.is_stuck = True
            await self.goes_on.wait()
            await self._stream.send_all(data[half:])

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[SlowLine]:
    """The lines that were opened, one after the other."""
    opened: list[SlowLine] = []

    async def open_slow(address: Address) -> trio.abc.Stream:
        opened.append(SlowLine(await open_stream(address)))
        return opened[-1]

    monkeypatch.setattr(client_link, "open_stream", open_slow)
    monkeypatch.setattr(client_link, "FIRST_PAUSE_SECONDS", 0.001)
    return opened


async def _answer(daemon: FalseDaemon, request: dict[str, Any]) -> None:
    if request["method"] == "session/list":
        await daemon.answer(request, {"sessions": [], "has_more": False})
    else:
        await daemon.answer(request, {"input_id": "input_1", "seq": 2})


class Prompting:
    """A prompt on its way, which can be called off.

    Attributes:
        scope: Around it.
        is_over: Whether its caller goes on.
    """

    def __init__(self, client: Client, text: str) -> None:
        self._client = client
        self._text = text
        self.scope = trio.CancelScope()
        self.is_over = False

    async def run(self) -> None:
        with self.scope:
            await self._client.prompt("session_1", self._text)
        self.is_over = True


async def test_who_is_cancelled_on_a_slow_line_leaves_it_and_the_next_asks_over_another(
    lines: list[SlowLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_sending, "CALLED_OFF_SECONDS", 0.02)
    async with open_false(_answer) as daemon, connect(daemon.url) as client:
        slow = Prompting(client, SLOW.decode())
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(slow.run)
                await until(lambda: lines[0].is_stuck)
                slow.scope.cancel()
            assert slow.is_over
            assert await client.sessions() == []
        assert (len(lines), slow.scope.cancelled_caught) == (2, True)
        assert [request["method"] for request in daemon.asked] == ["session/list"]


async def test_a_frame_that_is_taken_after_all_costs_no_connection(lines: list[SlowLine]) -> None:
    async with open_false(_answer) as daemon, connect(daemon.url) as client:
        slow, behind = Prompting(client, SLOW.decode()), Prompting(client, "behind it")
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(slow.run)
                await until(lambda: lines[0].is_stuck)
                nursery.start_soon(behind.run)
                await trio.testing.wait_all_tasks_blocked()
                behind.scope.cancel()  # nothing of it was sent: it has nothing to wait for
                await until(lambda: behind.is_over)
                slow.scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
                assert not slow.is_over
                lines[0].goes_on.set()
            assert await client.sessions() == []
        assert len(lines) == 1
        sent = [request["params"].get("content") for request in daemon.asked]
        assert sent == [SLOW.decode(), None]


class Trickle(trio.abc.SendStream):
    """Takes each piece, in so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.taken = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep(self._seconds)
        self.taken += len(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_a_frame_has_one_bound_by_its_size(autojump_clock: trio.testing.MockClock) -> None:
    def watched(line: Trickle) -> WatchedStream:
        return WatchedStream(line, lambda: None)  # type: ignore[arg-type]  # it only sends

    data = bytes(100 * PIECE_BYTES)
    rate = PIECE_BYTES / LEAST_BYTES_PER_SECOND
    steady = Trickle(rate)
    stream = watched(steady)
    await stream.send_all(data)
    assert steady.taken == len(data)
    assert stream.heard_at == trio.current_time(), "what goes forward is not silent"
    slow = Trickle(SEND_SECONDS - 1)  # no piece is late by itself
    began = trio.current_time()
    with pytest.raises(trio.BrokenResourceError):
        await watched(slow).send_all(data)
    assert trio.current_time() - began == pytest.approx(
        SEND_SECONDS + len(data) / LEAST_BYTES_PER_SECOND
    )

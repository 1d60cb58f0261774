"""A thousand clients that only listen, and two hundred turns at once: nobody is dropped, nothing is lost."""

from __future__ import annotations

import gc
import os
import resource
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from callboard.config.sections import ServerSettings
from callboard.providers.provider import Emit, ModelRequest
from callboard.runtime.events import TurnEnded
from callboard.runtime.stream import Done, StopReason, TextDelta
from support.gateway.daemon_scene import Daemon, open_client, open_daemon, open_raw
from support.gateway.witness import Witness

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
IDLE = 1_000 if SOAK else 50
ACTIVE = 200 if SOAK else 10
PIECES = 50 if SOAK else 5
DESCRIPTORS = 2 * (IDLE + ACTIVE) + 200
"""Both ends of each connection are in this process."""
PATIENCE_SECONDS = 300.0
AT_ONCE = 50
"""Connections that are being made: a backlog of the kernel's is 128."""


class Together:
    """A model that goes on with an answer when all are under way."""

    def __init__(self) -> None:
        self.at_once = 0
        self.all_here = trio.Event()

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        await emit([TextDelta("I begin. ")])
        self.at_once += 1
        if self.at_once == ACTIVE:
            self.all_here.set()
        await self.all_here.wait()
        for number in range(PIECES):
            await emit([TextDelta(f"pïece {number} ")])
            await trio.lowlevel.checkpoint()
        await emit([Done(StopReason.END)])


class Crowd:
    """Clients that come, are there all at once, and go on when they are told."""

    def __init__(self, daemon: Daemon, count: int) -> None:
        self._daemon = daemon
        self._count = count
        self._door = trio.CapacityLimiter(AT_ONCE)
        self._here = 0
        self.all_here = trio.Event()
        self.go_on = trio.Event()
        self.satisfied = 0

    async def _wait(self) -> None:
        self._here += 1
        if self._here == self._count:
            self.all_here.set()
        await self.go_on.wait()

    async def listen(self) -> None:
        """Says hello and nothing else; is served in the end like anybody."""
        async with AsyncExitStack() as stack:
            async with self._door:
                raw = await stack.enter_async_context(open_raw(self._daemon))
                await raw.hello()
            await self._wait()
            assert "result" in await raw.call("session/list", limit=1)
            self.satisfied += 1

    async def converse(self) -> None:
        """Prompts a session of its own, and hears all of it over one connection."""
        async with AsyncExitStack() as stack:
            async with self._door:
                client = await stack.enter_async_context(open_client(self._daemon))
                session_id = (await client.create_session()).session_id
            first = client.welcome
            await self._wait()
            view = Witness()
            async with client.events(session_id, after_seq=0) as events:
                await client.prompt(session_id, "Go on.")
                async for event in events:
                    view.take(event)
                    if view.ended:
                        break
            assert client.welcome is first, "it was dropped, and came back"
            assert view.stored == await self._daemon.runtime.store.events(session_id)
            assert [each.outcome for each in ends_of(view)] == ["answered"]
            for live, said in view.whole:
                assert all(whole.startswith(part) for part, whole in zip(live, said, strict=True))
            self.satisfied += 1


def ends_of(view: Witness) -> list[TurnEnded]:
    return [each.event for each in view.stored if isinstance(each.event, TurnEnded)]


def resident_mb() -> float:
    """Memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.fixture
def _many_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"{DESCRIPTORS} descriptors are needed, and {hard} are allowed here")
    if soft != resource.RLIM_INFINITY and soft < DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))


@pytest.mark.usefixtures("_many_descriptors")
async def test_many_that_listen_and_many_turns_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    room = IDLE + ACTIVE + 10
    settings = ServerSettings(port=0, max_connections=room, max_peer_connections=room)
    model = Together()
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_daemon(model, settings=settings) as daemon, trio.open_nursery() as nursery:
            listening, talking = Crowd(daemon, IDLE), Crowd(daemon, ACTIVE)
            memory = [resident_mb()]
            for _ in range(IDLE):
                nursery.start_soon(listening.listen)
            await listening.all_here.wait()
            memory.append(resident_mb())
            async with trio.open_nursery() as turns:
                for _ in range(ACTIVE):
                    turns.start_soon(talking.converse)
                await talking.all_here.wait()
                assert len(daemon.gateway.daemon.connections) == IDLE + ACTIVE
                talking.go_on.set()
                await model.all_here.wait()
                memory.append(resident_mb())
            assert talking.satisfied == ACTIVE
            assert await daemon.runtime.store.open_turns() == []
            assert len(daemon.gateway.daemon.connections) >= IDLE
            listening.go_on.set()
        assert listening.satisfied == IDLE
    started, idle, busy = memory
    told = f"{started:.0f} MiB, with {IDLE} idle {idle:.0f}, with {ACTIVE} turns besides {busy:.0f}"
    with capfd.disabled():
        sys.stderr.write(f"\nmemory of a daemon and all of its clients: {told}\n" if SOAK else "")

"""What a runtime says of its actors: all that matter, and never too many."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

import callboard
from callboard.embedding import status
from callboard.embedding.host import Host
from callboard.embedding.runtime import host_of
from callboard.runtime.kernel.mailbox import Mailbox, Message
from support.stage import run_in

SHARED = ["journal", "permission broker", "tool dispatcher", "directory"]
CAPACITY = 8


@asynccontextmanager
async def open_host() -> AsyncGenerator[tuple[callboard.Runtime, Host]]:
    async with callboard.open_runtime(model="rehearsal", environ={}) as runtime:
        yield runtime, host_of(runtime)


@contextmanager
def loaded(host: Host, waiting: dict[str, int]) -> Generator[dict[str, Mailbox[Any]]]:
    """Sessions that never take what is sent to them, each with so many messages."""
    boxes: dict[str, Mailbox[Any]] = {name: Mailbox(name, CAPACITY) for name in waiting}
    for name, count in waiting.items():
        for _ in range(count):
            boxes[name].tell_nowait(Message())
    host.live.update(boxes)
    try:
        yield boxes
    finally:
        for name in boxes:
            del host.live[name]


async def test_a_loaded_session_is_there_and_not_only_a_crashed_one() -> None:
    async with open_host() as (runtime, _):
        assert [actor.name for actor in (await runtime.status()).actors] == SHARED
        session = await run_in(runtime, "What time is it in Tokyo?")
        *shared, own = (await runtime.status()).actors
    assert [actor.name for actor in shared] == SHARED
    assert own.name == f"session {session.session_id}"
    assert (own.is_running, own.waiting, own.restarts) == (True, 0, 0)
    assert own.capacity > 0


async def test_of_many_the_worst_and_the_busiest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "MAX_SESSION_ACTORS", 4)
    monkeypatch.setattr(Host, "restarts", {"crashed": 2})
    waiting = {"idle": 0, "crashed": 0, "given up": 0, "some": 3, "full": CAPACITY, "idle too": 0}
    async with open_host() as (runtime, host):
        with loaded(host, waiting) as boxes:
            boxes["given up"].close()
            now = await runtime.status()
    told = [(actor.name, actor.waiting) for actor in now.actors[len(SHARED) :]]
    assert told == [("given up", 0), ("full", CAPACITY), ("some", 3), ("crashed", 0)]
    assert now.actors[-1].restarts == 2
    assert [actor.is_running for actor in now.actors[len(SHARED) :]] == [False, True, True, True]
    assert set(now.sessions) == set(waiting)

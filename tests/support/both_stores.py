"""A store of each kind, on a wall clock that the test sets; imported by the tests that want them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from callboard.runtime.store.interface import Store
from callboard.runtime.store.ledger import wall_clock_ms
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.sqlite_store import open_disk_store
from support.postgres.stores import opened_postgres


class Clock:
    """A wall clock that stands still until it is set, and can break."""

    def __init__(self, ms: int = 1_000) -> None:
        self.ms = ms
        self.is_broken = False

    def __call__(self) -> int:
        if self.is_broken:
            raise OSError("no time")
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


KINDS = ("memory", "disk", "postgres")


@asynccontextmanager
async def opened_store(
    kind: str, folder: Path, *, now_ms: Callable[[], int] = wall_clock_ms
) -> AsyncGenerator[Store]:
    """Open an empty store of a kind, on disk in this folder; close it in the end."""
    if kind == "postgres":
        async with opened_postgres(now_ms=now_ms) as store:
            yield store
        return
    if kind == "memory":
        store = open_memory_store(now_ms=now_ms)
    else:
        store = await open_disk_store(folder, now_ms=now_ms)
    try:
        yield store
    finally:
        await store.aclose()


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[Store]:
    async with opened_store(request.param, tmp_path / "data", now_ms=clock) as opened:
        yield opened

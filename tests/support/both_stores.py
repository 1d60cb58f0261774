"""A store of each kind, on a wall clock that the test sets; imported by the tests that want them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.sqlite_store import open_disk_store


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


@pytest.fixture(params=["memory", "disk"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[Store]:
    if request.param == "memory":
        opened = open_memory_store(now_ms=clock)
    else:
        opened = await open_disk_store(tmp_path / "data", now_ms=clock)
    yield opened
    await opened.aclose()

"""How many rows a second a store takes from many sessions, one commit for each or one for all.

    python benchmarks/store/journal.py [FOLDER]

64 tasks append an event each, again and again, at `synchronous=FULL`. FOLDER should lie on the disk
that is asked about; without it, a temporary folder is used, which may be memory. Bounded: three
seconds in all.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from callboard.runtime.events import InputAccepted, SessionCreated
from callboard.runtime.store.interface import Store
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store

TASKS = 64
SECONDS = 1.5
EVENT = InputAccepted(input_id="0123456789abcdef", text="x" * 300)

Put = Callable[[Append], Awaitable[None]]


class GroupCommit:
    """What the journal actor does: everything that waits goes into the next transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[Append, trio.Event]] = []
        self._wake = trio.Event()

    async def put(self, append: Append) -> None:
        """Returns when it is stored."""
        stored = trio.Event()
        self._waiting.append((append, stored))
        self._wake.set()
        await stored.wait()

    async def run(self) -> None:
        """Commits until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            group, self._waiting = self._waiting, []
            await self._store.commit([append for append, _ in group])
            for _, stored in group:
                stored.set()


async def rows_per_second(put: Put, sessions: list[str]) -> float:
    """What 64 tasks get through one way of putting."""
    rows = 0

    async def append_for_ever(session_id: str) -> None:
        nonlocal rows
        while True:
            await put(Append(session_id, (EVENT,)))
            rows += 1

    with trio.move_on_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for session_id in sessions:
                nursery.start_soon(append_for_ever, session_id)
    return rows / SECONDS


async def main(folder: Path) -> None:
    """Measures both ways on one new store and prints a line for each."""
    store = await open_disk_store(folder)
    sessions = [f"s{number}" for number in range(TASKS)]
    created = SessionCreated(agent="general", workspace="/")
    await store.commit([Append(session_id, (created,)) for session_id in sessions])

    async def one_by_one(append: Append) -> None:
        await store.commit([append])
        await trio.lowlevel.checkpoint()  # a commit is none: it is shielded

    print(f"one by one    {await rows_per_second(one_by_one, sessions):8.0f} rows/s")
    async with trio.open_nursery() as nursery:
        group = GroupCommit(store)
        nursery.start_soon(group.run)
        print(f"group commit  {await rows_per_second(group.put, sessions):8.0f} rows/s")
        nursery.cancel_scope.cancel()
    await store.aclose()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
        trio.run(main, Path(folder))

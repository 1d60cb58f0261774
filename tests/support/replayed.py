"""Replays of the sessions that tests make: each must come out of its record again as it is there."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import trio

from callboard.actors.upkeep.replay import Replay, Tape
from callboard.config.settings import Limits
from callboard.embedding import runtime
from callboard.runtime.errors import CallboardError, ConflictError
from callboard.runtime.events import Stored
from callboard.runtime.store.file import DATABASE_NAME, open_reading
from callboard.runtime.store.interface import Store
from callboard.runtime.store.queries import Queries

REPLAYED_SHARE = 1 if os.environ.get("CALLBOARD_SOAK") else 20
"""Of so many tests, the sessions of one are replayed."""

Record = Sequence[Stored]


def is_replayed(test: str) -> bool:
    """Whether a test is one of those whose sessions are replayed."""
    return zlib.crc32(test.encode()) % REPLAYED_SHARE == 0


@contextmanager
def kept_records(folder: Path | None = None) -> Generator[list[Record]]:
    """Gather the records of runtimes that are opened in the block, at the latest at its end.

    Those of other processes have their stores somewhere in `folder`.
    """
    records: list[Record] = []
    folders: set[Path] = set()
    open_store = runtime._open_store

    async def opened(data: Path | None, url: str | None = None) -> Store:
        store = await open_store(data, url)
        if data is not None:
            folders.add(data)
        else:
            close = store.aclose

            async def aclose() -> None:
                with trio.CancelScope(shield=True):
                    rows = await store.sessions(limit=1000)
                    records.extend([await store.events(row.session_id) for row in rows])
                await close()

            store.aclose = aclose  # type: ignore[method-assign]
        return store

    with mock.patch.object(runtime, "_open_store", opened):
        yield records
    if folder is not None:
        folders |= {path.parent for path in folder.rglob(DATABASE_NAME)}
    for each in folders:
        if (each / DATABASE_NAME).is_file():
            try:
                with closing(open_reading(each)) as connection:
                    records.extend(_all_records(Queries(connection, str(each))))
            except CallboardError:
                continue  # the test was about a store that can't be read


def _all_records(queries: Queries) -> list[Record]:
    return [queries.events(row.session_id) for row in queries.sessions(limit=1000)]


async def differences(records: Sequence[Record]) -> list[str]:
    """Replay sessions; return what comes out other than it is on record."""
    found: list[str] = []
    for record in records:
        if not record:
            continue

        async def page(after_seq: int, record: Record = record) -> Record:
            await trio.lowlevel.checkpoint()
            return record[after_seq : after_seq + 100]

        session_id = record[0].session_id
        try:
            done = await Replay(session_id, Tape(page), Limits(), _unseen).run()
        except ConflictError:
            continue  # a turn without an end: all before it is the same
        if not done.is_same:
            found.append(f"{session_id}: {done.difference}")
    return found


def _unseen(*_: Any) -> None:
    pass

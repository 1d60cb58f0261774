"""An index of memories in a SQLite file of its own, `vectors.db`, compared by sqlite-vec.

It is not a table of the store: so it can be deleted, makes no backup larger, and the store opens without an
extension. A search compares all vectors of an agent, which takes 10 ms for 10,000.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import msgspec

from ..errors import StorageError
from .index import Embedding, embedded_text, max_distance
from .memories import Memory

FILE_NAME = "vectors.db"

BUSY_TIMEOUT_MS = 5_000
"""A command that reads waits for a runtime that creates the file, which takes less."""

_TABLES = """
create table vectors (memory_id text primary key, agent text not null, vector blob not null) strict;
create index vectors_by_agent on vectors (agent);
"""

_NEAR = """
select memory_id from (
  select memory_id, vec_distance_l2(vector, ?1) as distance from vectors where agent = ?2
) where distance <= ?3 order by distance, memory_id limit ?4
"""


class VectorFile:
    """A `MemoryIndex`.

    Args:
        folder: The data folder; `None` keeps the index in memory.
        embedding: Makes the vectors; those of another embedding are dropped.
        is_read_only: For searching alone: a missing file is not created.
    """

    def __init__(
        self, folder: Path | None, embedding: Embedding, *, is_read_only: bool = False
    ) -> None:
        self._path = None if folder is None else folder / FILE_NAME
        self._embedding = embedding
        self._is_read_only = is_read_only
        self._opened: apsw.Connection | None = None

    def missing(self, memories: Sequence[Memory]) -> list[Memory]:
        """See `MemoryIndex`."""
        names = msgspec.json.encode([memory.memory_id for memory in memories]).decode()
        rows = self._rows(
            "select memory_id from vectors where memory_id in (select value from json_each(?))",
            (names,),
        )
        held = {row[0] for row in rows}
        return [memory for memory in memories if memory.memory_id not in held]

    def add(self, memories: Sequence[Memory]) -> None:
        """See `MemoryIndex`: all of them in one transaction."""
        vectors = self._embedding.vectors([embedded_text(memory) for memory in memories])
        rows = [
            (memory.memory_id, memory.agent, vector)
            for memory, vector in zip(memories, vectors, strict=True)
        ]
        self._change("insert into vectors values (?, ?, ?) on conflict do nothing", rows)

    def remove(self, memory_ids: Iterable[str]) -> None:
        """See `MemoryIndex`."""
        self._change("delete from vectors where memory_id = ?", [(name,) for name in memory_ids])

    def ids(self) -> list[str]:
        """See `MemoryIndex`."""
        return [row[0] for row in self._rows("select memory_id from vectors", ())]

    def near(self, agent: str, query: str, limit: int) -> list[str]:
        """See `MemoryIndex`."""
        if self._is_read_only and self._path is not None and not self._path.exists():
            return []
        (vector,) = self._embedding.vectors([query])
        return [row[0] for row in self._rows(_NEAR, (vector, agent, max_distance(), limit))]

    def close(self) -> None:
        """See `MemoryIndex`."""
        connection, self._opened = self._opened, None
        if connection is not None:
            connection.close()

    def _rows(self, sql: str, values: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
        try:
            return self._connection().execute(sql, values).fetchall()
        except (apsw.Error, OSError) as error:
            raise self._failed(error) from error

    def _change(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            connection = self._connection()
            with connection:
                connection.executemany(sql, rows)
        except (apsw.Error, OSError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageError:
        self.close()  # the next call opens the file again
        return StorageError(f"The vectors of memories in {self._path} can't be used: {error}")

    # ── the file ─────────────────────────────────────────────────────────────────────────────────

    def _connection(self) -> apsw.Connection:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> apsw.Connection:
        if self._path is None:
            return self._made(apsw.Connection(":memory:"))
        if self._is_read_only:
            uri = f"file:{quote(os.fsencode(self._path))}?mode=ro"
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            return _extended(apsw.Connection(uri, flags=flags))
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            return self._made(apsw.Connection(os.fspath(self._path)))
        except (apsw.NotADBError, apsw.CorruptError):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            return self._made(apsw.Connection(os.fspath(self._path)))

    def _made(self, connection: apsw.Connection) -> apsw.Connection:
        """Create the table, dropping that of another embedding; return the connection."""
        try:
            _extended(connection)
            connection.pragma("journal_mode", "wal")
            # What a power cut loses is added again at the next start.
            connection.pragma("synchronous", "normal")
            kind = hash_of(self._embedding.name)
            with connection:
                if connection.pragma("user_version") != kind:
                    connection.execute("drop table if exists vectors")
                    connection.execute(_TABLES)
                    connection.pragma("user_version", kind)
        except BaseException:
            connection.close()
            raise
        return connection


def hash_of(name: str) -> int:
    """Return a number for the name of an embedding and the version of the table."""
    return zlib.crc32(f"1 {name}".encode()) >> 1


def _extended(connection: apsw.Connection) -> apsw.Connection:
    import sqlite_vec  # type: ignore[import-untyped]

    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
    except BaseException:
        connection.close()
        raise
    return connection

"""An index of memories in a LanceDB table in the data folder, which other programs can read too."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from ..errors import StorageError
from .index import Embedding, embedded_text, max_distance
from .memories import Memory

FOLDER_NAME = "memories.lance"
TABLE_NAME = "memories"

ADDS_BETWEEN_TIDYING = 32
"""Each add makes a file and a version of the table; after so many they are merged."""

KEPT_VERSIONS = timedelta(hours=1)
"""How long old versions stay for programs that read the table."""

_Answer = TypeVar("_Answer")


class LanceTable:
    """A `MemoryIndex`.

    Args:
        folder: The data folder; `None` keeps the table in memory.
        embedding: Makes the vectors; each embedding has a table of its own.
        is_read_only: For searching alone: a missing table is not created.
    """

    def __init__(
        self, folder: Path | None, embedding: Embedding, *, is_read_only: bool = False
    ) -> None:
        self._folder = None if folder is None else folder / FOLDER_NAME
        self._embedding = embedding
        self._is_read_only = is_read_only
        self._opened: Any = None
        self._adds = 0

    def missing(self, memories: Sequence[Memory]) -> list[Memory]:
        """See `MemoryIndex`."""
        names = _list(memory.memory_id for memory in memories)
        rows = self._do(
            lambda table: (
                table.search()
                .where(f"memory_id in {names}")
                .select(["memory_id"])
                .limit(len(memories) + 1)
                .to_list()
            )
        )
        held = {row["memory_id"] for row in rows}
        return [memory for memory in memories if memory.memory_id not in held]

    def add(self, memories: Sequence[Memory]) -> None:
        """See `MemoryIndex`: all of them in one version of the table."""
        vectors = self._embedding.vectors([embedded_text(memory) for memory in memories])
        rows = list(map(_row, memories, vectors))
        self._do(
            lambda table: (
                table.merge_insert("memory_id").when_not_matched_insert_all().execute(rows)
            )
        )
        self._adds += 1
        if self._adds >= ADDS_BETWEEN_TIDYING:
            self._adds = 0
            self._do(lambda table: table.optimize(cleanup_older_than=KEPT_VERSIONS))

    def remove(self, memory_ids: Iterable[str]) -> None:
        """See `MemoryIndex`."""
        if names := list(memory_ids):
            self._do(lambda table: table.delete(f"memory_id in {_list(names)}"))

    def ids(self) -> list[str]:
        """See `MemoryIndex`."""
        rows = self._do(
            lambda table: (
                table.search().select(["memory_id"]).limit(table.count_rows() + 1).to_list()
            )
        )
        return [row["memory_id"] for row in rows]

    def near(self, agent: str, query: str, limit: int) -> list[str]:
        """See `MemoryIndex`."""
        if self._is_read_only and self._folder is not None and not self._folder.exists():
            return []
        (vector,) = self._embedding.vectors([query])
        rows = self._do(
            lambda table: (
                table.search(_floats(vector))
                .distance_type("l2")
                .where(f"agent_key = '{_key(agent)}'", prefilter=True)
                .select(["memory_id", "_distance"])
                .limit(limit)
                .to_list()
            )
        )
        # Lance returns the square of the distance.
        return [row["memory_id"] for row in rows if row["_distance"] <= max_distance() ** 2]

    def close(self) -> None:
        """See `MemoryIndex`."""
        self._opened = None

    def _do(self, work: Callable[[Any], _Answer]) -> _Answer:
        try:
            if self._opened is None:
                self._opened = self._open()
            return work(self._opened)
        except (RuntimeError, ValueError, OSError) as error:
            self._opened = None
            raise StorageError(f"The memories in {self._folder} can't be used: {error}") from error

    def _open(self) -> Any:
        lancedb = importlib.import_module("lancedb")
        name = f"{TABLE_NAME}-{self._embedding.name}"
        place = f"memory://{uuid4().hex}" if self._folder is None else str(self._folder)
        if self._folder is not None and not self._is_read_only:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        database = lancedb.connect(place)
        if self._is_read_only:
            return database.open_table(name)
        return database.create_table(name, schema=_schema(self._embedding), exist_ok=True)


def _schema(embedding: Embedding) -> Any:
    arrow = importlib.import_module("pyarrow")
    return arrow.schema(
        [
            ("memory_id", arrow.string()),
            ("agent", arrow.string()),
            ("agent_key", arrow.string()),
            ("text", arrow.string()),
            ("tags", arrow.list_(arrow.string())),
            ("session_id", arrow.string()),
            ("is_untrusted", arrow.bool_()),
            ("stored_at_ms", arrow.int64()),
            ("vector", arrow.list_(arrow.float32(), embedding.dimensions)),
        ]
    )


def _row(memory: Memory, vector: bytes) -> dict[str, Any]:
    return {
        "memory_id": memory.memory_id,
        "agent": memory.agent,
        "agent_key": _key(memory.agent),
        "text": memory.text,
        "tags": list(memory.tags),
        "session_id": memory.session_id,
        "is_untrusted": memory.is_untrusted,
        "stored_at_ms": memory.stored_at_ms,
        "vector": _floats(vector),
    }


def _floats(vector: bytes) -> list[float]:
    import numpy as np

    return [float(number) for number in np.frombuffer(vector, dtype="<f4")]


def _key(agent: str) -> str:
    """Return an agent's name in a form that is safe inside a filter."""
    return hashlib.sha256(agent.encode()).hexdigest()


def _list(names: Iterable[str]) -> str:
    """Return ids as a list for a filter; ours have letters, digits and underscores alone."""
    return "(" + ", ".join(f"'{name}'" for name in names if name.replace("_", "").isalnum()) + ")"

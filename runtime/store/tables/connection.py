"""What the SQL of the store needs of a connection: apsw's own has it, and so has that of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol


class SqlRows(Protocol):
    """The rows of a statement."""

    @property
    def get(self) -> Any:
        """The first value of the first row, or `None` without one."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or `None`."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """Runs statements in the words of SQLite; `runtime.store.postgres` puts them into those of PostgreSQL.

    Values are given in the order of `?`, or by number as `?1`. Truth values are stored as 0 and 1.
    """

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and has not ended."""
        ...

    def execute(self, statements: str, bindings: Any = None, /) -> SqlRows:
        """Run a statement."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], /) -> object:
        """Run a statement with each of some values."""
        ...

    def changes(self) -> int:
        """Return how many rows the last statement has inserted, changed or removed."""
        ...

    def last_insert_rowid(self) -> int:
        """Return the id of the row that was inserted last; PostgreSQL finds it where it is needed."""
        ...

"""Reads of the record on a node with named roots: places come out as this node's folders, and go in as they are on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..store.lists import Hit, SessionFilter, WordSearch
from ..store.queries import Queries, _Row
from ..store.rows import SessionRow
from ..store.tables.connection import SqlConnection
from .roots import NamedRoots


class RootedQueries(Queries):
    """The reads of one connection; see `Queries`.

    Args:
        connection: The connection.
        name: The database's, for errors.
        roots: Of this node.
    """

    def __init__(self, connection: SqlConnection, name: str, roots: NamedRoots) -> None:
        super().__init__(connection, name)
        self._roots = roots

    def _latest(self, wanted: SessionFilter, limit: int) -> tuple[list[int], list[SessionRow]]:
        if wanted.workspace is not None:
            place = self._roots.place_of(wanted.workspace)
            wanted = msgspec.structs.replace(wanted, workspace=place)
        return super()._latest(wanted, limit)

    def hits(self, search: WordSearch) -> list[Hit]:
        """See `Queries`."""
        if search.workspace is not None:
            place = self._roots.place_of(search.workspace)
            search = msgspec.structs.replace(search, workspace=place)
        return super().hits(search)

    def _made(self, kind: type[_Row], rows: list[tuple[Any, ...]]) -> list[_Row]:
        found = super()._made(kind, rows)
        return found if kind is not SessionRow else [self._here(row) for row in found]

    def _here(self, row: _Row) -> _Row:
        assert isinstance(row, SessionRow)
        if row.workspace.startswith("/"):
            return row
        return msgspec.structs.replace(row, workspace=self._roots.folder_of(row.workspace))


def reads_of(roots: NamedRoots) -> Callable[[SqlConnection, str], Queries]:
    """Return what makes the reads of a connection of a node with these roots; the plain ones for a node without."""
    if not roots.names:
        return Queries
    return lambda connection, name: RootedQueries(connection, name, roots)

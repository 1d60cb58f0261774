"""The mark of a store that is being copied: until every session was compared, it is no record to work with."""

from __future__ import annotations

from ...errors import StorageError
from .connection import SqlConnection

_MARKED = "select value from meta where key = 'copied_from'"
_MARK = "insert into meta values ('copied_from', ?)"
_END = "delete from meta where key = 'copied_from'"


def note_copy(source: str | None, connection: SqlConnection) -> None:
    """Mark a store as a copy that has begun; `None` takes the mark away."""
    if source is None:
        connection.execute(_END)
    else:
        connection.execute(_MARK, (source,))


def check_whole(connection: SqlConnection, name: str) -> None:
    """Raise `StorageError` if a store is a copy that was not brought to its end."""
    if (found := connection.execute(_MARKED).fetchone()) is not None:
        raise StorageError(
            f"{name} holds a part of {found[0]}: copying that to it did not come to its end. Remove {name}, or "
            "choose another place, and copy again; what was copied is as it was."
        )

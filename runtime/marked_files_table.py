"""The table `marked_files`, and the mark of a session: what was read and written, as rows."""

from __future__ import annotations

import apsw

from .permission_events import FilesMarked, PrivateDataRead
from .session_table import mark_private


def keep_mark(
    connection: apsw.Connection, session: int, event: PrivateDataRead | FilesMarked
) -> None:
    """The session has read what is not for strangers, or written what others may read."""
    if isinstance(event, PrivateDataRead):
        mark_private(connection, session)
        return
    for path in (*event.cleared, *event.marked):
        # From `path/` up to before `path0`, the next sign: all below, by the order of the keys.
        connection.execute(
            "delete from marked_files where path = ?1 or (path > ?1 || '/' and path < ?1 || '0')",
            (path,),
        )
    connection.executemany(
        "insert into marked_files (path) values (?) on conflict do nothing",
        ((path,) for path in event.marked),
    )

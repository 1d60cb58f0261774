"""Purging removes the rows of every table that refers to a session."""

from __future__ import annotations

import apsw

from callboard.runtime.store.migrations import migrate
from callboard.runtime.store.tables.purge import TABLES


def test_every_table_that_refers_to_a_session_is_purged() -> None:
    connection = apsw.Connection(":memory:")
    migrate(connection, "it")
    tables = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    referring = {
        name
        for (name,) in tables
        if "session" in {column[1] for column in connection.execute(f"pragma table_info({name})")}
    }
    assert referring == set(TABLES)

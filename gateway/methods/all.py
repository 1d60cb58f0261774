"""All methods of the wire, in the order of the document."""

from __future__ import annotations

from ..connection.method_table import MethodTable
from . import (
    access,
    approvals,
    daemon,
    memories,
    providers,
    runtime,
    session_files,
    session_lists,
    sessions,
    topics,
)

_TABLES = (
    sessions.methods,
    session_lists.methods,
    session_files.methods,
    topics.methods,
    approvals.methods,
    memories.methods,
    providers.methods,
    access.methods,
    runtime.methods,
    daemon.methods,
)


def all_methods() -> MethodTable:
    """What a client may call."""
    table = MethodTable()
    for each in _TABLES:
        table.merge(each)
    return table

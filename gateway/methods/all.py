"""The table of all methods, and their schema, in the order of the protocol's document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...runtime.wire.fields import Role
from ...runtime.wire.hello import Hello, Welcome
from ...runtime.wire.rpc import PROTOCOL, RpcError
from ...runtime.wire.topics import NOTIFICATIONS
from ..connection.method_table import Method, MethodTable
from . import (
    access,
    agents,
    approvals,
    daemon,
    hooks,
    mcp,
    memories,
    providers,
    runtime,
    schedules,
    session_files,
    sessions,
    skills,
    subscriptions,
)

_TABLES = (
    sessions.methods,
    session_files.methods,
    subscriptions.methods,
    approvals.methods,
    memories.methods,
    providers.methods,
    access.methods,
    agents.methods,
    skills.methods,
    schedules.methods,
    hooks.methods,
    mcp.methods,
    runtime.methods,
    daemon.methods,
)


def all_methods() -> MethodTable:
    """Return the table of all methods."""
    table = MethodTable()
    for each in _TABLES:
        table.merge(each)
    return table


REFERENCE = "#/$defs/{name}"


def protocol_schema() -> dict[str, Any]:
    """Return all methods with their roles, parameters and results, and all notifications.

    `methods` and `notifications` are by name; types stand in `$defs`, as JSON Schema 2020-12.
    """
    types: dict[str, Any] = {}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "callboard",
        "protocol": PROTOCOL,
        "methods": {
            method.name: {
                "role": method.role.value,
                "summary": method.summary,
                "params": _schema(method.params, types),
                "result": _schema(method.result, types),
            }
            for method in all_of(all_methods())
        },
        "notifications": {
            name: {"params": _schema(kind, types)} for name, kind in NOTIFICATIONS.items()
        },
        "error": _schema(RpcError, types),
        "$defs": types,
    }


def _schema(kind: Any, types: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one type, and add its parts to `types`.

    The types of parameters are made for each method, to be strict, so they are not among the shared
    ones.
    """
    (schema,), parts = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    if (name := schema.get("$ref", "").rpartition("/")[2]) in parts:
        schema = parts.pop(name)
    types.update(parts)
    return schema


def all_of(table: MethodTable) -> Iterator[Method]:
    """Yield the methods in the order of the document, beginning with `initialize`."""
    yield Method(
        name="initialize",
        role=Role.OBSERVER,
        params=Hello,
        result=Welcome,
        handler=_refused,
        is_slow=False,
        summary="The first request of a connection; each has one.",
    )
    yield from table


def _refused(*_: object) -> None:
    raise AssertionError("the handshake answers it")

"""The protocol as a JSON Schema, made of the types by which frames are decoded and encoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..runtime.rpc import PROTOCOL, RpcError
from ..runtime.wire.hello import Hello, Welcome
from ..runtime.wire.notifications import NOTIFICATIONS
from ..runtime.wire.roles import Role
from .methods import Method, MethodTable
from .table import all_methods

REFERENCE = "#/$defs/{name}"


def protocol_schema() -> dict[str, Any]:
    """All methods with their roles, parameters and results, and all notifications.

    `methods` and `notifications` are by name; types stand in `$defs`, as JSON Schema 2020-12.
    """
    methods = list(all_of(all_methods()))
    kinds: list[Any] = [RpcError]
    for method in methods:
        kinds += [method.params, method.result]
    kinds += NOTIFICATIONS.values()
    schemas, types = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    error, *rest = schemas
    pairs = iter(rest)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "callboard",
        "protocol": PROTOCOL,
        "methods": {
            method.name: {
                "role": method.role.value,
                "summary": method.summary,
                "params": next(pairs),
                "result": next(pairs),
            }
            for method in methods
        },
        "notifications": {name: {"params": next(pairs)} for name in NOTIFICATIONS},
        "error": error,
        "$defs": types,
    }


def all_of(table: MethodTable) -> Iterator[Method]:
    """The methods in the order of the document, the first request of a connection ahead of them."""
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

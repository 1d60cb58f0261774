"""`callboard protocol`: what a client may ask of the daemon, and what it is told."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from ..exit_codes import ANSWERED

Schema = Annotated[
    bool,
    Parameter(name="--json-schema", help="Print everything, as one JSON Schema.", negative=()),
]


def protocol(*, json_schema: Schema = False) -> int:
    """List the methods of the daemon's websocket with the role that each takes."""
    import msgspec

    from ...gateway.methods.all import protocol_schema

    schema = protocol_schema()
    if json_schema:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n")
        return ANSWERED
    for name, method in schema["methods"].items():
        sys.stdout.write(f"{name:22}  {method['role']:8}  {method['summary']}\n")
    for name in schema["notifications"]:
        sys.stdout.write(f"{name:22}  {'(told)':8}\n")
    return ANSWERED

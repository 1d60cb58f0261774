"""What an approval of a call that runs programs depends on, besides its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..runtime.processes import Binding
from ..tools.context import ToolContext

NOTHING = Binding("")
"""Of a call that runs no programs."""


def binding_of(arguments: str, context: ToolContext) -> Binding:
    """How strong the sandbox is, what variables it gives, and which programs the call names.

    Whatever stands in the arguments may be a command: what a tool makes of them is not known here.
    """
    if context.processes is None:
        return NOTHING
    given = msgspec.json.decode(arguments)
    cwd = given.get("cwd") if isinstance(given, dict) else None
    return context.processes.bind(tuple(_commands(given)), cwd if isinstance(cwd, str) else ".")


def _commands(value: Any) -> Iterator[str | tuple[str, ...]]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield tuple(value)
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _commands(inner)

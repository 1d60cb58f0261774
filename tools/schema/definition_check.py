"""Whether a tool's definition can be told to a model: each request carries it, so one bad value in
it would break every model call of every session."""

from __future__ import annotations

import math
from typing import Any

from ...runtime.definitions import ToolDefinition
from ...runtime.errors import ValidationError


def check_definition(definition: ToolDefinition) -> None:
    """Raises `ValidationError` for what JSON in UTF-8 can't carry, and says where it stands.

    What holds its schemas has no cycles, or whoever encodes it before has found them.
    """
    todo: list[tuple[str, Any]] = [
        ("description", definition.description),
        ("parameters", definition.parameters),
        ("output", definition.output),
    ]
    while todo:
        where, value = todo.pop()
        if isinstance(value, dict):
            todo.extend((f"{where}.{key}", inner) for key, inner in value.items())
            todo.extend((f"{where}, a key", key) for key in value)
        elif isinstance(value, (list, tuple)):
            todo.extend((f"{where}[{place}]", inner) for place, inner in enumerate(value))
        elif isinstance(value, str):
            _check_text(definition.name, where, value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise _refused(definition.name, where, f"holds {value}, which JSON does not have")


def _check_text(tool_name: str, where: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise _refused(
            tool_name, where, f"holds {half!r}, half of a character, which UTF-8 does not have"
        ) from None


def _refused(tool_name: str, where: str, why: str) -> ValidationError:
    shown = where.encode("ascii", "backslashreplace").decode()[-200:]
    return ValidationError(
        f"tool {tool_name}: its {shown} {why}. No model could be told of it; correct it.",
        field=shown,
    )

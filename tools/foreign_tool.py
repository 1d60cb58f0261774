"""A tool whose definition and code come from outside: an MCP server, or a plugin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..runtime.definitions import ToolDefinition, ToolResult
from ..runtime.errors import ValidationError
from .schema.complaint import explain
from .schema.foreign_schema import foreign_shape
from .schema.foreign_validator import ForeignValidator
from .schema.function import check_definition
from .schema.validation import (
    OutputCheck,
    WrongArguments,
    canonical,
    parse_arguments,
    prune,
    result_of,
    spelling_note,
)
from .tool import Arguments, Tool, ToolContext, checked_name

Execute = Callable[[dict[str, Any], ToolContext], Awaitable[Any]]
"""(arguments, context) → the result, as a tool's function returns it."""


class ForeignTool(Tool):
    """A tool with a JSON Schema of its own.

    Its arguments are validated against `definition.parameters`, its results against
    `definition.output`. The author of these is not trusted: references out of the schema are refused,
    and its size, depth and work are bounded. Needs the extra `schemas`. Raises `ValidationError` when the
    name, a text or a schema can't be used.
    """

    def __init__(self, definition: ToolDefinition, execute: Execute) -> None:
        definition = _checked(definition)
        if definition.parameters.get("type") != "object":
            raise ValidationError(
                f"tool {definition.name}: its parameters must be a JSON Schema of type object; "
                f"type is {definition.parameters.get('type')!r}.",
                field="parameters",
            )
        self.definition = definition
        self._execute = execute
        where = f"tool {definition.name}"
        self._validator = ForeignValidator(where, definition.parameters)
        self._shape = foreign_shape(self._validator.schema)
        self._check: OutputCheck | None = None
        if definition.output is not None:
            self._check = ForeignValidator(where, definition.output).check
        check_definition(definition)

    def decode(self, arguments: str) -> Arguments:
        """See `Tool`; the value is a dict."""
        taken: dict[str, str] = {}
        try:
            value = prune(parse_arguments(arguments), self._shape, taken)
            self._validator.check(value, len(arguments))
        except WrongArguments as wrong:
            raise wrong.failure(self.definition.name, self.definition.parameters) from None
        return Arguments(value, canonical(value), spelling_note(taken) if taken else "")

    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """See `Tool`."""
        self.check_handles(context)
        returned = await self._execute(arguments.value, context)
        return result_of(self.definition.name, returned, self._check)


def _checked(definition: ToolDefinition) -> ToolDefinition:
    """Return the definition with each field checked against its type; it comes from outside."""
    name = checked_name(definition.name)
    try:
        return msgspec.convert(msgspec.structs.asdict(definition), ToolDefinition)
    except msgspec.ValidationError as error:
        problem, field = explain(str(error))
        raise ValidationError(
            f"tool {name}: its definition is wrong: {problem}. Correct it.", field=field
        ) from error

"""Whether each result that a test has a built-in tool make is what the tool declares, and nothing beside."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import jsonschema_rs

from callboard.runtime.definitions import ToolResult
from callboard.tools.tool import Arguments, FunctionTool, ToolContext


class DeclaredResults:
    """Checks the results of built-in tools, which no call does: what it finds fails the test."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._validators: dict[str, Any] = {}

    def take(self) -> list[str]:
        """What was found since the last time."""
        found, self._found = self._found, []
        return found

    def check(self, tool: FunctionTool, output: Any) -> None:
        definition = tool.definition
        if definition.name not in self._validators:
            declared = definition.output if definition.output is not None else False
            self._validators[definition.name] = jsonschema_rs.validator_for(closed(declared))
        for error in self._validators[definition.name].iter_errors(output):
            self._found.append(f"{definition.name}: {error.message[:500]}")

    @contextmanager
    def watching(self) -> Generator[None]:
        execute = FunctionTool.execute

        async def checked(
            tool: FunctionTool, arguments: Arguments, context: ToolContext
        ) -> ToolResult:
            result = await execute(tool, arguments, context)
            if tool.is_ours:
                self.check(tool, result.output)
            return result

        FunctionTool.execute = checked  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            FunctionTool.execute = execute  # type: ignore[method-assign]


def closed(schema: Any) -> Any:
    """The schema without room for keys that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(value) for name, value in schema.items()}
    if "properties" in made:
        made.setdefault("additionalProperties", False)
    return made

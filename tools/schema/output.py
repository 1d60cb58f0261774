"""From what a tool's function returned to the result of its call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from ...runtime.definitions import ErrorType, ToolFailure, ToolResult
from .argument_text import WrongArguments
from .validation import explain, with_keys

OutputCheck = Callable[[Any], None]
"""Looks at an output of plain JSON values; raises `WrongArguments` when it is not as declared."""


_STRICT = json.JSONEncoder(allow_nan=False, check_circular=False)
"""Refuses the numbers that JSON does not have, faster than a loop would find them."""


def result_of(tool_name: str, returned: Any, check: OutputCheck | None) -> ToolResult:
    """The result, its output in plain JSON values.

    Raises:
        ToolFailure: It can't be written as JSON, or is not what the tool declares
            (`execution_error`; `field` names the place).
    """
    result = returned if isinstance(returned, ToolResult) else ToolResult(output=returned)
    try:
        output = msgspec.to_builtins(result.output, str_keys=True)
        if b"null" in msgspec.json.encode(output):
            # msgspec writes NaN and infinities as null, and the model would take them for nothing.
            _STRICT.encode(output)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ToolFailure(
            ErrorType.EXECUTION_ERROR,
            f"{tool_name} ran, but what it returned can't be written as JSON: {error}.",
        ) from error
    if check is not None:
        try:
            check(output)
        except WrongArguments as wrong:
            field = {} if wrong.field is None else {"field": wrong.field}
            raise ToolFailure(
                ErrorType.EXECUTION_ERROR,
                f"{tool_name} ran, but its result is not what it declares: {wrong.problem}.",
                **field,
            ) from None
    return msgspec.structs.replace(result, output=output)


def check_of(kind: Any) -> OutputCheck:
    """The check that outputs have this type."""

    def check(output: Any) -> None:
        try:
            msgspec.convert(output, kind, str_keys=True)
        except msgspec.ValidationError as error:
            message = with_keys(str(error), output, kind)
            raise WrongArguments(*explain(message)) from None

    return check

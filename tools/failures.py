"""The two failures that most tools raise, in short."""

from __future__ import annotations

from typing import Any

from ..runtime.definitions import ErrorType, ToolFailure


def failed(message: str, **details: Any) -> ToolFailure:
    """Return the failure (`execution_error`) of a call that was valid and could not be done."""
    return ToolFailure(ErrorType.EXECUTION_ERROR, message, **details)


def invalid(field: str, message: str) -> ToolFailure:
    """Return the failure (`validation_error`) of a call whose argument `field` is wrong."""
    return ToolFailure(ErrorType.VALIDATION_ERROR, message, field=field)

"""What a tool's function is read into: its definition, and what decodes and checks its calls.

Reading one takes about a millisecond. What is wrong with an application's function is told where it
is decorated, so that it is read there; callboard's own wait until somebody wants to know of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ...runtime.definitions import Capability, Effect, Tier, ToolDefinition
from ...runtime.errors import ValidationError
from ..context import ToolContext
from ..processes.function_process import FunctionPlace, place_of
from .call_rules import EffectRule
from .definition_check import check_definition
from .output import OutputCheck, check_of
from .parameters import Parameters, output_schema, parameters_of, parameters_schema
from .validation import Validator

_OURS = __name__.partition("schema.")[0]


class FunctionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `@tool` was given of the definition; see there."""

    name: str
    tier: Tier | str
    needs: Iterable[Capability | str]
    timeout_seconds: float
    approval: Any
    effect: Effect | str | EffectRule
    output: Any
    process: bool


class FunctionParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a function was read into.

    Attributes:
        definition: What models and policies know of it.
        parameters: What it takes.
        validator: Decodes the arguments of a call.
        check: Looks at its results, or `None` when it declares none.
        timeout_name: The parameter that is `timeout` on the wire, or empty.
        place: Where a fresh interpreter finds it, or `None` when it runs in this one.
    """

    definition: ToolDefinition
    parameters: Parameters
    validator: Validator
    check: OutputCheck | None
    timeout_name: str
    place: FunctionPlace | None


def is_built_in(function: object) -> bool:
    """Whether a function stands in callboard itself, whose tests read them all."""
    return (getattr(function, "__module__", None) or "").startswith(_OURS)


def read_function(function: Callable[..., Any], options: FunctionOptions) -> FunctionParts:
    """Reads a function; raises `ValidationError`, which says why it can't be a tool."""
    name = options.name
    parameters = parameters_of(function, ToolContext)
    returns = parameters.returns if options.output is None else options.output
    definition = _definition(
        options,
        description=parameters.description,
        parameters=parameters_schema(parameters, name),
        output=None if returns is None else output_schema(returns, name),
    )
    return FunctionParts(
        definition=definition,
        parameters=parameters,
        validator=Validator(name, parameters.struct, definition.parameters),
        check=None if returns is None else check_of(returns),
        timeout_name=_field_on_wire(parameters.struct, "timeout"),
        place=place_of(function, definition) if options.process else None,
    )


def _field_on_wire(struct: type[msgspec.Struct], name: str) -> str:
    """The field of that name on the wire; empty when there is none."""
    return next((f.name for f in msgspec.structs.fields(struct) if f.encode_name == name), "")


def _definition(options: FunctionOptions, **fields: Any) -> ToolDefinition:
    effect, approval = options.effect, options.approval
    try:
        definition = ToolDefinition(
            name=options.name,
            tier=Tier(options.tier),
            needs=tuple(Capability(need) for need in options.needs),
            # Of a function's answers, the definition states the one that promises nothing.
            effect=Effect.ONCE if callable(effect) else Effect(effect),
            timeout_seconds=_checked_timeout(options.name, options.timeout_seconds),
            approval="dynamic" if callable(approval) else _checked_approval(options.name, approval),
            **fields,
        )
    except (ValueError, TypeError) as error:
        raise ValidationError(f"tool {options.name}: {error}") from error
    check_definition(definition)
    return definition


def _checked_timeout(name: str, seconds: object) -> float:
    if isinstance(seconds, (int, float)) and 0 < seconds < math.inf:
        return seconds
    raise ValidationError(
        f"tool {name}: timeout_seconds={seconds!r} is not a number of seconds above 0.",
        field="timeout_seconds",
    )


def _checked_approval(name: str, approval: object) -> str:
    if approval in ("never", "always"):  # no set: whatever was passed may have no hash
        return str(approval)
    raise ValidationError(
        f"tool {name}: approval={approval!r} is neither 'never' nor 'always' nor a function.",
        field="approval",
    )

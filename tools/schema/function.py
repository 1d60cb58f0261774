"""What `@tool` reads from a function: its definition, and what decodes and checks its calls.

Reading a function takes about a millisecond. An application's function is read where it is
decorated, so that a mistake is reported there; callboard's own are read when first used.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypedDict

import msgspec

from ...runtime.definitions import (
    Capability,
    CapabilityWord,
    Effect,
    EffectWord,
    Resource,
    Tier,
    TierWord,
    ToolDefinition,
)
from ...runtime.errors import ValidationError
from ..context import ToolContext
from ..processes.function_process import FunctionPlace, place_of
from .parameters import Parameters, output_schema, parameters_of, parameters_schema
from .validation import OutputCheck, Validator, check_of

ApprovalRule = Callable[[Any, ToolContext], "str | bool | None"]
"""(arguments, context) → a reason to ask, `True` for a general one, or nothing when it need not."""

PreviewRule = Callable[[Any, ToolContext], "str | Awaitable[str | None] | None"]
"""(arguments, context) → what would happen, as text for a person, or nothing to show."""

KeyRule = Callable[[Any], Iterable[Resource | str]]
"""Arguments → the keys of this call; a text is a key to write."""

TierRule = Callable[[Any], Tier | TierWord]
"""Arguments → the tier of this call."""

NeedsRule = Callable[[Any], Iterable[Capability | CapabilityWord]]
"""Arguments → what this call needs besides the tool's `needs`."""

EffectRule = Callable[[Any], Effect | EffectWord]
"""Arguments → the effect of this call."""


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`; `callboard.tools.tool.tool` describes them."""

    name: str | None
    tier: Tier | TierWord
    needs: Iterable[Capability | CapabilityWord]
    timeout_seconds: float
    approval: Literal["never", "always"] | ApprovalRule
    effect: Effect | EffectWord | EffectRule
    resources: KeyRule | None
    raise_tier: TierRule | None
    preview: PreviewRule | None
    output: Any
    process: bool
    more_needs: NeedsRule | None


class FunctionParts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from a function.

    `check` is `None` when it declares no result, `timeout_name` the parameter that is `timeout` on the wire (or
    empty), `place` where a fresh interpreter finds it (`None` when it runs in this one).
    """

    definition: ToolDefinition
    parameters: Parameters
    validator: Validator
    check: OutputCheck | None
    timeout_name: str
    place: FunctionPlace | None


def read_function(function: Callable[..., Any], name: str, options: ToolOptions) -> FunctionParts:
    """Read a function as the tool of that name; raise `ValidationError` when it can't be one."""
    parameters = parameters_of(function, ToolContext)
    if parameters.app_type is not None and options.get("process"):
        raise ValidationError(
            f"tool {name}: process=True does not go with the context's app: the program's objects stay "
            "in its own process. Leave one of the two out."
        )
    returns = parameters.returns if (own := options.get("output")) is None else own
    definition = _definition(
        options,
        name=name,
        description=parameters.description,
        parameters=parameters_schema(parameters, name),
        output=None if returns is None else output_schema(returns, name),
    )
    fields = msgspec.structs.fields(parameters.struct)
    return FunctionParts(
        definition=definition,
        parameters=parameters,
        validator=Validator(name, parameters.struct, definition.parameters),
        check=None if returns is None else check_of(returns),
        timeout_name=next((f.name for f in fields if f.encode_name == "timeout"), ""),
        place=place_of(function, definition) if options.get("process") else None,
    )


def _definition(options: ToolOptions, *, name: str, **fields: Any) -> ToolDefinition:
    effect, approval = options.get("effect", Effect.ONCE), options.get("approval", "never")
    seconds: object = options.get("timeout_seconds", 30.0)
    if not (isinstance(seconds, (int, float)) and 0 < seconds < math.inf):
        raise ValidationError(
            f"tool {name}: timeout_seconds={seconds!r} is not a number of seconds above 0.",
            field="timeout_seconds",
        )
    if not callable(approval) and approval not in ("never", "always"):  # it may have no hash
        raise ValidationError(
            f"tool {name}: approval={approval!r} is neither 'never' nor 'always' nor a function.",
            field="approval",
        )
    try:
        definition = ToolDefinition(
            name=name,
            tier=Tier(options.get("tier", Tier.SYSTEM)),
            needs=tuple(Capability(need) for need in options.get("needs", ())),
            # For a function's answers, the definition states the effect that promises nothing.
            effect=Effect.ONCE if callable(effect) else Effect(effect),
            timeout_seconds=seconds,
            approval="dynamic" if callable(approval) else approval,
            **fields,
        )
    except (ValueError, TypeError) as error:
        raise ValidationError(f"tool {name}: {error}") from error
    check_definition(definition)
    return definition


def check_definition(definition: ToolDefinition) -> None:
    """Raise `ValidationError` for what JSON in UTF-8 can't carry, and name the place.

    Every request to a model carries the definitions, so one bad value in one of them would break
    every model call of every session. The schemas have no cycles: encoding them has shown that.
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
            try:
                value.encode()
            except UnicodeEncodeError as error:
                half = value[error.start]
                why = f"holds {half!r}, half of a character, which UTF-8 does not have"
                raise _refused(definition.name, where, why) from None
        elif isinstance(value, float) and not math.isfinite(value):
            raise _refused(definition.name, where, f"holds {value}, which JSON does not have")


def _refused(tool_name: str, where: str, why: str) -> ValidationError:
    shown = where.encode("ascii", "backslashreplace").decode()[-200:]
    return ValidationError(
        f"tool {tool_name}: its {shown} {why}, so that no request to a model could carry it. "
        "Correct it.",
        field=shown,
    )

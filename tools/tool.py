"""What a tool is to the dispatcher, and the decorator that makes one of a function.

The schema comes from the annotations, the description from the docstring; a parameter annotated
`ToolContext` gets the context and is not in the schema. An `async def` runs on the Trio thread, a
plain `def` in a worker thread, or with `process=True` in a process that dies with the call.
"""

from __future__ import annotations

import abc
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Literal, overload

import msgspec

from ..runtime.definitions import (
    Capability,
    Effect,
    ErrorType,
    Resource,
    Tier,
    ToolDefinition,
    ToolFailure,
    ToolResult,
)
from ..runtime.errors import ValidationError
from .call_rules import (
    CallRules,
    EffectRule,
    KeyRule,
    TierRule,
    effect_of,
    keys_of,
    text_of,
    tier_of,
)
from .context import ToolContext as ToolContext
from .definition_check import check_definition
from .function_process import ContextFields, FunctionPlace, place_of, run_in_process
from .output import OutputCheck, check_of, result_of
from .schema import output_schema, parameters_of, parameters_schema
from .threads import run_function
from .validation import Validator

ApprovalRule = Callable[[Any, "ToolContext"], "str | bool | None"]
"""(arguments, context) → a reason, `True` for a general one, or nothing when it need not ask."""

PreviewRule = Callable[[Any, "ToolContext"], "str | Awaitable[str | None] | None"]
"""(arguments, context) → what would happen, as text for a person, or nothing to show."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Arguments(msgspec.Struct, frozen=True):
    """Validated arguments of one call.

    Attributes:
        value: What the tool's function takes.
        canonical: The one form that policy, digest, person and tool see: JSON with sorted keys,
            unknown ones and nulls of optional ones dropped.
    """

    value: Any
    canonical: str


class Tool(abc.ABC):
    """One tool: its definition and its code.

    Attributes:
        definition: What models and policies know of it.
        waits: Whether its calls do nothing but wait, for a person or for another session: they
            take no slot, and nothing but their own timeout bounds them.
    """

    definition: ToolDefinition
    waits: bool = False

    @abc.abstractmethod
    def decode(self, arguments: str) -> Arguments:
        """Validates the model's own text; raises `ToolFailure` (`validation_error`)."""

    def check_handles(self, context: ToolContext) -> None:
        """Raises `ToolFailure` (`permission_denied`) when the context lacks a handle it needs."""
        for need in self.definition.needs:
            if getattr(context, need.value.replace(".", "_"), None) is None:
                raise ToolFailure(
                    ErrorType.PERMISSION_DENIED,
                    f"{self.definition.name} needs {need.value}, which a {context.session_kind} "
                    "session does not have here.",
                    tier=self.definition.tier,
                    reason=f"no {need.value} handle",
                )

    def tier(self, arguments: Arguments) -> Tier:
        """The tier of this call: the definition's, or higher."""
        return self.definition.tier

    def approval_reason(self, arguments: Arguments, context: ToolContext) -> str | None:
        """Why a person should be asked about this call, or `None`."""
        return None

    def effect(self, arguments: Arguments) -> Effect:
        """What may happen to this call after a crash: as the definition says, or it is harmless."""
        return self.definition.effect

    def resources(self, arguments: Arguments) -> tuple[Resource, ...]:
        """The keys that this call takes."""
        return ()

    def timeout_seconds(self, arguments: Arguments) -> float:
        """How long this call wants to run; `max_tool_seconds` of the limits bounds it."""
        return self.definition.timeout_seconds

    async def preview(self, arguments: Arguments, context: ToolContext) -> str | None:
        """What a person sees before they allow this call, or `None`; only looks, changes nothing."""
        return None

    @abc.abstractmethod
    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """Runs the call; raises `ToolFailure` for what it expects, anything else for a crash."""


class FunctionTool(Tool):
    """A tool made of a typed function; see `tool` for the arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        tier: Tier | str = Tier.SYSTEM,
        needs: Iterable[Capability | str] = (),
        timeout_seconds: float = 30.0,
        approval: Literal["never", "always"] | ApprovalRule = "never",
        effect: Effect | str | EffectRule = Effect.ONCE,
        resources: KeyRule | None = None,
        raise_tier: TierRule | None = None,
        preview: PreviewRule | None = None,
        output: Any = None,
        process: bool = False,
        waits: bool = False,
    ) -> None:
        name = checked_name(name or str(getattr(function, "__name__", "tool")))
        parameters = parameters_of(function, ToolContext)
        returns = parameters.returns if output is None else output
        self.definition = _definition(
            name,
            (tier, needs, effect),
            description=parameters.description,
            parameters=parameters_schema(parameters.struct, name),
            output=None if returns is None else output_schema(returns, name),
            timeout_seconds=_checked_timeout(name, timeout_seconds),
            approval="dynamic" if callable(approval) else _checked_approval(name, approval),
        )
        self.function = function
        self._parameters = parameters
        self._validator = Validator(name, parameters.struct, self.definition.parameters)
        self._check: OutputCheck | None = None if returns is None else check_of(returns)
        self._rules = CallRules(name, approval, effect, resources, raise_tier, preview)
        self.waits = waits
        self._is_async = inspect.iscoroutinefunction(function)
        self._timeout_name = _field_on_wire(parameters.struct, "timeout")
        self._place = place_of(function, self.definition) if process else None

    def decode(self, arguments: str) -> Arguments:
        """See `Tool`."""
        return Arguments(*self._validator.decode(arguments))

    def tier(self, arguments: Arguments) -> Tier:
        """See `Tool`."""
        least = self.definition.tier
        if self._rules.raise_tier is None:
            return least
        return max(
            least, tier_of(self._rules.raise_tier(arguments.value)), key=lambda tier: tier.rank
        )

    def approval_reason(self, arguments: Arguments, context: ToolContext) -> str | None:
        """See `Tool`."""
        always = f"{self.definition.name} always asks"
        if self._rules.approval is None:
            return always if self.definition.approval == "always" else None
        reason = self._rules.approval(arguments.value, context)
        if isinstance(reason, str):
            return reason or None
        return f"{self.definition.name} asks for such arguments" if reason else None

    def effect(self, arguments: Arguments) -> Effect:
        """See `Tool`."""
        if self._rules.effect is None:
            return self.definition.effect
        return effect_of(self._rules.effect(arguments.value))

    def resources(self, arguments: Arguments) -> tuple[Resource, ...]:
        """See `Tool`."""
        keys = self._rules.resources
        return () if keys is None else keys_of(keys(arguments.value))

    def timeout_seconds(self, arguments: Arguments) -> float:
        """See `Tool`; an argument named `timeout` sets it."""
        wanted = getattr(arguments.value, self._timeout_name, None) if self._timeout_name else None
        if not isinstance(wanted, (int, float)) or isinstance(wanted, bool) or wanted <= 0:
            return self.definition.timeout_seconds
        return wanted

    async def preview(self, arguments: Arguments, context: ToolContext) -> str | None:
        """See `Tool`; a plain function is called in a worker thread."""
        rule = self._rules.preview
        if rule is None:
            return None
        said: Any
        if inspect.iscoroutinefunction(rule):
            said = await rule(arguments.value, context)
        else:
            said = await run_function(
                partial(rule, arguments.value, context),
                turn_id=context.turn_id,
                name=f"thread of the preview of {self.definition.name} ({context.call_id})",
            )
        return text_of(said)

    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """See `Tool`."""
        self.check_handles(context)
        returned: Any
        if self._place is not None:
            returned = await self._run_in_process(self._place, arguments, context)
        elif self._is_async:
            returned = await self.call(arguments, context)
        else:
            returned = await run_function(
                partial(self.call, arguments, context),
                turn_id=context.turn_id,
                name=f"thread of {self.definition.name} ({context.call_id})",
            )
            if inspect.isawaitable(returned):
                # A callable object or a wrapped function may hide that it is asynchronous.
                returned = await returned
        return result_of(self.definition.name, returned, self._check)

    def call(self, arguments: Arguments, context: ToolContext) -> Any:
        """Calls the function here and now, and gives what it returns, be it an awaitable."""
        given = {name: getattr(arguments.value, name) for name in self._parameters.names}
        if self._parameters.context_name is not None:
            given[self._parameters.context_name] = context
        return self.function(**given)

    async def _run_in_process(
        self, place: FunctionPlace, arguments: Arguments, context: ToolContext
    ) -> ToolResult:
        fields = ContextFields(
            session_id=context.session_id,
            turn_id=context.turn_id,
            call_id=context.call_id,
            session_kind=context.session_kind,
            agent=context.agent,
        )
        name = self.definition.name
        return await run_in_process(name, place, arguments.canonical, fields, context.progress)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    tier: Tier | str = Tier.SYSTEM,
    needs: Iterable[Capability | str] = (),
    timeout_seconds: float = 30.0,
    approval: Literal["never", "always"] | ApprovalRule = "never",
    effect: Effect | str | EffectRule = Effect.ONCE,
    resources: KeyRule | None = None,
    raise_tier: TierRule | None = None,
    preview: PreviewRule | None = None,
    output: Any = None,
    process: bool = False,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a tool of a typed function, as `@tool` or `@tool(…)`.

    Args:
        function: An `async def`, or a `def` that runs in a worker thread. After a timeout or a
            cancel a thread can't be stopped: its call gets its result at once and it runs on.
        **options: `name` (default: the function's), `tier` (`system`), `needs`,
            `timeout_seconds` (30; the limit `max_tool_seconds` bounds it), `approval` (`never`,
            `always`, or a function of arguments and context that gives a reason to ask), `effect` (`once`, or a function of the
            arguments that gives a call's own), `resources` (a function of the
            arguments that gives keys on which parallel calls must not overlap: texts like `a/b`,
            or a `Resource` for what is only read), `raise_tier` (a
            function of the arguments that gives a call's tier; it never lowers `tier`),
            `preview` (a function of arguments and context that gives a text for the person who is
            asked about a call: what would happen; it runs in a worker thread unless it is `async`),
            `output` (the type of the result, checked; default: the return annotation if it is a
            Struct, dataclass or TypedDict), `process` (a plain function at the top level of a
            module runs in a process of its own, which is killed after a timeout or a cancel).

    Raises:
        ValidationError: The function can't be a tool; the message says why.

    Example:
        @callboard.tool(tier="read_only")
        def double(number: int) -> int:
            '''Doubles a number.'''
            return 2 * number

        async with callboard.open_runtime(model="rehearsal", tools=[double]) as runtime:
            print(runtime.tools()[-1].name)
    """
    if function is None:
        return lambda decorated: FunctionTool(decorated, **options)
    return FunctionTool(function, **options)


def checked_name(name: str) -> str:
    """The name, if providers take it; raises `ValidationError` otherwise."""
    if (
        isinstance(name, str)
        and len(name) <= ToolDefinition.max_name_length
        and _NAME.fullmatch(name)
    ):
        return name
    raise ValidationError(
        f"{name!r} can't be a tool's name: providers take snake_case of at most "
        f"{ToolDefinition.max_name_length} characters. Pass name= to @tool.",
        field="name",
    )


def _field_on_wire(struct: type[msgspec.Struct], name: str) -> str:
    """The field of that name on the wire; empty when there is none."""
    return next((f.name for f in msgspec.structs.fields(struct) if f.encode_name == name), "")


def _definition(
    name: str,
    words: tuple[Tier | str, Iterable[Capability | str], Effect | str | EffectRule],
    **fields: Any,
) -> ToolDefinition:
    tier, needs, effect = words
    try:
        definition = ToolDefinition(
            name=name,
            tier=Tier(tier),
            needs=tuple(Capability(need) for need in needs),
            # Of a function's answers, the definition states the one that promises nothing.
            effect=Effect.ONCE if callable(effect) else Effect(effect),
            **fields,
        )
    except (ValueError, TypeError) as error:
        raise ValidationError(f"tool {name}: {error}") from error
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

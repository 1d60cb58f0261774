"""What a tool is to the dispatcher, and the decorator that makes one of a function.

The schema comes from the annotations, the description from the docstring; a parameter annotated
`ToolContext` gets the context and is not in the schema. An `async def` runs on the Trio thread, a
plain `def` in a worker thread, or with `process=True` in a process that dies with the call.
"""

from __future__ import annotations

import abc
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property, partial
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
from .context import ToolContext as ToolContext
from .processes.function_process import ContextFields, FunctionPlace, run_in_process
from .processes.threads import run_function
from .schema.call_rules import (
    CallRules,
    EffectRule,
    KeyRule,
    NeedsRule,
    TierRule,
    effect_of,
    keys_of,
    needs_of,
    text_of,
    tier_of,
)
from .schema.function_parts import FunctionOptions, FunctionParts, is_built_in, read_function
from .schema.output import result_of

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
        is_ours: Whether its code is callboard's own, which acts through its handles alone.
    """

    definition: ToolDefinition
    waits: bool = False
    is_ours: bool = False

    @property
    def name(self) -> str:
        """Its name, for whoever wants to know no more."""
        return self.definition.name

    @abc.abstractmethod
    def decode(self, arguments: str) -> Arguments:
        """Validates the model's own text; raises `ToolFailure` (`validation_error`)."""

    def needs(self, arguments: Arguments) -> tuple[Capability, ...]:
        """What this call can't do without: what the definition says, or more."""
        return self.definition.needs

    def check_handles(
        self, context: ToolContext, needs: tuple[Capability, ...] | None = None
    ) -> None:
        """Raises `ToolFailure` (`permission_denied`) when the context lacks a handle it needs."""
        for need in self.definition.needs if needs is None else needs:
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
        more_needs: NeedsRule | None = None,
    ) -> None:
        self.function = function
        self.waits = waits
        is_own = is_built_in(function)
        self.is_ours = is_own and not hasattr(function, "__wrapped__")  # which takes ours' name
        self._name = checked_name(name or str(getattr(function, "__name__", "tool")))
        options = FunctionOptions(
            name=self._name,
            tier=tier,
            needs=needs,
            timeout_seconds=timeout_seconds,
            approval=approval,
            effect=effect,
            output=output,
            process=process,
        )
        self._read = partial(read_function, function, options)
        self._is_async = inspect.iscoroutinefunction(function)
        if not is_own:
            _ = self._parts
        self._rules = CallRules(
            self._name, approval, effect, resources, raise_tier, preview, more_needs
        )

    @cached_property
    def _parts(self) -> FunctionParts:
        return self._read()

    @cached_property
    def definition(self) -> ToolDefinition:  # type: ignore[override]  # made when it is wanted
        """See `Tool`."""
        return self._parts.definition

    @property
    def name(self) -> str:
        """See `Tool`."""
        made: ToolDefinition | None = self.__dict__.get("definition")
        return self._name if made is None else made.name

    def decode(self, arguments: str) -> Arguments:
        """See `Tool`."""
        return Arguments(*self._parts.validator.decode(arguments))

    def tier(self, arguments: Arguments) -> Tier:
        """See `Tool`."""
        least = self.definition.tier
        if self._rules.raise_tier is None:
            return least
        return max(
            least, tier_of(self._rules.raise_tier(arguments.value)), key=lambda tier: tier.rank
        )

    def needs(self, arguments: Arguments) -> tuple[Capability, ...]:
        """See `Tool`."""
        least = self.definition.needs
        if self._rules.more_needs is None:
            return least
        more = needs_of(self._rules.more_needs(arguments.value))
        return (*least, *(each for each in more if each not in least))

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
        name = self._parts.timeout_name
        wanted = getattr(arguments.value, name, None) if name else None
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
        if (place := self._parts.place) is not None:
            returned = await self._run_in_process(place, arguments, context)
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
        return result_of(self.definition.name, returned, self._parts.check)

    def call(self, arguments: Arguments, context: ToolContext) -> Any:
        """Calls the function here and now, and gives what it returns, be it an awaitable."""
        parameters = self._parts.parameters
        given = {name: getattr(arguments.value, name) for name in parameters.names}
        if parameters.context_name is not None:
            given[parameters.context_name] = context
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
    more_needs: NeedsRule | None = None,
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
            module runs in a process of its own, which is killed after a timeout or a cancel),
            `more_needs` (a function of the arguments that gives what a call needs besides `needs`).

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

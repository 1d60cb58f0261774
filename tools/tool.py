"""What a tool is to the dispatcher, and the decorator that makes one of a function.

The schema comes from the annotations, the description from the docstring; a parameter annotated
`ToolContext` gets the context and is not in the schema. An `async def` runs on the Trio thread, a
plain `def` in a worker thread, or with `process=True` in a process that dies with the call.

The functions that an application gives as options (`resources`, `raise_tier`, …) run before
anything of a call is decided. Their answers are checked here, since a wrong word would otherwise
fail in the middle of a batch.
"""

from __future__ import annotations

import abc
import inspect
import re
from collections.abc import Callable, Iterable
from functools import cached_property, partial, update_wrapper
from typing import Any, Protocol, TypeVar, Unpack, overload

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
from ..runtime.errors import ShortTracebacks, ValidationError
from .context import ToolContext as ToolContext
from .processes.function_process import ContextFields, run_in_process
from .processes.threads import run_function
from .schema.function import FunctionParts, ToolOptions, read_function
from .schema.validation import result_of

_OURS = __name__.rpartition(".")[0] + "."
Word = TypeVar("Word", Tier, Effect)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*")
"""Names of any source, such as `getWeather` or `files.read`; providers get those that they refuse under another
name. `*` and `?` would be patterns in rules."""


class Arguments(msgspec.Struct, frozen=True):
    """Validated arguments of one call.

    Attributes:
        value: What the tool's function takes.
        canonical: The one form that policy, digest, person and tool see: JSON with sorted keys,
            without unknown keys and without nulls of optional ones.
        note: What the model is told about keys that were taken as known ones, or empty.
    """

    value: Any
    canonical: str
    note: str = ""


class Tool(abc.ABC):
    """One tool: its definition and its code.

    Attributes:
        definition: What models and policies know of it.
        waits: Whether its calls only wait, for a person or for another session: they take no
            slot, and only their own timeout bounds them.
        may_ask: Whether its calls may ask people, where there are some.
        may_ask_model: Whether they may ask the model of their turn.
        is_ours: Whether its code is callboard's own, which acts through its handles alone.
        app_type: The type that its context's `app` has to have; `None` if it says nothing.
        is_trusted: Whether strangers can't have written its results, and failures, whatever it needs; `None`
            when its needs say it.
    """

    definition: ToolDefinition
    waits: bool = False
    may_ask: bool = False
    may_ask_model: bool = False
    is_ours: bool = False
    app_type: Any = None
    is_trusted: bool | None = None

    @property
    def name(self) -> str:
        """The tool's name; does not read a function that was not read yet."""
        return self.definition.name

    @abc.abstractmethod
    def decode(self, arguments: str) -> Arguments:
        """Validate the model's own text; raise `ToolFailure` (`validation_error`)."""

    def needs(self, arguments: Arguments) -> tuple[Capability, ...]:
        """Return the handles this call can't do without: the definition's, or more."""
        return self.definition.needs

    def check_handles(
        self, context: ToolContext, needs: tuple[Capability, ...] | None = None
    ) -> None:
        """Raise `ToolFailure` (`permission_denied`) when the context lacks a handle it needs."""
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
        """Return the tier of this call: the definition's, or higher."""
        return self.definition.tier

    def approval_reason(self, arguments: Arguments, context: ToolContext) -> str | None:
        """Return why a person should be asked about this call, or `None`."""
        return None

    def effect(self, arguments: Arguments) -> Effect:
        """Return what may happen to this call after a crash: the definition's, or harmless."""
        return self.definition.effect

    def resources(self, arguments: Arguments) -> tuple[Resource, ...]:
        """Return the keys that this call takes."""
        return ()

    def timeout_seconds(self, arguments: Arguments) -> float:
        """Return how long this call wants to run; `max_tool_seconds` of the limits bounds it."""
        return self.definition.timeout_seconds

    async def preview(self, arguments: Arguments, context: ToolContext) -> str | None:
        """Return what a person sees before they allow this call, or `None`; change nothing."""
        return None

    @abc.abstractmethod
    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """Run the call; raise `ToolFailure` for expected failures, anything else for a crash."""


class FunctionTool(Tool):
    """A tool made of a typed function; `tool` describes the options. Raises `ValidationError` when it can't be one.

    Called, it is the function that it was made of: nothing is validated, asked or recorded.
    """

    def __init__(
        self, function: Callable[..., Any], *, waits: bool = False, **options: Unpack[ToolOptions]
    ) -> None:
        if unknown := options.keys() - ToolOptions.__annotations__.keys():
            raise TypeError(f"a tool has no option {', '.join(sorted(unknown))}")
        self.function = function
        self.waits = waits
        is_own = (getattr(function, "__module__", None) or "").startswith(_OURS)
        self.is_ours = is_own and not hasattr(function, "__wrapped__")  # which takes ours' name
        given = options.get("name") or str(getattr(function, "__name__", "tool"))
        self._name = checked_name(given)
        self._options = options
        self._is_async = inspect.iscoroutinefunction(function)
        if not is_own:  # the tests read all of ours
            self.app_type = self._parts.parameters.app_type
            update_wrapper(self, function, updated=())  # as it is called: help, editors, notebooks
        approval, effect = options.get("approval"), options.get("effect")
        self._approval = self._rule("approval", approval if callable(approval) else None)
        self._effect = self._rule("effect", effect if callable(effect) else None)
        self._resources = self._rule("resources", options.get("resources"))
        self._raise_tier = self._rule("raise_tier", options.get("raise_tier"))
        self._more_needs = self._rule("more_needs", options.get("more_needs"))
        self._preview = self._rule("preview", options.get("preview"), may_be_async=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as code and tests of its own do."""
        return self.function(*args, **kwargs)

    def _rule(self, option: str, rule: Any, *, may_be_async: bool = False) -> Any:
        if inspect.iscoroutinefunction(rule) and not may_be_async:
            why = "is asynchronous. Pass a plain function of the arguments"
        elif rule is None or callable(rule):
            return rule
        else:
            why = "is not a function. Pass a function of the arguments"
        raise ValidationError(f"tool {self._name}: {option}={rule!r} {why}.", field=option)

    @cached_property
    def _parts(self) -> FunctionParts:
        return read_function(self.function, self._name, self._options)

    @cached_property
    def definition(self) -> ToolDefinition:  # type: ignore[override]  # read on first use
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
        if self._raise_tier is None:
            return least
        raised = _word_of(Tier, "raise_tier", self._raise_tier(arguments.value))
        return max(least, raised, key=lambda tier: tier.rank)

    def needs(self, arguments: Arguments) -> tuple[Capability, ...]:
        """See `Tool`."""
        least = self.definition.needs
        if self._more_needs is None:
            return least
        said = self._more_needs(arguments.value)
        try:
            more = tuple(Capability(one) for one in said)
        except (ValueError, TypeError):
            raise _unknown("more_needs", said, Capability) from None
        return (*least, *(each for each in more if each not in least))

    def approval_reason(self, arguments: Arguments, context: ToolContext) -> str | None:
        """See `Tool`."""
        if self._approval is None:
            always = f"{self.definition.name} always asks"
            return always if self.definition.approval == "always" else None
        reason = self._approval(arguments.value, context)
        if isinstance(reason, str):
            return reason or None
        return f"{self.definition.name} asks for such arguments" if reason else None

    def effect(self, arguments: Arguments) -> Effect:
        """See `Tool`."""
        if self._effect is None:
            return self.definition.effect
        return _word_of(Effect, "effect", self._effect(arguments.value))

    def resources(self, arguments: Arguments) -> tuple[Resource, ...]:
        """See `Tool`."""
        return () if self._resources is None else keys_of(self._resources(arguments.value))

    def timeout_seconds(self, arguments: Arguments) -> float:
        """See `Tool`; an argument named `timeout` sets it."""
        name = self._parts.timeout_name
        wanted = getattr(arguments.value, name, None) if name else None
        if not isinstance(wanted, (int, float)) or isinstance(wanted, bool) or wanted <= 0:
            return self.definition.timeout_seconds
        return wanted

    async def preview(self, arguments: Arguments, context: ToolContext) -> str | None:
        """See `Tool`; a plain function is called in a worker thread."""
        rule = self._preview
        if rule is None:
            return None
        text: Any
        if inspect.iscoroutinefunction(rule):
            text = await rule(arguments.value, context)
        else:
            text = await run_function(
                partial(rule, arguments.value, context),
                turn_id=context.turn_id,
                name=f"thread of the preview of {self.definition.name} ({context.call_id})",
            )
        if text is None or isinstance(text, str):
            return text
        raise ValidationError(f"preview gave {text!r:.100}, which is not a text.", field="preview")

    async def execute(self, arguments: Arguments, context: ToolContext) -> ToolResult:
        """See `Tool`."""
        self.check_handles(context)
        returned: Any
        if (place := self._parts.place) is not None:
            fields = ContextFields(
                session_id=context.session_id,
                turn_id=context.turn_id,
                call_id=context.call_id,
                session_kind=context.session_kind,
                agent=context.agent,
            )
            returned = await run_in_process(
                self.definition.name, place, arguments.canonical, fields, context.progress
            )
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
        # What ours return is checked in their tests: nothing of it is a stranger's.
        return result_of(
            self.definition.name, returned, None if self.is_ours else self._parts.check
        )

    def call(self, arguments: Arguments, context: ToolContext) -> Any:
        """Call the function here and now; return what it returns, even an awaitable."""
        parameters = self._parts.parameters
        given = {name: getattr(arguments.value, name) for name in parameters.annotations}
        if parameters.context_name is not None:
            given[parameters.context_name] = context
        return self.function(**given)


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a typed function, as `@tool` or `@tool(…)`; it can still be called as the function.

    Args:
        function: An `async def`, or a `def` that runs in a worker thread. A thread can't be
            stopped: after a timeout or a cancel its call gets its result at once, and it runs on.
        **options: `name` (default: the function's); `tier` (default: `system`); `needs` (the
            handles it can't do without); `timeout_seconds` (default: 30; the limit
            `max_tool_seconds` bounds it); `approval` (`never`, `always`, or a function of arguments
            and context that returns a reason to ask); `effect` (`once`, or another effect, or a
            function of the arguments that returns one); `resources` (a function of the arguments
            that returns keys on which parallel calls must not overlap: texts like `a/b`, or a
            `Resource` for what is only read); `raise_tier` (a function of the arguments that
            returns a call's tier; it never lowers `tier`); `preview` (a function of arguments and
            context that returns what would happen, as text for the person who is asked about a
            call; it runs in a worker thread unless it is `async`); `output` (the type of the
            result, or several of which one fits, which is checked; default: the return annotation if
            that is a Struct, dataclass, TypedDict or Pydantic model); `process` (a plain function at the top level of a module runs in a
            process of its own, which is killed after a timeout or a cancel); `more_needs` (a
            function of the arguments that returns what a call needs besides `needs`).

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
        return lambda decorated: _made(decorated, options)
    return _made(function, options)


def _made(function: Callable[..., Any], options: Any) -> FunctionTool:
    with ShortTracebacks():
        return FunctionTool(function, **options)


class ToolFamily(Protocol):
    """A decorator like `tool`, made by `tool_family`."""

    def __call__(
        self, **options: Unpack[ToolOptions]
    ) -> Callable[[Callable[..., Any]], FunctionTool]:
        """Return the decorator for a tool with these options besides those of its family."""
        ...


def tool_family(**usual: Unpack[ToolOptions]) -> ToolFamily:
    """Return a decorator like `tool` for tools that share some options; a tool's own win."""

    def family(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], FunctionTool]:
        merged: ToolOptions = {**usual, **options}
        return tool(**merged)

    return family


def checked_name(name: str) -> str:
    """Return the name if providers take it; raise `ValidationError` otherwise."""
    if (
        isinstance(name, str)
        and len(name) <= ToolDefinition.max_name_length
        and _NAME.fullmatch(name)
    ):
        return name
    raise ValidationError(
        f"{name!r} can't be a tool's name: it has at most {ToolDefinition.max_name_length} letters and "
        "digits of ASCII and the signs _ . : / @ -, and begins with a letter, a digit or _. Pass name= "
        "to @tool.",
        field="name",
    )


def keys_of(said: Iterable[Resource | str]) -> tuple[Resource, ...]:
    """Return the keys that a function, or a tool, named; raise `ValidationError`."""
    if not said and type(said) is tuple:
        return ()
    if isinstance(said, (str, bytes, Resource)) or not isinstance(said, Iterable):
        raise ValidationError(
            f'resources gave {said!r:.100}, and not a list of keys. Return a list, as in ["a/b"].',
            field="resources",
        )
    keys = tuple(Resource(one) if isinstance(one, str) else one for one in said)
    for key in keys:
        if not isinstance(key, Resource):
            raise ValidationError(
                f"resources gave the key {key!r:.100}, which is neither a text like `a/b` nor a "
                "callboard.Resource.",
                field="resources",
            )
    return keys


def _word_of(words: type[Word], option: str, said: Any) -> Word:
    try:
        return words(said)
    except ValueError:
        raise _unknown(option, said, words) from None


def _unknown(option: str, said: object, words: Iterable[str]) -> ValidationError:
    return ValidationError(
        f"{option} gave {said!r:.100}, which is none of {', '.join(words)}.", field=option
    )

"""The decorator: a typed function becomes a tool, and runs as one."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import math
import threading
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest
import trio

from callboard.runtime.definitions import (
    Capability,
    Effect,
    ErrorType,
    Resource,
    Tier,
    ToolFailure,
    ToolResult,
)
from callboard.runtime.errors import ValidationError
from callboard.tools.tool import ToolContext, tool
from support.tools.workbench import context_of, output_of


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Spot(msgspec.Struct):
    x: float


class Point(msgspec.Struct):
    x: int
    y: Annotated[int, msgspec.Meta(description="up")] = 0


@dataclasses.dataclass
class Box:
    corner: Point
    label: str | None = None


class Tree(msgspec.Struct):
    children: list[Tree] = []


POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "y": {"type": "integer", "description": "up", "default": 0},
    },
    "required": ["x"],
}


def test_defaults_are_optional_and_null_is_offered_where_it_is_another_value() -> None:
    @tool
    def function(
        maybe: int | None = None,
        level: int | None = 3,
        names: list[str] = ["a"],  # ruff: ignore[mutable-argument-default]
        point: Point | None = None,
    ) -> None: ...

    assert function.definition.parameters == {
        "type": "object",
        "properties": {
            "maybe": {"type": "integer"},
            "level": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 3},
            "names": {"type": "array", "items": {"type": "string"}},
            "point": POINT,
        },
        "required": [],
    }


def test_recursive_types_keep_their_reference() -> None:
    @tool
    def function(tree: Tree) -> None: ...

    parameters = function.definition.parameters
    reference = {"$ref": "#/$defs/Tree"}
    assert parameters["properties"]["tree"]["properties"]["children"]["items"] == reference
    assert parameters["$defs"]["Tree"]["properties"]["children"]["items"] == reference


def test_parameters_may_be_named_like_keywords_of_schemas() -> None:
    @tool
    def function(default: Point, title: str, properties: Point, required: int = 1) -> None: ...

    properties = function.definition.parameters["properties"]
    assert list(properties) == ["default", "title", "properties", "required"]
    assert properties["default"] == properties["properties"] == POINT
    assert properties["title"] == {"type": "string"}


def test_the_docstring_describes_the_tool_and_its_parameters() -> None:
    @tool
    def function(
        word: str, limit: int = 5, other: Annotated[str, msgspec.Meta(description="own")] = ""
    ) -> None:
        """Finds synonyms
        of a word.

        Not shown.

        Args:
            word: One English word,
                in lower case.
            limit (int): How many: at most.
            other: From the docstring.

        Returns:
            nothing: at all
        """

    assert function.definition.description == "Finds synonyms of a word."
    described = {
        name: schema.get("description")
        for name, schema in function.definition.parameters["properties"].items()
    }
    assert described == {
        "word": "One English word, in lower case.",
        "limit": "How many: at most.",
        "other": "own",
    }


def test_without_options_the_definition_is_careful() -> None:
    @tool
    def send_it() -> None: ...

    definition = send_it.definition
    assert definition.name == "send_it"
    assert definition.tier is Tier.SYSTEM
    assert definition.effect is Effect.ONCE
    assert definition.timeout_seconds == 30
    assert (definition.needs, definition.approval, definition.output) == ((), "never", None)
    assert definition.parameters == {"type": "object", "properties": {}, "required": []}


async def test_it_can_still_be_called_as_the_function_it_was() -> None:
    @tool
    def double(number: int) -> int:
        """Doubles a number."""
        return 2 * number

    @tool(tier="read_only")
    async def later(number: int) -> int:
        """Adds one."""
        await trio.lowlevel.checkpoint()
        return number + 1

    assert double(4) == double(number=4) == 8
    assert await later(1) == 2


def test_help_shows_the_function_that_it_was() -> None:
    @tool
    def f(x: int, name: str = "Ada") -> int:
        """Counts the letters."""
        return x + len(name)

    assert str(inspect.signature(f)) == "(x: 'int', name: 'str' = 'Ada') -> 'int'"
    assert (f.__doc__, getattr(f, "__name__", "")) == ("Counts the letters.", "f")
    assert f(1, name="A") == 2
    assert f.name == "f"


def test_without_a_docstring_it_says_that_it_has_no_description() -> None:
    def f(x: int, context: ToolContext) -> int:
        return x

    said = tool(f).definition.description
    assert said == "The function f(x), which has no description."


def test_options_are_taken_over() -> None:
    @tool(
        name="other",
        tier="workspace",
        needs=["files.read"],
        timeout_seconds=3,
        approval="always",
        effect="read",
        resources=lambda arguments: [Resource(arguments.key)],
        raise_tier=lambda arguments: Tier.ELEVATED if arguments.key else Tier.READ_ONLY,
    )
    async def function(key: str = "") -> None: ...

    assert function.definition.name == "other"
    assert function.definition.needs == (Capability.FILES_READ,)
    plain, special = function.decode("{}"), function.decode('{"key": "k"}')
    assert function.tier(plain) is Tier.WORKSPACE
    assert function.tier(special) is Tier.ELEVATED
    assert function.resources(special) == (Resource("k"),)
    assert function.approval_reason(plain, context_of()) == "other always asks"
    assert function.timeout_seconds(plain) == 3


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("it is late", "it is late"),
        (True, "rule asks for such arguments"),
        (False, None),
        (None, None),
        ("", None),
    ],
)
def test_approval_may_be_a_rule(answer: Any, reason: str | None) -> None:
    seen = []

    def decide(arguments: Any, given: ToolContext) -> Any:
        seen.append((arguments.x, given.call_id))
        return answer

    @tool(approval=decide)
    def rule(x: int) -> None: ...

    assert rule.definition.approval == "dynamic"
    assert rule.approval_reason(rule.decode('{"x": 1}'), context_of()) == reason
    assert seen == [(1, "call")]


@pytest.mark.parametrize(
    ("argument", "seconds"), [(None, 30), (0, 30), (-5, 30), (12.5, 12.5), (1e9, 1e9)]
)
def test_a_timeout_argument_sets_the_timeout(argument: float | None, seconds: float) -> None:
    """As far as the tool is concerned: the dispatcher bounds what it says."""

    @tool
    def function(timeout: float | None = None) -> None: ...

    arguments = function.decode(json.dumps({"timeout": argument}))
    assert function.timeout_seconds(arguments) == seconds


def test_an_argument_named_timeout_that_is_no_number_sets_nothing() -> None:
    @tool
    def flag(timeout: bool = False) -> None: ...

    @tool
    def word(timeout: str = "") -> None: ...

    assert flag.timeout_seconds(flag.decode('{"timeout": true}')) == 30
    assert word.timeout_seconds(word.decode('{"timeout": "5"}')) == 30


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, "5", None])
def test_a_tool_that_may_not_run_at_all_is_refused(seconds: Any) -> None:
    def function() -> None: ...

    assert tool(timeout_seconds=0.001)(function).definition.timeout_seconds == 0.001
    with pytest.raises(ValidationError, match=r"tool function: timeout_seconds=.* above 0"):
        tool(timeout_seconds=seconds)(function)


def starred(*names: str) -> None: ...
def double_starred(**names: str) -> None: ...
def positional(name: str, /) -> None: ...
def unresolved(name: Missing) -> None: ...  # type: ignore[name-defined]  # ruff: ignore[undefined-name]
def Capital() -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (starred, {}, r"\*names.* can't be filled"),
        (double_starred, {}, r"\*\*names.* can't be filled"),
        (positional, {}, None),
        (unresolved, {}, "module level"),
        (positional, {"name": "x" * 129}, "at most 128"),
        (positional, {"name": "two words"}, "letters and digits of ASCII"),
        (positional, {"name": "all*"}, "letters and digits of ASCII"),
        (positional, {"name": "größe"}, "letters and digits of ASCII"),
        (positional, {"name": ".hidden"}, "begins with a letter"),
        (test_the_docstring_describes_the_tool_and_its_parameters, {"tier": "root"}, "root"),
        (test_the_docstring_describes_the_tool_and_its_parameters, {"needs": ["x"]}, "'x'"),
        (test_the_docstring_describes_the_tool_and_its_parameters, {"effect": "x"}, "'x'"),
        (test_the_docstring_describes_the_tool_and_its_parameters, {"approval": "x"}, "neither"),
    ],
)
def test_what_can_be_no_tool_is_refused_at_once(
    function: Any, options: dict[str, Any], message: str | None
) -> None:
    with pytest.raises(ValidationError, match=message):
        tool(**options)(function)


async def test_the_context_is_handed_in_and_not_in_the_schema() -> None:
    progress: list[str] = []

    @tool
    async def function(given: ToolContext, x: int) -> str:
        await trio.lowlevel.checkpoint()
        given.progress(f"at {x}")
        return given.session_id

    assert list(function.definition.parameters["properties"]) == ["x"]
    assert await output_of(function, context_of(on_progress=progress.append), x=1) == "session"
    assert await output_of(function, x=2) == "session"
    assert progress == ["at 1"]


async def test_a_plain_function_runs_in_a_thread_and_a_coroutine_here() -> None:
    @tool
    def in_thread() -> str:
        return threading.current_thread().name

    @tool
    async def here() -> str:
        await trio.lowlevel.checkpoint()
        return threading.current_thread().name

    main = threading.current_thread().name
    assert await output_of(in_thread) != main
    assert await output_of(here) == main


async def test_a_cancelled_thread_is_left_behind_with_its_token() -> None:
    started, release, ended = trio.Event(), threading.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    @tool
    def slow() -> None:
        token.run_sync_soon(started.set)
        release.wait()
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(output_of, slow)
        await started.wait()
        nursery.cancel_scope.cancel()
    assert not ended.is_set()
    release.set()
    assert await trio.to_thread.run_sync(ended.wait, 30)


async def test_an_exception_of_a_tool_comes_out_as_it_is() -> None:
    @tool
    def broken() -> None:
        raise KeyError("mine")

    @tool
    async def failing() -> None:
        await trio.lowlevel.checkpoint()
        raise ToolFailure(ErrorType.NETWORK_ERROR, "no way")

    with pytest.raises(KeyError, match="mine"):
        await output_of(broken)
    with pytest.raises(ToolFailure, match="no way"):
        await output_of(failing)


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (None, None),
        ({"a": [1, 2.5, "x"]}, {"a": [1, 2.5, "x"]}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Box(Point(1)), {"corner": {"x": 1, "y": 0}, "label": None}),
        ({"c": Color.RED}, {"c": "red"}),
        ((1, 2), (1, 2)),
        (ToolResult(output={"p": Point(1)}, display="shown"), {"p": {"x": 1, "y": 0}}),
    ],
)
async def test_what_a_function_returns_becomes_output(returned: Any, output: Any) -> None:
    @tool
    def function() -> Any:
        return returned

    assert await output_of(function) == output


@pytest.mark.parametrize("returned", [object(), {"a": threading.Lock()}, "\ud800", {1j}])
async def test_what_json_can_not_carry_is_an_execution_error(returned: Any) -> None:
    @tool
    def function() -> Any:
        return returned

    with pytest.raises(ToolFailure, match="can't be written as JSON") as caught:
        await output_of(function)
    assert caught.value.error_type == ErrorType.EXECUTION_ERROR


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [list, lambda it: {"a": [None, it]}, lambda it: Spot(*it)])
async def test_a_number_that_json_does_not_have_is_an_execution_error(
    number: float, place: Any
) -> None:
    """msgspec would write null, and the model read that there was nothing."""

    @tool
    def function(good: bool) -> Any:
        return place([1.5 if good else number])

    assert await output_of(function, good=True) == msgspec.to_builtins(place([1.5]))
    with pytest.raises(ToolFailure, match=r"function ran, but .* JSON") as caught:
        await output_of(function, good=False)
    assert caught.value.error_type == ErrorType.EXECUTION_ERROR


async def test_a_null_or_its_word_in_a_result_is_no_such_number() -> None:
    @tool
    def function() -> Any:
        return {"null": [None, "null", 1e308, 2**80]}

    assert await output_of(function) == {"null": [None, "null", 1e308, 2**80]}


async def test_a_default_is_not_shared_between_calls() -> None:
    @tool
    def function(names: list[str] = []) -> list[str]:  # ruff: ignore[mutable-argument-default]
        names.append("x")
        return names

    assert await output_of(function) == ["x"]
    assert await output_of(function) == ["x"]


class Engine:
    """No type that JSON carries."""


def started(engine: Engine) -> None:
    """Starts it.

    Args:
        engine: Which one.
    """


def started_without_words(engine: Engine) -> None:
    """Starts it."""


def started_within(engines: list[Annotated[Engine, msgspec.Meta(description="one")]]) -> None:
    """Starts them."""


@pytest.mark.parametrize("function", [started, started_without_words, started_within])
def test_a_type_that_json_cannot_carry_is_refused_described_or_not(
    function: Callable[..., None],
) -> None:
    with pytest.raises(ValidationError, match=r"parameter engines? has a type that JSON can't"):
        tool(function)

"""Tools that come and go while a runtime runs, and the definitions that providers get of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import Tier, ToolDefinition
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.wire.fields import Role
from callboard.tools.foreign_tool import ForeignTool
from support.flows.format_stage import open_formats
from support.gateway.daemon_scene import open_client, open_daemon
from support.stage import make_workspace, open_in, open_local_stage, play, read_result


@callboard.tool(tier="read_only", effect="read")
def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number


@callboard.tool(tier="read_only", effect="read")
def get_weather(city: str) -> dict[str, str]:
    """Says how the weather is."""
    return {"city": city}


DOUBLE = ("double", {"number": 2})


async def test_a_tool_is_offered_from_the_next_turn_on_and_gone_after_its_removal(
    tmp_path: Path,
) -> None:
    steps = [
        *(reply(calls=[DOUBLE]), reply("None.")),
        *(reply(calls=[DOUBLE]), reply("Four.")),
        *(reply(calls=[DOUBLE]), reply("None.")),
    ]
    async with open_local_stage(tmp_path, steps) as (runtime, model):
        session = await runtime.create_session()
        outcomes = []
        for change in (None, runtime.register(double), runtime.unregister("double")):
            if change is not None:
                await change
            played = await play(session, "Go.")
            outcomes.append(read_result(played.results[0]).get("error_type", "fine"))
        assert outcomes == ["tool_not_found", "fine", "tool_not_found"]
    offered = ["double" in [each.name for each in request.tools] for request in model.requests]
    assert offered == [False, False, True, True, False, False]


async def test_agents_have_only_the_tools_that_they_name(tmp_path: Path) -> None:
    agents = [
        callboard.Agent(name="calculator", tools=("double",)),
        callboard.Agent(name="reader", tools=("read_file",)),
    ]
    async with open_in(tmp_path, [], agents=agents) as runtime:
        await runtime.register(double)
        found = [
            (await runtime.call_tool("double", {"number": 2}, agent=agent)).output
            for agent in ("general", "calculator", "reader")
        ]
        assert found == [4, 4, None]
        rules = await runtime.call_tool("double", {"number": 2}, agent="reader")
        assert rules.error["error_type"] == "tool_not_available"


async def test_a_call_that_runs_goes_on_without_its_tool(tmp_path: Path) -> None:
    begun, go_on = trio.Event(), trio.Event()

    @callboard.tool(tier="read_only", effect="read")
    async def wait() -> str:
        """Waits."""
        begun.set()
        await go_on.wait()
        return "done"

    found: list[callboard.CalledTool] = []

    async def call(runtime: callboard.Runtime) -> None:
        found.append(await runtime.call_tool("wait"))

    async with open_in(tmp_path, []) as runtime, trio.open_nursery() as nursery:
        await runtime.register(wait)
        nursery.start_soon(call, runtime)
        await begun.wait()
        await runtime.unregister("wait")
        assert (await runtime.call_tool("wait")).error["error_type"] == "tool_not_found"
        go_on.set()
    assert [each.output for each in found] == ["done"]


async def test_what_can_not_come_or_go_is_refused(tmp_path: Path) -> None:
    @callboard.tool
    def shop(context: callboard.ToolContext[dict[str, int]]) -> int:
        """Counts."""
        return len(context.app)

    async with open_in(tmp_path, [], tools=[double]) as runtime:
        with pytest.raises(ConflictError, match="two tools are named double"):
            await runtime.register(double)
        with pytest.raises(ValidationError, match="takes a ToolContext"):
            await runtime.register(shop)
        with pytest.raises(ValidationError, match="is not a tool"):
            await runtime.register(len)  # type: ignore[arg-type]
        with pytest.raises(
            ConflictError, match="read_file is not a tool that this program brought"
        ):
            await runtime.unregister("read_file")
        with pytest.raises(NotFoundError, match='Did you mean "double"'):
            await runtime.unregister("duoble")
        await runtime.unregister("double")
        assert "double" not in [each.name for each in runtime.tools()]


@pytest.mark.parametrize("short", ["openai", "responses", "anthropic", "gemini"])
async def test_definitions_are_those_of_a_request_byte_for_byte(tmp_path: Path, short: str) -> None:
    dialect = {"openai": "openai_chat", "responses": "openai_responses"}.get(short, short)
    async with open_formats(tmp_path, {dialect: [reply("Hello.")]}, tools=[double]) as stage:
        said = stage.runtime.definitions_for(short)  # type: ignore[arg-type]
        await (await stage.runtime.create_session()).run("Hello?")
        [request] = stage.servers[dialect].requests
        assert json.dumps(request.body["tools"]) == json.dumps(said)
        with pytest.raises(NotFoundError, match="no wire format 'cohere'"):
            stage.runtime.definitions_for("cohere")  # type: ignore[arg-type]
        with pytest.raises(NotFoundError, match="no agent 'nobody'"):
            stage.runtime.definitions_for("openai", agent="nobody")


async def test_a_client_gets_the_same_of_the_agents_that_it_may_know(tmp_path: Path) -> None:
    agents = [callboard.Agent(name="calculator", tools=("double",))]
    workspace = make_workspace(tmp_path)
    async with open_daemon(agents=agents, tools=[double], workspace=workspace) as daemon:
        async with open_client(daemon) as client:
            found = await client.definitions_for("anthropic", agent="calculator")
            assert found == daemon.runtime.definitions_for("anthropic", agent="calculator")
            assert [each["name"] for each in found] == ["double"]
        token = daemon.new_token("limited", Role.OBSERVER, agents=("general",))
        async with open_client(daemon, token) as client:
            with pytest.raises(NotFoundError, match="no agent 'calculator'"):
                await client.definitions_for("anthropic", agent="calculator")


NAMES = ["getWeather", "weather.today", "acme/weather", "Weather-2", "x" * 128]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
async def test_a_name_of_any_source_is_kept_and_reaches_every_provider(
    tmp_path: Path, dialect: str
) -> None:
    own = [
        callboard.tool(name=name, tier="read_only", effect="read")(get_weather.function)
        for name in NAMES
    ]
    steps = [reply(calls=[(name, {"city": "Rome"}) for name in NAMES]), reply("Sunny.")]
    async with open_formats(tmp_path, {dialect: steps}, tools=own) as stage:
        assert [each.name for each in stage.runtime.tools()][-len(NAMES) :] == NAMES
        played = await play(await stage.runtime.create_session(), "How is it?")
        assert played.statuses == sorted((name, "success") for name in NAMES)


async def test_keys_that_a_foreign_schema_allows_are_kept(tmp_path: Path) -> None:
    async def echo(arguments: dict[str, Any], context: callboard.ToolContext) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return arguments

    def foreign(name: str, more: Any) -> ForeignTool:
        schema = {"type": "object", "properties": {"max_size": {"type": "integer"}}, **more}
        definition = ToolDefinition(
            name=name, description="Echoes.", parameters=schema, tier=Tier.READ_ONLY
        )
        return ForeignTool(definition, echo)

    tools = [
        foreign("any.keys", {"additionalProperties": True}),
        foreign("typed.keys", {"additionalProperties": {"type": "string"}}),
        foreign("no.keys", {"additionalProperties": False}),
        foreign("silent", {}),
    ]
    given = {"max_size": 1, "maxSize": "x", "other": "y"}
    async with open_in(tmp_path, [], tools=tools) as runtime:
        found = [await runtime.call_tool(each.name, given) for each in tools]
        respelt = await runtime.call_tool("silent", {"maxSize": 3, "other": "y"})
    assert [each.output for each in found[:2]] == [given, given]
    # Where no other keys may be, or nothing is said of them, another spelling is the key, and not given twice.
    assert [each.error["error_type"] for each in found[2:]] == ["validation_error"] * 2
    assert respelt.output == {"max_size": 3}
    assert respelt.note == "maxSize was taken as max_size: write it so."


@callboard.tool(tier="read_only", effect="read", needs=["files.read"])
def where(context: callboard.ToolContext) -> str:
    """Says where it is."""
    return str(context.workspace)


@callboard.tool(tier="read_only", effect="read")
def nowhere(context: callboard.ToolContext) -> str:
    """Needs no files."""
    return str(context.workspace)


async def test_a_tool_that_needs_files_knows_its_folder(tmp_path: Path) -> None:
    tools = [where, nowhere]
    async with open_in(tmp_path, [], tools=tools) as runtime:
        found = await runtime.call_tools([(each.name, {}) for each in tools])
    workspace = str(tmp_path / "work")
    assert [each.output for each in found] == [workspace, "None"]


async def test_a_plain_value_has_a_line_for_people(tmp_path: Path) -> None:
    @callboard.tool(tier="read_only", effect="read")
    def give(value: Any) -> Any:
        """Gives it back."""
        return value

    given = [4, "two\nlines", {"a": [1, 2]}, "x" * 500, None, [], False]
    async with open_in(tmp_path, [], tools=[give]) as runtime:
        found = await runtime.call_tools([("give", {"value": value}) for value in given])
    assert [each.display for each in found] == [
        "4", "two lines", '{"a":[1,2]}', "x" * 99 + "…", "", "[]", "false",
    ]  # fmt: skip

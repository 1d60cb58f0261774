"""`approval/get`: a question comes with the schema of its tool's arguments, from which a form is made."""

from __future__ import annotations

from typing import Any

import msgspec

from callboard.actors.calls.call import CallPreparation
from callboard.config.settings import Limits
from callboard.embedding.runtime import host_of
from callboard.gateway.methods import approvals
from callboard.runtime.definitions import Tier, ToolDefinition
from callboard.runtime.events import ApprovalAsked
from callboard.runtime.messages import AppendEvents
from callboard.tools.client_tool import ClientCalls, ClientTool
from callboard.tools.foreign_tool import ForeignTool
from callboard.tools.registry import ToolRegistry
from callboard.tools.tool import ToolContext
from support.gateway.daemon_scene import Daemon, open_daemon, open_greeted
from support.scene import place_of

SOURCE = "mcp garden"
HOSTILE = "<img src=x onerror=alert(1)> \u202e\x1b[31m"


async def nothing(arguments: dict[str, Any], context: ToolContext) -> None: ...


def of_server(name: str, **properties: Any) -> ToolDefinition:
    """A tool as a server of MCP brings it."""
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return ToolDefinition(name=name, description="Grows.", parameters=schema, source=SOURCE)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


PLANTS = of_server("garden__plants", bed={"type": "string", "description": HOSTILE})
LARGE = of_server("garden__large", bed={"description": "x" * approvals.MAX_PARAMETERS_BYTES})
FITS = of_server("garden__fits", bed={"description": "x" * (approvals.MAX_PARAMETERS_BYTES - 200)})
DEEP = of_server("garden__deep", bed=nested(approvals.MAX_PARAMETERS_DEPTH))


async def asked(daemon: Daemon, *tools: str) -> None:
    """Put a question about each of these tools on record, whose id names it."""
    session = await daemon.runtime.create_session()
    events = tuple(
        ApprovalAsked(
            approval_id=f"approval_{tool}",
            turn_id="turn",
            call_id=f"call_{tool}",
            name=tool,
            tier=Tier.WORKSPACE,
            reason="it writes",
            arguments="{}",
            digest="d",
        )
        for tool in tools
    )
    await host_of(daemon.runtime).journal.ask(
        AppendEvents(session_id=session.session_id, events=events)
    )


async def test_a_question_has_the_schema_of_its_tool_as_long_as_there_is_one() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        registry = host_of(daemon.runtime).plan.registry
        built_in = registry.definition("write_file")
        assert built_in is not None
        registry.replace(SOURCE, [ForeignTool(PLANTS, nothing), ForeignTool(FITS, nothing)], {})
        await asked(daemon, "write_file", PLANTS.name, FITS.name, "gone")

        async def schema(tool: str) -> Any:
            return (await raw.call("approval/get", approval_id=f"approval_{tool}"))["result"][
                "parameters"
            ]

        assert await schema("write_file") == built_in.parameters
        said = await schema(PLANTS.name)
        assert said["properties"]["bed"]["description"] == HOSTILE
        assert await schema(FITS.name) == FITS.parameters
        assert await schema("gone") is None
        registry.replace(SOURCE, [], {})
        assert await schema(PLANTS.name) is None
        listed = (await raw.call("approval/list"))["result"]["approvals"]
        assert len(listed) == 4
        assert not any("parameters" in each for each in listed)


async def test_a_schema_that_makes_no_form_is_left_out() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        registry = host_of(daemon.runtime).plan.registry
        for definition in (LARGE, DEEP):
            registry.add(ClientTool(definition, ClientCalls()))  # takes any schema
            await asked(daemon, definition.name)
            answer = await raw.call("approval/get", approval_id=f"approval_{definition.name}")
            assert answer["result"]["tool"] == definition.name
            assert answer["result"]["parameters"] is None


def test_the_schema_is_that_of_the_tool_which_the_call_means() -> None:
    own, given = of_server("plants", bed={}), of_server("plants", pot={})
    handles: Any = None  # nothing is opened
    preparation = CallPreparation(ToolRegistry([ForeignTool(own, nothing)]), handles, Limits())
    place = place_of()
    of_client = msgspec.structs.replace(place, client_tools=(given,))
    assert preparation.definition_at(place, "plants") == own
    assert preparation.definition_at(of_client, "plants") == given
    assert preparation.definition_at(of_client, "others") is None

"""What a server of MCP says of itself: it counts as far as its settings trust it, and as a person accepted it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from callboard.config.mcp.settings import McpSettings, PinnedTool, ServerOffers
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptedModel
from callboard.runtime.definitions import Effect, Tier
from callboard.tools.mcp.definition import definition_of, read_instructions
from support.mcp.stage import open_stage, servers_of

READS = {"readOnlyHint": True}
KEEPS = {"destructiveHint": False, "idempotentHint": True}
SAID = "Ask for the weather first."


def server_of(**fields: Any) -> McpSettings:
    """A server with one accepted tool, which nobody starts here."""
    tools = (PinnedTool(name="docs__look", original="look", description="Looks."),)
    offers = ServerOffers(instructions=SAID)
    return McpSettings(name="docs", command=("x",), tools=tools, offers=offers, **fields)


@pytest.mark.parametrize(
    ("hints", "fields", "tier", "effect"),
    [
        (READS, {}, Tier.ELEVATED, Effect.ONCE),  # untrusted
        (READS, {"annotations": "trusted"}, Tier.READ_ONLY, Effect.READ),
        (KEEPS, {"annotations": "trusted"}, Tier.SYSTEM, Effect.IDEMPOTENT),
        ({"destructiveHint": False}, {"annotations": "trusted"}, Tier.ELEVATED, Effect.ONCE),
        ({"idempotentHint": True}, {"annotations": "trusted"}, Tier.ELEVATED, Effect.ONCE),
        ({"readOnlyHint": "yes"}, {"annotations": "trusted"}, Tier.ELEVATED, Effect.ONCE),
        ({}, {"annotations": "trusted", "tier": "system"}, Tier.SYSTEM, Effect.ONCE),
        (
            READS,
            {"annotations": "trusted", "tiers": {"look": "workspace"}, "effects": {"look": "once"}},
            Tier.WORKSPACE,
            Effect.ONCE,
        ),
    ],
)
def test_hints_count_when_they_are_trusted_and_nobody_says_otherwise(
    hints: dict[str, Any], fields: dict[str, Any], tier: Tier, effect: Effect
) -> None:
    server = msgspec.convert({"name": "docs", "command": ["x"], **fields}, McpSettings)
    tool = PinnedTool(name="docs__look", original="look", annotations=hints)
    found = definition_of(server, tool)
    assert (found.tier, found.effect) == (tier, effect)


async def test_models_get_the_instructions_of_a_server_whose_tools_they_have() -> None:
    """With the setting alone, and not without its tools; a change of the setting holds for the next turn."""
    model = ScriptedModel([reply("One."), reply("Two."), reply("Three.")])
    async with open_stage(server_of(instructions=True), model=model) as runtime:
        session = await runtime.create_session()
        await session.run("1?")
        await session.run("2?", tools=["read_file"])
        servers_of(runtime).take({"docs": server_of()})
        await session.run("3?")
    told, *untold = [request.system for request in model.requests]
    assert "How to use the tools of the server docs follows, up to " in told
    assert f"\n{SAID}\n" in told
    assert [SAID in system for system in untold] == [False, False]


@pytest.mark.parametrize(
    ("text", "kept", "note"),
    [
        (None, "", ""),
        ("  Look first.\n", "Look first.", ""),
        ("x" * 5000, "", "more than 4096 bytes"),
        ("Look\u200b first.", "", "U+200B"),
    ],
)
def test_instructions_that_nobody_can_look_at_are_left_out(
    text: str | None, kept: str, note: str
) -> None:
    found, notes = read_instructions(text)
    assert (found, len(notes)) == (kept, bool(note))
    if note:
        assert note in notes[0]

"""Resources of servers of MCP: two tools list and read them, when a server had some as it was accepted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.config.mcp.pins import read_offers, save_pins
from callboard.config.mcp.settings import McpSettings, ServerOffers
from callboard.embedding.runtime import Runtime
from callboard.runtime.definitions import Effect, Tier
from callboard.tools.mcp.tool import accepted_tools
from support.mcp.stage import fake, looked_at, open_stage, servers_of
from support.sandbox.sandbox_users import needs_sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
NAMES = ["mcp_resources", "mcp_read"]


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


async def server_of(*options: str, **fields: Any) -> McpSettings:
    server = fake("--resources", *options, tier="read_only", **fields)
    offer = await looked_at(server)
    assert offer.offers.resources
    return msgspec.structs.replace(server, tools=offer.tools, offers=offer.offers)


def offered(runtime: Runtime) -> list[str]:
    return [each.name for each in runtime.tools() if each.name in NAMES]


async def test_resources_are_listed_and_read_and_what_changed_is_said() -> None:
    async with open_stage(await server_of()) as runtime:
        assert offered(runtime) == NAMES
        assert servers_of(runtime).states()["fake"].state == "not started"  # nobody was asked
        session = await runtime.create_session()

        async def called(name: str, **arguments: Any) -> Any:
            return await runtime.call_tool(name, arguments, session=session)

        rows = (await called("mcp_resources")).output["fake"]
        assert rows["resources"] == [
            {"uri": "memo://0", "name": "memo 0", "size_bytes": 0},
            {"uri": "memo://1", "name": "memo 1", "size_bytes": 1},
        ]
        assert rows["resource_templates"] == [{"uriTemplate": "memo://{n}", "name": "a memo"}]
        text, image = (await called("mcp_read", server="fake", uri="memo://1")).output
        assert text == {"type": "resource", "uri": "memo://1", "text": "read memo://1"}
        assert image["artifact"].endswith("/1")
        row = await runtime.store.session(session.session_id)
        assert row is not None
        assert row.is_tainted
        await called("fake__change")
        rows = (await called("mcp_resources", server="fake")).output["fake"]["resources"]
        assert [each.get("changed_since_it_was_read") for each in rows] == [None, True]
        await called("mcp_read", server="fake", uri="memo://1")
        rows = (await called("mcp_resources", server="fake")).output["fake"]["resources"]
        assert [each.get("changed_since_it_was_read") for each in rows] == [None, None]


async def test_the_newest_revision_is_told_which_resources_to_follow() -> None:
    """One stream has all that were read; a second one takes its place before it ends."""
    async with open_stage(await server_of("--era=modern")) as runtime:
        session = await runtime.create_session()

        async def called(name: str, **arguments: Any) -> Any:
            return (await runtime.call_tool(name, arguments, session=session)).output

        async def changed() -> list[bool]:
            rows = (await called("mcp_resources", server="fake"))["fake"]["resources"]
            return ["changed_since_it_was_read" in each for each in rows]

        await called("mcp_read", server="fake", uri="memo://0")
        await called("mcp_read", server="fake", uri="memo://1")
        assert await changed() == [False, False]
        wanted = json.loads(await called("fake__change"))
        assert {"resourceSubscriptions": ["memo://0", "memo://1"]} in wanted
        assert await changed() == [True, True]
        await called("mcp_read", server="fake", uri="memo://0")
        assert await changed() == [False, True]


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"server": "other", "uri": "memo://1"}, "validation_error", "There are: fake"),
        ({"server": "fake", "uri": "memo://" + "x" * 3000}, "validation_error", "2048"),
        ({"server": "fake", "uri": "memo://\u202e"}, "validation_error", "don't see"),
        ({"server": "fake", "uri": "file:///etc"}, "execution_error", "no such resource"),
        ({"server": "fake", "uri": "memo://gone"}, "execution_error", "has no such resource: gone"),
    ],
)
async def test_what_can_not_be_read_is_said(
    arguments: dict[str, Any], kind: str, says: str
) -> None:
    async with open_stage(await server_of()) as runtime:
        found = await runtime.call_tool("mcp_read", arguments)
        assert found.error["error_type"] == kind
        assert says in found.error["message"]


async def test_lists_are_bounded_and_hide_nothing() -> None:
    async with open_stage(await server_of("--fault=many")) as runtime:
        rows = (await runtime.call_tool("mcp_resources")).output["fake"]
        assert (len(rows["resources"]), rows["notes"]) == (200, ["100 resources are left out"])
    async with open_stage(await server_of("--fault=hidden")) as runtime:
        rows = (await runtime.call_tool("mcp_resources")).output["fake"]
        assert [each["uri"] for each in rows["resources"]] == ["memo://1"]


async def test_a_server_that_is_away_is_said_and_the_tools_stay() -> None:
    server = await server_of()
    gone = msgspec.structs.replace(server, command=("/no/such/program",), name="gone", tools=())
    plain = msgspec.structs.replace(server, offers=ServerOffers())
    async with open_stage(server, gone) as runtime:
        rows = (await runtime.call_tool("mcp_resources")).output
        assert "not running" in rows["gone"]["problem"]
        assert len(rows["fake"]["resources"]) == 2
        assert offered(runtime) == NAMES
        servers_of(runtime).take({"fake": plain})
        assert offered(runtime) == []
    names = [
        (each.name, each.definition.tier, each.definition.effect)
        for each in accepted_tools({"fake": server})
    ]
    assert names[-2:] == [(name, Tier.READ_ONLY, Effect.READ) for name in NAMES]


def test_what_a_server_has_is_kept_with_its_pins(tmp_path: Path) -> None:
    save_pins(tmp_path, "a", [], ServerOffers(resources=True))
    save_pins(tmp_path, "b", [])
    assert read_offers(tmp_path, "a").resources
    assert not read_offers(tmp_path, "b").resources
    save_pins(tmp_path, "a", None)
    assert not read_offers(tmp_path, "a").resources

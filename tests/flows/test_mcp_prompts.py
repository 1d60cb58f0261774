"""Prompts of servers of MCP: accepted as tools are, and made by the server when a person wants one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.client.client import Client
from callboard.config.keys.tokens import Role
from callboard.config.mcp.settings import ServerOffers, ServerPrompt
from callboard.runtime.errors import (
    AuthError,
    ConflictError,
    NotFoundError,
    ToolError,
    ValidationError,
)
from callboard.tools.mcp.definition import MAX_PROMPTS, read_prompts
from callboard.tools.mcp.result import MAX_PROMPT_TEXT, prompt_text
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import open_client
from support.mcp.stage import FOLDER, accepted, fake, open_stage, servers_of
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")


@pytest.fixture
def _sandbox() -> None:
    needs_sandbox()


@asynccontextmanager
async def added(home: Path, *options: str, **fields: Any) -> AsyncGenerator[Client]:
    """A daemon with the fake server, of which everything is accepted as it was looked at."""
    text = f'[sandbox]\nread_only = ["{FOLDER}"]\n'
    async with served(home, text) as (daemon, _), open_client(daemon) as client:
        server = fake("--prompts", *options, tier="read_only", **fields)
        offer = await client.mcp.look("fake", server)
        tools = {tool.original: tool.digest for tool in offer.tools}
        await client.mcp.add(server, tools, offer.offers.digest)
        yield client


@pytest.mark.usefixtures("_sandbox")
async def test_a_prompt_is_listed_completed_and_made(tmp_path: Path) -> None:
    async with added(tmp_path, "--fault=hidden") as client:
        greet, talk = await client.mcp.prompts()
        assert (greet.server, greet.name, greet.problem) == ("fake", "greet", "")
        assert [(each.name, each.required) for each in greet.arguments] == [
            ("who", True),
            ("tone", False),
        ]
        assert talk.title == "A talk"
        [row] = await client.mcp.list()
        assert (row.prompts, row.withheld_prompts, row.resources) == (("greet", "talk"), (), False)
        assert row.state == "not started"  # nobody was asked for the list

        assert await client.mcp.complete("fake", "greet", "who", "A", {}) == ["Ada", "Alan"]
        made = await client.mcp.prompt("fake", "greet", {"who": "Ada"})
        assert (made.text, made.is_untrusted) == ("Greet Ada (None).", True)
        made = await client.mcp.prompt("fake", "talk")
        assert made.text == "User: Hello.\n\nAssistant: What is it?\n\nUser: memo://1:\na memo"
        assert made.notes == ("it has a part that is left out: image",)

        for name, given, error in (
            ("greet", {}, "wants to be given who"),
            ("greet", {"who": "x", "whom": "x"}, "no argument 'whom'"),
        ):
            with pytest.raises(ValidationError, match=error):
                await client.mcp.prompt("fake", name, given)
        for server, name in (("fake", "hidden"), ("other", "greet")):
            with pytest.raises(NotFoundError, match=r"prompt|server"):
                await client.mcp.prompt(server, name)


@pytest.mark.usefixtures("_sandbox")
async def test_a_prompt_that_changed_is_withheld_until_somebody_has_looked(tmp_path: Path) -> None:
    async with added(tmp_path, "--fault=changes", state=True) as client:
        with pytest.raises(ConflictError, match="callboard mcp review fake"):
            await client.mcp.prompt("fake", "greet", {"who": "Ada"})  # it is started a second time
        assert (await client.mcp.prompt("fake", "talk")).text  # the control
        [row] = await client.mcp.list()
        assert row.withheld_prompts == ("greet",)
        greet, _ = await client.mcp.prompts()
        assert "callboard mcp review fake" in greet.problem

        offer = await client.mcp.look("fake")
        tools = {tool.original: tool.digest for tool in offer.tools}
        with pytest.raises(ConflictError, match="look at it again"):
            await client.mcp.accept("fake", tools, 64 * "0")
        await client.mcp.accept("fake", tools)  # who says nothing of prompts has not seen them
        assert (await client.mcp.list())[0].withheld_prompts == ("greet",)
        await client.mcp.accept("fake", tools, offer.offers.digest)
        assert (await client.mcp.list())[0].withheld_prompts == ()
        assert (await client.mcp.prompt("fake", "greet", {"who": "Ada"})).text


@pytest.mark.usefixtures("_sandbox")
async def test_who_may_not_prompt_gets_no_prompts(tmp_path: Path) -> None:
    text = f'[sandbox]\nread_only = ["{FOLDER}"]\n'
    async with served(tmp_path, text) as (daemon, _):
        token = daemon.credentials.create("looks", Role.OBSERVER).reveal()
        async with open_client(daemon, token=token) as client:
            assert "mcp/prompt" not in client.welcome.methods
            with pytest.raises(AuthError, match="operator"):
                await client.mcp.prompt("fake", "greet")


@pytest.mark.usefixtures("_sandbox")
async def test_a_server_says_that_its_prompts_have_changed() -> None:
    async with open_stage(await accepted(fake("--prompts", tier="read_only"))) as runtime:
        servers = servers_of(runtime)
        assert (await servers.prompt("fake", "talk", {}))[0]
        await runtime.call_tool("fake__change", {})
        await until(lambda: "greet" in (servers.states()["fake"].prompts or ()))
        with pytest.raises(ConflictError, match="withheld"):
            await servers.prompt("fake", "greet", {"who": "Ada"})


@pytest.mark.usefixtures("_sandbox")
async def test_a_server_that_works_on_workspaces_makes_prompts_without_one() -> None:
    server = await accepted(fake("--prompts", "--files", files="read", tier="read_only"))
    async with open_stage(server) as runtime:
        servers = servers_of(runtime)
        assert (await servers.prompt("fake", "greet", {"who": "Ada"}))[0] == "Greet Ada (None)."
        assert servers._servers["fake"].runs == {}


@pytest.mark.usefixtures("_sandbox")
async def test_what_a_server_can_not_make_is_said() -> None:
    refusing = await accepted(fake("--prompts", "--fault=no prompts", name="refusing"))
    hiding = await accepted(fake("--prompts", "--fault=hiding", name="hiding"))
    gone = msgspec.structs.replace(refusing, name="gone", command=("/no/such/program",))
    async with open_stage(refusing, hiding, gone) as runtime:
        servers = servers_of(runtime)
        for name, says in (
            ("refusing", "The server has no such prompt"),
            ("hiding", "hides a character that people don't see: U\\+E0041"),
            ("gone", "is not running"),
        ):
            with pytest.raises(ToolError, match=says):
                await servers.prompt(name, "greet", {"who": "Ada"})


def test_what_can_not_be_shown_is_no_prompt() -> None:
    listed: list[dict[str, Any]] = [
        {"name": "good", "arguments": [{"name": "a"}]},
        {"name": "good", "description": "again"},
        {"name": "two words"},
        {"name": "hidden\u200b"},
        {"name": "twice", "arguments": [{"name": "a"}, {"name": "a"}]},
        {"name": "long", "description": "x" * 2000},
        {"name": "wide", "arguments": [{"name": f"a{n}"} for n in range(21)]},
        {"name": "a=b"},
    ]
    found, notes = read_prompts(listed)
    assert [each.name for each in found] == ["good"]
    assert found[0].description == ""
    assert len(notes) == 6
    assert "U+200B" in notes[1]
    found, notes = read_prompts({"name": f"p{n}"} for n in range(1000))
    assert (len(found), len(notes)) == (MAX_PROMPTS, 1)
    found, notes = read_prompts({"name": f"p{n}", "description": "x" * 1000} for n in range(70))
    assert (len(found), len(notes)) == (62, 8)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "no text"),
        ([{"role": "user", "content": {"type": "audio"}}], "no text"),
        (
            [{"role": "user", "content": {"type": "text", "text": "x" * (MAX_PROMPT_TEXT + 1)}}],
            "more than",
        ),
    ],
)
def test_a_prompt_that_no_person_could_send(messages: list[Any], problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        prompt_text({"messages": messages})


def test_the_digest_of_what_a_server_has_is_that_of_all_of_it() -> None:
    one = ServerOffers(prompts=(ServerPrompt(name="a"),))
    assert one.digest == ServerOffers(prompts=(ServerPrompt(name="a"),)).digest
    assert one.digest != ServerOffers(prompts=(ServerPrompt(name="a", title="b"),)).digest

"""The MCP servers that an editor brings with a session: theirs alone, in the sandbox, and each call of them is asked about."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from callboard.config.daemon_file import find_daemon
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import ScriptedServer
from support.acp.editor import Editor, bare_editor, chosen, editing, words
from support.cli.chat_scene import command as command
from support.cli.chat_scene import scripted, serving
from support.cli.command import Command
from support.mcp.stage import FOLDER, PYTHON
from support.sandbox.sandbox_users import needs_sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
SECRET = "hunter2-of-the-editor"
FAKE = {
    "name": "Fake!",
    "command": PYTHON,
    "args": ["-I", "-S", f"{FOLDER}/server.py"],
    "env": [{"name": "API_TOKEN", "value": SECRET}, {"name": "COLOUR", "value": "green"}],
}
ENVIRONMENT = "session_fake__environment"


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


@asynccontextmanager
async def staged(command: Command, *steps: Any) -> AsyncGenerator[ScriptedServer]:
    """A scripted model, and a sandbox that shows the fake server."""
    async with scripted(command, *steps) as server:
        config = command.home / "config" / "callboard.toml"
        config.write_text(f'{config.read_text()}\n[sandbox]\nread_only = ["{FOLDER}"]\n')
        yield server


async def opened(editor: Editor, command: Command, *servers: dict[str, Any]) -> str:
    await editor.ask("initialize", protocolVersion=1, clientCapabilities={})
    place = str(command.workspace)
    new = await editor.ask("session/new", cwd=place, mcpServers=list(servers))
    return str(new["sessionId"])


def offered(server: ScriptedServer) -> set[str]:
    """The names of the tools that the model was offered last."""
    return {tool["function"]["name"] for tool in server.requests[-1].body.get("tools", ())}


async def test_a_server_of_the_editor_is_called_when_a_person_allows_it(command: Command) -> None:
    """The first question names its program, later ones don't; its secret stands nowhere, and other sessions lack it."""
    script = (
        reply(calls=[(ENVIRONMENT, {})]),
        reply(calls=[("session_fake__say", {"text": "hi"})]),
        reply("Done."),
        reply("Other."),
    )
    async with staged(command, *script) as server:
        async with bare_editor(command) as editor:
            editor.answers["session/request_permission"] = lambda _: chosen("allow")
            session = await opened(editor, command, FAKE)
            await editor.ask("session/prompt", sessionId=session, prompt=words("Look."))
            assert {ENVIRONMENT, "session_fake__say"} <= offered(server)
            first, second = [
                message["params"]
                for message in editor.heard
                if message.get("method") == "session/request_permission"
            ]
            assert f"{FOLDER}/server.py" in json.dumps(first["toolCall"]["content"])
            assert f"{FOLDER}/server.py" not in json.dumps(second["toolCall"]["content"])
            assert [each["kind"] for each in first["options"]] == ["reject_once", "allow_once"]
            results = [each for each in editor.of("tool_call_update") if "rawOutput" in each]
            assert [each["status"] for each in results] == ["completed", "completed"]
            said = json.dumps(results[0]["rawOutput"])
            assert "API_TOKEN" in said  # the program has it, and the record has its mask
            assert "green" in said
            other = await editor.ask("session/new", cwd=str(command.workspace), mcpServers=[])
            await editor.ask("session/prompt", sessionId=other["sessionId"], prompt=words("Hi."))
            assert not [name for name in offered(server) if name.startswith("session_")]
            heard = json.dumps(editor.heard)
            await editor.leave()
    assert SECRET not in heard
    assert not list(holding(command.home, SECRET))
    assert list(holding(command.home, "session_fake__say"))


def holding(folder: Path, text: str) -> Iterator[Path]:
    """The files below a folder that hold a text."""
    for path in folder.rglob("*"):
        if path.is_file() and text.encode() in path.read_bytes():
            yield path


async def test_what_can_not_be_used_is_said_and_the_session_works(command: Command) -> None:
    servers = (
        {**FAKE, "name": "gone", "command": "/no/such/program"},
        {**FAKE, "name": "key", "args": ["--token=sk-abcdefghijklmnop"]},
        {
            "name": "web",
            "type": "http",
            "url": "https://user:secret@mcp.example/mcp",
            "headers": [],
        },
    )
    async with staged(command, reply("Hello.")), bare_editor(command) as editor:
        session = await opened(editor, command, *servers)
        await editor.ask("session/prompt", sessionId=session, prompt=words("Hi."))
        assert editor.text == "Hello."
        said = [each["content"]["text"] for each in editor.of("agent_thought_chunk")]
        assert [text.partition(" ")[0] for text in sorted(said)] == ["(gone", "(key", "(web"]
        assert "there is no such program" in next(text for text in said if "gone" in text)
        assert "abcdefghijklmnop" not in "".join(said)
        assert "secret@" not in "".join(said)
        for bad in (
            {"name": "old", "type": "sse", "url": "https://mcp.example/sse", "headers": []},
            {"name": "", "command": "/bin/true", "args": [], "env": []},
            {"name": "nothing", "args": [], "env": []},
        ):
            refused = await editor.refused(
                "session/new", cwd=str(command.workspace), mcpServers=[bad]
            )
            assert refused["code"] == -32602
        many = await editor.refused(
            "session/new", cwd=str(command.workspace), mcpServers=[FAKE] * 17
        )
        assert "at most 16" in many["message"]
        assert len((await editor.ask("session/list"))["sessions"]) == 1  # none was begun for them
        await editor.leave()


async def test_it_ends_with_the_session_and_with_the_editor(command: Command) -> None:
    script = reply(calls=[(ENVIRONMENT, {})]), reply("One."), reply(calls=[(ENVIRONMENT, {})])
    async with staged(command, *script, reply("Two."), reply("Three.")) as server, serving(command):
        async with bare_editor(command) as editor:
            editor.answers["session/request_permission"] = lambda _: chosen("allow")
            session = await opened(editor, command, FAKE)
            await editor.ask("session/prompt", sessionId=session, prompt=words("Look."))
            place = {"sessionId": session, "cwd": str(command.workspace)}
            await editor.ask("session/close", sessionId=session)
            await editor.ask("session/resume", **place, mcpServers=[FAKE])
            await editor.ask("session/prompt", sessionId=session, prompt=words("Look again."))
            assert "rawOutput" in editor.of("tool_call_update")[-1]
            assert ENVIRONMENT in offered(server)
            await editor.leave()
        async with editing(command) as (editor, _):
            await editor.ask("session/resume", **place, mcpServers=[])
            await editor.ask("session/prompt", sessionId=session, prompt=words("Look once more."))
            assert ENVIRONMENT not in offered(server)
            await editor.leave()


async def test_a_daemon_that_follows_another_has_them_too(command: Command) -> None:
    async with (
        staged(command, reply("One."), reply("Two.")) as server,
        bare_editor(command) as editor,
    ):
        session = await opened(editor, command, FAKE)
        await editor.ask("session/prompt", sessionId=session, prompt=words("Look."))
        daemon = find_daemon(command.home / "data")
        assert daemon is not None
        os.kill(daemon.pid, signal.SIGKILL)
        await editor.ask("session/prompt", sessionId=session, prompt=words("Look again."))
        assert editor.text == "One.Two."
        assert ENVIRONMENT in offered(server)
        assert await editor.leave() == 0


ASK = "session_fake__ask"


async def test_what_a_server_asks_is_a_form_or_a_page_in_the_editor(command: Command) -> None:
    """An answer that is none, a form that is closed, and an editor without forms decline."""
    asked = reply(calls=[(ASK, {"how": "form"})])
    page = reply(calls=[(ASK, {"how": "url"})])
    script = [step for each in (asked, asked, asked, page, page) for step in (each, reply("Ok."))]
    async with staged(command, *script):
        async with bare_editor(command) as editor:
            editor.answers["session/request_permission"] = lambda _: chosen("allow")
            await editor.ask(
                "initialize", protocolVersion=1, clientCapabilities={"elicitation": {"form": {}}}
            )
            place = {"cwd": str(command.workspace), "mcpServers": [FAKE]}
            session = (await editor.ask("session/new", **place))["sessionId"]
            answers: tuple[dict[str, Any], ...] = (
                {"action": "accept", "content": {"name": "Ada", "age": 36, "colour": "red"}},
                {"action": "accept", "content": {"name": "A", "age": 36}},
                {"action": "cancel"},
                {"action": "accept", "content": {"answer": "I have opened it"}},
            )
            results = []
            left = iter(answers)
            editor.answers["elicitation/create"] = lambda _: {"result": next(left)}
            for _ in answers:
                await editor.ask("session/prompt", sessionId=session, prompt=words("Go."))
                last = [each for each in editor.of("tool_call_update") if "rawOutput" in each][-1]
                results.append(json.dumps(last["rawOutput"]))
            said = [
                message["params"]
                for message in editor.heard
                if message.get("method") == "elicitation/create"
            ]
            await editor.leave()
        capabilities: dict[str, Any] = {"elicitation": {"url": {}}}
        async with bare_editor(command) as editor:
            editor.answers["session/request_permission"] = lambda _: chosen("allow")
            editor.answers["elicitation/create"] = lambda _: {"result": {"action": "accept"}}
            await editor.ask("initialize", protocolVersion=1, clientCapabilities=capabilities)
            session = (await editor.ask("session/new", **place))["sessionId"]
            await editor.ask("session/prompt", sessionId=session, prompt=words("Go."))
            opened_page = (await editor.asked("elicitation/create"))["params"]
            results.append(json.dumps(editor.of("tool_call_update")[-1]["rawOutput"]))
            await editor.leave()
    form = said[0]["requestedSchema"]
    assert form["required"] == ["name", "age"]
    assert form["properties"]["age"] == {"type": "integer", "minimum": 0}
    assert form["properties"]["colour"]["default"] == "green"
    assert "api_key" in said[0]["message"]  # is warned of
    assert "https://login.example/start?id=1" in said[3]["message"]
    assert (opened_page["mode"], opened_page["url"]) == ("url", "https://login.example/start?id=1")
    assert ["accept" in each for each in results] == [True, False, False, True, True]
    assert "Ada" in results[0]

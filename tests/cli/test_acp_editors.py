"""`callboard acp` with the requests of Zed and of JetBrains' IDEs, in their order and with what they declare.

Neither runs here. What Zed sends is read from its client (`crates/agent_servers` and `crates/acp_thread`, November 2026); of JetBrains, whose
client is not public, it is what logs in reports of others show: its name, and that it is strict about types and order.
"""

from __future__ import annotations

from typing import Any

import pytest

from callboard.providers.testing.script import reply, stall
from callboard.runtime.events import InputAccepted
from support.acp.editor import Editor, Message, bare_editor, chosen, words
from support.acp.record import events_of
from support.cli.chat_scene import OVERWRITE, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

ZED: dict[str, Any] = {
    "protocolVersion": 1,
    "clientCapabilities": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "auth": {"terminal": True},
        "session": {"configOptions": {"boolean": {}}},
        "elicitation": {"form": {}, "url": {}},
        "_meta": {"terminal_output": True, "terminal-auth": True},
    },
    "clientInfo": {"name": "zed", "title": "Zed", "version": "1.20.0"},
}
JETBRAINS: dict[str, Any] = {
    "protocolVersion": 1,
    "clientCapabilities": {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
    },
    "clientInfo": {"name": "JetBrains.IntelliJ IDEA", "title": None, "version": "2026.2"},
}
SERVER = {"name": "idea", "command": "/opt/idea/no-such-java", "args": ["-jar", "mcp.jar"]}
"""The IDE's own tools, by a program that is not here: the session works without it, and says so."""


def unsaved(texts: dict[str, str]) -> Any:
    """Answers requests for files as an editor does: with its buffer, or with an error."""

    def answer(message: Message) -> Message:
        path = message["params"]["path"]
        if path not in texts:
            return {"error": {"code": -32603, "message": "Internal error"}}
        return {"result": {"content": texts[path]}}

    return answer


def index_of(editor: Editor, message: Message) -> int:
    return editor.heard.index(message)


async def test_zed(command: Command) -> None:
    folder = command.workspace
    path, uri = str(folder / "a.txt"), (folder / "a.txt").as_uri()
    (folder / "docs").mkdir()
    script = [reply("Both seen."), reply(calls=[OVERWRITE]), reply(calls=[OVERWRITE]), reply("So.")]
    async with scripted(command, *script, reply("Loaded.")) as server:
        async with bare_editor(command) as editor:
            agent = await editor.ask("initialize", **ZED)
            capabilities = agent["agentCapabilities"]
            assert capabilities["loadSession"]
            assert capabilities["sessionCapabilities"].keys() >= {"list", "close", "resume"}
            await editor.ask("session/list")
            number = await editor.begin("session/new", cwd=str(folder), mcpServers=[])
            new = await editor.answer(number)
            session = new["result"]["sessionId"]
            # The defaults of its settings, one after the other, each until it has the new options.
            for option, value in (("mode", "strict"), ("mode", "balanced")):
                chose = {"sessionId": session, "configId": option, "value": value}
                said = await editor.ask("session/set_config_option", **chose)
                [its] = [each for each in said["configOptions"] if each["id"] == option]
                assert its["currentValue"] == value
            # A mention of a file, of a folder, of selected lines, and of a rule of its own.
            editor.answers["fs/read_text_file"] = unsaved({path: "old\n"})
            prompt = [
                *words("Read "),
                {"type": "resource_link", "uri": uri, "name": "a.txt"},
                *words(" in "),
                {"type": "resource_link", "uri": f"{(folder / 'docs').as_uri()}/", "name": "docs"},
                {"type": "resource", "resource": {"uri": f"{uri}#L1:1", "text": "old"}},
                {
                    "type": "resource",
                    "resource": {"uri": "zed:///agent/rule/7", "text": "Be kind."},
                },
            ]
            done = await editor.ask("session/prompt", sessionId=session, prompt=prompt)
            assert done == {"stopReason": "end_turn"}
            [accepted] = [
                each
                for each in await events_of(command, session)
                if isinstance(each, InputAccepted)
            ]
            assert accepted.text.startswith("Read a.txt  in docs ")
            names = [each.name for each in accepted.attachments]
            assert names == ["a.txt", "zed:///agent/rule/7"]
            assert "Be kind." in str(server.requests[-1].body)

            # Allowed; then Stop in front of the next question, which Zed answers as well.
            def allow(_: Message) -> Message:
                return chosen("allow")

            editor.answers["session/request_permission"] = allow
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Write."))
            first = await editor.asked("session/request_permission")
            assert {"allow_once", "reject_once"} <= {
                each["kind"] for each in first["params"]["options"]
            }
            del editor.answers["session/request_permission"]
            asked = await editor.asked("session/request_permission", index_of(editor, first) + 1)
            await editor.notify("session/cancel", sessionId=session)
            outcome = {"outcome": {"outcome": "cancelled"}}
            await editor.respond(asked["id"], outcome)
            assert (await editor.answer(number))["result"] == {"stopReason": "cancelled"}
            # Its thread is closed, and opened again from the history.
            await editor.ask("session/close", sessionId=session)
            place = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
            heard = len(editor.updates)
            loaded = await editor.ask("session/load", **place)
            assert loaded.keys() >= {"modes", "configOptions"}
            replayed = [each["sessionUpdate"] for each in editor.updates[heard:]]
            assert replayed[:2] == ["user_message_chunk", "agent_message_chunk"]
            done = await editor.ask("session/prompt", sessionId=session, prompt=words("So?"))
            assert done == {"stopReason": "end_turn"}
            assert await editor.leave() == 0


@pytest.mark.parametrize("option", ["allow", "deny"])
async def test_jetbrains(command: Command, option: str) -> None:
    folder = command.workspace
    script = [reply(calls=[OVERWRITE]), reply("Done."), stall("Well, "), reply("Loaded.")]
    async with scripted(command, *script):
        async with bare_editor(command) as editor:
            agent = await editor.ask("initialize", **JETBRAINS)
            assert (
                agent["authMethods"] == []
            )  # it shows those that there are, whether it can or not
            new = await editor.begin(
                "session/new", cwd=str(folder), mcpServers=[{**SERVER, "env": []}]
            )
            answer = await editor.answer(new)
            session = answer["result"]["sessionId"]
            # It knows a session from its answer on: updates before it are of none.
            of_session = await editor.asked("session/update")
            assert index_of(editor, answer) < index_of(editor, of_session)
            await editor.ask("session/set_mode", sessionId=session, modeId="balanced")
            editor.answers["session/request_permission"] = lambda _: chosen(option)
            editor.answers["fs/read_text_file"] = unsaved({})  # nothing is open
            link = {"type": "resource_link", "uri": (folder / "a.txt").as_uri(), "name": "a.txt"}
            prompt = [*words("Write "), link]
            done = await editor.ask("session/prompt", sessionId=session, prompt=prompt)
            assert done == {"stopReason": "end_turn"}
            assert (folder / "a.txt").read_text() == {"allow": "new\n", "deny": "old\n"}[option]
            number = await editor.begin("session/prompt", sessionId=session, prompt=words("Talk."))
            await editor.said("Well,")
            await editor.notify("session/cancel", sessionId=session)
            assert (await editor.answer(number))["result"] == {"stopReason": "cancelled"}
            await editor.leave()
        async with bare_editor(command) as editor:
            await editor.ask("initialize", **JETBRAINS)
            place = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
            await editor.ask("session/load", **place)
            assert editor.of("user_message_chunk")[0]["content"]["text"] == "Write a.txt "
            await editor.ask("session/prompt", sessionId=session, prompt=words("Go on."))
            assert editor.text.endswith("Loaded.")

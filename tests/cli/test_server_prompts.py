"""Prompts of servers behind a slash, in a chat and in an editor: shown first, and what is sent taints the session."""

from __future__ import annotations

import os
from typing import Any

import pytest

from callboard.cli.mcp.prompts import prompt_line, typed_prompt, usage_of
from callboard.config.mcp.settings import PromptArgument
from callboard.config.mcp.wire import McpPromptRow
from callboard.providers.testing.script import reply
from callboard.runtime.errors import NotFoundError, ValidationError
from callboard.tools.mcp.book import McpBook
from support.acp.editor import bare_editor, words
from support.cli.chat_scene import CTRL_C, chatting, leave, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command
from support.mcp.stage import FOLDER, accepted, fake
from support.sandbox.sandbox_users import needs_sandbox

needs_linux = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
ARGUMENTS = (PromptArgument(name="who", required=True), PromptArgument(name="tone"))
ROWS = {
    "fake:greet": McpPromptRow(server="fake", name="greet", arguments=ARGUMENTS),
    "fake:talk": McpPromptRow(server="fake", name="talk"),
}


async def with_prompts(command: Command) -> None:
    """Have the fake server among those of a command, with its prompts accepted."""
    needs_sandbox()
    server = await accepted(fake("--prompts"))
    config = command.home / "config" / "callboard.toml"
    config.write_text(f'{config.read_text()}\n[sandbox]\nread_only = ["{FOLDER}"]\n')
    McpBook(config).add(server, server.tools, server.offers)


@needs_linux
async def test_a_prompt_of_a_server_is_shown_and_sent_by_the_person(command: Command) -> None:
    """From the menu, its argument asked for; what was cleared away is not sent, and taints nothing."""
    async with scripted(command, reply("Clean."), reply("Hello, Ada.")) as server:
        await with_prompts(command)
        async with chatting(command) as terminal:
            await terminal.type("/fa")
            await terminal.expect("Greets somebody.")
            await terminal.type(f"{CTRL_C}")
            await say(terminal, "/fake:talk")
            await terminal.expect("it has a part that is left out: image")
            await terminal.expect("  | User: Hello.\n")
            await terminal.expect("/help")
            await terminal.type(CTRL_C)
            await say(terminal, "My own.")
            await terminal.expect("  Clean.\n")
            assert "words of others" not in terminal.seen
            await terminal.expect("/help")
            await say(terminal, "/fake:greet")
            await terminal.expect("who: Whom to greet (Ada, Alan, Grace): ")
            await terminal.type("Ada\n")
            await terminal.expect("  | Greet Ada (None).\n")
            await terminal.expect("/help")
            await terminal.type(" Kindly.\r")
            await terminal.expect(
                "may hold words of others: from now on less runs without a question"
            )
            await terminal.expect("  Hello, Ada.\n")
            await leave(terminal)
    sent = [request.body["messages"][-1]["content"] for request in server.requests]
    assert "My own." in str(sent[0])
    assert "Greet Ada (None). Kindly." in str(sent[1])


@needs_linux
async def test_an_editor_lists_prompts_shows_them_and_sends_them_when_told(
    command: Command,
) -> None:
    async with scripted(command, reply("Hello, Ada."), reply("Own.")) as server:
        await with_prompts(command)
        async with bare_editor(command) as editor:
            await editor.ask("initialize", protocolVersion=1, clientCapabilities={})
            new = await editor.ask("session/new", cwd=str(command.workspace), mcpServers=[])
            session = str(new["sessionId"])

            async def prompted(text: str) -> Any:
                return await editor.ask("session/prompt", sessionId=session, prompt=words(text))

            def listed(message: Any) -> Any:
                update = message.get("params", {}).get("update", {})
                names = [each["name"] for each in update.get("availableCommands", ())]
                return "fake:greet" in names and "send" in names

            update = (await editor.hear(listed))["params"]["update"]
            its = next(each for each in update["availableCommands"] if each["name"] == "fake:greet")
            assert its == {
                "name": "fake:greet",
                "description": "Greets somebody.",
                "input": {"hint": "who [tone]"},
            }
            refused = await editor.refused(
                "session/prompt", sessionId=session, prompt=words("/fake:greet")
            )
            assert "say who behind it: /fake:greet who [tone]" in refused["message"]
            assert await prompted("/fake:greet Ada tone=kind") == {"stopReason": "end_turn"}
            assert "> Greet Ada (kind)." in editor.text
            assert "`/send` sends this" in editor.text
            assert server.requests == []
            await prompted("/send Kindly.")
            await prompted("/send")  # nothing is left to send: it is the person's own word
    texts = [str(request.body["messages"][-1]["content"]) for request in server.requests]
    assert "Greet Ada (kind).\n\nKindly." in texts[0]
    assert "/send" in texts[1]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("/fake:greet Ada and Bob", ("fake:greet", "Ada and Bob")),
        (" /fake:greet\nAda ", ("fake:greet", "Ada")),
        ("/note: this", None),
        ("/home/x:y", None),
        ("fake:greet", None),
    ],
)
def test_lines_that_are_prompts(line: str, found: tuple[str, str] | None) -> None:
    assert prompt_line(line) == found


@pytest.mark.parametrize(
    ("words", "given", "missing"),
    [
        ("", {}, ["who"]),
        ("Ada", {"who": "Ada"}, []),
        ("Ada very kind", {"who": "Ada", "tone": "very kind"}, []),
        ("'Ada L' kind", {"who": "Ada L", "tone": "kind"}, []),
        ("Ada's tone", {"who": "Ada's", "tone": "tone"}, []),
        ("tone=kind Ada B", {"who": "Ada B", "tone": "kind"}, []),
        ("tone=kind", {"tone": "kind"}, ["who"]),
        ("a=b", {"who": "a=b"}, []),
    ],
)
def test_words_become_arguments(words: str, given: dict[str, str], missing: list[str]) -> None:
    typed = typed_prompt(ROWS, "fake:greet", words)
    assert (typed.given, [each.name for each in typed.missing]) == (given, missing)
    assert usage_of("fake:greet", typed.row.arguments) == "/fake:greet who [tone]"


def test_what_is_no_prompt_is_said() -> None:
    with pytest.raises(NotFoundError, match=r"/fake:great.*fake:greet"):
        typed_prompt(ROWS, "fake:great", "")
    with pytest.raises(ValidationError, match="takes no arguments"):
        typed_prompt(ROWS, "fake:talk", "to me")

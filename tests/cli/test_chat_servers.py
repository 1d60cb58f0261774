"""A chat at a terminal says when a server of MCP is not as it was accepted."""

from __future__ import annotations

from callboard.providers.testing.script import reply
from support.cli.chat_scene import chatting, leave, prompt, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command
from support.mcp.stage import FOLDER, fake
from support.sandbox.sandbox_users import needs_sandbox


async def test_a_tool_that_changed_is_said_in_the_chat_that_is_open(command: Command) -> None:
    needs_sandbox()
    counting = reply(calls=[("fake__count", {})])
    async with scripted(command, counting, reply("Seven.")):
        config = command.home / "config" / "callboard.toml"
        config.write_text(f'{config.read_text()}[sandbox]\nread_only = ["{FOLDER}"]\n')
        server = ("--tier", "read_only", "--state", "--", *fake("--fault=changes").command)
        added = await command("mcp", "add", "fake", "--yes", *server)
        assert added.code == 0, added.err
        async with chatting(command) as terminal:
            await prompt(terminal, "Count.", "fake__say is withheld")
            await leave(terminal)
        assert "callboard mcp review fake" in terminal.seen

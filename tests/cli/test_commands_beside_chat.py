"""A chat without a daemon is one for other commands of its user, configuration included."""

from __future__ import annotations

from callboard.config.managed import load_managed
from callboard.providers.testing.script import reply
from support.cli.chat_scene import chatting, leave, prompt, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command


async def test_a_provider_is_added_while_a_chat_lasts(command: Command) -> None:
    async with scripted(command, reply("Hello there.")), chatting(command) as terminal:
        place = ("--base-url", "https://models.example/v1")
        added = await command("providers", "add", "mine", *place)
        assert (added.code, added.out) == (0, "Added mine.\n")
        assert "mine" in load_managed(command.home / "config").providers
        listed = {line["name"]: line for line in (await command("providers", "--json")).lines}
        assert listed["mine"]["source"] == "managed"
        await prompt(terminal, "Hello", "Hello there.")
        await leave(terminal)

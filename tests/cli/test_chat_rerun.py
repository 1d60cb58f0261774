"""The last turn once more, in a chat and in what is printed of a session."""

from __future__ import annotations

from callboard.providers.testing.script import reply
from support.cli.chat_scene import command as command
from support.cli.chat_scene import scripted
from support.cli.command import Command


async def test_a_chat_has_the_last_turn_answered_anew(command: Command) -> None:
    async with scripted(command, reply("Old answer."), reply("New answer.")) as server:
        done = await command("chat", stdin=b"/retry\nGo.\n/retry\n/regenerate\n")
        assert done.code == 1  # two of the commands were refused
        first, last = done.out.index("Old answer."), done.out.index("New answer.")
        assert first < done.out.index("nothing to retry") < done.out.index("answered again") < last
        assert "there is no session yet" in done.out[:first]
        assert done.out.count("> Go.") + done.out.count("▸ Go.") == 1
        asked = [[m["content"] for m in r.body["messages"][1:]] for r in server.requests]
        assert asked == [["Go."], ["Go."]]
    shown = await command("show", "last")
    assert shown.code == 0
    old, new = shown.out.index("Old answer."), shown.out.index("New answer.")
    assert old < shown.out.index("is set aside") < new

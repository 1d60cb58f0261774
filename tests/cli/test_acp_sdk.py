"""PyPI `agent-client-protocol`, which others wrote, as the editor."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import trio

from callboard.providers.testing.script import reply, stall
from support.cli.chat_scene import OVERWRITE, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command
from support.cli.warm_process import start_warm


async def test_an_sdk_of_others_drives_sessions(command: Command) -> None:
    from support.acp.sdk_editor import drive  # here: it takes a second, of each worker's

    stdin, out = os.pipe()
    into, stdout = os.pipe()
    async with scripted(command, reply(calls=[OVERWRITE]), reply("Done."), stall("Well, ")):
        try:
            process = start_warm(("acp",), (stdin, stdout, 2), command.workspace, command.environ)
        finally:
            os.close(stdin)
            os.close(stdout)
        try:
            work = partial(asyncio.run, drive(into, out, str(command.workspace)))
            found = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(process.wait)
    assert found.pop("listed") == found.pop("sessions")
    assert found == {
        "version": 1,
        "first": "end_turn",
        "text": "Done.",
        "asked": ["write_file a.txt"],
        "calls": [("write_file a.txt", "edit")],
        "second": "cancelled",
        "cut": "Well, ",
        "options": ["mode", "model", "thought_level", "_agent"],
        "unknown": -32601,
    }

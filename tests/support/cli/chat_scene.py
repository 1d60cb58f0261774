"""Chats at pseudo-terminals, with a scripted server behind them and, if wanted, a daemon between."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from callboard.providers.testing.scripted_server import ScriptedServer, open_scripted_server
from support.cli.command import NOWHERE, PATIENCE_SECONDS, Command, Terminal
from support.cli.warm_process import WarmProcess, nowhere, start_warm

ENTER = "\r"
CTRL_C, CTRL_D = "\x03", "\x04"
READY = "/help"
"""Stands above the input of a chat in which nothing runs."""
OVERWRITE = ("write_file", {"path": "a.txt", "content": "new\n"})
"""A call that is asked about, of the file that is in the workspace."""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """A command of a fresh user, with a file in the workspace."""
    command = Command(tmp_path)
    (command.workspace / "a.txt").write_text("old\n")
    return command


@asynccontextmanager
async def scripted(command: Command, *steps: Any) -> AsyncGenerator[ScriptedServer]:
    """A model that all sessions of the command have."""
    async with open_scripted_server(list(steps)) as server:
        provider = f'[providers.local]\nbase_url = "{server.base_url}"\n'
        config = command.home / "config" / "callboard.toml"
        titles = '[sessions]\ntitles = "words"\n'  # a title would take a step of the script
        config.write_text(f'model = "local/scripted"\n{titles}{NOWHERE}{provider}')
        yield server


@asynccontextmanager
async def chatting(command: Command, *options: str) -> AsyncGenerator[Terminal]:
    """A chat, once it takes an input."""
    async with command.at_terminal("chat", *options) as terminal:
        await terminal.expect(READY)
        yield terminal


async def say(terminal: Terminal, text: str) -> None:
    await terminal.type(text + ENTER)


async def prompt(terminal: Terminal, text: str, *shown: str) -> None:
    """Say it, and wait until it was answered, and before that for what its turn shows."""
    await say(terminal, text)
    for each in (*shown, "answered"):
        await terminal.expect(each)


async def answer(terminal: Terminal, key: str) -> None:
    """Answer a question, once it is put."""
    await terminal.expect("your answer:")
    await terminal.type(f"{key}\n")


async def leave(terminal: Terminal) -> None:
    """Leave a chat, at once or when its turn has ended, and wait until it has ended well."""
    await terminal.type(CTRL_D)
    with trio.fail_after(PATIENCE_SECONDS):
        if await terminal.comes_to("Ctrl-D again leaves"):
            await terminal.expect(READY)
            await terminal.type(CTRL_D)
    assert await terminal.end() == 0


@asynccontextmanager
async def serving(command: Command, *options: str) -> AsyncGenerator[WarmProcess]:
    """A daemon on the command's data folder, in whose workspace sessions may work."""
    line = ("serve", "--port", "0", "--root", str(command.workspace), *options)
    read, write = os.pipe()
    with nowhere() as null:
        standard = (null, write, null)
        process = start_warm(line, standard, command.workspace, command.environ)
    os.close(write)
    async with trio.lowlevel.FdStream(read) as printed, trio.open_nursery() as nursery:
        seen = b""
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                while b"Stop it with" not in seen:
                    data = await printed.receive_some()
                    assert data, seen.decode()
                    seen += data
            nursery.start_soon(_drain, printed)
            yield process
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(process.wait)


async def _drain(stream: trio.abc.ReceiveStream) -> None:
    while await stream.receive_some():
        pass

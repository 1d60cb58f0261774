"""A daemon in a process of its own, for commands that find it by themselves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from callboard.config.daemon_file import RunningDaemon, find_daemon
from support.cli.command import PATIENCE_SECONDS, Command
from support.cli.warm_process import nowhere, start_warm


@asynccontextmanager
async def serving(command: Command, *tokens: str) -> AsyncGenerator[RunningDaemon]:
    """`callboard serve` on the command's data folder, from when it is ready to the end of the block."""
    data = command.home / "data"
    line = ("serve", "--port", "0", *tokens)
    with nowhere() as null:
        process = start_warm(line, (null, null, null), command.workspace, command.environ)
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            while (daemon := find_daemon(data)) is None:
                assert process.poll() is None, "it ended"
                await trio.sleep(0.02)
        yield daemon
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(process.wait)

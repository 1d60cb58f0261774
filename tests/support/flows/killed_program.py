"""A runtime whose program has changed a file, and still runs: it waits to be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallProgress
from support.flows.killed import say_ready


async def main(folder: Path) -> None:
    code = "rm b.txt; echo gone; sleep 60"
    call = ("run_code", {"language": "bash", "code": code})
    async with callboard.open_runtime(
        workspace=folder / "work",
        data=folder / "data",
        environ={"PATH": os.environ["PATH"]},
        model=callboard.ScriptedModel([reply(calls=[call])]),
        on_approval="allow",
    ) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    say_ready(session.session_id)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))

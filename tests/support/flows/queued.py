"""A program that is killed while one prompt has its turn and two wait: `queued.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

import callboard
from callboard.providers.provider import Emit, ModelRequest
from support.flows.killed import say_ready


class SilentModel:
    """Never answers."""

    def __init__(self) -> None:
        self.is_asked = trio.Event()

    async def run(self, request: ModelRequest, emit: Emit) -> None:
        """See `LocalModel`."""
        self.is_asked.set()
        await trio.sleep_forever()


async def submit_three(runtime: callboard.Runtime) -> str:
    """Acknowledged prompts of a new session, whose id this gives; the first one has its turn."""
    session = await runtime.create_session()
    for text in ("one", "two", "three"):
        await session.submit(text)
    return session.session_id


async def main() -> None:
    folder, model = Path(sys.argv[1]), SilentModel()
    async with callboard.open_runtime(
        model=model, data=folder / "data", workspace=folder / "work", environ={}
    ) as runtime:
        session_id = await submit_three(runtime)
        await model.is_asked.wait()
        say_ready(session_id)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)

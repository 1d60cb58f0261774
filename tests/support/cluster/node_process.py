"""One node of a cluster as a process: it begins sessions whose calls have effects that can be counted.

    node_process.py URL NODE FOLDER SESSIONS INPUTS

Each session gets some inputs at once; the turn of each makes one call, which writes its key, the node and the time
into FOLDER/effects. What it says on stdout: `ready` when its sessions are on record, `fenced` when others have them.
"""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path

import trio

import callboard
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.runtime.errors import NodeFenced
from callboard.runtime.history import Result

MAX_REQUESTS = 100_000
CALL_SECONDS = 0.5


def answer(request: ModelRequest) -> ScriptedReply:
    """One call for each input, then a word."""
    if isinstance(request.rounds[-1].items[-1], Result):
        return reply("Done.")
    return reply(calls=[("count", {"key": uuid.uuid4().hex})])


async def main(url: str, node: str, folder: str, sessions: int, inputs: int) -> None:
    effects = Path(folder) / "effects"

    @callboard.tool(effect="once")
    async def count(key: str) -> str:
        """Writes a line: the effect that must not happen twice."""
        with effects.open("a", encoding="ascii") as file:
            file.write(f"{key} {node} {time.time()}\n")
        await trio.sleep(CALL_SECONDS)
        return key

    data, work = Path(folder) / node, Path(folder) / "work"
    data.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([answer] * MAX_REQUESTS),
        workspace=work,
        data=data,
        environ={},
        policy="auto",
        tools=[count],
        settings=callboard.Settings(
            store=StoreSettings(url=url), cluster=ClusterSettings(node=node)
        ),
    ) as runtime:
        for _ in range(sessions):
            session = await runtime.create_session()
            for number in range(inputs):
                await session.submit(f"Count {number}.")
        say("ready")
        await trio.sleep_forever()


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        given_url, name, place, how_many, each = sys.argv[1:]
        trio.run(main, given_url, name, place, int(how_many), int(each))
    except NodeFenced:
        say("fenced")

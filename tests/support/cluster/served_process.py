"""One node of a cluster with its door, as a process that can be killed.

    served_process.py URL NODE FOLDER [NAME=ROOT | NAME=ROOT,shared]

The turn of each input makes one call, which writes its key and the node into FOLDER/effects. What it says on stdout: its
port and a token, once it serves.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import trio

import callboard
from callboard.config.sections import RootSettings
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.runtime.history import Result
from support.cluster.served_node import open_served

MAX_REQUESTS = 10_000
CALL_SECONDS = 0.2


def answer(request: ModelRequest) -> ScriptedReply:
    """One call for each input, then a word."""
    if isinstance(request.rounds[-1].items[-1], Result):
        return reply(["Do", "ne."])
    return reply(["I ", "count."], calls=[("count", {"key": uuid.uuid4().hex})])


def read_root(word: str) -> tuple[str, RootSettings]:
    name, _, path = word.partition("=")
    path, _, shared = path.partition(",")
    return name, RootSettings(path=path, shared=shared == "shared")


async def main(url: str, node: str, folder: str, *roots: str) -> None:
    effects = Path(folder) / "effects"

    @callboard.tool(effect="once")
    async def count(key: str) -> str:
        """Writes a line: the effect that must not happen twice."""
        with effects.open("a", encoding="ascii") as file:
            file.write(f"{key} {node}\n")
        await trio.sleep(CALL_SECONDS)
        return key

    steps = [answer] * MAX_REQUESTS
    given = dict(map(read_root, roots))
    async with open_served(
        url, node, Path(folder), steps=steps, tools=[count], roots=given
    ) as daemon:
        sys.stdout.write(f"{daemon.gateway.port} {daemon.token}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    given_url, name, place, *words = sys.argv[1:]
    trio.run(main, given_url, name, place, *words)

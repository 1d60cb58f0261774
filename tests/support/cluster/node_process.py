"""One node of a cluster as a process: it begins sessions whose calls have effects that can be counted.

    node_process.py URL NODE FOLDER SESSIONS INPUTS [--skew SECONDS] [--insist] [--held] [--program SECONDS [--partial]]

Each session gets some inputs at once; the turn of each makes one call, which writes its key, the node and the time
into FOLDER/effects. What it says on stdout: `ready` when its sessions are on record, `fenced` when others have them. `--skew` has its wall
clock go wrong by so much. `--insist` has it write titles into its sessions all the time, past everything that would keep it
from that but the database, and write each outcome into FOLDER/insisted. `--held` has its calls wait until there is FOLDER/go.
`--program` has each turn begin all `KINDS` of programs instead, which write the time into FOLDER/work/programs/NODE-KIND (a
server of MCP into its home), again and again for so many seconds. `--partial` confines them by Landlock alone.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

import callboard
from callboard.config.sections import ClusterSettings
from callboard.config.settings import StoreSettings
from callboard.embedding.runtime import host_of
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.runtime.errors import CallboardError, NodeFenced
from callboard.runtime.events import TitleSet
from callboard.runtime.history import Result
from callboard.runtime.messages import AppendEvents

MAX_REQUESTS = 100_000
CALL_SECONDS = 0.5
LOOK_SECONDS = 0.02
INSIST_SECONDS = 0.02


def answer(request: ModelRequest) -> ScriptedReply:
    """One call for each input, then a word."""
    if isinstance(request.rounds[-1].items[-1], Result):
        return reply("Done.")
    return reply(calls=[("count", {"key": uuid.uuid4().hex})])


async def insist(
    runtime: callboard.Runtime, session_ids: list[str], node: str, outcomes: Path
) -> None:
    """Append events whatever the node itself thinks of its lease."""
    numbers = itertools.count()

    async def append_one() -> None:
        number = next(numbers)
        session_id = session_ids[number % len(session_ids)]
        begun, outcome = time.time(), "stored"
        append = AppendEvents(session_id=session_id, events=(TitleSet(title=f"{node} {number}"),))
        try:
            with trio.CancelScope(
                shield=True
            ):  # bounded by the journal, which answers until it ends
                await host_of(runtime).journal.ask(append)
        except CallboardError as error:
            outcome = type(error).__name__
        with outcomes.open("a", encoding="ascii") as file:
            file.write(f"{begun} {outcome}\n")

    try:
        while True:
            await append_one()
            await trio.sleep(INSIST_SECONDS)
    finally:  # also a node that learns of its end before the next attempt makes one behind that
        await append_one()  # noqa: ASYNC102  it shields itself


async def main(
    url: str,
    node: str,
    folder: str,
    sessions: int,
    inputs: int,
    *,
    insists: bool,
    is_held: bool,
    seconds: float,
    is_partial: bool,
) -> None:
    effects, go = Path(folder) / "effects", Path(folder) / "go"

    @callboard.tool(effect="once")
    async def count(key: str) -> str:
        """Writes a line: the effect that must not happen twice."""
        while is_held and not go.exists():  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
            await trio.sleep(LOOK_SECONDS)
        with effects.open("a", encoding="ascii") as file:
            file.write(f"{key} {node} {time.time()}\n")
        await trio.sleep(CALL_SECONDS)
        return key

    data, work = Path(folder) / node, Path(folder) / "work"
    data.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    tools = [count]
    answers: Callable[[ModelRequest], ScriptedReply] = answer
    settings = callboard.Settings(store=StoreSettings(url=url), cluster=ClusterSettings(node=node))
    if seconds:
        from support.cluster.programs import (  # here: most nodes run none
            begins_programs,
            with_programs,
            write,
        )

        answers = begins_programs(node, work, seconds)
        tools = [*tools, write]
        settings = with_programs(settings, seconds, Path(folder), is_partial=is_partial)
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([answers] * MAX_REQUESTS),
        workspace=work,
        data=data,
        environ={},
        policy="auto",
        on_approval="allow",
        tools=tools,
        settings=settings,
    ) as runtime:
        made: list[str] = []
        for _ in range(sessions):
            session = await runtime.create_session()
            made.append(session.session_id)
            for number in range(inputs):
                await session.submit(f"Count {number}.")
        say("ready")
        if insists:
            await insist(runtime, made, node, Path(folder) / "insisted")
        await trio.sleep_forever()


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def go_wrong(seconds: float) -> None:
    """Have this process's wall clock be wrong by so many seconds."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + seconds
    time.time_ns = lambda: right_ns() + int(seconds * 1e9)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("url", "node", "folder"):
        parser.add_argument(name)
    for name in ("sessions", "inputs"):
        parser.add_argument(name, type=int)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--insist", action="store_true")
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--program", type=float, default=0.0)
    parser.add_argument("--partial", action="store_true")
    given = parser.parse_args()
    if given.skew:
        go_wrong(given.skew)
    run = partial(
        main,
        insists=given.insist,
        is_held=given.held,
        seconds=given.program,
        is_partial=given.partial,
    )
    try:
        trio.run(run, given.url, given.node, given.folder, given.sessions, given.inputs)
    except NodeFenced:
        say("fenced")

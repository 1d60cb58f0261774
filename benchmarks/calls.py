"""What one tool call costs without a network and without a disk: prints one line of JSON.

A scripted model asks for 100 calls of a no-op tool in one answer. The difference to an answer with
one call, divided by 99, is what a call adds: its events, validation, permission, the dispatcher,
and the journal's tables in memory. CPU time, the median of the turns.
"""

from __future__ import annotations

import json
import tempfile
import time
from statistics import median

import trio

import callboard

CALLS = 100
TURNS = 20

ran: list[int] = []
"""What the calls of a turn were given."""


@callboard.tool
async def noop(x: int, note: str) -> str:  # noqa: ASYNC124  tools of the floor are async too
    """Does nothing but be counted."""
    ran.append(x)
    return "ok"


async def seconds(calls: int, workspace: str) -> float:
    """The CPU time of a turn with an answer of so many calls, in a runtime of its own."""
    asked = [("noop", {"x": number, "note": f"call {number}"}) for number in range(calls)]
    model = callboard.ScriptedModel([callboard.reply(calls=asked), callboard.reply("Done.")])
    async with callboard.open_runtime(
        model=model,
        workspace=workspace,
        tools=[noop],
        agents=[callboard.Agent(name="bench", tools=("noop",))],
        policy="auto",
        environ={},
    ) as runtime:
        session = await runtime.create_session(agent="bench")
        ran.clear()
        began = time.process_time()
        await session.run("go")
        spent = time.process_time() - began
    model.assert_complete()
    if len(ran) != calls:
        raise RuntimeError(f"{len(ran)} calls ran, expected {calls}")
    return spent


async def main() -> None:
    with tempfile.TemporaryDirectory() as empty:
        await seconds(CALLS, empty)  # warms caches up
        pairs = [(await seconds(CALLS, empty), await seconds(1, empty)) for _ in range(TURNS)]
    per_call = median(many - one for many, one in pairs) / (CALLS - 1)
    print(json.dumps({"call_us": per_call * 1e6}))


if __name__ == "__main__":
    trio.run(main)

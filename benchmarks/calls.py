"""What one tool call costs without a network and without a disk: prints one line of JSON.

A scripted model asks for 100 calls of a no-op tool in one answer. The difference to an answer with
one call, divided by 99, is what a call adds: its events, validation, permission, the dispatcher,
and the journal's tables in memory. CPU time, the median of the turns.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median

import trio

import callboard

CALLS = 100
TURNS = 20


@callboard.tool
async def noop(x: int, note: str) -> str:  # noqa: ASYNC124  tools of the floor are async too
    """Does nothing."""
    return "ok"


async def seconds(calls: int) -> float:
    """The CPU time of a turn with an answer of so many calls, in a runtime of its own."""
    asked = [("noop", {"x": number, "note": f"call {number}"}) for number in range(calls)]
    model = callboard.ScriptedModel([callboard.reply(calls=asked), callboard.reply("Done.")])
    async with callboard.open_runtime(
        model=model,
        tools=[noop],
        agents=[callboard.Agent(name="bench", tools=("noop",))],
        policy="auto",
        environ={},
    ) as runtime:
        session = await runtime.create_session(agent="bench")
        began = time.process_time()
        await session.run("go")
        spent = time.process_time() - began
    model.assert_complete()
    return spent


async def main(turns: int) -> None:
    await seconds(CALLS)  # warms caches up
    pairs = [(await seconds(CALLS), await seconds(1)) for _ in range(turns)]
    per_call = median(many - one for many, one in pairs) / (CALLS - 1)
    print(json.dumps({"call_us": per_call * 1e6}))


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if sys.argv[1:] else TURNS)

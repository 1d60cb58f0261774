"""How many events a tool round has: each one is stored, published, folded and sent to clients.

The bounds are what a round needs today; a change that raises one raises it here too, and says why.
"""

from __future__ import annotations

from collections import Counter

import callboard

ROUNDS = 5
OF_A_ROUND = {
    **dict.fromkeys(("ToolCallStart", "ToolCallDelta", "ToolCallEnd", "Usage", "Done"), 1),
    **dict.fromkeys(("MessageCompleted", "CallProposed", "CallStarted", "CallFinished"), 1),
}
ON_RECORD = 4
"""Those of the second line: what a later process must know."""


@callboard.tool
async def noop(x: int) -> str:  # noqa: ASYNC124  tools are async where they can be
    """Does nothing."""
    return "ok"


async def of_rounds(rounds: int) -> tuple[Counter[str], int]:
    """What a program sees of a turn with so many rounds, and the rows of its session."""
    calls = [callboard.reply(calls=[("noop", {"x": number})]) for number in range(rounds)]
    model = callboard.ScriptedModel([*calls, callboard.reply("Done.")])
    async with callboard.open_runtime(model=model, tools=[noop], policy="auto") as runtime:
        session = await runtime.create_session()
        async with session.prompt("Go on.") as turn:
            seen = Counter([type(event).__name__ async for event in turn])
        (row,) = await runtime.sessions()
        return seen, row.head_seq


async def test_a_tool_round_has_no_more_events_than_it_needs() -> None:
    few, few_rows = await of_rounds(ROUNDS)
    many, many_rows = await of_rounds(2 * ROUNDS)
    assert many - few <= Counter({name: ROUNDS * count for name, count in OF_A_ROUND.items()})
    assert many_rows - few_rows <= ROUNDS * ON_RECORD

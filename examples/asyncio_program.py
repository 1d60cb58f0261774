"""An asyncio program: the same methods as coroutines, beside whatever else its event loop runs."""

import asyncio
import json

import callboard
from callboard.providers.testing.script import last_result, stall

TEMPERATURES: asyncio.Queue[float] = asyncio.Queue()


@callboard.tool(tier="read_only", effect="read")
async def temperature() -> float:
    """Waits for the thermometer, and tells what it says. Runs on the program's own event loop."""
    return await TEMPERATURES.get()


# A script in place of a model, so that this runs without a key; or pass model="PROVIDER/MODEL".
MODEL = callboard.ScriptedModel(
    [
        callboard.reply(calls=[("temperature", {})]),
        lambda request: callboard.reply(f"It is {json.loads(last_result(request))['result']} °C."),
        stall("Once upon a time"),
    ]
)


async def measure() -> None:
    """Some other task of the program."""
    await asyncio.sleep(0.1)
    await TEMPERATURES.put(21.5)


async def main() -> None:
    """Asks with a tool, then shows that a cancelled task takes its turn along."""
    async with callboard.aio.open_runtime(model=MODEL, tools=[temperature]) as runtime:
        session = await runtime.create_session()
        answer, _ = await asyncio.gather(session.run("How warm is it?"), measure())
        print(answer)

        turn = session.prompt("Tell me a long story.")
        try:
            async with asyncio.timeout(1), turn:
                async for event in turn:
                    if isinstance(event, callboard.TextDelta):
                        print(event.text)
        except TimeoutError:
            print("That took too long.")
        last = (await runtime.store.events(session.session_id))[-1].event
        assert isinstance(last, callboard.TurnEnded)
        print(f"The turn is {last.outcome}.")


asyncio.run(main())

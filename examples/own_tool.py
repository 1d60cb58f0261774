"""Own tools: typed functions, plain or async. The schema comes from annotations and docstring."""

import trio

import callboard

STOCK = {"apples": 12, "pears": 0}


@callboard.tool(tier="read_only", effect="read")
def stock_of(fruit: str) -> int:
    """Says how many of a fruit are in stock.

    Args:
        fruit: Its name, in plural.
    """
    if fruit not in STOCK:
        raise callboard.ToolFailure(callboard.ErrorType.EXECUTION_ERROR, f"We sell no {fruit}.")
    return STOCK[fruit]


@callboard.tool
async def order(fruit: str, context: callboard.ToolContext, count: int = 10) -> str:
    """Orders some of a fruit."""
    context.progress(f"calling the {fruit} farm")
    await trio.sleep(0.1)
    STOCK[fruit] = STOCK.get(fruit, 0) + count
    return f"{count} {fruit} are on their way"


# A script in place of a model, so that this runs without a key; or pass model="PROVIDER/MODEL".
MODEL = callboard.ScriptedModel(
    [
        callboard.reply(calls=[("stock_of", {"fruit": f}) for f in ("apples", "pears", "cars")]),
        callboard.reply("No pears left, so I order some.", calls=[("order", {"fruit": "pears"})]),
        callboard.reply("Done."),
    ]
)


async def main() -> None:
    """Lets the model look after the stock, and shows what its calls do."""
    async with callboard.open_runtime(model=MODEL, tools=[stock_of, order]) as runtime:
        session = await runtime.create_session()
        async with session.prompt("Order what is sold out.") as turn:
            async for event in turn:
                match event:
                    case callboard.TextDelta(text):
                        print(text)
                    case callboard.CallProgress(text=text):
                        print(f"  … {text}")
                    case callboard.CallFinished():
                        print(f"  {event.name}: {event.status}: {event.result}")


trio.run(main)

"""Only the answer: `run` waits for the end of the turn, tools and all."""

import trio

import callboard


async def main() -> None:
    """Asks twice in one session, and prints the answers."""
    async with callboard.open_runtime(model="rehearsal") as runtime:
        session = await runtime.create_session()
        try:
            print(await session.run("Write 'buy milk' to list.txt."))
            print(await session.run("Read list.txt."))
        except callboard.CallboardError as error:
            print(f"No answer ({error.type}): {error}")


trio.run(main)

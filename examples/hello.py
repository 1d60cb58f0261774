"""A prompt and its events. Run it as it is: without a key, the rehearsal model answers."""

import trio

import callboard


async def main() -> None:
    """Asks for the time, and prints what comes as it comes."""
    async with callboard.open_runtime(model="rehearsal") as runtime:
        session = await runtime.create_session()
        async with session.prompt("What time is it in Tokyo? Save it to now.txt.") as turn:
            async for event in turn:
                if isinstance(event, callboard.TextDelta):
                    print(event.text, end="", flush=True)
                elif isinstance(event, callboard.CallFinished):
                    print(f"[{event.name}: {event.status}]")


trio.run(main)

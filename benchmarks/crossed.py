"""Count the modules of callboard that one prompt with one tool call crosses.

Usage: python benchmarks/crossed.py [--list]

It profiles one turn in a runtime in memory whose model asks for one call of a tool of the program:
which modules the functions that run are in, and how many calls go from one module into another.
`--list` prints the calls by module. The figure says how much a reader must open to follow a prompt;
docs/architecture.md has that walk.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import trio

import callboard

ROOT = Path(callboard.__file__).parent


@callboard.tool
def population(city: str) -> int:
    """Return the number of people who live in a city."""
    return len(city)


class Crossings:
    """A profile function that counts the calls of callboard's functions, and who made them."""

    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (module := self._module(frame)) is None:
            return
        self.modules[module] += 1
        caller = frame.f_back
        while caller is not None and (above := self._module(caller)) is None:
            caller = caller.f_back
        if caller is not None and above is not None and above != module:
            self.calls[above, module] += 1

    @staticmethod
    def _module(frame: FrameType) -> str | None:
        name = frame.f_globals.get("__name__", "")
        return name if name.startswith("callboard.") else None


async def main() -> None:
    crossings = Crossings()
    answers = [callboard.reply(calls=[("population", {"city": "Lisbon"})]), callboard.reply("6")]
    model = callboard.ScriptedModel(answers * 2)
    async with callboard.open_runtime(model=model, tools=[population]) as runtime:
        session = await runtime.create_session()
        await session.run("Warm up what is created on first use.")
        sys.setprofile(crossings)
        try:
            await session.run("How many people live in Lisbon?")
        finally:
            sys.setprofile(None)
    if "--list" in sys.argv:
        for module, count in sorted(crossings.modules.items()):
            print(f"{count:6} {module}")
    print(
        f"{len(crossings.modules)} modules, {sum(crossings.calls.values())} calls between them, "
        f"{len(crossings.calls)} pairs of modules"
    )


if __name__ == "__main__":
    trio.run(main)

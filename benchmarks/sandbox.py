"""What a sandbox adds to a program's start: prints one line of JSON.

`true` is run by hand in a bubblewrap that shows the whole machine, in one with the very arguments
of a sandbox, and as `run_code` runs it: one after the other, and twenty at once. Milliseconds of
the clock, the median of each and the least; on a machine that is busy only the ratios mean anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from statistics import median

import trio

from callboard.config.sections import SandboxSettings
from callboard.runtime.processes import Command
from callboard.tools.sandbox.box.protected import Protection
from callboard.tools.sandbox.box.start_gate import Gate
from callboard.tools.sandbox.running.process import Order, hand_over
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from callboard.tools.sandbox.tiers.landlock import filter_of

RUNS = 50
AT_ONCE = 20

Run = Callable[[], Awaitable[None]]


async def main() -> None:
    sandbox = Sandbox(SandboxSettings(), os.environ)
    recipe = sandbox.recipe()
    with tempfile.TemporaryDirectory() as place:
        folder = os.path.realpath(place)  # noqa: ASYNC240
        processes = SessionProcesses(sandbox, folder, "session")
        protection = Protection(folder)
        order = Order(argv=(), workspace=folder, cwd=folder, environment={}, files={})

        async def bare() -> None:
            words = ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
            await trio.run_process([recipe.bwrap, *words, "true"], capture_stderr=True)

        async def same() -> None:
            gate = Gate(filter_of(recipe))
            gate.open()
            with ExitStack() as stack:
                mounts = protection.mounts, ()
                said, given = hand_over(stack, recipe, order, mounts, gate.theirs)
                process = subprocess.Popen(  # noqa: ASYNC220
                    [recipe.bwrap, "--args", str(said), "--", "true"],
                    pass_fds=given,
                    env={},
                )
                gate.started()
                fd = os.pidfd_open(process.pid)
                await trio.lowlevel.wait_readable(fd)
                os.close(fd)
                if process.wait():
                    raise RuntimeError(f"bubblewrap ended with {process.returncode}")

        async def ours() -> None:
            ran = await processes.run(Command(argv=("true",), seconds=60))
            if ran.exit_code != 0:
                raise RuntimeError(f"it ended with {ran.exit_code}: {ran.stderr}")

        found = {}
        for name, run in {"bare": bare, "same arguments": same, "sandbox": ours}.items():
            await run()  # warms caches up
            found[name] = {"alone": await alone(run), f"{AT_ONCE} at once": await at_once(run)}
        protection.close()
    bounds = sandbox.status().bounds
    print(json.dumps({"runs": RUNS, "bounds": bounds, "milliseconds": found}))


async def alone(run: Run) -> list[float]:
    return summed_up([await taken(run) for _ in range(RUNS)])


async def at_once(run: Run) -> list[float]:
    """Of so many at once, until the last has ended."""

    async def many() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(run)

    return summed_up([await taken(many) for _ in range(5)])


async def taken(run: Run) -> float:
    began = time.perf_counter()
    await run()
    return (time.perf_counter() - began) * 1000


def summed_up(spent: list[float]) -> list[float]:
    return [round(median(spent), 2), round(min(spent), 2)]


if __name__ == "__main__":
    trio.run(main)

"""What a command costs from its start to its end: prints wall time and processor time of `--help` and of a run with one answer.

    python benchmarks/commands.py [--rounds 10] [--clone]

The answer comes from a scripted model in this process, or, as for a new user who has no key, from the rehearsal model. Each command
is a new process of this interpreter on a data folder that is there already; processor time counts its children too. With `--clone`, one
round more is what somebody does who has just heard of callboard: `git clone` of this repository, a virtual environment, `pip install` of
what is locked, and a first answer; what pip downloads depends on the network, or on its cache.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import trio

from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server

ROOT = Path(__file__).resolve().parent.parent
NOWHERE = 'model = "{}"\n[providers.ollama]\nbase_url = "http://127.0.0.1:9/v1"\n[providers.llamacpp]\nbase_url = "http://127.0.0.1:9/v1"\n'
COMMAND = (sys.executable, "-m", "callboard")
QUESTION = "What time is it in Tokyo?"


def took(line: Sequence[str | Path], folder: Path) -> tuple[float, float]:
    """Run a command to its end; return the wall time and the processor time that it took, in seconds."""
    environ = {**os.environ, "CALLBOARD_HOME": str(folder / "home")}
    work = folder / "work"
    work.mkdir(exist_ok=True)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        line, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environ, cwd=work,
    )  # fmt: skip
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(url: str, rounds: int) -> None:
    """Print the medians of each command; a first round, which compiles and makes the store, is not counted."""
    asked = ("--base-url", url, "--model", "m")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "home" / "config").mkdir(parents=True)
        (folder / "home" / "config" / "callboard.toml").write_text(NOWHERE.format("rehearsal"))
        for what, words in (
            ("--help", ("--help",)),
            ("run --help", ("run", "--help")),
            ("run, a model that answers at once", ("run", "-q", *asked, "Hello")),
            ("run, the rehearsal model, a call", ("run", "-q", QUESTION)),
        ):
            times = [took((*COMMAND, *words), folder) for _ in range(rounds + 1)][1:]
            wall, cpu = (median(column) for column in zip(*times, strict=True))
            print(f"{what}: {wall:.2f} s, of CPU {cpu:.2f} s")


def clone() -> None:
    """Print what it takes from nothing to a first answer."""
    with tempfile.TemporaryDirectory() as name:
        folder, python = Path(name), Path(name) / "venv" / "bin" / "python"
        (folder / "home").mkdir()
        whole = 0.0
        for what, line in (
            ("git clone", ("git", "clone", "-q", str(ROOT), folder / "callboard")),
            ("python -m venv", (sys.executable, "-m", "venv", folder / "venv")),
            (
                "pip install ./callboard",
                (python, "-m", "pip", "install", "-q", folder / "callboard"),
            ),
            ("first answer", (python, "-m", "callboard", "run", "-q", "-m", "rehearsal", QUESTION)),
        ):
            wall, _ = took(line, folder)
            whole += wall
            print(f"{what}: {wall:.1f} s")
        print(f"from nothing to the first answer: {whole:.1f} s")


async def main() -> None:
    parser = argparse.ArgumentParser(description="What a command costs from its start to its end.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clone", action="store_true")
    given = parser.parse_args()
    answers = [reply("Hello.")] * (4 * given.rounds + 8)  # titles are asked for, too
    async with open_scripted_server(answers) as server:
        await trio.to_thread.run_sync(measure, server.base_url, given.rounds)
    if given.clone:
        await trio.to_thread.run_sync(clone)


if __name__ == "__main__":
    trio.run(main)

"""How long a daemon takes from its start until it is ready, with many sessions on record.

    python benchmarks/start_up.py [SESSIONS]

Makes a store of so many sessions, each with one answered turn, then starts `callboard serve` on it five
times, and on an empty one, and prints the medians.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from callboard.runtime.events import (
    InputAccepted,
    MessageCompleted,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Text
from callboard.runtime.store.rows import Append
from callboard.runtime.store.sqlite_store import open_disk_store

RUNS = 5
BATCH = 500


async def fill(data: Path, sessions: int) -> None:
    """Stores them, some hundred a commit."""
    store = await open_disk_store(data)
    for first in range(0, sessions, BATCH):
        await store.commit(
            [_session(number, data) for number in range(first, min(first + BATCH, sessions))]
        )
    await store.aclose()


def _session(number: int, data: Path) -> Append:
    turn = f"turn_{number}"
    return Append(
        f"session_{number:06}",
        (
            SessionCreated(agent="general", workspace=str(data), title=f"Session {number}"),
            InputAccepted(input_id=f"input_{number}", text="What time is it in Tokyo?"),
            TurnStarted(turn_id=turn, input_ids=(f"input_{number}",), provider="p", model="m"),
            MessageCompleted(
                turn_id=turn,
                message_id=f"message_{number}",
                parts=(Text("It is late in Tokyo. " * 20),),
                provider="p",
                model="m",
            ),
            TurnEnded(turn_id=turn, outcome="answered"),
        ),
    )


def seconds_to_ready(data: Path) -> float:
    """From the start of the process to its line that clients may come."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "callboard", "serve", "--port", "0", "--data", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CALLBOARD_HOME": str(data.parent), "JOURNAL_STREAM": "none"},
    )
    assert process.stdout is not None
    process.stdout.readline()
    taken = time.perf_counter() - began
    process.terminate()
    process.communicate()
    return taken


def main(sessions: int) -> None:
    """Prints a row for an empty store and one for a full one."""
    with tempfile.TemporaryDirectory() as folder:
        for count in (0, sessions):
            data = Path(folder) / f"data-{count}"
            trio.run(fill, data, count)
            found = sorted(seconds_to_ready(data) for _ in range(RUNS))
            print(f"{count:>7} sessions: {statistics.median(found):.2f} s to ready (of {RUNS})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

"""Instructions that each unit of work takes, of callboard and of the floor: prints a Markdown table.

    python benchmarks/instructions.py [--only ROW ...] [--repeats 2] [--jobs 2] [--max-minutes 60]

The workloads of `compare.py` run under valgrind's cachegrind, which counts instructions instead of
time, so that a figure is the same whatever else the machine does. Each runs at two sizes; the
difference, shared among the units by which they differ, is a unit's cost without the start.
docs/performance.md says how to read the table and what it can't see.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from compare import HERE, Failed, run, running_provider

MAX_SPREAD = 0.015
"""By so much the repeats of a row may differ; above, something in it depends on time."""
MAX_MINUTES = 60.0
"""All rows, twice, take some 12 minutes of processor time, on however many cores that are free."""
TRY_SECONDS = 120.0
DRIVERS = ("floor", "driver")
HEADER = "| row | instructions | floor | callboard | ratio | repeats within |"


class Row(NamedTuple):
    """A workload, the option that sets its size, and the two sizes whose difference counts.

    Attributes:
        each: Units in one of the size, such as sessions that get a delta each.
        is_traced: Whether callboard sends traces and metrics.
    """

    arguments: str
    unit: str
    size: str = ""
    sizes: tuple[int, ...] = (0,)
    store: str = "memory"
    each: int = 1
    is_traced: bool = False


# The difference of two sizes is 100 million instructions or more: what a start varies by, up to
# half a million, is then far below a hundredth.
ROWS = {
    "cold": Row("cold --first-delta-only", "a start, to the first delta"),
    "stream": Row("stream --reps 1", "a delta", "--n", (2_000, 12_000)),
    "streamc": Row("streamc --reps 1", "a delta", "--n", (1_000, 5_000)),
    "toolloop": Row("toolloop --reps 1", "a round", "--n", (10, 60)),
    "stream-traced": Row("stream --reps 1", "a delta", "--n", (2_000, 12_000), is_traced=True),
    "toolloop-traced": Row("toolloop --reps 1", "a round", "--n", (10, 60), is_traced=True),
    "toolloop-disk": Row("toolloop --reps 1", "a round", "--n", (10, 60), "disk"),
    "fanout": Row("fanout --reps 1", "a call", "--n", (50, 150)),
    "sessions": Row("sessions --n 200", "a session of 200 deltas", "--sessions", (20, 50)),
    # Slow enough that each delta is read alone, although cachegrind makes the reader slow.
    "held": Row("sessions --sessions 100 --pace 3000", "a delta", "--n", (2, 8), each=100),
    "history": Row("history", "a turn behind 100 others", "--n", (100, 140)),
}


class Bench(NamedTuple):
    """What all runs share."""

    valgrind: str
    url: str
    folder: Path
    deadline: float

    def drive(self, driver: str, row: Row, size: int, under: tuple[str, ...] = ()) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise Failed("the time was up before it began")
        size_options = (row.size, str(size)) if row.size else ()
        run(
            *(str(HERE / f"{driver}.py"), *row.arguments.split(), *size_options),
            *("--base-url", self.url, "--steady"),
            environ={
                "PYTHONPATH": str(HERE / "harness"),
                "CALLBOARD_STORE": row.store,
                "CALLBOARD_TRACED": "1" if row.is_traced else "",
                "PYTHONDONTWRITEBYTECODE": "",  # the first run compiles for all others
                # What is kept between processes is kept between these, and is nobody else's.
                **dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"), str(self.folder)),
                "TMPDIR": str(self.folder),
            },
            under=under,
            seconds=left if under else min(left, TRY_SECONDS),
        )

    def count(self, driver: str, row: Row, size: int) -> int:
        """The instructions of one process: its threads' too, but not its children's."""
        with tempfile.NamedTemporaryFile(dir=self.folder, mode="r") as log:
            options = (
                *("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"),
                *("--trace-children=no", "--child-silent-after-fork=yes"),
                f"--log-file={log.name}",
            )
            self.drive(driver, row, size, (self.valgrind, *options))
            found = re.findall(r"I\s+refs:\s+([\d,]+)", log.read())
        if not found:
            raise Failed("valgrind printed no count of instructions")
        return int(found[-1].replace(",", ""))


class Counted:
    """One row: all of its processes, which run as the pool has room."""

    def __init__(self, pool: ThreadPoolExecutor, bench: Bench, name: str, repeats: int) -> None:
        self._name = name
        self._row = row = ROWS[name]
        # Once without valgrind: it compiles the modules, and fills the caches on the disk.
        self._tries = [pool.submit(bench.drive, driver, row, row.sizes[0]) for driver in DRIVERS]
        self._counts = [
            [
                {driver: self._submit(pool, bench, driver, size) for driver in DRIVERS}
                for size in row.sizes
            ]
            for _ in range(repeats)
        ]

    def _submit(
        self, pool: ThreadPoolExecutor, bench: Bench, driver: str, size: int
    ) -> Future[int]:
        def count() -> int:
            self._tries[DRIVERS.index(driver)].result()
            return bench.count(driver, self._row, size)

        return pool.submit(count)

    def line(self) -> tuple[str, bool]:
        """Waits for all of it; False when it failed or did not repeat."""
        try:
            costs = {driver: list(self._costs(driver)) for driver in DRIVERS}
        except Failed as failure:
            return f"| {self._name} | failed: {failure} | | | | |", False
        floor, ours = (median(costs[driver]) for driver in DRIVERS)
        spread = max(max(found) / min(found) - 1 for found in costs.values())
        cells = (
            *(self._name, self._row.unit, f"{floor:,.0f}", f"{ours:,.0f}", f"{ours / floor:.2f}×"),
            ""
            if len(self._counts) == 1
            else f"{spread:.1%}{' (!)' if spread > MAX_SPREAD else ''}",
        )
        return f"| {' | '.join(cells)} |", spread <= MAX_SPREAD

    def _costs(self, driver: str) -> Iterator[float]:
        first, last = self._row.sizes[0], self._row.sizes[-1]
        for counts in self._counts:
            found = [each[driver].result() for each in counts]
            if self._row.size:
                yield (found[-1] - found[0]) / (last - first) / self._row.each
            else:
                yield found[0]


def main() -> int:
    """Prints the table as its rows come; 1 when one failed or moved, 2 without valgrind."""
    parser = argparse.ArgumentParser(
        description="Counts the instructions of callboard and of the floor, by valgrind.",
        epilog="All rows, twice, take some 12 minutes of processor time, shared among --jobs; a row "
        f"takes a ninth. After --max-minutes ({MAX_MINUTES:g}) what still runs is ended and fails.",
    )
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--repeats", type=int, default=2, help="of each row; to see that it holds")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--max-minutes", type=float, default=MAX_MINUTES)
    chosen = parser.parse_args()
    if chosen.repeats < 1 or chosen.jobs < 1:
        parser.error("--repeats and --jobs must be at least 1")
    if not (valgrind := shutil.which("valgrind")):
        print(
            "instructions.py: valgrind is not on the PATH, and it is what counts; "
            "install it, as with: apt install valgrind",
            file=sys.stderr,
        )
        return 2
    good = True
    print(f"{HEADER}\n|---|---|---:|---:|---:|---:|", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_provider() as url,
        ThreadPoolExecutor(chosen.jobs) as pool,
    ):
        try:
            deadline = time.monotonic() + chosen.max_minutes * 60
            bench = Bench(valgrind, url, Path(folder), deadline)
            rows = [Counted(pool, bench, name, chosen.repeats) for name in chosen.only]
            for row in rows:
                line, holds = row.line()
                good = good and holds
                print(line, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    print(
        f"\n{chosen.repeats} repeats, {time.strftime('%Y-%m-%d')}, Python "
        f"{platform.python_version()}, {platform.machine()}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

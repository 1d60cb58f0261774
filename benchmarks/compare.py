"""callboard against the floor, in one run: prints a Markdown table of medians and ratios.

    python benchmarks/compare.py [--rounds 3] [--only NAME ...] [--folder FOLDER]

Floor and callboard take turns, each time in a new process of this same interpreter, so that other
load on the machine hits both alike. A ratio is the median of the rounds' ratios.
docs/performance.md says what the rows are and how to read them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROUNDS = 3
"""As many as fit into two minutes on two cores."""
RUN_SECONDS = 120.0
"""What one process may take; the longest takes a tenth of it."""
PROVIDER_SECONDS = 3600.0
IMPORT_TIMES = 5
USE = "import callboard; callboard.open_runtime"
"""What a program does; names are imported when they are used."""
REGISTERING_AFTER = (
    "import trio, httpx, msgspec, apsw, callboard.tools.tool, callboard.runtime.http.client, "
    "callboard.config.settings"
)
HEADER = "| row | figure | floor | callboard | ratio | target | also, callboard |"

SYNCED_FLOOR = "a floor that syncs each round"

Figures = dict[str, float]


class Workload(NamedTuple):
    """A workload of both drivers, and the figure whose ratio counts."""

    arguments: str
    figure: str
    unit: str
    target: str
    also: tuple[tuple[str, str], ...] = ()
    store: str = "memory"


MEMORY = ("kb_per_session", "{:.0f} KB a session")
WORKLOADS = {
    "cold": Workload("cold", "first_token_ms", "ms", "≤ 1.25, ≤ 40 MB", (("rss_mb", "{:.0f} MB"),)),
    "stream": Workload("stream --reps 1", "cpu_us", "µs a delta", "≤ 1.5"),
    "streamc": Workload("streamc --reps 1", "cpu_us", "µs a delta", "≤ 0.4"),
    "toolloop": Workload("toolloop --reps 2", "cpu_us_per_round", "µs a request", "≤ 1.3"),
    "toolloop-disk": Workload(
        "toolloop --reps 2", "cpu_us_per_round", "µs a request", "≤ 1.8", store="disk"
    ),
    "fanout": Workload(
        "fanout", "cpu_ms", "ms", "≤ 1.8, wall ≤ 70 ms", (("wall_ms", "wall {:.0f} ms"),)
    ),
    "sessions200": Workload(
        "sessions --sessions 200", "cpu_us", "µs a delta", "≤ 1.25, ≤ 100 KB", (MEMORY,)
    ),
    "sessions1000": Workload(
        "sessions --sessions 1000", "cpu_us", "µs a delta", "≤ 1.25, ≤ 100 KB", (MEMORY,)
    ),
    "held500": Workload(
        "sessions --sessions 500 --n 20 --pace 100", "cpu_us", "µs a delta", "≤ 1.05", (MEMORY,)
    ),
    "history": Workload(
        "history",
        "cpu_tlast_ms",
        "ms, last turn",
        "≤ 1.4, growth ≤ 2",
        (("growth", "grows {:.1f}×"),),
    ),
}


class Failed(Exception):
    """A process of the benchmark ended otherwise than with figures."""


def run(
    *command: str,
    environ: dict[str, str] | None = None,
    under: tuple[str, ...] = (),
    seconds: float = RUN_SECONDS,
) -> str:
    """What a new process of this interpreter prints; `under` is a program that runs it."""
    # Without a proxy: all is on this machine. Compiled modules are kept, as where it is installed.
    # A fixed hash seed takes one kind of noise away.
    kept = {name: value for name, value in os.environ.items() if "_proxy" not in name.lower()}
    kept |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            [*under, sys.executable, *command],
            env={**kept, **(environ or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"took longer than {seconds:.0f} s") from None
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ["no output"])[-1])
    return done.stdout.strip()


# ── floor against callboard ──────────────────────────────────────────────────────────────────────


@contextmanager
def running_provider() -> Generator[str, None, None]:
    """The base URL of a provider that lives as long as the block."""
    command = [sys.executable, str(HERE / "provider.py"), "--max-seconds", str(PROVIDER_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.terminate()


def drive(driver: str, workload: Workload, url: str, size: int, folder: str) -> Figures:
    """One run of one driver."""
    syncs = driver == SYNCED_FLOOR
    more = ["--n", str(size)] if size else []
    printed = run(
        str(HERE / f"{'floor' if syncs else driver}.py"),
        *workload.arguments.split(),
        *("--base-url", url, *more, "--t0", repr(time.monotonic())),
        environ={
            "PYTHONPATH": str(HERE / "harness"),
            "CALLBOARD_STORE": workload.store,
            "FLOOR_SYNCS": "1" if syncs else "",
            "TMPDIR": folder,
        },
    )
    return json.loads(printed.splitlines()[-1])


def compared(name: str, url: str, rounds: int, size: int, folder: str) -> str:
    """The row of a workload."""
    workload = WORKLOADS[name]
    drivers = ["floor", "driver", *([SYNCED_FLOOR] if workload.store == "disk" else [])]
    found: dict[str, list[Figures]] = {driver: [] for driver in drivers}
    for number in range(rounds):
        # Who begins changes, so that neither always finds the machine as the other left it.
        for driver in drivers if number % 2 == 0 else drivers[::-1]:
            found[driver].append(drive(driver, workload, url, size, folder))

    def figures(who: str) -> list[float]:
        return [each[workload.figure] for each in found[who]]

    def ratio(who: str) -> float:
        return median(
            mine / least for mine, least in zip(figures(who), figures("floor"), strict=True)
        )

    also = [
        form.format(median(each[key] for each in found["driver"])) for key, form in workload.also
    ]
    also += [f"{driver} {ratio(driver):.2f}×" for driver in drivers[2:]]
    floor, ours = median(figures("floor")), median(figures("driver"))
    told = ", ".join(also)
    return row(name, workload.unit, floor, ours, ratio("driver"), workload.target, told)


def row(
    name: str,
    unit: str,
    floor: float | None,
    ours: float,
    ratio: float | None,
    target: str,
    also: str = "",
) -> str:
    """A line of the table; what does not apply stays empty."""
    shown = "" if ratio is None else f"{ratio:.2f}×"
    cells = [name, unit, number_text(floor), number_text(ours), shown, target, also]
    return f"| {' | '.join(cells)} |"


def number_text(number: float | None) -> str:
    """Three figures that mean something."""
    if number is None:
        return ""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


# ── callboard alone ──────────────────────────────────────────────────────────────────────────────


def journal(folder: str) -> str:
    """Rows a second of 64 sessions: a commit for each row, and one for all that wait."""
    one, group = (
        float(line.split()[-2]) for line in run(str(HERE / "journal.py"), folder).splitlines()
    )
    return row("journal", "rows/s, one by one and grouped", one, group, group / one, "≥ 10")


def call(_: str) -> str:
    spent = json.loads(run(str(HERE / "calls.py")))["call_us"]
    return row("call", "µs", None, spent, None, "≤ 300")


def registering(_: str) -> str:
    # Their modules are part of it. What they are made with is not, nor are the settings, which are
    # read before. Their schemas are made when somebody wants to see them: `offering`.
    found = best_ms(
        REGISTERING_AFTER,
        "from callboard.tools.builtin import builtin_tools\n"
        "from callboard.tools.registry import ToolRegistry\n"
        "ToolRegistry(builtin_tools())",
    )
    return row("registering", "ms, all built-in tools", None, found, None, "≤ 20")


def offering(_: str) -> str:
    found = best_ms(
        f"{REGISTERING_AFTER}\nfrom callboard.tools.builtin import builtin_tools\n"
        "tools = [tool.load() for tool in builtin_tools()]",
        "for tool in tools: tool.definition",
    )
    return row("offering", "ms, all definitions from code", None, found, None, "")


def importing(_: str) -> str:
    # Where rich is installed httpx imports a command line with it, which nobody here uses.
    floor = best_ms("import sys; sys.modules['rich'] = None", "import trio, httpx, msgspec")
    ours = best_ms("", USE)
    alone = f"{best_ms('', 'import callboard'):.0f} ms before a name is used"
    return row("importing", "ms", floor, ours, ours / floor, "≤ 1.3", alone)


def best_ms(before: str, timed: str) -> float:
    """The least of a few new processes: the rest is other people's work."""
    program = (
        f"{before}\nimport time\nbegan = time.perf_counter()\n{timed}\n"
        "print((time.perf_counter() - began) * 1e3)"
    )
    return min(float(run("-c", program)) for _ in range(IMPORT_TIMES))


ALONE: dict[str, Callable[[str], str]] = {
    "journal": journal,
    "call": call,
    "registering": registering,
    "offering": offering,
    "importing": importing,
}


def main() -> int:
    """Prints the table as its rows come; 1 when one of them failed."""
    parser = argparse.ArgumentParser(description="Measures callboard against the floor.")
    names = [*WORKLOADS, *ALONE]
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--n", type=int, default=0, help="replaces the workloads' own sizes")
    parser.add_argument("--folder", help="on the disk that is asked about; the system's temporary")
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error("--rounds must be at least 1")
    failures = 0
    print(f"{HEADER}\n|---|---|---:|---:|---:|---|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder, running_provider() as url:
        for name in chosen.only:
            try:
                if name in ALONE:
                    line = ALONE[name](folder)
                else:
                    line = compared(name, url, chosen.rounds, chosen.n, folder)
            except Failed as failure:
                failures += 1
                line = f"| {name} | failed: {failure} | | | | | |"
            print(line, flush=True)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(
        f"\n{chosen.rounds} rounds, {time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores{load}"
    )
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())

"""How much more several nodes do than one: turns a second of 1, 2 and 3 nodes, each with a small share of a core.

    python benchmarks/store/nodes.py URL [--share 5] [--seconds 20]

URL names an empty database. Nodes are processes (tests/support/cluster/node_process.py) with sessions whose turns make one call
each. Once it is ready, each gets SHARE percent of a core, by a cgroup of its own, for which root is needed; so three of them are
bounded by their shares and not by the machine. Printed are turns a second, and the CPU time of a turn at its node and at the
database, which holds on however busy a machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

PROCESS = Path(__file__).parents[2] / "tests" / "support" / "cluster" / "node_process.py"
GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 50_000
SESSIONS, INPUTS = 8, 60
SETTLE_SECONDS = 3.0
TICKS = os.sysconf("SC_CLK_TCK")
ENDED = "select count(*) from turns where ended_at_ms is not null"
BACKENDS = "select pid from pg_stat_activity where datname = current_database()"


class Share:
    """A cgroup whose processes get a part of a core; version 2 where that is mounted, else version 1."""

    def __init__(self, name: str, percent: int) -> None:
        quota = PERIOD_US * percent // 100
        is_second = (GROUPS / "cgroup.controllers").exists()
        self._folder = (GROUPS if is_second else GROUPS / "cpu") / f"callboard-{os.getpid()}-{name}"
        self._folder.mkdir()
        if is_second:
            (self._folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (self._folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota))

    def take(self, pid: int) -> None:
        """Have a process bounded by the share, with all its threads."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """Remove it, once its processes have ended."""
        self._folder.rmdir()


def cpu_seconds(pids: list[int]) -> float:
    """Return what processes have used; one that has ended counts no more."""
    used = 0.0
    for pid in pids:
        try:
            fields = (
                Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            )
        except OSError:
            continue
        used += (int(fields[11]) + int(fields[12])) / TICKS
    return used


def measure(url: str, count: int, share: int, seconds: float) -> None:
    """Print a row of the table."""
    folder = tempfile.mkdtemp(prefix="nodes")
    with (
        ExitStack() as groups,
        ExitStack() as stack,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        pids: list[int] = []
        for number in range(count):
            node = f"n{count}{number}"
            words = [sys.executable, str(PROCESS), url, node, folder, str(SESSIONS), str(INPUTS)]
            log = stack.enter_context((Path(folder) / f"{node}.log").open("w"))
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
            stack.callback(_end, process)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"see {log.name}"
            pids.append(process.pid)
        for pid in pids:
            group = Share(str(pid), share)
            groups.callback(group.remove)
            group.take(pid)
        time.sleep(SETTLE_SECONDS)

        def now() -> tuple[float, int, float, float]:
            found = connection.execute(ENDED).fetchone()
            assert found is not None
            backends = [pid for (pid,) in connection.execute(BACKENDS).fetchall()]
            return time.monotonic(), found[0], cpu_seconds(pids), cpu_seconds(backends)

        before = now()
        time.sleep(seconds)
        took, turns, at_nodes, at_database = (b - a for a, b in zip(before, now(), strict=True))
        alive = sum(Path(f"/proc/{pid}").exists() for pid in pids)
        print(
            f"| {count} | {turns / took:.1f} | {turns / took / count:.1f} | {at_nodes / took / count:.2f} |"
            f" {at_nodes / turns * 1000:.1f} | {at_database / turns * 1000:.1f} |"
            f" {'' if alive == count else f'{count - alive} ended'}",
            flush=True,
        )


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def main() -> None:
    """Measure 1, 2 and 3 nodes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--share", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    print("| nodes | turns/s | of each | cores of each | ms of a turn | at the database |")
    print("|---|---|---|---|---|---|")
    for count in (1, 2, 3):
        measure(given.url, count, given.share, given.seconds)


if __name__ == "__main__":
    main()

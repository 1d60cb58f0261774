"""How long the sessions of a killed node take to go on elsewhere: kills nodes one after the other, and prints the times.

    python benchmarks/store/takeover.py URL [--kills 30] [--way kill|sleep]

URL names an empty database. Three nodes are processes (tests/support/cluster/node_process.py), each with sessions whose
turns make one call each. A takeover is the time from the kill to the first turn of the session on another node, by the
times on record. `sleep` stops a node (SIGSTOP) in place of killing it, and wakes it when others have its sessions.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

PROCESS = Path(__file__).parents[2] / "tests" / "support" / "cluster" / "node_process.py"
SESSIONS, INPUTS = 4, 120
PATIENCE_SECONDS = 20.0
POLL_SECONDS = 0.01
MAX_STARTS = 5

LEFT = (
    "select o.session_id, array_agg(i.input_id) from owners o join sessions s using (session_id)"
    " join inputs i on i.session = s.id and i.turn_id is null where o.node_id = %s and o.term = %s group by 1"
)
"""Sessions of a life with prompts that no turn has begun: another node owes each of them one. A prompt whose turn the kill
cut off gets none, since the turn ends as interrupted."""
TERM = "select term from nodes where node_id = %s"
IS_FENCED = "select 1 from nodes where node_id = %s and (term > %s or state = 'fenced')"
FIRST = (
    "select s.session_id, min(t.started_at_ms) from turns t join sessions s on s.id = t.session"
    " join owners o using (session_id) where s.session_id = any(%s) and (o.node_id <> %s or o.term <> %s)"
    " and t.started_at_ms > %s group by 1"
)
WHY = (
    "select s.session_id, o.node_id, o.term, n.state, n.term, s.head_seq,"
    " (select count(*) from inputs i where i.session = s.id and i.turn_id is null),"
    " (select count(*) from turns t where t.session = s.id and t.ended_at_ms is null),"
    " (select max(t.started_at_ms) from turns t where t.session = s.id)"
    " from sessions s join owners o using (session_id) join nodes n on n.node_id = o.node_id"
    " where s.session_id = any(%s)"
)


def start(url: str, node: str, folder: str, sessions: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(PROCESS), url, node, folder, str(sessions), str(INPUTS)]
    for _ in range(MAX_STARTS):
        with (Path(folder) / f"{node}.log").open("a") as log:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout is not None
        if (said := process.stdout.readline()) == "ready\n":
            return process
        process.wait()
        # A machine that stands still for longer than a lease has a node fenced before it is ready; it begins anew.
        print(f"{node} said {said.strip() or 'nothing'} at its start", flush=True)
    raise AssertionError(f"{node} did not start: {log.name}")


def owed(
    connection: psycopg.Connection[tuple[Any, ...]], left: list[str], killed_ms: float
) -> list[tuple[Any, ...]]:
    """Return what is known of sessions without a next turn, but for those that owe none.

    The commit that begins a session's last prompt may have been on its way when its node was killed.
    """
    rows = connection.execute(WHY, (left,)).fetchall()
    return [row for row in rows if row[6] or row[8] > killed_ms]


def spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]
    return f"p50 {ordered[len(ordered) // 2]:.2f} s, p99 {p99:.2f} s, longest {ordered[-1]:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--way", choices=["kill", "sleep"], default="kill")
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="takeover")
    nodes = {node: start(given.url, node, folder, SESSIONS) for node in "abc"}
    took: list[float] = []
    fences: list[float] = []
    behind: list[float] = []
    left_over = fenced = 0
    connection = psycopg.connect(given.url, autocommit=True)
    for number in range(given.kills):
        victim = "abc"[number % 3]
        time.sleep(1.0)
        ((term,),) = connection.execute(TERM, (victim,)).fetchall()
        os.kill(nodes[victim].pid, signal.SIGKILL if given.way == "kill" else signal.SIGSTOP)
        killed_ms = time.time() * 1000
        left = dict(connection.execute(LEFT, (victim, term)).fetchall())
        while not connection.execute(IS_FENCED, (victim, term)).fetchone():
            time.sleep(POLL_SECONDS)
        fenced_ms = time.time() * 1000
        fences.append((fenced_ms - killed_ms) / 1000)
        while left and time.time() * 1000 < killed_ms + PATIENCE_SECONDS * 1000:
            values = (list(left), victim, term, int(killed_ms) + 20)
            for name, at_ms in connection.execute(FIRST, values).fetchall():
                del left[name]
                took.append((at_ms - killed_ms) / 1000)
                behind.append((at_ms - fenced_ms) / 1000)
            time.sleep(0.1)
        missed = owed(connection, list(left), killed_ms)
        for row in missed:
            print(f"kill {number + 1} of {victim} {term} at {killed_ms:.0f}: {row}", flush=True)
        left_over += len(missed)
        if (number + 1) % 20 == 0:
            print(
                f"{number + 1} kills, {len(took)} takeovers, load {os.getloadavg()[0]:.0f}",
                flush=True,
            )
        if given.way == "sleep":
            os.kill(nodes[victim].pid, signal.SIGCONT)
            out = nodes[victim].stdout
            assert out is not None
            fenced += out.readline() == "fenced\n"
        nodes[victim].wait()
        nodes[victim] = start(given.url, victim, folder, 1)
    for process in nodes.values():
        process.kill()
        process.wait()
    keys = [line.split()[0] for line in (Path(folder) / "effects").read_text().splitlines()]
    gaps = connection.execute(
        "select count(*) from (select 1 from events group by session"
        " having count(*) <> max(seq) or min(seq) <> 1) found"
    ).fetchone()
    print(
        f"kills {given.kills}, takeovers {len(took)}, not within {PATIENCE_SECONDS:g} s: {left_over}"
    )
    for what, seconds in (
        ("kill to fence", fences),
        ("fence to turn", behind),
        ("kill to turn", took),
    ):
        if seconds:
            print(f"{what}: {spread(seconds)}")
    print(
        f"effects {len(keys)}, doubled {len(keys) - len(set(keys))}, records with gaps {gaps and gaps[0]}"
    )
    if given.way == "sleep":
        print(f"sleepers that found themselves fenced: {fenced} of {given.kills}")


if __name__ == "__main__":
    main()

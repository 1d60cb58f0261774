"""What the statements of a cluster cost on a PostgreSQL: the milliseconds of a core that one of each takes.

    python benchmarks/store/cluster.py URL [--nodes 1000] [--sessions 1000000]

URL names an empty database on this machine: the CPU time of its process is read from /proc, which is the same on
a busy machine. What it prints is what `COST_MS` of tests/simulation/cluster.py holds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from callboard.runtime.cluster.nodes import Joining, Term
from callboard.runtime.cluster.placement import SLOTS
from callboard.runtime.cluster.postgres import PostgresDatabase
from callboard.runtime.cluster.registry import Registry
from callboard.runtime.store.postgres.address import address_of
from callboard.runtime.store.postgres.connection import PostgresConnection

TICKS = os.sysconf("SC_CLK_TCK")


class Measured:
    """A database and the CPU time of the process behind it."""

    def __init__(self, url: str) -> None:
        address = address_of(url)
        writer = PostgresConnection(address, writes=True)
        writer.migrate()
        writer.close()
        self.database = PostgresDatabase(address)
        self.registry = Registry(self.database)
        ((self._pid,),) = self.database.rows("select pg_backend_pid()")

    def seconds(self) -> float:
        """The CPU time so far."""
        stat = Path(f"/proc/{self._pid}/stat").read_text(encoding="ascii")
        user, system = stat.rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / TICKS

    def cost(self, name: str, work: Callable[[int], object], times: int) -> None:
        """Print what one of `times` costs: of a core, and on the clock."""
        before, began = self.seconds(), time.perf_counter()
        for number in range(times):
            work(number)
        spent, took = self.seconds() - before, time.perf_counter() - began
        print(f"{name:18} {spent * 1000 / times:8.3f} ms of a core {took * 1000 / times:8.3f} ms")


def fill(measured: Measured, nodes: int, sessions: int) -> list[Term]:
    """Make nodes that are alive for a day, and sessions of which one in ten is busy."""
    rows, registry = measured.database.rows, measured.registry
    rows("set statement_timeout = 0")
    lives = [
        registry.join(
            Joining(node_id=f"node-{number}", url=f"http://node-{number}:8790", version="1.0.0"),
            f"key of node {number}",
        )
        for number in range(nodes)
    ]
    rows(
        "insert into sessions (session_id, title, agent, kind, workspace, message_count, last_message_preview,"
        " is_active, head_seq, last_event, created_at_ms, updated_at_ms)"
        " select 'session_' || n, '', '', '', '', 0, '', 0, 1, 0, 0, 0 from generate_series(1, ?::int) n",
        (sessions,),
    )
    rows(
        "insert into inputs (session, input_id, source) select id, 'input', 'person' from sessions where mod(id, 10) = 0"
    )
    rows(
        "insert into owners select 'session_' || n, 'session_' || n, 'node-' || mod(n, ?::int), 1,"
        " mod(n::bigint * 7919, ?::int), '' from generate_series(1, ?::int) n",
        (nodes, SLOTS, sessions),
    )
    for table in ("sessions", "inputs", "owners"):
        rows(f"vacuum analyze {table}")
    rows("update nodes set lease_until_ms = lease_until_ms + 86400000")
    return lives


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=1_000_000)
    given = parser.parse_args()
    measured = Measured(given.url)
    lives = fill(measured, given.nodes, given.sessions)
    registry, rows = measured.registry, measured.database.rows
    measured.cost("renew", lambda at: registry.renew(lives[at % len(lives)]), 5000)
    rows("update nodes set lease_until_ms = lease_until_ms + 86400000")
    measured.cost(
        "check of a commit", lambda at: _check(measured, lives[at % len(lives)], at), 2000
    )
    dead = lives[:10]
    names = [life.node_id for life in dead]
    rows(f"update nodes set lease_until_ms = 0 where {registry._sql.listed('node_id')}", (names,))
    measured.cost("fence", lambda at: registry.fence(dead[at]), len(dead))
    ((newest,),) = rows("select max(changed) from nodes")
    measured.cost("nodes", lambda at: registry.nodes(after=newest - len(dead)), 1000)
    slots = [list(range(at, SLOTS, given.nodes)) for at in range(given.nodes)]
    claimed = 0

    def claim(at: int) -> None:
        nonlocal claimed
        claimed += len(registry.claim(lives[-1], names, slots[at], [""]))

    measured.cost("claim", claim, min(given.nodes - 10, 900))
    print(f"claimed {claimed}")


def _check(measured: Measured, life: Term, number: int) -> None:
    with measured.database.transaction():
        assert measured.registry.holds(life)
        measured.registry.owned(life, [f"session_{number + each}" for each in range(4)])


if __name__ == "__main__":
    main()

"""A thousand nodes and a million sessions: some nodes die at once, and the others take over what they had.

    python -m tests.simulation.cluster [--nodes 1000] [--sessions 1000000] [--busy 0.1] [--dead 0.01]
        [--cores 4]

Each node decides by `Membership` and `Claims`, and the database runs the statements of `Registry`, as in a
cluster: these are the real ones. Played are the clock, the network and how long the database takes: a
statement waits for one of `--cores` and takes what it took on a PostgreSQL (`COST_MS`). So what many nodes do
to it together is in the figures.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from callboard.runtime.cluster.lease import RENEW_SECONDS
from callboard.runtime.cluster.membership import Claims, Membership
from callboard.runtime.cluster.nodes import Joining, Term
from callboard.runtime.cluster.placement import Placement, slot_of
from callboard.runtime.cluster.registry import Registry
from support.cluster.played_database import PlayedDatabase

COST_MS = {
    "renew": 0.6,
    "fence": 1.0,
    "nodes": 0.15,
    "claim": 1.0,
    "claimed session": 0.1,
    "recovery": 3.0,
}
"""What one of each keeps a core of PostgreSQL busy; `benchmarks/store/cluster.py` measures them.
A recovery reads a session and closes its open turn; its figure is assumed."""
ROUND_TRIP_MS = 0.5
RECOVERY_MS = 20.0
"""What a node needs for one session that it has taken over, beside the database."""
RECOVERING = 8
"""Sessions that a node recovers at once."""
BATCH = 10_000


class Plan(NamedTuple):
    nodes: int = 1000
    sessions: int = 1_000_000
    busy: float = 0.1
    dead: float = 0.01
    cores: int = 4
    renew_ms: float = COST_MS["renew"]
    seed: int = 1
    calm_seconds: float = 3.0
    seconds: float = 12.0


class Counted:
    """A registry that adds up what its statements cost, by kind."""

    def __init__(self, registry: Registry, spent: Counter[str]) -> None:
        self._registry = registry
        self._spent = spent

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._registry, name)
        if name not in COST_MS:
            return method

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._spent[name] += 1
            answer = method(*args, **kwargs)
            if name == "fence" and answer:
                self._spent["told"] += 1
            if name == "claim":
                self._spent["claimed session"] += len(answer)
            return answer

        return counted


class SimulatedNode:
    """One node: alive until it is killed; then it may still try to write."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.now = 0.0
        registry: Any = Counted(world.registry, world.spent)
        joining = Joining(node_id=name, url=f"http://{name}", version="1")
        self.membership = Membership(registry, joining, lambda: self.now)
        self.claims = Claims(registry, name)
        self.is_alive = True
        self.is_claiming = False
        self.looks = 0
        self.left: deque[str] = deque()
        self.recovering = 0


class World:
    """Nodes, their database and the clock, in milliseconds."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.database = PlayedDatabase()
        self.registry = Registry(self.database)
        self.spent: Counter[str] = Counter()
        self.now = float(self.database.now_ms)
        self.begun = self.now
        self.free_cores = plan.cores
        self._queue: deque[tuple[float, Callable[[], float], Callable[[], None]]] = deque()
        self.work: Counter[int] = Counter()
        self.longest_wait = 0.0
        self.lost = 0
        self.known = 0
        self.claimed_at: dict[str, float] = {}
        self.runs_at: dict[str, float] = {}
        self.fenced_at: dict[str, float] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.nodes = [SimulatedNode(self, f"node-{number}") for number in range(plan.nodes)]
        self.lives: dict[str, Term] = {}

    # ── time ─────────────────────────────────────────────────────────────────────────────────────

    def later(self, after_ms: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.now + after_ms, next(self._order), what))

    def play(self, until: float) -> None:
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, what = heapq.heappop(self._agenda)
            what()
        self.now = until

    def ask(self, work: Callable[[], float], answered: Callable[[], None]) -> None:
        """Have the database do work, which returns what it took, as soon as one of its cores is free."""

        def come() -> None:
            self._queue.append((self.now, work, answered))
            self._serve()

        self.later(ROUND_TRIP_MS / 2, come)

    def _serve(self) -> None:
        while self._queue and self.free_cores:
            came, work, answered = self._queue.popleft()
            self.longest_wait = max(self.longest_wait, self.now - came)
            self.free_cores -= 1
            self.database.now_ms = int(self.now)
            took = work()
            self.work[int((self.now - self.begun) // 100)] += round(took * 1000)
            self.later(took, partial(self._served, answered))

    def _served(self, answered: Callable[[], None]) -> None:
        self.free_cores += 1
        self.later(ROUND_TRIP_MS / 2, answered)
        self._serve()

    def cost_of(self, work: Callable[[], object]) -> float:
        before = self.spent.copy()
        work()
        spent = self.spent - before
        if spent.pop("told", 0):
            self.later(ROUND_TRIP_MS, self._tell)
        costs = {**COST_MS, "renew": self.plan.renew_ms}
        return sum(costs[kind] * count for kind, count in spent.items())

    def _tell(self) -> None:
        """Have all nodes look, as `NOTIFY` does: each once at a time."""
        for node in self.nodes:
            if node.looks == 0:
                self._look(node)
            node.looks = min(node.looks + 1, 2)

    def _look(self, node: SimulatedNode) -> None:
        def looked() -> None:
            node.looks -= 1
            if node.looks:
                self._look(node)
            self._has_looked(node)

        if node.is_alive:
            self.ask(lambda: self.cost_of(node.membership.look), looked)

    # ── what a node does ─────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Join all nodes, and give each its sessions; then they renew, each at a moment of its own."""
        dealt = Placement()
        for node in self.nodes:
            node.now = self.now / 1000
            self.lives[node.name] = node.membership.join()
        dealt.set_nodes(dict.fromkeys(self.lives, 1))
        changed = self.registry.nodes()
        for node in self.nodes:
            # As after their first beat, and after everything was claimed: nobody has anything to take.
            node.membership.members = node.membership.members.after(changed)
            node.claims._done = node.membership.members.generation
            # What all nodes compute alike is computed once.
            node.claims._placements = {("",): _copied(dealt)}
            self.later(self.random.uniform(0, RENEW_SECONDS * 1000), partial(self.beat, node))
        names = [f"session_{number:07}" for number in range(self.plan.sessions)]
        owners = list(self.lives.values())
        for first in range(0, len(names), BATCH):
            some = names[first : first + BATCH]
            busy = [name for name in some if self.random.random() < self.plan.busy]
            self.database.add_sessions([(name, None) for name in some], busy)
            with self.database.connection:
                self.database.connection.executemany(
                    "insert into owners values (?, ?, ?, ?, ?, '')",
                    (
                        (name, name, *owners[(first + at) % len(owners)], slot_of(name))
                        for at, name in enumerate(some)
                    ),
                )

    def beat(self, node: SimulatedNode) -> None:
        if not node.is_alive or node.membership.life is None:
            return
        asked_at = self.now
        node.now = self.now / 1000
        self.ask(
            lambda: self.cost_of(node.membership.beat), lambda: self._has_beaten(node, asked_at)
        )

    def _has_beaten(self, node: SimulatedNode, asked_at: float) -> None:
        if not node.is_alive:
            return
        if node.membership.life is None or node.membership.lease.stand(self.now / 1000) != "held":
            self.lost += 1  # alive, and yet it could not go on: the database was too slow
        pause = asked_at + node.membership.pause * 1000 - self.now
        self.later(max(pause, 0), lambda: self.beat(node))
        self._has_looked(node)

    def _has_looked(self, node: SimulatedNode) -> None:
        if node.membership.members.generation > self.known:
            self.known = node.membership.members.generation
            for name, other in node.membership.members.nodes.items():
                if other.state == "fenced":
                    self.fenced_at.setdefault(name, self.now)
        if not node.is_claiming:
            self.claim(node)

    def claim(self, node: SimulatedNode) -> None:
        life, members = node.membership.life, node.membership.members
        node.is_claiming = node.is_alive and life is not None and node.claims.are_due(members)
        if not node.is_claiming or life is None:
            return
        found: list[str] = []
        self.ask(
            lambda: self.cost_of(lambda: found.extend(node.claims.next(life, members))),
            lambda: self._has_claimed(node, found),
        )

    def _has_claimed(self, node: SimulatedNode, found: list[str]) -> None:
        for name in found:
            assert name not in self.claimed_at, f"{name} was claimed twice"
            self.claimed_at[name] = self.now
        node.left.extend(found)
        self._recover(node)
        self.claim(node)

    def _recover(self, node: SimulatedNode) -> None:
        while node.left and node.recovering < RECOVERING:
            node.recovering += 1
            name = node.left.popleft()
            self.ask(
                lambda: COST_MS["recovery"],
                partial(self.later, RECOVERY_MS, partial(self._runs, node, name)),
            )

    def _runs(self, node: SimulatedNode, name: str) -> None:
        node.recovering -= 1
        self.runs_at[name] = self.now
        self._recover(node)

    # ── what becomes of it ───────────────────────────────────────────────────────────────────────

    def run(self) -> Outcome:
        """Play the plan; return what came of it."""
        plan = self.plan
        self.start()
        self.play(self.now + plan.calm_seconds * 1000)
        calm = self.spent.copy()
        calm_cores = sum(self.work.values()) / 1e6 / plan.calm_seconds
        dead = self.random.sample(self.nodes, max(round(plan.dead * plan.nodes), 1))
        for node in dead:
            node.is_alive = False
        died_at, lost_before = self.now, self.lost
        self.play(self.now + plan.seconds * 1000)
        spent = self.spent - calm
        self._check({node.name for node in dead})
        zombies = [node.membership.life for node in dead]
        all_cores = sum(self.work.values()) / 1e6
        return Outcome(
            plan=plan,
            renewals=calm["renew"] / plan.calm_seconds,
            calm_cores=calm_cores,
            dead=len(dead),
            fenced=sorted((self.fenced_at[node.name] - died_at) / 1000 for node in dead),
            looks=spent["nodes"],
            claims=spent["claim"],
            took=sorted((at - died_at) / 1000 for at in self.runs_at.values()),
            storm_seconds=all_cores - calm_cores * (plan.calm_seconds + plan.seconds),
            busiest=max(self.work.values()) / 1e5,
            longest_wait=self.longest_wait,
            lost=self.lost - lost_before,
            refused=sum(not self.registry.holds(life) for life in zombies if life is not None),
        )

    def _check(self, dead: set[str]) -> None:
        """Nothing busy was left to the dead; what was claimed runs, once, on nodes that live and may write."""
        self.database.now_ms = int(self.now)
        left = self.database.rows(
            "select count(*) from inputs i join sessions s on s.id = i.session join owners o"
            " on o.session_id = s.session_id where o.node_id in (select value from json_each(?))",
            (self.database.list_value(dead),),
        )
        assert left == [(0,)], f"{left} busy sessions were left to the dead"
        assert set(self.runs_at) == set(self.claimed_at)
        for name in self.claimed_at:
            owner = self.registry.owner(name)
            assert owner is not None
            assert self.registry.holds(owner.life), f"{name} was left to {owner.life}"


class Outcome(NamedTuple):
    """What came of a plan; times are seconds after the death."""

    plan: Plan
    renewals: float
    calm_cores: float
    dead: int
    fenced: list[float]
    looks: int
    claims: int
    took: list[float]
    storm_seconds: float
    busiest: float
    longest_wait: float
    lost: int
    refused: int

    @property
    def row(self) -> dict[str, str]:
        """The column of the table."""
        return {
            "nodes": f"{self.plan.nodes:,}",
            "sessions": f"{self.plan.sessions:,}",
            "of these busy": f"{self.plan.busy:.0%}",
            "cores of the database": str(self.plan.cores),
            "renewals a second": f"{self.renewals:,.0f}",
            "cores in use, calm": f"{self.calm_cores:.2f}",
            "nodes that die at once": str(self.dead),
            "fenced after": f"{self.fenced[0]:.2f} to {self.fenced[-1]:.2f} s",
            "looks, claims": f"{self.looks:,}, {self.claims:,}",
            "sessions taken over": f"{len(self.took):,}",
            "run again, p50": f"{_share(self.took, 0.5):.2f} s",
            "p99": f"{_share(self.took, 0.99):.2f} s",
            "all": f"{_share(self.took, 1.0):.2f} s",
            "work of the takeover": f"{self.storm_seconds:.1f} s of a core",
            "busiest tenth of a second": f"{self.busiest:.1f} cores",
            "longest wait for the database": f"{self.longest_wait:.0f} ms",
            "leases lost by the living": str(self.lost),
            "dead nodes refused": f"{self.refused} of {self.dead}",
        }


def _share(values: list[float], share: float) -> float:
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


def _copied(placement: Placement) -> Placement:
    copied = Placement()
    copied._nodes, copied._keys = dict(placement._nodes), placement._keys
    copied._winners = list(placement._winners)
    return copied


def plans(args: argparse.Namespace) -> Iterator[Plan]:
    """The plan that was asked for, or those of the table in docs/scale.md."""
    if args.nodes is None:
        for nodes, sessions, busy, cores in (
            (10, 10_000, 0.1, 4),
            (100, 100_000, 0.1, 4),
            (1000, 1_000_000, 0.1, 4),
            (1000, 1_000_000, 0.1, 2),
            (1000, 1_000_000, 1.0, 4),
        ):
            yield Plan(nodes, sessions, busy, args.dead, cores)
    else:
        yield Plan(args.nodes, args.sessions, args.busy, args.dead, args.cores)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--busy", type=float, default=0.1)
    parser.add_argument("--dead", type=float, default=0.01)
    parser.add_argument("--cores", type=int, default=4)
    rows = [World(plan).run().row for plan in plans(parser.parse_args())]
    for name in rows[0]:
        sys.stdout.write(f"| {' | '.join([name, *(row[name] for row in rows)])} |\n")
        if name == "nodes":
            sys.stdout.write("|---" * (len(rows) + 1) + "|\n")


if __name__ == "__main__":
    main()

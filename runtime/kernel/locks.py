"""Locks on paths, for the calls that run in parallel in one workspace, and slots for how many may.

A call takes all its paths at once or waits for all of them: it never holds one while it waits for
another, so calls can't deadlock. It waits for every earlier claim that overlaps with its own, held or
waiting, so readers that keep arriving can't starve a writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakValueDictionary

import trio

from ..definitions import Resource


class Claim:
    """The paths that one call holds or waits for.

    While it waits for `waits_for` other claims, it has an `event`; `behind` are the claims that wait
    for it.
    """

    __slots__ = ("behind", "event", "resources", "waits_for")

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self.resources = resources
        self.event: trio.Event | None = None
        self.waits_for = 0
        self.behind: list[Claim] = []


class ResourceLocks:
    """The claims on one workspace, in order of arrival."""

    def __init__(self) -> None:
        # In order of arrival; removing from a list would search it.
        self._claims: dict[Claim, None] = {}

    def claim_nowait(self, resources: tuple[Resource, ...]) -> Claim | None:
        """Take the paths and return the claim, or return `None` if an earlier claim overlaps."""
        claim = Claim(resources)
        if next(self._blockers(claim), None) is not None:
            return None
        self._claims[claim] = None
        return claim

    def enqueue(self, resources: tuple[Resource, ...]) -> Claim:
        """Add a claim to the queue. The caller awaits `wait`, and calls `release` in any case."""
        claim = Claim(resources)
        for before in self._blockers(claim):
            before.behind.append(claim)
            claim.waits_for += 1
        if claim.waits_for:
            claim.event = trio.Event()
        self._claims[claim] = None
        return claim

    async def wait(self, claim: Claim) -> None:
        """Wait until a claim holds its paths."""
        if claim.event is not None:
            await claim.event.wait()

    def release(self, claim: Claim) -> None:
        """Remove a claim and wake the claims that waited for it alone."""
        del self._claims[claim]
        for waiting in claim.behind:
            waiting.waits_for -= 1
            if not waiting.waits_for and waiting.event is not None:
                event, waiting.event = waiting.event, None
                event.set()

    def _blockers(self, claim: Claim) -> Iterator[Claim]:
        """Yield the earlier claims that overlap with this one."""
        for before in self._claims:
            if _meet(before.resources, claim.resources):
                yield before


def _meet(some: tuple[Resource, ...], others: tuple[Resource, ...]) -> bool:
    for one in some:
        for other in others:  # loops take a third of the time of `any` with a generator
            if _overlap(one, other):
                return True
    return False


def _overlap(one: Resource, other: Resource) -> bool:
    if not (one.write or other.write):
        return False
    a, b = one.path, other.path
    return a == b or not a or not b or a.startswith(b + "/") or b.startswith(a + "/")


class Slots:
    """So many may hold a slot at a time; the next free one is of whoever waits longest.

    A `trio.CapacityLimiter` does the same, and costs four times as much: it knows who holds what.

    Attributes:
        held: Slots that are held.
    """

    __slots__ = ("_line", "_total", "held")

    def __init__(self, total: int) -> None:
        self.held = 0
        self._total = total
        self._line = trio.lowlevel.ParkingLot()

    def take_nowait(self) -> bool:
        """Take a slot if one is free; return whether it was."""
        is_free = self.held < self._total
        self.held += is_free
        return is_free

    async def take(self) -> None:
        """Wait for a slot; a cancelled wait holds none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.take_nowait():
            return
        await self._line.park()  # whoever gives one back counts it as held

    def give_back(self) -> None:
        """Give a slot to whoever waits longest."""
        was_full = self.held >= self._total  # nobody waits while one is free
        self.held -= 1
        if was_full:
            self._hand_out()

    def resize(self, total: int) -> None:
        """Change how many there are; none is taken from who holds it."""
        self._total = total
        self._hand_out()

    def _hand_out(self) -> None:
        while self._line and self.held < self._total:
            self.held += 1
            self._line.unpark()


class WorkspaceLocks:
    """The locks by workspace, each kept while somebody uses it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, ResourceLocks] = WeakValueDictionary()

    def __len__(self) -> int:
        """Return how many workspaces have locks in use."""
        return len(self._locks)

    def of(self, workspace: str) -> ResourceLocks:
        """Return the locks that all sessions in a workspace share."""
        return self._locks.setdefault(workspace, ResourceLocks())

"""Keys on which parallel calls must not overlap: paths in the tree of a workspace.

A call takes all its keys at once or waits for all of them, in the order of arrival, so calls can't
deadlock and a writer isn't starved by readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakValueDictionary

import trio

from ..definitions import Resource


class Claim:
    """Keys that one call holds or waits for.

    `event` is there while it waits, for `waits_for` others; `behind` are those that wait for it.
    """

    __slots__ = ("behind", "event", "resources", "waits_for")

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self.resources = resources
        self.event: trio.Event | None = None
        self.waits_for = 0
        self.behind: list[Claim] = []


class ResourceLocks:
    """The keys of one workspace that are held or waited for, in order of arrival."""

    def __init__(self) -> None:
        # In order of arrival; a list would have to be searched for each that ends.
        self._claims: dict[Claim, None] = {}

    def claim_nowait(self, resources: tuple[Resource, ...]) -> Claim | None:
        """Takes the keys when nobody before holds or waits for an overlapping one, else `None`."""
        claim = Claim(resources)
        if next(self._blockers(claim), None) is not None:
            return None
        self._claims[claim] = None
        return claim

    def enqueue(self, resources: tuple[Resource, ...]) -> Claim:
        """Takes the next place; `wait` says when the keys are held. The caller releases it."""
        claim = Claim(resources)
        for before in self._blockers(claim):
            before.behind.append(claim)
            claim.waits_for += 1
        if claim.waits_for:
            claim.event = trio.Event()
        self._claims[claim] = None
        return claim

    async def wait(self, claim: Claim) -> None:
        """Waits until a claim holds its keys; returns at once when it does."""
        if claim.event is not None:
            await claim.event.wait()

    def release(self, claim: Claim) -> None:
        """Gives the keys back and wakes who may go on."""
        del self._claims[claim]
        for waiting in claim.behind:
            waiting.waits_for -= 1
            if not waiting.waits_for and waiting.event is not None:
                event, waiting.event = waiting.event, None
                event.set()

    def _blockers(self, claim: Claim) -> Iterator[Claim]:
        """Those that came before and want what this one wants."""
        for before in self._claims:
            if _meet(before.resources, claim.resources):
                yield before


def _meet(some: tuple[Resource, ...], others: tuple[Resource, ...]) -> bool:
    for one in some:
        for other in others:  # as loops: a third of what `any` of a generator costs
            if _overlap(one, other):
                return True
    return False


def _overlap(one: Resource, other: Resource) -> bool:
    if not (one.write or other.write):
        return False
    a, b = one.path, other.path
    return a == b or not a or not b or a.startswith(b + "/") or b.startswith(a + "/")


class WorkspaceLocks:
    """The keys by workspace, as long as anybody has them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, ResourceLocks] = WeakValueDictionary()

    def __len__(self) -> int:
        """Of how many workspaces somebody has keys."""
        return len(self._locks)

    def of(self, workspace: str) -> ResourceLocks:
        """The keys of a workspace, which all who work there share."""
        return self._locks.setdefault(workspace, ResourceLocks())

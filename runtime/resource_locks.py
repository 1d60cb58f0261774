"""Keys on which parallel calls must not overlap: paths in the tree of a workspace.

A call takes all its keys at once or waits for all of them, in the order of arrival, so calls can't
deadlock and a writer isn't starved by readers.
"""

from __future__ import annotations

import trio

from .definitions import Resource


class Claim:
    """Keys that one call holds or waits for."""

    __slots__ = ("event", "resources")

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self.resources = resources
        self.event: trio.Event | None = None


class ResourceLocks:
    """The keys of one workspace that are held or waited for, in order of arrival."""

    def __init__(self) -> None:
        self._claims: list[Claim] = []

    def claim_nowait(self, resources: tuple[Resource, ...]) -> Claim | None:
        """Takes the keys when nobody before holds or waits for an overlapping one, else `None`."""
        claim = Claim(resources)
        if self._blocked(claim, self._claims):
            return None
        self._claims.append(claim)
        return claim

    def enqueue(self, resources: tuple[Resource, ...]) -> Claim:
        """Takes the next place; `wait` says when the keys are held. The caller releases it."""
        claim = Claim(resources)
        if self._blocked(claim, self._claims):
            claim.event = trio.Event()
        self._claims.append(claim)
        return claim

    async def wait(self, claim: Claim) -> None:
        """Waits until a claim holds its keys; returns at once when it does."""
        if claim.event is not None:
            await claim.event.wait()

    def release(self, claim: Claim) -> None:
        """Gives the keys back and wakes who may go on."""
        self._claims.remove(claim)
        for place, waiting in enumerate(self._claims):
            if waiting.event is not None and not self._blocked(waiting, self._claims[:place]):
                event, waiting.event = waiting.event, None
                event.set()

    @staticmethod
    def _blocked(claim: Claim, before: list[Claim]) -> bool:
        return any(
            _overlap(mine, theirs)
            for other in before
            for theirs in other.resources
            for mine in claim.resources
        )


def _overlap(one: Resource, other: Resource) -> bool:
    if not (one.write or other.write):
        return False
    a, b = one.path, other.path
    return a == b or not a or not b or a.startswith(b + "/") or b.startswith(a + "/")

"""When a call may execute: its resource keys first, then a slot of its session and the runtime.

A slot is held only while a tool executes: who waits for a person or for a key holds none, nor does
a call that does nothing but wait (ask_user, delegate), so that children can't starve behind their
parents.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import trio

from ...runtime.definitions import Resource
from ...runtime.kernel.locks import Claim, ResourceLocks


class Permit:
    """Keys and slots of one executing call, given back when the block is left; idempotent."""

    __slots__ = ("_locks", "claim", "limiters", "wants_slots")

    def __init__(self, locks: ResourceLocks, claim: Claim | None, *, wants_slots: bool) -> None:
        self._locks = locks
        self.claim = claim
        self.wants_slots = wants_slots
        self.limiters: list[trio.CapacityLimiter] = []

    def release(self) -> None:
        """Gives everything back."""
        while self.limiters:
            self.limiters.pop().release_on_behalf_of(self)
        claim, self.claim = self.claim, None
        if claim is not None:
            self._locks.release(claim)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Admission:
    """The limits of one batch.

    Args:
        locks: The resource keys of its workspace.
        limiters: The slots to hold, the session's before the runtime's.
    """

    def __init__(self, locks: ResourceLocks, limiters: tuple[trio.CapacityLimiter, ...]) -> None:
        self._locks = locks
        self._limiters = limiters

    def admit_nowait(
        self, resources: tuple[Resource, ...], *, waits: bool = False
    ) -> Permit | None:
        """A permit when all keys and slots are free at once, else `None` and nothing is held.

        A call that `waits` takes no slot.
        """
        limiters = () if waits else self._limiters
        if any(limiter.available_tokens < 1 for limiter in limiters):
            return None
        claim = None
        if resources and (claim := self._locks.claim_nowait(resources)) is None:
            return None
        permit = Permit(self._locks, claim, wants_slots=not waits)
        for limiter in limiters:
            limiter.acquire_on_behalf_of_nowait(permit)
            permit.limiters.append(limiter)
        return permit

    def enqueue(self, resources: tuple[Resource, ...], *, waits: bool = False) -> Permit:
        """A permit that has its place among those who want the keys, for `admit` to wait on."""
        claim = self._locks.enqueue(resources) if resources else None
        return Permit(self._locks, claim, wants_slots=not waits)

    async def admit(self, permit: Permit) -> None:
        """Waits for the permit's keys, then for the slots; a cancelled wait gives all back."""
        try:
            if permit.claim is not None:
                await self._locks.wait(permit.claim)
            for limiter in self._limiters if permit.wants_slots else ():
                await limiter.acquire_on_behalf_of(permit)
                permit.limiters.append(limiter)
        except BaseException:
            permit.release()
            raise

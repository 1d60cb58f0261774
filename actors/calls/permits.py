"""Permits of executing calls: resource keys, and slots of the session and of the runtime."""

from __future__ import annotations

from typing import Self

from ...runtime.definitions import Resource
from ...runtime.kernel.locks import Claim, ResourceLocks, Slots


class Permit:
    """The keys and slots of one executing call, given back when the block is left; idempotent."""

    __slots__ = ("_locks", "claim", "held", "wants_slots")

    def __init__(self, locks: ResourceLocks, claim: Claim | None, *, wants_slots: bool) -> None:
        self._locks = locks
        self.claim = claim
        self.wants_slots = wants_slots
        self.held: tuple[Slots, ...] = ()

    def release(self) -> None:
        """Give everything back."""
        held, self.held = self.held, ()
        for slots in held:
            slots.give_back()
        claim, self.claim = self.claim, None
        if claim is not None:
            self._locks.release(claim)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class GivenPermits:
    """The permits of one batch, all given back when the block is left."""

    def __init__(self) -> None:
        self._permits: list[Permit] = []

    def noted(self, permit: Permit) -> Permit:
        """Return a permit that the block's end gives back, if nobody has before."""
        self._permits.append(permit)
        return permit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for permit in self._permits:
            permit.release()


class Permits:
    """Gives the calls of one batch their permits: resource keys first, then slots.

    Args:
        locks: The resource keys of the workspace.
        slots: The slots to hold, the session's before the runtime's.
    """

    def __init__(self, locks: ResourceLocks, slots: tuple[Slots, ...]) -> None:
        self._locks = locks
        self._slots = slots

    def admit_nowait(
        self, resources: tuple[Resource, ...], *, waits: bool = False
    ) -> Permit | None:
        """Return a permit if all keys and slots are free; otherwise `None`, holding nothing.

        A call that only `waits` takes no slot.
        """
        claim = None
        if resources and (claim := self._locks.claim_nowait(resources)) is None:
            return None
        permit = Permit(self._locks, claim, wants_slots=not waits)
        for slots in () if waits else self._slots:
            if not slots.take_nowait():
                permit.release()
                return None
            permit.held += (slots,)
        return permit

    def enqueue(self, resources: tuple[Resource, ...], *, waits: bool = False) -> Permit:
        """Return a permit with a place in the queue for its keys, for `admit` to wait on."""
        claim = self._locks.enqueue(resources) if resources else None
        return Permit(self._locks, claim, wants_slots=not waits)

    async def admit(self, permit: Permit) -> None:
        """Wait for the permit's keys, then for the slots; the permit's block gives them back."""
        if permit.claim is not None:
            await self._locks.wait(permit.claim)
        for slots in self._slots if permit.wants_slots else ():
            await slots.take()
            permit.held += (slots,)

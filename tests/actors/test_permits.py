"""Keys and slots of a call: held together or not at all, given back in any case."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from callboard.actors.calls.dispatcher import Permit, Permits
from callboard.runtime.definitions import Resource
from callboard.runtime.kernel.locks import ResourceLocks

KEY = (Resource("a"),)
OTHER = (Resource("b"),)


class Room:
    """Keys, and slots of one session and one runtime."""

    def __init__(self, session: int = 2, runtime: int = 3) -> None:
        self.locks = ResourceLocks()
        self.limiters = (trio.CapacityLimiter(session), trio.CapacityLimiter(runtime))
        self.admission = Permits(self.locks, self.limiters)

    @property
    def used(self) -> tuple[int, ...]:
        return tuple(int(limiter.borrowed_tokens) for limiter in self.limiters)

    @property
    def key_is_free(self) -> bool:
        if (claim := self.locks.claim_nowait(KEY)) is None:
            return False
        self.locks.release(claim)
        return True


async def test_a_permit_holds_keys_and_slots_until_it_is_left() -> None:
    room = Room()
    permit = room.admission.admit_nowait(KEY)
    assert permit is not None
    with permit:
        assert (room.used, room.key_is_free) == ((1, 1), False)
    assert (room.used, room.key_is_free) == ((0, 0), True)
    permit.release()  # again is harmless
    assert room.used == (0, 0)


@pytest.mark.parametrize("full", [0, 1])
async def test_without_a_slot_nothing_is_held(full: int) -> None:
    room = Room(1, 1)
    held = object()
    room.limiters[full].acquire_on_behalf_of_nowait(held)
    assert room.admission.admit_nowait(KEY) is None
    assert room.key_is_free
    assert sum(room.used) == 1


async def test_without_the_key_no_slot_is_held() -> None:
    room = Room()
    first = room.admission.admit_nowait(KEY)
    assert first is not None
    assert room.admission.admit_nowait(KEY) is None
    assert room.used == (1, 1)
    assert room.admission.admit_nowait(OTHER) is not None


async def test_who_waits_for_a_key_holds_no_slot_and_keeps_its_place() -> None:
    room = Room()
    first = room.admission.admit_nowait(KEY)
    assert first is not None
    order: list[int] = []

    async def work(number: int, permit: Permit) -> None:
        with permit:
            await room.admission.admit(permit)
            order.append(number)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(work, number, room.admission.enqueue(KEY))
        await trio.testing.wait_all_tasks_blocked()
        assert room.used == (1, 1)
        first.release()
    assert order == [0, 1, 2, 3]
    assert (room.used, room.key_is_free) == ((0, 0), True)


@pytest.mark.parametrize("waits_for", ["key", "session slot", "runtime slot"])
async def test_a_cancelled_wait_holds_nothing(waits_for: str) -> None:
    room = Room(1, 1)
    outsider = object()
    held = room.admission.enqueue(KEY) if waits_for == "key" else None
    if waits_for != "key":
        room.limiters[waits_for == "runtime slot"].acquire_on_behalf_of_nowait(outsider)
    with trio.move_on_after(0) as scope:
        await room.admission.admit(room.admission.enqueue(KEY))
    assert scope.cancelled_caught
    if held is not None:
        held.release()
    assert room.key_is_free
    assert sum(room.used) == (0 if held is not None else 1)


async def test_calls_without_keys_only_need_slots() -> None:
    room = Room()
    permit = room.admission.enqueue(())
    await room.admission.admit(permit)
    assert room.used == (1, 1)
    assert room.key_is_free
    permit.release()

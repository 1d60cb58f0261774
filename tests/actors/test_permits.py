"""Keys and slots of a call: held together or not at all, given back in any case."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from callboard.actors.calls.permits import Permit, Permits
from callboard.runtime.definitions import Resource
from callboard.runtime.kernel.locks import ResourceLocks, Slots

KEY = (Resource("a"),)
OTHER = (Resource("b"),)


class Room:
    """Keys, and slots of one session and one runtime."""

    def __init__(self, session: int = 2, runtime: int = 3) -> None:
        self.locks = ResourceLocks()
        self.slots = (Slots(session), Slots(runtime))
        self.admission = Permits(self.locks, self.slots)

    @property
    def used(self) -> tuple[int, ...]:
        return tuple(slots.held for slots in self.slots)

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
    assert room.slots[full].take_nowait()
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
    held = room.admission.enqueue(KEY) if waits_for == "key" else None
    if waits_for != "key":
        assert room.slots[waits_for == "runtime slot"].take_nowait()
    with trio.move_on_after(0) as scope, room.admission.enqueue(KEY) as permit:
        await room.admission.admit(permit)
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


async def test_who_waits_longest_gets_the_next_slot() -> None:
    slots = Slots(1)
    order: list[int] = []

    async def work(number: int) -> None:
        await slots.take()
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(work, number)
            await trio.testing.wait_all_tasks_blocked()
        for done in range(1, 4):
            assert not slots.take_nowait()  # it goes to who waits, and can't be taken between
            slots.give_back()
            assert not slots.take_nowait()
            await trio.testing.wait_all_tasks_blocked()
            assert order == [*range(done + 1)]
    assert slots.held == 1


async def test_more_slots_let_those_in_who_wait_and_fewer_take_none_away() -> None:
    slots = Slots(1)
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(slots.take)
        await trio.testing.wait_all_tasks_blocked()
        slots.resize(3)
        assert slots.held == 3
        slots.resize(2)
        slots.give_back()
        assert (slots.held, slots.take_nowait()) == (2, False)
        slots.give_back()
        await trio.testing.wait_all_tasks_blocked()
        assert slots.held == 2
    slots.give_back()
    assert slots.take_nowait()


async def test_a_slot_of_a_cancelled_wait_goes_to_the_next() -> None:
    slots = Slots(1)
    assert slots.take_nowait()
    scope = trio.CancelScope()

    async def give_up() -> None:
        with scope:
            await slots.take()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(slots.take)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        slots.give_back()
    assert slots.held == 1

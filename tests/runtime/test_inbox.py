"""Committed events reach the session that is live, in order, and a successor after a crash."""

from __future__ import annotations

import trio
import trio.testing

from callboard.runtime.events import Stored, TitleSet
from callboard.runtime.kernel.delivery import EventInbox, EventInboxes


def stored(seq: int) -> Stored:
    return Stored("s1", seq, 0, TitleSet(title=str(seq)))


async def test_events_are_taken_in_order() -> None:
    inbox = EventInbox()
    inbox.put((stored(1), stored(2)))
    inbox.put((stored(3),))
    await inbox.wait()
    assert [inbox.take() for _ in range(4)] == [stored(1), stored(2), stored(3), None]


async def test_a_put_wakes_who_waits() -> None:
    inbox = EventInbox()
    taken: list[Stored | None] = []

    async def fold() -> None:
        for _ in range(2):
            await inbox.wait()
            taken.append(inbox.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fold)
        for seq in (1, 2):
            await trio.testing.wait_all_tasks_blocked()
            assert len(taken) == seq - 1
            inbox.put((stored(seq),))
    assert taken == [stored(1), stored(2)]


async def test_waiting_is_a_checkpoint_even_when_something_is_there() -> None:
    inbox = EventInbox()
    inbox.put((stored(1),))
    with trio.move_on_after(0) as scope:
        await inbox.wait()
    assert scope.cancelled_caught
    assert inbox.take() == stored(1)


def test_events_of_a_session_that_is_not_live_go_nowhere() -> None:
    inboxes = EventInboxes()
    inboxes.put("s1", (stored(1),))
    assert inboxes.open("s1").take() is None


def test_a_successor_has_its_own_inbox_and_its_predecessor_can_not_close_it() -> None:
    inboxes = EventInboxes()
    old, new = inboxes.open("s1"), inboxes.open("s1")
    other = inboxes.open("s2")
    inboxes.close("s1", old)
    inboxes.put("s1", (stored(1),))
    assert (old.take(), new.take(), other.take()) == (None, stored(1), None)
    inboxes.close("s1", new)
    inboxes.put("s1", (stored(2),))
    assert new.take() is None

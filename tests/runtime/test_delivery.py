"""What is delivered to a live session and to subscribers: in order, once, and at the reader's pace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from callboard.runtime.errors import ActorStopped, ConflictError
from callboard.runtime.events import CallProgress, DurableEvent, Stored, TitleSet
from callboard.runtime.kernel.delivery import (
    MAX_WAITING_UPDATES,
    EventInbox,
    EventInboxes,
    Subscription,
)


def stored(seq: int) -> Stored:
    return Stored("s1", seq, 0, TitleSet(title=str(seq)))


def test_events_are_taken_in_order() -> None:
    inbox = EventInbox()
    inbox.put((stored(1), stored(2)))
    inbox.put((stored(3),))
    assert inbox.take() == [stored(1), stored(2), stored(3)]
    assert inbox.take() == []


class Folder:
    """A session that folds so, and never ahead of the record."""

    def __init__(self, fold: Callable[[], None]) -> None:
        self.fold_committed = fold

    def fold_ahead(self, events: tuple[DurableEvent, ...]) -> bool:
        return False

    def lose(self) -> None:
        raise AssertionError("nothing is ahead")


async def test_what_is_put_is_folded_at_once_by_a_session_that_serves() -> None:
    inbox = EventInbox()
    folded: list[Stored] = []

    def fold() -> None:
        folded.extend(inbox.take())

    inbox.put((stored(1),))
    async with trio.open_nursery() as nursery:
        with inbox.serve(Folder(fold), nursery):
            assert folded == [stored(1)]
            inbox.put((stored(2), stored(3)))
            assert folded == [stored(1), stored(2), stored(3)]


async def test_a_fold_that_fails_crashes_its_session_and_not_who_puts() -> None:
    inbox = EventInbox()

    def fold() -> None:
        if inbox.take():
            raise ValueError("a contradiction")

    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a contradiction")):
        async with trio.open_nursery() as nursery:
            with inbox.serve(Folder(fold), nursery):
                inbox.put((stored(1),))
                inbox.put((stored(2),))
                with pytest.raises(ValueError, match="a contradiction"):
                    inbox.take()  # nobody goes on with what is half folded


async def test_a_fold_that_fails_when_its_session_leaves_is_raised_by_its_next_look() -> None:
    inbox = EventInbox()

    def fold() -> None:
        if inbox.take():
            raise ValueError("a contradiction")

    async with trio.open_nursery() as nursery:
        with inbox.serve(Folder(fold), nursery):
            pass
    inbox.put((stored(1),))  # the nursery takes no task any more
    with pytest.raises(ValueError, match="a contradiction"):
        inbox.take()


def test_events_of_a_session_that_is_not_live_go_nowhere() -> None:
    inboxes = EventInboxes()
    inboxes.put("s1", (stored(1),))
    assert inboxes.open("s1").take() == []


def test_a_successor_has_its_own_inbox_and_its_predecessor_can_not_close_it() -> None:
    inboxes = EventInboxes()
    old, new = inboxes.open("s1"), inboxes.open("s1")
    other = inboxes.open("s2")
    inboxes.close("s1", old)
    inboxes.put("s1", (stored(1),))
    assert (old.take(), new.take(), other.take()) == ([], [stored(1)], [])
    inboxes.close("s1", new)
    inboxes.put("s1", (stored(2),))
    assert new.take() == []


def line(number: int) -> CallProgress:
    return CallProgress("c", str(number))


def filled(count: int = MAX_WAITING_UPDATES) -> Subscription:
    subscription = Subscription()
    for number in range(count):
        subscription.put([line(number)])
    return subscription


async def test_take_gives_all_that_waits_in_order() -> None:
    subscription = filled(3)
    assert list(await subscription.take()) == [line(0), line(1), line(2)]


async def test_take_waits_for_the_next_update() -> None:
    subscription = Subscription()
    taken: list[object] = []

    async def consume() -> None:
        taken.extend(await subscription.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await trio.testing.wait_all_tasks_blocked()
        assert taken == []
        subscription.put([line(1)])
    assert taken == [line(1)]


async def test_a_cancelled_take_loses_nothing() -> None:
    subscription = Subscription()
    with trio.move_on_after(0):
        await subscription.take()
    subscription.put([line(1)])
    with trio.move_on_after(0):
        await subscription.take()
    assert list(await subscription.take()) == [line(1)]


async def test_closing_ends_it_behind_what_waits() -> None:
    subscription = filled(1)
    subscription.close()
    subscription.put([line(9)])
    assert subscription.is_closed
    assert list(await subscription.take()) == [line(0)]
    assert not await subscription.take()
    assert not await subscription.take()


async def test_an_error_comes_behind_what_waits_and_the_first_close_counts() -> None:
    subscription = filled(1)
    subscription.close(ActorStopped("gone"))
    subscription.close(ValueError("too late"))
    assert list(await subscription.take()) == [line(0)]
    for _ in range(2):
        with pytest.raises(ActorStopped, match="gone"):
            await subscription.take()


async def test_closing_wakes_who_takes_and_who_waits_for_room() -> None:
    empty, full = Subscription(), filled()
    woken: list[str] = []

    async def consume() -> None:
        assert not await empty.take()
        woken.append("consumer")

    async def produce() -> None:
        await full.wait_room()
        woken.append("producer")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        nursery.start_soon(produce)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == []
        empty.close()
        full.close()
    assert sorted(woken) == ["consumer", "producer"]


@pytest.mark.parametrize("way", ["take", "let_go"])
async def test_a_full_queue_paces_its_producer_until_it_is_read_or_let_go(way: str) -> None:
    subscription = filled(MAX_WAITING_UPDATES - 1)
    assert subscription.has_room
    subscription.put([line(99)])
    assert not subscription.has_room
    went_on: list[int] = []

    async def produce() -> None:
        await subscription.wait_room()
        went_on.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await trio.testing.wait_all_tasks_blocked()
        assert went_on == []
        if way == "take":
            assert len(await subscription.take()) == MAX_WAITING_UPDATES
        else:
            subscription.let_go()
    assert went_on == [1]


async def test_who_was_let_go_never_paces_again_and_still_gets_everything() -> None:
    subscription = filled()
    subscription.let_go()
    for number in range(1000):
        assert subscription.has_room
        subscription.put([line(number)])
    await subscription.wait_room()
    assert len(await subscription.take()) == MAX_WAITING_UPDATES + 1000


async def test_a_put_never_waits_even_when_full() -> None:
    subscription = filled(MAX_WAITING_UPDATES * 3)
    assert len(await subscription.take()) == MAX_WAITING_UPDATES * 3
    assert subscription.has_room


async def test_a_second_reader_is_refused_and_the_first_one_gets_everything() -> None:
    subscription = Subscription()
    taken: list[object] = []

    async def consume() -> None:
        taken.extend(await subscription.take())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ConflictError, match="is being read already"):
            await subscription.take()
        subscription.put([line(1)])
    assert taken == [line(1)]
    subscription.put([line(2)])
    assert list(await subscription.take()) == [line(2)]  # one after the other is no conflict


async def test_all_who_wait_for_room_go_on() -> None:
    subscription = filled()
    went_on: list[int] = []

    async def produce(number: int) -> None:
        await subscription.wait_room()
        went_on.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce, 1)
        nursery.start_soon(produce, 2)
        await trio.testing.wait_all_tasks_blocked()
        await subscription.take()
    assert sorted(went_on) == [1, 2]

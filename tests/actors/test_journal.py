"""The journal: group commits, refusals, and what a failing store does to those who wait."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from callboard.actors.journal import MAX_GROUP
from callboard.runtime.errors import (
    ActorStopped,
    CallboardError,
    ConflictError,
    DiskBroken,
    NotFoundError,
    StorageError,
    StorageFull,
    ValidationError,
)
from callboard.runtime.events import SessionCreated, TitleSet
from callboard.runtime.messages import AppendEvents
from callboard.runtime.store.rows import Append
from support.scene import FakeStore, Manner, Scene, assert_sound, open_scene

NEW = SessionCreated(agent="general", workspace="/work")


def title(text: object) -> TitleSet:
    return TitleSet(title=str(text))


async def ready(manner: Manner = Manner.WAITED_FOR) -> Scene:
    scene = Scene(store=FakeStore(manner=manner))
    await scene.create()
    return scene


in_each_manner = pytest.mark.parametrize("manner", Manner)


@in_each_manner
async def test_an_append_is_answered_with_what_was_stored(manner: Manner) -> None:
    scene = await ready(manner)
    async with open_scene(scene, "journal"):
        first = await scene.append("s1", title("a"), title("b"))
        second = await scene.append("s1", title("c"))
    assert [(s.seq, s.event) for s in first] == [(2, title("a")), (3, title("b"))]
    assert [(s.seq, s.event) for s in second] == [(4, title("c"))]
    assert await scene.store.events("s1", after_seq=1) == [*first, *second]


async def test_what_waits_together_is_one_transaction() -> None:
    scene = await ready()
    requests = [AppendEvents(session_id="s1", events=(title(n),)) for n in range(50)]
    for request in requests:
        scene.journal.tell_nowait(request)
    async with open_scene(scene, "journal"):
        stored = [await request.reply.wait() for request in requests]
    assert len(scene.fake.commits) == 1
    assert [s.event for (s,) in stored] == [title(n) for n in range(50)]
    await assert_sound(scene.store)


async def test_appends_come_together_while_a_commit_runs() -> None:
    scene = await ready()
    gate = trio.Event()
    usual = scene.fake.commit

    async def slow(appends: Sequence[Append]) -> object:
        await gate.wait()
        return await usual(appends)

    scene.fake.commit = slow  # type: ignore[method-assign, assignment]
    async with open_scene(scene, "journal"), trio.open_nursery() as nursery:
        nursery.start_soon(scene.append, "s1", title("first"))
        await trio.testing.wait_all_tasks_blocked()
        for number in range(20):
            nursery.start_soon(scene.append, "s1", title(number))
        await trio.testing.wait_all_tasks_blocked()
        assert len(await scene.events()) == 1  # nothing is acknowledged that is not stored
        gate.set()
    assert [len(group) for group in scene.fake.commits] == [1, 20]


async def test_a_group_is_bounded() -> None:
    scene = await ready()
    count = MAX_GROUP + 1
    async with open_scene(scene, "journal"), trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(scene.append, "s1", title(number))
    assert sum(map(len, scene.fake.commits)) == count
    assert max(map(len, scene.fake.commits)) <= MAX_GROUP
    await assert_sound(scene.store)


@in_each_manner
async def test_events_are_in_the_inbox_before_the_append_is_acknowledged(manner: Manner) -> None:
    scene = await ready(manner)
    inbox = scene.inboxes.open("s1")
    await scene.create("other")
    async with open_scene(scene, "journal"):
        await scene.append("other", title("not ours"))
        stored = await scene.append("s1", title("a"), title("b"))
        assert inbox.take() == list(stored)
        assert inbox.take() == []


@in_each_manner
async def test_an_asker_that_is_gone_leaves_no_event_unpublished(manner: Manner) -> None:
    scene = await ready(manner)
    inbox = scene.inboxes.open("s1")
    async with open_scene(scene, "journal"):
        with trio.move_on_after(0):
            await scene.append("s1", title("a"))
        await trio.testing.wait_all_tasks_blocked()
    (event,) = inbox.take()
    assert event.event == title("a")


async def test_a_store_that_fails_fails_its_group_and_the_journal_goes_on() -> None:
    scene = await ready()
    inbox = scene.inboxes.open("s1")
    scene.fake.refuse = lambda _: StorageError("the disk is gone")
    requests = [AppendEvents(session_id="s1", events=(title(n),)) for n in range(3)]
    for request in requests:
        scene.journal.tell_nowait(request)
    async with open_scene(scene, "journal"):
        for request in requests:
            with pytest.raises(StorageError, match="the disk is gone"):
                await request.reply.wait()
        assert inbox.take() == []
        scene.fake.refuse = lambda _: None
        (stored,) = await scene.append("s1", title("later"))
    assert stored.seq == 2


@pytest.mark.parametrize(
    ("fault", "ends"),
    [
        pytest.param(StorageFull("no space"), False, id="a full disk is waited out"),
        pytest.param(ValidationError("a number"), False, id="what can't be stored is refused"),
        pytest.param(StorageError("it is corrupt"), True, id="a failing one ends the runtime"),
    ],
)
@in_each_manner
async def test_a_fault_that_does_not_pass(
    fault: CallboardError, ends: bool, manner: Manner, autojump_clock: MockClock
) -> None:
    scene = await ready(manner)
    scene.fake.refuse = lambda _: fault

    async def ask_often() -> None:
        async with open_scene(scene, "journal"):
            for number in range(20):
                with pytest.raises((StorageError, ValidationError, ActorStopped)):
                    await scene.append("s1", title(number))
                await trio.sleep(1)
            scene.fake.refuse = lambda _: None
            await scene.append("s1", title("later"))

    if ends:
        crash = pytest.RaisesExc(StorageError, match="journal crashed .* it is corrupt")
        with pytest.RaisesGroup(crash, flatten_subgroups=True):
            await ask_often()
    else:
        await ask_often()
        assert [s.event for s in await scene.store.events("s1", after_seq=1)] == [title("later")]


async def test_one_refused_append_spares_its_group() -> None:
    scene = await ready()
    requests = [
        AppendEvents(session_id="s1", events=(title("a"),)),
        AppendEvents(session_id="unknown", events=(title("b"),)),
        AppendEvents(session_id="s1", events=(NEW,)),
        AppendEvents(session_id="s1", events=(title("c"),)),
    ]
    for request in requests:
        scene.journal.tell_nowait(request)
    async with open_scene(scene, "journal"):
        assert len(await requests[0].reply.wait()) == 1
        with pytest.raises(NotFoundError):
            await requests[1].reply.wait()
        with pytest.raises(ConflictError):
            await requests[2].reply.wait()
        assert (await requests[3].reply.wait())[0].seq == 3
    assert len(scene.fake.commits) == 1


@in_each_manner
async def test_a_crash_of_the_store_wakes_its_group_and_the_journal_starts_again(
    manner: Manner, autojump_clock: MockClock
) -> None:
    scene = await ready(manner)

    def crash(appends: Sequence[Append]) -> StorageError | None:
        raise ZeroDivisionError("a fault in the store")

    scene.fake.refuse = crash
    async with open_scene(scene, "journal"):
        with pytest.raises(ActorStopped):
            await scene.append("s1", title("a"))
        scene.fake.refuse = lambda _: None
        assert len(await scene.append("s1", title("b"))) == 1
    await assert_sound(scene.store)


@in_each_manner
async def test_an_empty_append_says_that_all_before_it_is_stored(manner: Manner) -> None:
    scene = await ready(manner)
    async with open_scene(scene, "journal"):
        earlier = AppendEvents(session_id="s1", events=(title("a"),))
        scene.journal.tell_nowait(earlier)
        assert await scene.append("s1") == ()
        assert earlier.reply.is_done


async def test_what_commits_at_once_wakes_nobody() -> None:
    scene = await ready(Manner.AT_ONCE)
    inbox = scene.inboxes.open("s1")
    async with open_scene(scene, "journal"):
        await trio.testing.wait_all_tasks_blocked()
        request = AppendEvents(session_id="s1", events=(title("a"),))
        scene.journal.tell_nowait(request)
        assert request.reply.is_done
        assert [each.event for each in await request.reply.wait()] == [title("a")]
        assert [each.event for each in inbox.take()] == [title("a")]


async def test_appends_come_together_while_one_is_on_its_way() -> None:
    scene = await ready(Manner.LATER)
    async with open_scene(scene, "journal"):
        await trio.testing.wait_all_tasks_blocked()
        requests = [AppendEvents(session_id="s1", events=(title(n),)) for n in range(5)]
        for request in requests:
            scene.journal.tell_nowait(request)
            assert not request.reply.is_done
        stored = [await request.reply.wait() for request in requests]
    assert [s.seq for (s,) in stored] == [2, 3, 4, 5, 6]
    assert [len(group) for group in scene.fake.commits] == [1, 4]


async def test_a_cut_journal_ends_after_the_commit_that_is_on_its_way() -> None:
    scene = await ready(Manner.LATER)
    request = AppendEvents(session_id="s1", events=(title("a"),))
    async with open_scene(scene, "journal"):
        await trio.testing.wait_all_tasks_blocked()
        scene.journal.tell_nowait(request)
    assert len(await request.reply.wait()) == 1
    assert [s.event for s in await scene.store.events("s1", after_seq=1)] == [title("a")]


async def test_nothing_is_stored_behind_a_commit_that_crashes_the_journal(
    autojump_clock: MockClock,
) -> None:
    scene = await ready(Manner.LATER)
    scene.fake.refuse = lambda _: DiskBroken("The disk failed.")
    requests = [AppendEvents(session_id="s1", events=(title(n),)) for n in range(2)]
    crash = pytest.RaisesExc(StorageError, match="journal can't go on: The disk failed")
    with pytest.RaisesGroup(crash, flatten_subgroups=True):
        async with open_scene(scene, "journal"):
            await trio.testing.wait_all_tasks_blocked()
            for request in requests:
                scene.journal.tell_nowait(request)
            with pytest.raises(DiskBroken):
                await requests[0].reply.wait()
            scene.fake.refuse = lambda _: None
            with pytest.raises(ActorStopped):
                await requests[1].reply.wait()
            await trio.sleep_forever()
    assert scene.fake.commits == []

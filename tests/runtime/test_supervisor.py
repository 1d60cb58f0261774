from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import trio
import trio.testing

from callboard.runtime.errors import DiskBroken, InternalError, StorageError
from callboard.runtime.kernel.mailbox import Mailbox, Message
from callboard.runtime.kernel.supervisor import RESTART_DELAY_SECONDS, RestartLimit, Supervisor


class Poke(Message, frozen=True):
    pass


class Fragile:
    """Crashes on each message; counts its starts in a list that all of a kind share."""

    def __init__(
        self,
        mailbox: Mailbox[Poke],
        starts: list[float],
        crash: Callable[[], BaseException] = lambda: ValueError("poked"),
    ) -> None:
        self._mailbox = mailbox
        self._starts = starts
        self._crash = crash

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        self._starts.append(trio.current_time())
        with self._mailbox.open() as messages:
            task_status.started()
            async for _ in messages:
                raise self._crash()


def box(name: str = "fragile") -> Mailbox[Poke]:
    return Mailbox(name, 100)


async def test_a_crash_is_logged_contained_and_answered_with_a_fresh_start(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    first, second = box("first"), box("second")
    starts: list[float] = []
    others: list[float] = []
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(nursery)
        await supervisor.start("first", lambda: Fragile(first, starts), first)
        await supervisor.start("second", lambda: Fragile(second, others), second)
        await first.tell(Poke())
        await trio.sleep(1)
        assert starts == [0, RESTART_DELAY_SECONDS]
        assert others == [0]
        nursery.cancel_scope.cancel()
    crashes = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in crashes] == ["first crashed"]
    assert "poked" in caplog.text
    assert first.is_closed
    assert second.is_closed


async def test_an_actor_that_returns_has_ended(autojump_clock: trio.testing.MockClock) -> None:
    class Short:
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            task_status.started()

    mailbox = box()
    async with trio.open_nursery() as nursery:
        await Supervisor(nursery).start("short", Short, mailbox)
    assert mailbox.is_closed


@pytest.mark.parametrize("failures", [0, 1, 3])
async def test_start_returns_when_an_actor_serves_even_if_it_crashed_before(
    failures: int, autojump_clock: trio.testing.MockClock
) -> None:
    attempts: list[int] = []

    class Hesitant:
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            attempts.append(1)
            if len(attempts) <= failures:
                raise OSError("not yet")
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await Supervisor(nursery).start("hesitant", Hesitant, box())
        assert len(attempts) == failures + 1
        nursery.cancel_scope.cancel()


async def test_a_vital_actor_that_is_given_up_takes_the_nursery_down(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    mailbox = box()
    starts: list[float] = []
    with pytest.RaisesGroup(pytest.RaisesExc(InternalError, match="crashed 6 times")):
        async with trio.open_nursery() as nursery:
            await Supervisor(nursery).start("vital", lambda: Fragile(mailbox, starts), mailbox)
            for _ in range(6):
                await mailbox.tell(Poke())
            await trio.sleep_forever()
    assert len(starts) == 6
    assert mailbox.is_closed
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["fragile crashed"] * 6
    assert [r.levelname for r in caplog.records][-1] == "CRITICAL"


async def test_one_that_is_not_vital_only_closes_its_mailbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mailbox, other = box(), box("other")
    starts: list[float] = []
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(nursery)
        limit = Supervisor(nursery, limit=RestartLimit(max_restarts=2))
        await supervisor.start("other", lambda: Fragile(other, []), other)
        await limit.start("fragile", lambda: Fragile(mailbox, starts), mailbox, vital=False)
        for _ in range(3):
            await mailbox.tell(Poke())
        await trio.sleep(1)
        assert (len(starts), mailbox.is_closed, other.is_closed) == (3, True, False)
        nursery.cancel_scope.cancel()


async def test_crashes_that_are_far_apart_are_forgiven(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mailbox = box()
    starts: list[float] = []
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(nursery, limit=RestartLimit(max_restarts=2, within_seconds=10))
        await supervisor.start("fragile", lambda: Fragile(mailbox, starts), mailbox)
        for _ in range(20):
            await mailbox.tell(Poke())
            await trio.sleep(6)
        assert len(starts) == 21
        nursery.cancel_scope.cancel()


async def test_strict_lets_the_first_crash_through(autojump_clock: trio.testing.MockClock) -> None:
    mailbox = box()
    starts: list[float] = []
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="poked"), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(nursery, strict=True)
            await supervisor.start("fragile", lambda: Fragile(mailbox, starts), mailbox)
            await mailbox.tell(Poke())
            await trio.sleep_forever()
    assert len(starts) == 1
    assert mailbox.is_closed


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_what_is_no_crash_goes_through(
    kind: type[BaseException], autojump_clock: trio.testing.MockClock
) -> None:
    mailbox = box()
    starts: list[float] = []
    with pytest.RaisesGroup(kind, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(nursery)
            await supervisor.start("fragile", lambda: Fragile(mailbox, starts, kind), mailbox)
            await mailbox.tell(Poke())
            await trio.sleep_forever()
    assert len(starts) == 1


async def test_a_crash_beside_a_cancel_is_logged_and_the_cancel_goes_on(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    mailbox = box()
    starts: list[int] = []

    class Untidy:
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            starts.append(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._clean_up_badly)
                task_status.started()
                await trio.sleep_forever()

        async def _clean_up_badly(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while it was cancelled")

    async with trio.open_nursery() as nursery:
        await Supervisor(nursery).start("untidy", Untidy, mailbox)
        nursery.cancel_scope.cancel()
    assert nursery.cancel_scope.cancelled_caught
    assert starts == [1]
    assert "while it was cancelled" in caplog.text
    assert mailbox.is_closed


async def test_nothing_is_started_again_behind_a_closed_mailbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # Its address was given to another actor meanwhile: two would share one state.
    mailbox = box()
    starts: list[float] = []
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(nursery)
        await supervisor.start("fragile", lambda: Fragile(mailbox, starts), mailbox)
        await mailbox.tell(Poke())
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()
    assert len(starts) == 1


async def test_start_soon_waits_for_nothing_and_mail_waits_for_the_actor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    mailbox = box()
    starts: list[float] = []
    async with trio.open_nursery() as nursery:
        Supervisor(nursery).start_soon("fragile", lambda: Fragile(mailbox, starts), mailbox)
        mailbox.tell_nowait(Poke())
        assert starts == []
        await trio.sleep(1)
        assert len(starts) == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("crash", "starts", "told"),
    [
        (DiskBroken("the disk lost it"), 1, "fragile can't go on: the disk lost it"),
        (StorageError("the disk failed"), 6, "is given up: the disk failed"),
    ],
)
async def test_who_is_given_up_says_why_and_a_disk_that_lost_something_is_given_up_at_once(
    crash: StorageError, starts: int, told: str, autojump_clock: trio.testing.MockClock
) -> None:
    mailbox = box()
    started: list[float] = []
    with pytest.RaisesGroup(pytest.RaisesExc(StorageError, match=told)):
        async with trio.open_nursery() as nursery:
            await Supervisor(nursery).start(
                "vital", lambda: Fragile(mailbox, started, lambda: crash), mailbox
            )
            for _ in range(6):
                await mailbox.tell(Poke())
            await trio.sleep_forever()
    assert len(started) == starts

"""The checkpoint sweep: a scenario is run again and again, cut before one step after another.

Whatever the step, nothing may be left behind: no end of a memory channel open, no reply without an
answer, no subscription open, no child process, and nobody who waits for ever; nor may an actor
crash, since it would do so in the place of what was to be seen. What else must hold
(a valid history, free slots) the scenario itself asserts behind the cut. That no task outlives the
run is Trio's own promise.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from callboard.runtime.kernel.delivery import Subscription
from callboard.runtime.kernel.mailbox import Reply
from support.sandbox.sandbox_users import measured_sandbox

EVERY_STEP_UP_TO = 100
"""Up to here each step is cut in its own run; scenarios of one actor are seldom longer."""
STRIDE = 11
"""Past it, one step of so many; a prime, so that loops of the scenario don't hide steps."""
PATIENCE_SECONDS = 3600.0
"""On the mock clock, which jumps when everybody waits: who waits longer waits for ever."""

_OPEN_MEMORY_CHANNEL: Any = trio.open_memory_channel


class Cut(trio.abc.Instrument):
    """One run of a scenario, cut before the n-th step of the nursery that the scenario aims at.

    Attributes:
        happened: Whether the nursery got so far, and was cancelled.
        steps: How many steps its tasks have made.
    """

    def __init__(self, at: int | None) -> None:
        self.happened = False
        self.steps = 0
        self._at = at
        self._nursery: trio.Nursery | None = None

    def aim(self, nursery: trio.Nursery) -> None:
        """The tasks of this nursery, and theirs, are the ones to be cut."""
        self._nursery = nursery

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self._nursery is None or not _is_in(task, self._nursery):
            return
        self.steps += 1
        if self.steps == self._at:
            self.happened = True
            self._nursery.cancel_scope.cancel(reason=f"cut before step {self._at}")


Scenario = Callable[[Cut], Awaitable[None]]


class LeftBehind(AssertionError):
    """Something outlived a run."""


def sweep(scenario: Scenario, *, every_step_up_to: int = EVERY_STEP_UP_TO) -> int:
    """Runs the scenario uncut, then cut before each step; gives the number of steps.

    Of one that is of many actors, whose steps have sweeps of their own, fewer will do.

    Raises `AssertionError`, which names the step, when the scenario fails or leaves something
    behind. `CALLBOARD_SOAK=1` leaves out no step.
    """
    measured_sandbox()  # or its clock jumps while a thread does that
    whole = _run(scenario, None)
    assert whole.steps > 0, "the scenario must aim at a nursery whose tasks run"
    at = 1
    while _run(scenario, at).happened:
        far = at >= every_step_up_to and not os.environ.get("CALLBOARD_SOAK")
        at += STRIDE if far else 1
    return whole.steps


def _run(scenario: Scenario, at: int | None) -> Cut:
    cut = Cut(at)

    async def bounded() -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            await scenario(cut)

    # Trio shuffles what is runnable at once; with a seed a failing step fails again.
    trio._core._run._r.seed(at or 0)
    try:
        with _nothing_left():
            trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[cut])
    except Exception as error:
        where = "uncut" if at is None else f"cut before step {at}"
        raise AssertionError(f"{where}: {error!r}") from error
    return cut


@contextmanager
def _nothing_left() -> Generator[None]:
    channels: list[tuple[trio.MemorySendChannel[Any], trio.MemoryReceiveChannel[Any]]] = []
    replies = _Made(Reply)
    subscriptions = _Made(Subscription)
    children = _children()
    crashes = _Crashes(logging.ERROR)
    with (
        patch.object(trio, "open_memory_channel", _Channels(channels)),
        replies.watched(),
        subscriptions.watched(),
        crashes.watched(),
    ):
        yield
    _none_left(len(crashes.messages), f"crashes {crashes.messages}")
    ends = [end.statistics() for _, end in channels]
    for number, end in enumerate(ends):
        if end.open_send_channels or end.open_receive_channels:
            raise LeftBehind(f"channel {number} of {len(ends)} is left open: {end}")
    _none_left(replies.count(lambda reply: not reply.is_done), "replies without an answer")
    _none_left(subscriptions.count(lambda heard: not heard.is_closed), "open subscriptions")
    _none_left(len(_children() - children), "child processes")


def _none_left(count: int, what: str) -> None:
    if count:
        raise LeftBehind(f"{count} {what} are left")


class _Channels:
    """Stands for `trio.open_memory_channel`, and keeps what it opens in a list."""

    def __init__(self, opened: list[Any]) -> None:
        self._opened = opened

    def __getitem__(self, kind: object) -> _Channels:
        return self

    def __call__(self, capacity: float) -> Any:
        self._opened.append(_OPEN_MEMORY_CHANNEL(capacity))
        return self._opened[-1]


class _Crashes(logging.Handler):
    """What supervisors log while a scenario runs."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    @contextmanager
    def watched(self) -> Generator[None]:
        supervisors = logging.getLogger("callboard.runtime.kernel.supervisor")
        supervisors.addHandler(self)
        try:
            yield
        finally:
            supervisors.removeHandler(self)


class _Made:
    """The objects of a class that are made within a block."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._objects: list[Any] = []

    @contextmanager
    def watched(self) -> Generator[None]:
        usual: Any = self._kind.__init__  # type: ignore[misc]

        def noted(made: object, *given: object) -> None:
            usual(made, *given)
            self._objects.append(made)

        with patch.object(self._kind, "__init__", noted):
            yield

    def count(self, is_left: Callable[[Any], bool]) -> int:
        return sum(map(is_left, self._objects))


def _is_in(task: trio.lowlevel.Task, nursery: trio.Nursery) -> bool:
    parent = task.parent_nursery
    while parent is not None and parent is not nursery:
        parent = parent.parent_task.parent_nursery
    return parent is not None


def _children() -> set[str]:
    """The processes that this one has started and not yet waited for."""
    found: set[str] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            found.update((thread / "children").read_text().split())
        except OSError:
            continue  # the thread has ended meanwhile, or the kernel doesn't tell
    return found

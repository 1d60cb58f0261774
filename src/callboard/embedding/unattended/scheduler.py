"""The scheduler: fires schedules when their time has come.

It sleeps until the next planned time, but half a minute at most, and then looks at the clock on the wall: so it
does not matter whether the machine was suspended or the clock was set. At each look the last planned time up to
now is due, if it is not settled. One that is long past was missed: it is run once, or left out.

Why no firing is doubled: its planned time is its name, which is committed with its input. What is settled is
only a shorter way to that answer, and the file of it may lag behind.

Of several nodes of a cluster that have a schedule, one fires it, and which one that is follows from its name, or is the owner
of the one session where all firings go; one that nobody has is left to a node of greater capacity, as when it is
asked for. The next one does so when nothing was settled for some seconds.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
import trio

from ...runtime.errors import CallboardError, NotFoundError, StorageError
from ...runtime.events import Stored, TurnEnded
from ...runtime.kernel.live_lists import ListName
from ...runtime.kernel.mailbox import Mailbox, Message
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.kernel.supervisor import Supervisor
from ...runtime.redaction import redacting_logger
from ...runtime.schedules.schedule import Schedule
from .firing import planned_key, sender_of
from .schedules import RuntimeSchedules

if TYPE_CHECKING:
    from ...actors.cluster.node import ClusterNode
    from ...config.setting_rows import SettingsChange
    from ..configuration import Configuration

logger = redacting_logger(__name__)

MAX_SLEEP_SECONDS = 30.0
"""Between two looks at the clock: a suspended machine and a clock that was set are noticed so soon."""
ON_TIME_MS = 60_000
"""A firing that is not later than this was not missed: twice the longest sleep."""
MAX_FIRING = 16
"""Firings that begin at once: a commit holds many, and a thousand at nine o'clock leave room for a person's."""
MAX_OVERLAPPING = 10
"""Of the last firings of a schedule, any may still run: one that somebody asked for may be quicker."""
TURN_SECONDS = 2.0
"""So long each node of a cluster waits for the one before it to fire: longer than a lease, and than a firing takes."""
MAX_TURNS = 3
"""Nodes that wait one after the other; all others then look at the same time."""
MAILBOX_CAPACITY = 16
"""Looks that wait are one look."""
LOCK_NAME = "schedules.lock"
MAX_EPOCH_BYTES = 256
"""More than the name of a store takes."""


class LookAgain(Message, frozen=True, tag="look_again"):
    """The configuration has changed, or somebody wants to know now."""


class Scheduler:
    """Fires the schedules in force.

    Receives: `LookAgain`.
    Sends: `CreateSession` and `SubmitInput`, through the runtime.
    Owns: when it looks next.
    Ends: when cancelled.

    Args:
        mailbox: Its address.
        schedules: What fires, what is settled of it, and why one does not fire.
    """

    def __init__(self, mailbox: Mailbox[LookAgain], schedules: RuntimeSchedules) -> None:
        self._mailbox = mailbox
        self._host = schedules.host
        self._schedules = schedules
        self._limiter = trio.CapacityLimiter(MAX_FIRING)
        self._firing: set[str] = set()
        self._waiting: set[str] = set()
        self._next: dict[str, _Next] = {}
        self._looked_ms = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fire schedules until cancelled."""
        stop_hearing = self._host.inboxes.watch(self._heard)
        try:
            with self._mailbox.open() as messages, _FiringLock() as lock:
                await self._schedules.settled.load()
                async with trio.open_nursery() as nursery:
                    task_status.started()
                    while True:
                        seconds = await self._look(nursery, lock)
                        with trio.move_on_after(seconds):
                            await messages.receive()
        finally:
            stop_hearing()

    async def _look(self, nursery: trio.Nursery, lock: _FiringLock) -> float:
        """Begin what is due; return for how many seconds nothing is."""
        schedules = dict(self._host.settings.schedules)
        now = self._schedules.clock()
        settled = self._schedules.settled
        if schedules and not await self._may_fire(schedules, now, lock):
            self._say_all(schedules, lock.problem)
            return MAX_SLEEP_SECONDS
        settled.keep_only(schedules.keys())
        if not schedules:
            await self._save()
            return math.inf
        until = [now + int(MAX_SLEEP_SECONDS * 1000)]
        is_back = now < self._looked_ms
        for schedule in schedules.values():
            try:
                until.append(await self._look_at(schedule, now, is_back, nursery))
            except Exception as error:
                self._failed(schedule.name, error)
        self._looked_ms = now
        await self._save()
        return max(0.0, (min(until) - self._schedules.clock()) / 1000)

    async def _look_at(
        self, schedule: Schedule, now: int, is_back: bool, nursery: trio.Nursery
    ) -> int:
        """Begin a schedule's firing if it is due; return when to look again."""
        entry, known = self._schedules.settled.entry(schedule, now), self._next.get(schedule.name)
        is_known = known is not None and known.timing == schedule.timing and not is_back
        if known is None or not is_known or now >= known.at_ms:
            await trio.lowlevel.checkpoint()  # a thousand of them take a while
            due = None if schedule.paused else schedule.times.until(now)
            if due is not None and due > entry.until_ms:
                self._begin(schedule, due, nursery)
                return _NEVER_MS
            known = _Next(schedule.timing, schedule.times.after(now) or _NEVER_MS)
            self._next[schedule.name] = known
        return known.at_ms

    async def _may_fire(self, schedules: dict[str, Schedule], now: int, lock: _FiringLock) -> bool:
        """Take the lock; leave out what whoever had it before may have fired."""
        if lock.is_held:
            return True
        if (files := self._schedules.files()) is None:
            lock.is_held = True  # a program with settings of its own is alone
            return True
        epoch = (await self._host.plan.store.epoch()).encode()
        last = await lock.take(files)
        if last is None:
            return False
        try:
            if last != epoch:
                if last:
                    self._schedules.settled.settle_all(schedules.values(), now)
                    # Before this store counts as who fired last.
                    await self._schedules.settled.save()
                await lock.note(epoch)
        except (StorageError, OSError) as error:
            lock.problem = f"who fires schedules can't be noted: {error}"
            return False
        self._say_all(schedules, "")
        lock.is_held = True
        return True

    def _begin(self, schedule: Schedule, due: int, nursery: trio.Nursery) -> None:
        if schedule.name not in self._firing:
            self._firing.add(schedule.name)
            nursery.start_soon(self._fire, schedule, due, name=f"fire {schedule.name}")

    async def _fire(self, schedule: Schedule, due: int) -> None:
        schedules, name = self._schedules, schedule.name
        try:
            is_settled = await self._is_settled_elsewhere(schedule, due)
            if not is_settled:
                async with self._limiter:
                    is_settled = await self._settle(schedule, due)
        except Exception as error:
            self._failed(name, error)
            self._firing.discard(name)
            return
        schedules.say(name, "")
        self._firing.discard(name)
        if is_settled:
            self._host.lists.changed(ListName.SCHEDULES)
            self._wake()

    async def _is_settled_elsewhere(self, schedule: Schedule, due: int) -> bool:
        """Let the node of a cluster come first whose turn it is; return whether one has fired this, or left it out."""
        if (node := self._host.plan.node) is None:
            return False
        place = await self._place(node, schedule)
        await trio.sleep(TURN_SECONDS * min(place, MAX_TURNS))
        settled = self._schedules.settled
        await settled.load()
        return settled.entry(schedule, self._schedules.clock()).until_ms >= due

    async def _place(self, node: ClusterNode, schedule: Schedule) -> int:
        """Return how many nodes come before this one: where all firings go to one session, its owner is the first.

        One of greater capacity is to claim a session that nobody has. If it does not, this node does when it fires.

        Raises `ConflictError` while no node may own that session.
        """
        place = node.place_for(sender_of(schedule.name))
        if schedule.session != "same":
            return place
        await self._schedules.settled.load()  # another node may have fired the last time
        entry = self._schedules.settled.known(schedule.name)
        if entry is None or not entry.session_id:
            return place
        try:
            owner = await node.other_owner(entry.session_id, passes_on=True)
        except NotFoundError:  # it is gone for good, and a firing makes another one
            return place
        return 0 if owner is None else max(place, 1)

    def _failed(self, name: str, error: Exception) -> None:
        """Say why one schedule does not fire; the next look tries again, and the others go on."""
        if isinstance(error, CallboardError):
            return self._schedules.say(name, str(error))
        problem = f"{FAILED}: {type(error).__name__}"
        if self._schedules.problems.get(name) != problem:
            logger.error("the schedule %s can't fire", name, exc_info=error)
        return self._schedules.say(name, problem)

    async def _settle(self, schedule: Schedule, due: int) -> bool:
        """Put a firing on record, or leave it out; return whether, for it may wait for the one before.

        Raises:
            CallboardError: Neither can be.
        """
        settled, sender = self._schedules.settled, sender_of(schedule.name)
        key = planned_key(schedule, due)
        last = await self._host.plan.store.named_inputs((sender,), MAX_OVERLAPPING)
        runs = any(row.state in {"waiting", "running"} and row.key != key.key for row in last)
        waited = schedule.name in self._waiting
        if runs and schedule.overlap == "queue" and schedule.session == "new":
            self._waiting.add(schedule.name)
            return False
        self._waiting.discard(schedule.name)
        if not waited and schedule.missed == "skip" and self._schedules.clock() - due > ON_TIME_MS:
            if not await self._schedules.is_on_record(key):
                why = self._schedules.problems.get(schedule.name) or MISSED
                settled.skip(schedule, due, why)
                return True
        elif runs and schedule.overlap == "skip":
            settled.skip(schedule, due, OVERLAPS)
            return True
        made = await self._schedules.fire(schedule, key, due)
        settled.fired(schedule, due, made.session_id)
        return True

    def _wake(self) -> None:
        if not self._mailbox.is_closed and not self._mailbox.statistics().depth:
            self._mailbox.tell_nowait(LookAgain())

    async def _save(self) -> None:
        try:
            await self._schedules.settled.save()
        except StorageError as error:
            logger.error("which firings are settled is not kept, but on record: %s", error)

    def _say_all(self, schedules: dict[str, Schedule], problem: str) -> None:
        for name in schedules:
            self._schedules.say(name, problem)

    def _heard(self, stored: tuple[Stored, ...]) -> None:
        """Tell who follows the list that a firing has ended."""
        for each in stored:
            if type(each.event) is TurnEnded and self._schedules.is_of(each.session_id):
                self._host.lists.changed(ListName.SCHEDULES)
                if self._waiting:
                    self._wake()


MISSED = "it was due while nothing fired schedules"
FAILED = "it can't fire, by a fault that the log has"
OVERLAPS = "the one before still ran"
_NEVER_MS = 2**62
"""Later than any clock says."""


class _Next(msgspec.Struct, frozen=True):
    timing: str
    at_ms: int


class _FiringLock:
    """Lets one process fire the schedules of a configuration, whatever data folders there are.

    In the file stands the store of who fired them last: only that one knows which times were fired.

    Attributes:
        is_held: Whether this process fires them.
        problem: Why it must not.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self.is_held = False
        self.problem = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    async def take(self, configuration: Configuration) -> bytes | None:
        """Return whose schedules were fired last, if this process may fire them now, and else `None`."""
        path = configuration.folder / LOCK_NAME
        try:
            last = await trio.to_thread.run_sync(self._take, path)
        except OSError as error:
            self.problem = f"{path} can't be locked: {error.strerror or error}"
            return None
        if last is None:
            self.problem = f"another callboard fires the schedules of {configuration.folder}"
        return last

    def _take(self, path: Path) -> bytes | None:
        if self._descriptor is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        return os.pread(self._descriptor, MAX_EPOCH_BYTES, 0)

    async def note(self, epoch: bytes) -> None:
        """Write whose schedules are fired from now on; a part of it is nobody's name."""
        await trio.to_thread.run_sync(self._note, epoch)

    def _note(self, epoch: bytes) -> None:
        assert self._descriptor is not None, "it is held"
        os.pwrite(self._descriptor, epoch, 0)
        os.fsync(self._descriptor)


@asynccontextmanager
async def firing(schedules: RuntimeSchedules) -> AsyncGenerator[Mailbox[LookAgain]]:
    """Fire the schedules in force around the block, in an actor that is restarted if it crashes; give its address."""
    host, mailbox = schedules.host, Mailbox[LookAgain]("schedules", MAILBOX_CAPACITY)

    def look_again(_: SettingsChange) -> None:
        if not mailbox.is_closed and not mailbox.statistics().depth:
            mailbox.tell_nowait(LookAgain())

    stop_watching = host.force.watch(look_again)
    schedules.scheduler = mailbox
    try:
        async with open_service_nursery("the schedules end") as nursery:
            supervisor = Supervisor(nursery, strict=host.plan.strict)
            make = partial(Scheduler, mailbox, schedules)
            await supervisor.start(mailbox.name, make, mailbox, vital=False)
            yield mailbox
    finally:
        schedules.scheduler = None
        stop_watching()

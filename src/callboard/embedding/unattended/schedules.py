"""Schedules as programs, clients and commands manage them: list, make, change, pause, run, remove.

A schedule of callboard.toml is changed there, one that the program passed by the program; all others are in
managed.toml. Each change is one new file, tried before it is kept, and in force when the method returns.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio

from ...config.files import config_file, load_own_settings, load_settings_of, place_of
from ...config.managed import load_managed, remove_schedule, save_schedule, set_paused
from ...config.settings import Settings
from ...config.validation import checked
from ...runtime.definitions import GENERAL_AGENT
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.identity import RequestKey, new_id, now_ms
from ...runtime.kernel.live_lists import ListName
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.schedules.schedule import MAX_SCHEDULES, Schedule
from ...runtime.schedules.times import next_times
from ...runtime.text import did_you_mean
from ...runtime.wire.schedules import NEXT_TIMES, Firing, ScheduleRow, ScheduleSource
from ..agents import check_agent, check_name
from ..configuration import Configuration, files_of
from ..tools import RuntimeTools, host_of
from .firing import FolderChooser, as_said, asked_key, fire, firings_of, sender_of
from .once import MadeInput, found
from .settled import SettledTimes

NOT_FIRING = "this runtime fires no schedules: `callboard serve` does, or a program with fire=True"
MAX_LATELY = 256
"""Sessions of firings of this process whose ends are told at once; of others a reader hears when it reads again."""
GIVEN_UP = "nothing fires schedules any more, by a fault that the log has: start the daemon anew"

_Known = TypeVar("_Known", Schedule, ScheduleRow)


class ScheduleBook:
    """Changes the schedules of managed.toml. Everything here blocks.

    Args:
        file: The operator's file, which need not exist.
        agents: The agents that there are, beside the configured ones.
    """

    def __init__(self, file: Path | None, agents: Collection[str] = ()) -> None:
        self._file = config_file(file)
        self._agents = {GENERAL_AGENT, *agents}

    def rows(self) -> list[ScheduleRow]:
        """Return all schedules, sorted by name, without their firings."""
        settings = load_settings_of(self._file)
        return [row_of(each, now_ms(), problem="") for each in _sorted(settings.schedules)]

    def row(self, name: str) -> ScheduleRow:
        """Return a schedule; raise `NotFoundError`."""
        return _named({row.name: row for row in self.rows()}, name)

    def create(self, schedule: Schedule) -> None:
        """Add a schedule.

        Raises:
            ConflictError: It stands in callboard.toml; the message says where.
            ValidationError: A field is not what it may be; the message names it.
            StorageError: It can't be written.
        """
        self._check_elsewhere(schedule.name, "choose another name")
        settings = load_settings_of(self._file)
        check_name(schedule.name, settings.schedules, "a schedule")
        if len(settings.schedules) >= MAX_SCHEDULES:
            raise ConflictError(f"there are {MAX_SCHEDULES} schedules already; remove one first")
        self._save(schedule, settings, None)

    def update(self, schedule: Schedule) -> None:
        """Change a schedule as a whole.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml, or has changed since `schedule.updated_at_ms`.
            ValidationError, StorageError: As `create`.
        """
        self._check_elsewhere(schedule.name, "change it there")
        settings = load_settings_of(self._file)
        before = _named(settings.schedules, schedule.name)
        if schedule.updated_at_ms not in {None, before.updated_at_ms}:
            raise ConflictError(
                f"the schedule {schedule.name!r} was changed meanwhile: read it again, and change that."
            )
        self._save(schedule, settings, before.created_at_ms)
        if before.paused != schedule.paused:
            set_paused(self._file.parent, schedule.name, paused=schedule.paused)

    def pause(self, name: str) -> None:
        """Let a schedule not fire until it is resumed. Idempotent. Raises `NotFoundError`, `StorageError`."""
        self.row(name)
        set_paused(self._file.parent, name, paused=True)

    def resume(self, name: str) -> None:
        """Let a schedule fire again; what it was planned for meanwhile is left out. Idempotent.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: callboard.toml says that it is paused.
            StorageError: It can't be written.
        """
        self.row(name)
        own = load_own_settings(self._file, required=False).schedules.get(name)
        if own is not None and own.paused:
            place = place_of(self._file, "schedules", name)
            raise ConflictError(f"the schedule {name!r} is paused in {place}: change it there.")
        set_paused(self._file.parent, name, paused=False)

    def delete(self, name: str) -> None:
        """Remove a schedule; its sessions stay, and turns that run go on.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: It stands in callboard.toml.
            StorageError: It can't be written.
        """
        if name not in (managed := load_managed(self._file.parent)).schedules:
            self._check_elsewhere(name, "remove it there")
            raise _missing(name, managed.schedules)
        remove_schedule(self._file.parent, name)

    def _check_elsewhere(self, name: str, advice: str) -> None:
        if name in load_own_settings(self._file, required=False).schedules:
            place = place_of(self._file, "schedules", name)
            raise ConflictError(f"the schedule {name!r} stands in {place}: {advice}.")

    def _save(self, schedule: Schedule, settings: Settings, created_at_ms: int | None) -> None:
        schedule, now = checked(schedule, "schedule"), now_ms()
        check_agent(schedule.agent, {*self._agents, *settings.agents})
        if schedule.at is not None and schedule.times.after(now) is None:
            raise ValidationError(f"at: {schedule.at} is over already.", field="at")
        times = {"created_at_ms": created_at_ms or now, "updated_at_ms": now}
        save_schedule(self._file.parent, msgspec.structs.replace(schedule, **times))


class RuntimeSchedules:
    """`Runtime.schedules`: the schedules in force, and changes of those that programs and commands made.

    They fire in `callboard serve`, and in a program that opens its runtime with `fire=True`.

    Args:
        runtime: Whose schedules these are.
        data: Its data folder; `None` keeps everything in memory.
        files: Returns the files of its configuration, if it has some.

    Attributes:
        settled: What need not fire any more.
        problems: Why schedules don't fire now, by name.
        clock: The wall clock, in Unix milliseconds.
        scheduler: The address of what fires them, if this runtime does.
        choose_folder: Where their sessions work; a daemon gives it, which has roots.

    Example:
        for schedule in await runtime.schedules.list():
            print(schedule.name, schedule.next_at_ms, schedule.last)
    """

    def __init__(
        self,
        runtime: RuntimeTools,
        data: Path | None,
        files: Callable[[], Configuration | None],
    ) -> None:
        self._runtime = runtime
        self.files = files
        self.host = host_of(runtime)
        self.settled = SettledTimes(data, self.host.plan.node)
        self.problems: dict[str, str] = {}
        self.clock: Callable[[], int] = now_ms
        self.scheduler: Mailbox[Any] | None = None
        self.choose_folder: FolderChooser = as_said
        self._lately: dict[str, None] = {}

    async def list(self) -> builtins.list[ScheduleRow]:
        """Return the schedules in force, sorted by name, each with its next times and its last firing."""
        return await self._rows(_sorted(self.host.settings.schedules))

    async def get(self, name: str) -> ScheduleRow:
        """Return a schedule in force; raise `NotFoundError`."""
        return (await self._rows([self._known(name)]))[0]

    async def create(self, schedule: Schedule) -> ScheduleRow:
        """Make a schedule, which holds at once.

        Raises:
            ConflictError: The runtime has no configuration file, or the schedule stands in callboard.toml.
            ValidationError: A field is not what it may be; the message names it.
        """
        return await self._change(partial(self._book().create, schedule), schedule.name)

    async def update(self, schedule: Schedule) -> ScheduleRow:
        """Change a schedule as a whole. With other times, it is planned from now on.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: As `create`, or it was changed after its `updated_at_ms`.
            ValidationError: As `create`.
        """
        return await self._change(partial(self._book().update, schedule), schedule.name)

    async def pause(self, name: str) -> ScheduleRow:
        """Let a schedule not fire until it is resumed. Idempotent.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: The runtime has no configuration file.
        """
        return await self._change(partial(self._book().pause, name), name)

    async def resume(self, name: str) -> ScheduleRow:
        """Let a schedule fire again; what it was planned for meanwhile is left out. Idempotent.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: As `pause`, or callboard.toml says that it is paused.
        """
        return await self._change(partial(self._book().resume, name), name)

    async def delete(self, name: str) -> None:
        """Remove a schedule; its sessions stay, and turns that run go on.

        Raises:
            NotFoundError: There is none of that name.
            ConflictError: As `pause`, or the schedule stands in callboard.toml.
        """
        self._known(name)
        await self._files().change(partial(self._book().delete, name), self.host)

    async def next(self, name: str, count: int = NEXT_TIMES) -> builtins.list[int]:
        """Return the next planned times of a schedule, in Unix milliseconds, paused or not."""
        await trio.lowlevel.checkpoint()
        return next_times(self._known(name).times, self.clock(), count)

    async def firings(self, name: str, limit: int = 10) -> builtins.list[Firing]:
        """Return the last firings of a schedule on record, the latest first; raise `NotFoundError`."""
        self._known(name)
        return firings_of(await self.host.plan.store.named_inputs((sender_of(name),), limit))

    async def run(self, name: str, *, request: RequestKey | None = None) -> Firing:
        """Fire a schedule now, paused or not; its input is on record when this returns.

        Args:
            name: The schedule.
            request: Where it comes from; what was done already is not done again.

        Raises:
            NotFoundError: There is no such schedule.
            CallboardError: It can't fire; the message says why.
        """
        schedule = self._known(name)
        asked = new_id("run") if request is None else f"{request.sender} {request.key}"
        key = asked_key(schedule, asked)
        await self.settled.load()
        await self.fire(schedule, key, self.clock())
        self.host.lists.changed(ListName.SCHEDULES)
        rows = await self.host.plan.store.named_inputs((key.sender,), 1, key.key)
        if not rows:
            raise NotFoundError(f"the session of this firing of {name!r} was purged meanwhile")
        return firings_of(rows)[0]

    async def fire(self, schedule: Schedule, key: RequestKey, at_ms: int) -> MadeInput:
        """Put the input of a firing on record, unless it is there; raise `CallboardError`."""
        session_id = ""
        if schedule.session == "same":
            rows = await self.host.plan.store.named_inputs((key.sender,), 1)
            entry = self.settled.known(schedule.name)  # outlives the names on record
            session_id = rows[0].session_id if rows else entry.session_id if entry else ""
        made = await fire(self._runtime, self.choose_folder, schedule, key, at_ms, session_id)
        if len(self._lately) >= MAX_LATELY:
            del self._lately[next(iter(self._lately))]
        self._lately[made.session_id] = None
        return made

    def is_of(self, session_id: str) -> bool:
        """Return whether a session is that of a firing, planned or asked for, of late."""
        return session_id in self._lately or self.settled.is_of(session_id)

    async def is_on_record(self, key: RequestKey) -> bool:
        """Return whether a firing is on record."""
        return await found(self._runtime, key) is not None

    def say(self, name: str, problem: str) -> None:
        """Note why a schedule does not fire, or that it does; tell who follows the list."""
        if self.problems.get(name, "") == problem:
            return
        self.problems[name] = problem
        self.host.lists.changed(ListName.SCHEDULES)

    async def _rows(self, schedules: builtins.list[Schedule]) -> builtins.list[ScheduleRow]:
        senders = [sender_of(each.name) for each in schedules]
        found = await self.host.plan.store.named_inputs(senders, 1)
        last = {row.sender: firing for row, firing in zip(found, firings_of(found), strict=True)}
        now = self.clock()
        return [
            row_of(
                each,
                now,
                last=last.get(sender_of(each.name)),
                settled=self.settled,
                problem=self._problem(each.name),
            )
            for each in schedules
        ]

    def _problem(self, name: str) -> str:
        if self.scheduler is None:
            return NOT_FIRING
        return GIVEN_UP if self.scheduler.is_closed else self.problems.get(name, "")

    def _known(self, name: str) -> Schedule:
        return _named(self.host.settings.schedules, name)

    async def _change(self, edit: Callable[[], None], name: str) -> ScheduleRow:
        await self._files().change(edit, self.host)
        return await self.get(name)

    def _files(self) -> Configuration:
        return files_of(self.files())

    def _book(self) -> ScheduleBook:
        return ScheduleBook(self._files().file, self.host.agents)


def row_of(
    schedule: Schedule,
    at_ms: int,
    *,
    problem: str,
    last: Firing | None = None,
    settled: SettledTimes | None = None,
) -> ScheduleRow:
    """Return a schedule as a row, as of now."""
    entry = None if settled is None else settled.known(schedule.name)
    fields = (f for f in ScheduleRow.__struct_fields__ if f in Schedule.__struct_fields__)
    values = {name: getattr(schedule, name) for name in fields}
    source: ScheduleSource = "callboard.toml" if schedule.created_at_ms is None else "managed"
    return ScheduleRow(
        **values,
        source=source,
        next_at_ms=() if schedule.paused else tuple(next_times(schedule.times, at_ms, NEXT_TIMES)),
        last=last,
        skipped_at_ms=None if entry is None else entry.skipped_at_ms,
        skipped="" if entry is None else entry.skipped,
        problem=problem,
    )


def _sorted(schedules: Mapping[str, Schedule]) -> list[Schedule]:
    return [its for _, its in sorted(schedules.items())]


def _named(known: Mapping[str, _Known], name: str) -> _Known:
    if name not in known:
        raise _missing(name, known)
    return known[name]


def _missing(name: str, known: Iterable[str]) -> NotFoundError:
    names = sorted(known)
    there = f"there are: {', '.join(names)}" if names else "there is none"
    return NotFoundError(f"there is no schedule {name!r}; {there}.{did_you_mean(name, names)}")

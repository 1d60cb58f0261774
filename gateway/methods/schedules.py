"""`schedule/…`: which schedules there are, when they fire, and changes of those that programs and commands made."""

from __future__ import annotations

from ...embedding.runtime import host_of
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.schedules.schedule import Schedule
from ...runtime.wire.fields import Role
from ...runtime.wire.schedules import (
    ChangedSchedule,
    Firing,
    FiringList,
    NewSchedule,
    OneSchedule,
    PlannedTimesList,
    ScheduleDraft,
    ScheduleList,
    ScheduleRow,
    SomeTimes,
)
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.workspaces import chosen_workspace

methods = MethodTable()


@methods.add("schedule/list", Role.OBSERVER)
async def list_schedules(caller: Caller, params: Nothing) -> ScheduleList:
    """Return the schedules, sorted by name, each with its next times and its last firing."""
    rows = await caller.runtime.schedules.list()
    return ScheduleList([row for row in rows if _knows(caller, row.agent)])


@methods.add("schedule/get", Role.OBSERVER)
async def get_schedule(caller: Caller, params: OneSchedule) -> ScheduleRow:
    """Return a schedule."""
    _check(caller, params.name)
    return await caller.runtime.schedules.get(params.name)


@methods.add("schedule/next", Role.OBSERVER)
async def next_times(caller: Caller, params: SomeTimes) -> PlannedTimesList:
    """Return the next planned times of a schedule, paused or not."""
    _check(caller, params.name)
    return PlannedTimesList(await caller.runtime.schedules.next(params.name, params.count))


@methods.add("schedule/firings", Role.OBSERVER)
async def list_firings(caller: Caller, params: SomeTimes) -> FiringList:
    """Return the last firings of a schedule and what became of them, the latest first."""
    _check(caller, params.name)
    return FiringList(await caller.runtime.schedules.firings(params.name, params.count))


@methods.add("schedule/run", Role.OPERATOR)
async def run_schedule(caller: Caller, params: OneSchedule) -> Firing:
    """Fire a schedule now; its input is on record when this answers."""
    _check(caller, params.name)
    return await caller.runtime.schedules.run(params.name, request=caller.request)


@methods.add("schedule/create", Role.ADMIN)
async def create_schedule(caller: Caller, params: NewSchedule) -> ScheduleRow:
    """Make a schedule, which holds at once."""
    schedule = await _allowed(caller, params.schedule)
    return await caller.runtime.schedules.create(schedule)


@methods.add("schedule/update", Role.ADMIN)
async def update_schedule(caller: Caller, params: ChangedSchedule) -> ScheduleRow:
    """Change a schedule as a whole; with other times, it is planned from now on."""
    schedule = await _allowed(caller, params.schedule)
    return await caller.runtime.schedules.update(schedule)


@methods.add("schedule/pause", Role.ADMIN)
async def pause_schedule(caller: Caller, params: OneSchedule) -> ScheduleRow:
    """Let a schedule not fire until it is resumed."""
    return await caller.runtime.schedules.pause(params.name)


@methods.add("schedule/resume", Role.ADMIN)
async def resume_schedule(caller: Caller, params: OneSchedule) -> ScheduleRow:
    """Let a schedule fire again; what it was planned for meanwhile is left out."""
    return await caller.runtime.schedules.resume(params.name)


@methods.add("schedule/delete", Role.ADMIN)
async def delete_schedule(caller: Caller, params: OneSchedule) -> Nothing:
    """Remove a schedule; its sessions stay."""
    await caller.runtime.schedules.delete(params.name)
    return Nothing()


async def _allowed(caller: Caller, draft: ScheduleDraft) -> Schedule:
    """Return a schedule whose folder, if it names one, is one in which clients may begin sessions."""
    schedule = draft.schedule()
    if schedule.workspace is not None:
        try:
            async with chosen_workspace(caller.daemon, schedule.workspace):
                pass
        except ValidationError as error:
            raise ValidationError(str(error), field="schedule.workspace") from error
    return schedule


def _check(caller: Caller, name: str) -> None:
    """Raise `NotFoundError` for a schedule that there is not for this caller."""
    schedule = host_of(caller.runtime).settings.schedules.get(name)
    if schedule is not None and not _knows(caller, schedule.agent):
        raise NotFoundError(f"there is no schedule {name!r}")


def _knows(caller: Caller, agent: str) -> bool:
    """Whether the caller may know of an agent's sessions that are still to come."""
    return caller.credential.sessions is None and caller.knows_agent(agent)

"""Schedules on the wire."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ..budget import Budget
from ..definitions import GENERAL_AGENT
from ..errors import ValidationError
from ..schedules.schedule import (
    MAX_PROMPT_CHARS,
    MissedChoice,
    OverlapChoice,
    Schedule,
)
from ..text import WireInteger
from ..turn_options import SessionChoice, Unattended
from .fields import MAX_ITEMS, Line, Word

ScheduleSource = Literal["callboard.toml", "managed", "program"]
"""Where a schedule comes from, and so where it is changed: managed ones by programs and commands."""

NEXT_TIMES = 3
"""Planned times in a row of a list."""


class OneSchedule(msgspec.Struct, frozen=True):
    """A schedule by its name."""

    name: Word


class SomeTimes(msgspec.Struct, frozen=True):
    """How many of a schedule's next planned times, or last firings, are wanted."""

    name: Word
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_ITEMS)] = 10


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    name: Word
    prompt: Annotated[str, msgspec.Meta(max_length=MAX_PROMPT_CHARS)]
    cron: Word | None = None
    every: Word | None = None
    at: Word | None = None
    zone: Word = "UTC"
    agent: Word = GENERAL_AGENT
    workspace: Line | None = None
    session: SessionChoice = "new"
    missed: MissedChoice = "run_once"
    overlap: OverlapChoice = "skip"
    unattended: Unattended | None = None
    budget: Budget | None = None
    paused: bool = False
    updated_at_ms: WireInteger | None = None


class ScheduleDraft(_Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to make, or what one becomes; `callboard.Schedule` explains the fields.

    An `updated_at_ms` says which state was changed: when there is a later one by now, nothing is.
    """

    def schedule(self) -> Schedule:
        """Return the schedule; raise `ValidationError`, which names the field."""
        try:
            return Schedule(**{field: getattr(self, field) for field in self.__struct_fields__})
        except ValueError as error:  # the check of a field, which it names
            problem = str(error)
            raise ValidationError(
                f"schedule.{problem}.", field=f"schedule.{problem.partition(':')[0]}"
            ) from None


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """A firing of a schedule, and what became of it.

    Attributes:
        planned_at_ms: For when it was planned; `None` for one that somebody asked for.
        at_ms: When its input was stored.
        session_id, input_id: The input.
        state: `waiting`, `running`, or how its turn has ended: `answered`, `failed`, `budget`, `cancelled` …
        message: Why, when it was not answered.
    """

    planned_at_ms: int | None
    at_ms: int
    session_id: str
    input_id: str
    state: str
    message: str = ""


class ScheduleRow(_Fields, frozen=True, kw_only=True):
    """A schedule in a list.

    Attributes:
        source: Where it comes from.
        created_at_ms: When it was made, if a program or command made it.
        next_at_ms: When it is planned to fire next; nothing while it is paused, or when it is over.
        last: The last firing.
        skipped_at_ms: The last planned time that was left out, if any is known.
        skipped: Why that was.
        problem: Why it does not fire now, if it should.
    """

    source: ScheduleSource = "managed"
    created_at_ms: int | None = None
    next_at_ms: tuple[int, ...] = ()
    last: Firing | None = None
    skipped_at_ms: int | None = None
    skipped: str = ""
    problem: str = ""


class NewSchedule(msgspec.Struct, frozen=True):
    """A schedule to make."""

    schedule: ScheduleDraft


class ChangedSchedule(msgspec.Struct, frozen=True):
    """What a schedule becomes; its name says which."""

    schedule: ScheduleDraft


class ScheduleList(msgspec.Struct, frozen=True):
    """The schedules, by name."""

    schedules: list[ScheduleRow]


class PlannedTimesList(msgspec.Struct, frozen=True):
    """The next planned times of a schedule, in Unix milliseconds."""

    planned_at_ms: list[int]


class FiringList(msgspec.Struct, frozen=True):
    """The last firings of a schedule, the latest first."""

    firings: list[Firing]


def schedule_of_row(row: ScheduleRow) -> Schedule:
    """Return the schedule of a row."""
    values = {name: getattr(row, name) for name in _Fields.__struct_fields__}
    return Schedule(**values, created_at_ms=row.created_at_ms)


def schedule_draft(schedule: Schedule) -> ScheduleDraft:
    """Return a schedule as a client sends it."""
    return ScheduleDraft(
        **{name: getattr(schedule, name) for name in ScheduleDraft.__struct_fields__}
    )

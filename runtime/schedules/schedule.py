"""A schedule: what is asked, of which agent, when, and what becomes of it while nobody is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from ..budget import Budget
from ..definitions import GENERAL_AGENT
from ..turn_options import SessionChoice, Unattended

if TYPE_CHECKING:
    from .times import PlannedTimes

MAX_PROMPT_CHARS = 64 * 1024
"""A prompt of a schedule stands in a file of settings, which has room for a dozen such; more is for a file."""
MAX_SCHEDULES = 1000
"""Schedules that there may be: each is looked at when another one fires."""

MissedChoice: TypeAlias = Literal["run_once", "skip"]
OverlapChoice: TypeAlias = Literal["skip", "queue"]


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prompt that is sent by itself at planned times, each an input of a session.

    Exactly one of `cron`, `every` and `at` says when.

    Attributes:
        name: Unique.
        prompt: What is asked.
        cron: Five fields: minute, hour, day of the month, month, day of the week, as in `0 9 * * 1-5`.
        every: A number of minutes or hours, as in `15m` or `2h`: at the multiples of it since 1970 in UTC.
        at: Once, as in `2027-01-31T09:00`; an offset may stand behind it, else `zone` counts.
        zone: The time zone of `cron` and `at`, as in `Europe/Berlin`.
        agent: The agent whose tools, model and rules it has.
        workspace: The absolute path of the folder that its sessions work in; without it, as a new session's.
        session: Whether each firing has a new session, or all have the same.
        missed: What becomes of firings that were due while nothing ran: the last one is run once, or none is.
        overlap: What becomes of a firing while the last one's turn still runs: it is left out, or waits.
        unattended: What becomes of calls that need a person: they are denied, or wait for an answer while the
            turn goes on. `None` is as the agent: one with `defer` defers, any other denies.
        budget: The most that each firing may use.
        paused: Whether it does not fire.
        created_at_ms, updated_at_ms: When a program or a command made and last changed it, in Unix
            milliseconds; `None` for one of callboard.toml.

    Example:
        morning = callboard.Schedule(
            name="morning", prompt="What is new here?", cron="0 9 * * 1-5", zone="Europe/Berlin"
        )
        print(morning.times.after(0))
    """

    name: str
    prompt: Annotated[str, msgspec.Meta(max_length=MAX_PROMPT_CHARS)]
    cron: str | None = None
    every: str | None = None
    at: str | None = None
    zone: str = "UTC"
    agent: str = GENERAL_AGENT
    workspace: str | None = None
    session: SessionChoice = "new"
    missed: MissedChoice = "run_once"
    overlap: OverlapChoice = "skip"
    unattended: Unattended | None = None
    budget: Budget | None = None
    paused: bool = False
    created_at_ms: int | None = None
    updated_at_ms: int | None = None

    def __post_init__(self) -> None:
        if not self.prompt.strip():
            raise ValueError("prompt: it is empty; say what is asked")
        if len(self.prompt) > MAX_PROMPT_CHARS:
            raise ValueError(
                f"prompt: it has {len(self.prompt)} characters, and at most {MAX_PROMPT_CHARS} fit; put "
                "more into a file of the workspace, and name that"
            )
        if self.workspace is not None and not self.workspace.startswith("/"):
            raise ValueError(f"workspace: {self.workspace[:200]!r} is not an absolute path")
        if "\0" in (self.workspace or ""):
            raise ValueError("workspace: a path has no NUL")
        _ = self.times

    @property
    def times(self) -> PlannedTimes:
        """When it is planned to fire."""
        from .times import planned_times  # here: most configurations have no schedule

        return planned_times(self.cron, self.every, self.at, self.zone)

    @property
    def timing(self) -> str:
        """What says when it fires, in one text; with another one, planned times count from then on."""
        return f"{self.cron or self.every or self.at} {self.zone}{' paused' if self.paused else ''}"

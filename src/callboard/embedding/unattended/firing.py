"""One firing of a schedule: an input with the planned time as its name, in a new session or always the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ...runtime.identity import RequestKey
from ...runtime.schedules.schedule import Schedule
from ...runtime.store.rows import NamedInputRow
from ...runtime.wire.schedules import Firing
from ..tools import RuntimeTools
from .once import MadeInput, OutsideInput, submit_once

PLANNED = "fire"
"""The method of a firing that was planned; no method of the protocol is named so."""
ASKED_FOR = "run"
"""That of one that somebody asked for."""


FolderChooser = Callable[[str | None], AbstractAsyncContextManager[Path | None]]
"""Gives the folder for what a schedule names, around what begins a session there."""


def sender_of(name: str) -> str:
    """Return the sender on record of a schedule's inputs."""
    return f"schedule:{name}"


def planned_key(schedule: Schedule, planned_ms: int) -> RequestKey:
    """Return the name of a planned firing, which no other one has."""
    return RequestKey(sender_of(schedule.name), PLANNED, _utc(planned_ms), "")


def asked_key(schedule: Schedule, asked: str) -> RequestKey:
    """Return the name of a firing that somebody asked for by this name."""
    digest = hashlib.sha256(asked.encode()).hexdigest()[:40]
    return RequestKey(sender_of(schedule.name), ASKED_FOR, digest, "")


async def fire(
    runtime: RuntimeTools,
    choose: FolderChooser,
    schedule: Schedule,
    key: RequestKey,
    at_ms: int,
    session_id: str,
) -> MadeInput:
    """Put the input of a firing on record, unless it is there.

    Args:
        runtime: Where.
        choose: Gives the folder of a new session, if the schedule may still work there.
        schedule: The schedule.
        key: The name of the firing.
        at_ms: The time that its title says.
        session_id: The session of the last firing, or nothing.

    Raises:
        CallboardError: As `submit_once`.
    """
    is_same = schedule.session == "same"
    given = OutsideInput(
        request=key,
        text=schedule.prompt,
        agent=schedule.agent,
        title=schedule.name
        if is_same
        else f"{schedule.name}, {local_minute(schedule.zone, at_ms)}",
        budget=schedule.budget,
        unattended=schedule.unattended,
    )
    last = session_id if is_same and session_id else None
    folder = partial(choose, schedule.workspace)
    return await submit_once(runtime, given, session_id=last, workspace=folder)


def as_said(folder: str | None) -> AbstractAsyncContextManager[Path | None]:
    """Give the folder that a program's schedule names, or else the runtime's own."""
    return nullcontext(None if folder is None else Path(folder))


def local_minute(zone: str, at_ms: int) -> str:
    """Return a time in a zone, as `2027-01-31 09:00 CET`."""
    from zoneinfo import ZoneInfo  # here: most runtimes have no schedules

    return f"{datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}"


def firings_of(rows: Iterable[NamedInputRow]) -> list[Firing]:
    """Return inputs on record as firings."""
    return [
        Firing(
            planned_at_ms=_ms(row.key) if row.method == PLANNED else None,
            at_ms=row.at_ms,
            session_id=row.session_id,
            input_id=row.input_id,
            state=row.state,
            message=row.message,
        )
        for row in rows
    ]


def _utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000

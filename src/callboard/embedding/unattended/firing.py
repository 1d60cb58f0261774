"""One firing of a schedule: an input with the planned time as its name, in a new session or always the same."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import trio

from ...runtime.errors import CallboardError
from ...runtime.identity import RequestKey
from ...runtime.schedules.schedule import Schedule
from ...runtime.store.rows import NamedInputRow
from ...runtime.wire.schedules import Firing
from ..tools import RuntimeTools, host_of
from .once import MadeInput, OutsideInput, submit_once

PLANNED = "fire"
"""The method of a firing that was planned; no method of the protocol is named so."""
ASKED_FOR = "run"
"""That of one that somebody asked for."""


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
    workspace: Path,
    schedule: Schedule,
    key: RequestKey,
    at_ms: int,
    session_id: str,
) -> MadeInput:
    """Put the input of a firing on record, unless it is there.

    Args:
        runtime: Where.
        workspace: The runtime's own folder.
        schedule: The schedule.
        key: The name of the firing.
        at_ms: The time that its title says.
        session_id: The session of the last firing, or nothing.

    Raises:
        CallboardError: As `submit_once`.
    """
    is_same = schedule.session == "same"

    @asynccontextmanager
    async def folder() -> AsyncGenerator[Path | None]:
        async with _folder(runtime, workspace, schedule) as chosen:
            yield chosen

    given = OutsideInput(
        request=key,
        text=schedule.prompt,
        agent=schedule.agent,
        title=schedule.name if is_same else f"{schedule.name}, {local_minute(schedule, at_ms)}",
        budget=schedule.budget,
        unattended=schedule.unattended,
    )
    last = session_id if is_same and session_id else None
    return await submit_once(runtime, given, session_id=last, workspace=folder)


@asynccontextmanager
async def _folder(
    runtime: RuntimeTools, workspace: Path, schedule: Schedule
) -> AsyncGenerator[Path | None]:
    """The folder of a new session: the schedule's, a new one where sessions have their own, or the runtime's."""
    folders = host_of(runtime).plan.folders
    if schedule.workspace is not None:
        yield Path(schedule.workspace)
    elif folders.path is None or workspace != folders.path:
        yield None
    else:
        made = await trio.to_thread.run_sync(folders.make)
        try:
            yield made
        except CallboardError:
            with trio.CancelScope(shield=True):  # one look at the disk
                await trio.to_thread.run_sync(folders.take_back, made)
            raise


def local_minute(schedule: Schedule, at_ms: int) -> str:
    """Return a time in the zone of a schedule, as `2027-01-31 09:00`."""
    from zoneinfo import ZoneInfo  # here: most runtimes have no schedules

    return f"{datetime.fromtimestamp(at_ms / 1000, ZoneInfo(schedule.zone)):%Y-%m-%d %H:%M}"


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

"""Runtimes with schedules, and a clock on the wall that a test sets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import trio

import callboard
from callboard.embedding.runtime import host_of
from callboard.embedding.unattended.scheduler import LookAgain, firing
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted import ScriptStep
from callboard.runtime.errors import CallboardError
from callboard.runtime.events import InputAccepted
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.runtime.schedules.schedule import Schedule
from support.stage import open_in
from support.waits import until

BERLIN = "Europe/Berlin"
MORNING = Schedule(name="morning", prompt="What is new?", cron="0 9 * * *", zone=BERLIN)


def ms(text: str, zone: str = BERLIN) -> int:
    """A time there as Unix milliseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


class Wall:
    """A clock on the wall, which goes with Trio's and can be set."""

    def __init__(self, text: str) -> None:
        self.set(text)

    def set(self, text: str) -> None:
        self._offset = ms(text) - trio.current_time() * 1000

    def move(self, seconds: float) -> None:
        """Sets it forward, or with less than 0 back."""
        self._offset += seconds * 1000

    def __call__(self) -> int:
        return int(trio.current_time() * 1000 + self._offset)


class Scene:
    """A runtime that fires schedules.

    Attributes:
        runtime: It.
        wall: Its clock on the wall.
    """

    def __init__(self, runtime: callboard.Runtime, wall: Wall, address: Mailbox[LookAgain]) -> None:
        self.runtime = runtime
        self.wall = wall
        self._address = address

    async def look(self) -> None:
        """Has the scheduler look at the clock, as it does twice a minute, and waits until it has settled all."""
        await self._address.tell(LookAgain())
        await until(lambda: not self._address.statistics().depth)  # it may still write the last one
        await self.settled()

    async def settled(self) -> None:
        """Waits until nothing is due, and all turns have ended."""
        schedules = self.runtime.schedules
        while True:
            await trio.sleep(0.003)
            now = self.wall()
            due = [
                each.name
                for each in host_of(self.runtime).settings.schedules.values()
                if not each.paused and not schedules.problems.get(each.name)
                if (planned := each.times.until(now)) is not None
                if (entry := schedules.settled.known(each.name)) is None or entry.until_ms < planned
            ]
            if not due and not (await self.runtime.status()).turns:
                return

    async def fired(self, name: str = "morning") -> list[str]:
        """The planned times of the firings on record, in the order in which they were stored."""
        rows = await self.runtime.schedules.firings(name, 1000)
        return [
            f"{datetime.fromtimestamp(each.planned_at_ms / 1000, ZoneInfo(BERLIN)):%m-%d %H:%M %Z}"
            for each in reversed(rows)
            if each.planned_at_ms is not None
        ]

    async def inputs(self) -> list[str]:
        """The names outside of all inputs of all sessions, deleted ones too: no two are the same."""
        names: list[str] = []
        for row in await self.runtime.store.sessions(limit=10_000, include_deleted=True):
            names += [
                f"{stored.event.request.sender} {stored.event.request.key}"
                for stored in await self.runtime.store.events(row.session_id)
                if isinstance(stored.event, InputAccepted) and stored.event.request
            ]
        return sorted(names)


@asynccontextmanager
async def scheduling(
    folder: Path,
    now: str | Wall,
    *schedules: Schedule,
    steps: Sequence[ScriptStep] = (reply("Done."),) * 50,
    store: str = "memory",
    **options: Any,
) -> AsyncGenerator[Scene]:
    """A runtime in which these fire, at this time in Berlin."""
    by_name = {each.name: each for each in schedules}
    if "config" not in options:
        options["settings"] = msgspec.structs.replace(
            options.get("settings") or callboard.Settings(), schedules=by_name
        )
    async with open_in(folder, steps, store, **options) as runtime:
        wall = runtime.schedules.clock = Wall(now) if isinstance(now, str) else now
        async with firing(runtime.schedules) as address:
            scene = Scene(runtime, wall, address)
            await scene.settled()
            yield scene


async def refused(change: Any) -> str:
    """What a change is refused with."""
    try:
        await change
    except CallboardError as error:
        return str(error)
    raise AssertionError("it was not refused")

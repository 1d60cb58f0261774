"""What is on record of a session that an editor drove."""

from __future__ import annotations

from callboard.runtime.events import DurableEvent
from callboard.runtime.store.sqlite_store import open_reader
from support.cli.command import Command


async def events_of(command: Command, session: str) -> list[DurableEvent]:
    """The events on record."""
    reader = await open_reader(command.home / "data")
    found = [stored.event for stored in await reader.events(session)]
    await reader.aclose()
    return found

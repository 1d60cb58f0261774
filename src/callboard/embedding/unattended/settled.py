"""Up to when the planned times of each schedule are settled: fired, left out, or before its time.

The record says which firings there are, and this file what need not be looked for there: the times before a
schedule was made, changed or resumed, and those that were left out. It also outlives sessions that were purged
with their keys. It lags behind the record after a kill, which costs nothing: the store refuses what it has.

Nodes of a cluster keep it in their database, so that what one left out no other fires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from ...config.private_file import read_private, write_private
from ...runtime.errors import StorageError
from ...runtime.redaction import redacting_logger
from ...runtime.schedules.schedule import MAX_SCHEDULES, Schedule

logger = redacting_logger(__name__)

FILE_NAME = "schedules.json"
MAX_BYTES = 4096 * MAX_SCHEDULES
"""More than its entries take: their longest texts are bounded, and each character may be escaped."""
MAX_WHY_CHARS = 500
"""Why a time was left out, which may be an error with a path."""


class SharedTimes(Protocol):
    """Where several nodes fire schedules: what all of them have settled."""

    async def settled_times(self) -> dict[str, str]:
        """Return what is settled of each schedule, as JSON."""
        ...

    async def settle_times(self, entries: Collection[tuple[str, int, str]]) -> None:
        """Write what is settled of some: the name, up to when, and all of it as JSON."""
        ...


AHEAD_MS = 60_000
"""A time that is settled further ahead was settled by a clock that was wrong; one set back by less waits for it."""


class Settled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is settled of one schedule.

    Attributes:
        timing: What said when it fires; with another one, times count from when that is seen.
        until_ms: Planned times up to here are settled.
        session_id: The session of its last firing.
        skipped_at_ms: The last planned time that was left out.
        skipped: Why.
    """

    timing: str
    until_ms: int
    session_id: str = ""
    skipped_at_ms: int | None = None
    skipped: str = ""


_ONE = msgspec.json.Decoder(Settled)
_SETTLED = msgspec.json.Decoder(dict[str, Settled])


class SettledTimes:
    """What is settled of all schedules of a runtime, which alone writes the file.

    Args:
        folder: The data folder; `None` keeps it in memory.
        shared: Keeps it in the database instead, for all nodes of a cluster; a file of the time before is read.
    """

    def __init__(self, folder: Path | None, shared: SharedTimes | None = None) -> None:
        self._path = None if folder is None else folder / FILE_NAME
        self._shared = shared
        self._changed: set[str] = set()
        self._entries: dict[str, Settled] = {}
        self._is_loaded = False
        self._is_dirty = False
        self._saving = trio.Lock()

    async def load(self) -> None:
        """Read the file, once; one that can't be read is as none, and is logged.

        What other nodes have settled is read each time, and counts from then on. The file of a daemon that was alone
        before it was a node says what no node needs to fire.

        Raises:
            StorageError: The database can't be read.
        """
        if self._shared is not None:
            for key, text in (await self._shared.settled_times()).items():
                name, found = key.partition(" ")[0], _ONE.decode(text)
                known = self._entries.get(name)
                if known is None or (
                    known.timing == found.timing and known.until_ms < found.until_ms
                ):
                    self._entries[name] = found
        if self._is_loaded:
            return
        path, self._is_loaded = self._path, True
        if path is None:
            return
        try:
            data = await trio.to_thread.run_sync(read_private, path, MAX_BYTES)
            own = _SETTLED.decode(data or b"{}")
        except (StorageError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            logger.error("%s can't be used; firings missed before now are not run: %s", path, error)
            return
        if self._shared is None:
            self._entries = own
            return
        for name, entry in own.items():
            known = self._entries.get(name)
            if known is None or (known.timing == entry.timing and known.until_ms < entry.until_ms):
                self._put(name, entry)

    def known(self, name: str) -> Settled | None:
        """Return what is settled of a schedule, if it was ever looked at."""
        return self._entries.get(name)

    def entry(self, schedule: Schedule, now_ms: int) -> Settled:
        """Return what is settled of a schedule: of a new one all before it was made, of a changed one all up to now."""
        name, found = schedule.name, self._entries.get(schedule.name)
        # By a command while nothing fired: it may have missed a time since. Of the operator's file nobody knows.
        changed_ms = now_ms if schedule.updated_at_ms is None else schedule.updated_at_ms
        if found is None:
            self._put(name, Settled(timing=schedule.timing, until_ms=min(changed_ms, now_ms)))
        elif found.timing != schedule.timing or found.until_ms > now_ms + AHEAD_MS:
            session_id = found.session_id
            self._put(name, Settled(timing=schedule.timing, until_ms=now_ms, session_id=session_id))
        elif found.until_ms < changed_ms < now_ms:  # resumed or made again, while nothing looked
            self._put(name, msgspec.structs.replace(found, until_ms=changed_ms))
        return self._entries[name]

    def fired(self, schedule: Schedule, planned_ms: int, session_id: str) -> None:
        """Note a firing, which is on record."""
        self._change(schedule, planned_ms, session_id=session_id)

    def skip(self, schedule: Schedule, planned_ms: int, why: str) -> None:
        """Note that a planned time is left out."""
        self._change(schedule, planned_ms, skipped_at_ms=planned_ms, skipped=why[:MAX_WHY_CHARS])

    def settle_all(self, schedules: Iterable[Schedule], now_ms: int) -> None:
        """Leave out all planned times of these up to now: somebody else may have fired them."""
        for each in schedules:
            found = self.entry(each, now_ms)
            until_ms = max(found.until_ms, now_ms)
            self._put(each.name, msgspec.structs.replace(found, until_ms=until_ms))

    def is_of(self, session_id: str) -> bool:
        """Return whether a session is that of some schedule's last firing."""
        return any(entry.session_id == session_id for entry in self._entries.values())

    def keep_only(self, names: Collection[str]) -> None:
        """Forget schedules that are gone."""
        for name in self._entries.keys() - names if self._shared is None else ():
            del self._entries[name]
            self._is_dirty = True

    async def save(self) -> None:
        """Write what has changed; several changes at once are one file.

        Raises:
            StorageError: It can't be written; the next `save` tries again.
        """
        async with self._saving:
            if self._shared is not None:
                await self._share(self._shared)
                return
            if self._path is None or not self._is_dirty:
                return
            self._is_dirty = False
            data = msgspec.json.encode(self._entries)
            try:
                await trio.to_thread.run_sync(
                    lambda path: write_private(path, data, replace=True), self._path
                )
            except BaseException:
                self._is_dirty = True
                raise

    async def _share(self, shared: SharedTimes) -> None:
        if names := set(self._changed):
            entries = {name: self._entries[name] for name in names}
            await shared.settle_times(
                [
                    # Nodes may have other times for a name: each is settled apart.
                    (f"{name} {entry.timing}", entry.until_ms, msgspec.json.encode(entry).decode())
                    for name, entry in entries.items()
                ]
            )
            self._changed -= {name for name in names if self._entries[name] == entries[name]}

    def _change(self, schedule: Schedule, planned_ms: int, **changes: object) -> None:
        found = self._entries.get(schedule.name)
        if found is not None and found.timing == schedule.timing:  # else it was changed meanwhile
            until_ms = max(found.until_ms, planned_ms)
            self._put(schedule.name, msgspec.structs.replace(found, until_ms=until_ms, **changes))

    def _put(self, name: str, entry: Settled) -> None:
        if self._entries.get(name) != entry:
            self._entries[name] = entry
            self._is_dirty = True
            if self._shared is not None:
                self._changed.add(name)

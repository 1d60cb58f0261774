"""When a schedule is planned to fire: a pure function of what it says and the wall clock.

Each planned time is a whole second in UTC. cronsim has the rules of Debian's cron for the days on which a zone's
clocks change. Of `cron` with a fixed minute and hour: a time that does not exist that day is planned for the first
minute that does, and one that exists twice is planned once, the first time. Others (`*/15 * * * *`) are of real
time: what lies in the hour that is left out is not planned, and the hour that is repeated has them twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

MAX_FIELD_CHARS = 256
"""No expression is sensibly longer; one of a thousand lists would take long to read."""
MIN_EVERY_SECONDS = 60
"""More often is a program that runs, not a schedule."""
MAX_EVERY_SECONDS = 24 * 3600
"""What is rarer has a time of the day, which `cron` says."""
FOLD_HOURS = 3
"""More than any zone ever set its clocks back at once: two hours."""

_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
"""The words that cron has for some expressions."""
_EVERY = re.compile(r"([0-9]{1,5})(m|h)")
_UNITS = {"m": 60, "h": 3600}


class PlannedTimes(Protocol):
    """When something is planned, in Unix milliseconds."""

    def after(self, at_ms: int) -> int | None:
        """Return the first planned time after one; `None` when there is none."""
        ...

    def until(self, at_ms: int) -> int | None:
        """Return the last planned time up to one, and at it; `None` when there is none."""
        ...


def next_times(times: PlannedTimes, at_ms: int, count: int) -> list[int]:
    """Return the next planned times after one."""
    found: list[int] = []
    while len(found) < count and (planned := times.after(at_ms)) is not None:
        found.append(planned)
        at_ms = planned
    return found


@lru_cache(maxsize=4096)
def planned_times(cron: str | None, every: str | None, at: str | None, zone: str) -> PlannedTimes:
    """Return when something is planned.

    Raises:
        ValueError: It can't be; the text begins with the field that is wrong.
    """
    given = [
        name for name, its in (("cron", cron), ("every", every), ("at", at)) if its is not None
    ]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "nothing says when"
        raise ValueError(f"cron: {what}; give one of cron, every and at")
    where = _zone(zone)
    if cron is not None:
        return _Cron(cron, where)
    return _Every(every) if every is not None else _Once(at or "", where)


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if len(name) > MAX_FIELD_CHARS:
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder
        raise ValueError(
            f"zone: there is no time zone {name[:80]!r}; write one like Europe/Berlin, or UTC"
        ) from None


class _Cron:
    def __init__(self, text: str, zone: ZoneInfo) -> None:
        self._text = text
        self._zone = zone
        if len(text) > MAX_FIELD_CHARS:
            raise ValueError(f"cron: it has more than {MAX_FIELD_CHARS} characters")
        text = self._text = _WORDS.get(text.strip(), text)
        if (count := len(text.split())) != 5:
            raise ValueError(
                f"cron: {text[:80]!r} has {count} field{'' if count == 1 else 's'}, and five are wanted: minute, "
                "hour, day of the month, month and day of the week, as in '0 9 * * 1-5'; or one of "
                f"{', '.join(_WORDS)}"
            )
        from cronsim import CronSim, CronSimError

        self._sim = CronSim
        try:
            self._sim(text, datetime.now(UTC))
        except CronSimError as error:
            problem = str(error).removeprefix("Bad ")
            raise ValueError(
                f"cron: {text[:80]!r} can't be read, or never fires: look at its {problem}"
            ) from None
        if self.after(0) is None:
            raise ValueError(f"cron: {text[:80]!r} never fires")

    def after(self, at_ms: int) -> int | None:
        """See `PlannedTimes`."""
        # In the hour that is repeated cronsim may return a time of its first half, which is over.
        for found in self._sim(self._text, self._local(at_ms)):
            if (planned := _ms(found)) > at_ms:
                return planned
        return None

    def until(self, at_ms: int) -> int | None:
        """See `PlannedTimes`."""
        begin = self._local(at_ms + FOLD_HOURS * 3_600_000)
        for found in self._sim(self._text, begin, reverse=True):
            if (planned := _ms(found)) <= at_ms:
                return planned
        return None

    def _local(self, at_ms: int) -> datetime:
        return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(self._zone)


class _Every:
    def __init__(self, text: str) -> None:
        found = _EVERY.fullmatch(text)
        seconds = 0 if found is None else int(found[1]) * _UNITS[found[2]]
        if not MIN_EVERY_SECONDS <= seconds <= MAX_EVERY_SECONDS:
            raise ValueError(
                f"every: {text[:80]!r} is not a number of minutes or hours, from 1m to 24h, as in 15m; what is "
                "rarer is said with cron"
            )
        self._step = seconds * 1000

    def after(self, at_ms: int) -> int:
        """See `PlannedTimes`."""
        return (at_ms // self._step + 1) * self._step

    def until(self, at_ms: int) -> int:
        """See `PlannedTimes`."""
        return at_ms // self._step * self._step


class _Once:
    def __init__(self, text: str, zone: ZoneInfo) -> None:
        try:
            given = datetime.fromisoformat(text)
            found = given if given.tzinfo is not None else given.replace(tzinfo=zone)
            there = found.astimezone(UTC).astimezone(found.tzinfo)
        except (ValueError, OverflowError):  # OverflowError: the first or last day of all
            raise ValueError(f"at: {text[:80]!r} is not a time like 2027-01-31T09:00") from None
        if there.replace(tzinfo=None) != found.replace(tzinfo=None):
            raise ValueError(
                f"at: {text[:80]!r} does not exist in {zone.key}: the clocks are set forward then"
            )
        self._planned = _ms(found.replace(microsecond=0))

    def after(self, at_ms: int) -> int | None:
        """See `PlannedTimes`."""
        return self._planned if self._planned > at_ms else None

    def until(self, at_ms: int) -> int | None:
        """See `PlannedTimes`."""
        return self._planned if self._planned <= at_ms else None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ms(at: datetime) -> int:
    return int((at - _EPOCH) / timedelta(seconds=1)) * 1000

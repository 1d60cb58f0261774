"""get_current_time: the date and time in any time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import trio

from ...runtime.definitions import Effect, Tier, ToolResult
from ..failures import invalid
from ..tool import tool
from ..workspace.paths import shown

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

# Not strftime's, which follow the locale of the embedding program.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
MAX_ZONE_CHARACTERS = 64
"""The longest IANA name has 32."""


@tool(tier=Tier.READ_ONLY, timeout_seconds=5, effect=Effect.READ, output=str)
async def get_current_time(
    timezone: str | None = None,
    format: Literal["iso8601", "human_readable"] = "iso8601",  # ruff: ignore[builtin-argument-shadowing]
) -> ToolResult:
    """Tells the current date and time in a time zone.

    Args:
        timezone: An IANA zone name such as Asia/Tokyo or UTC; default: this machine's zone.
        format: iso8601, or human_readable like Saturday, November 21, 2026 at 9:05:07 PM UTC.
    """
    await trio.lowlevel.checkpoint()
    now = datetime.now(UTC)
    moment = now.astimezone() if timezone is None else now.astimezone(_zone(timezone))
    text = moment.isoformat(timespec="seconds") if format == "iso8601" else in_words(moment)
    return ToolResult(output=text, display=text)


def in_words(moment: datetime) -> str:
    """Return a moment as a person would say it, in English."""
    hour = moment.hour % 12 or 12
    half = "AM" if moment.hour < 12 else "PM"
    day = f"{_DAYS[moment.weekday()]}, {_MONTHS[moment.month - 1]} {moment.day}, {moment.year}"
    return f"{day} at {hour}:{moment.minute:02}:{moment.second:02} {half} {moment.tzname()}"


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo  # here, as below: most programs need no other zone

    try:
        if not 0 < len(name) <= MAX_ZONE_CHARACTERS:
            raise ValueError
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # zoneinfo opens a file of that name, and fails in many ways for a wrong one.
        raise invalid(
            "timezone",
            f"timezone: {shown(name[:MAX_ZONE_CHARACTERS])!r} is not an IANA time zone name such "
            f"as Europe/Berlin. {_hint(name)}".rstrip(),
        ) from None


def _hint(name: str) -> str:
    import difflib
    import importlib.resources

    zones = importlib.resources.files("tzdata").joinpath("zones").read_text("utf-8").split()
    by_city = {zone.rpartition("/")[2].casefold(): zone for zone in zones}
    wanted = name[:MAX_ZONE_CHARACTERS].rpartition("/")[2].casefold().replace(" ", "_")
    close = difflib.get_close_matches(wanted, by_city, n=1, cutoff=0.8)
    return f"Did you mean {by_city[close[0]]}?" if close else ""

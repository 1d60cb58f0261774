"""get_current_time: zones, formats, and what is no zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from callboard.tools.agent.clock import in_words
from support.tools.workbench import Caller


async def test_the_time_is_now_in_the_zone(caller: Caller) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    told = {
        zone: datetime.fromisoformat(await caller.output("get_current_time", timezone=zone))
        for zone in ("Asia/Tokyo", "UTC", "Asia/Kathmandu")
    }
    after = datetime.now(UTC)
    assert all(before <= moment <= after for moment in told.values())
    assert told["Asia/Tokyo"].utcoffset() == timedelta(hours=9)
    assert told["Asia/Kathmandu"].utcoffset() == timedelta(hours=5, minutes=45)
    assert told["UTC"].utcoffset() == timedelta()


async def test_without_a_zone_it_is_the_machines(caller: Caller) -> None:
    told = datetime.fromisoformat(await caller.output("get_current_time", timezone=None))
    assert told.utcoffset() == told.astimezone().utcoffset()


async def test_in_words_it_names_the_zone(caller: Caller) -> None:
    result = await caller.result("get_current_time", timezone="Asia/Tokyo", format="human_readable")
    assert result.output.endswith("M JST")
    assert result.display == result.output


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (
            datetime(2026, 11, 21, 21, 5, 7, tzinfo=UTC),
            "Saturday, November 21, 2026 at 9:05:07 PM UTC",
        ),
        (datetime(2026, 1, 5, 0, 0, 0, tzinfo=UTC), "Monday, January 5, 2026 at 12:00:00 AM UTC"),
        (datetime(2026, 1, 4, 12, 0, 0, tzinfo=UTC), "Sunday, January 4, 2026 at 12:00:00 PM UTC"),
        (
            datetime(2026, 7, 1, 11, 59, 59, tzinfo=ZoneInfo("Europe/Berlin")),
            "Wednesday, July 1, 2026 at 11:59:59 AM CEST",
        ),
    ],
)
def test_words_for_a_moment(moment: datetime, words: str) -> None:
    assert in_words(moment) == words


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Tokyo", "Did you mean Asia/Tokyo?"),
        ("new york", "Did you mean America/New_York?"),
        ("asia/Tokio", "Did you mean Asia/Tokyo?"),
        ("America", ""),
        ("../../etc/passwd", ""),
        ("/etc/localtime", ""),
        ("a\0b", ""),
        ("", ""),
        ("x" * 5_000, ""),
    ],
)
async def test_what_is_no_zone_is_refused(caller: Caller, zone: str, hint: str) -> None:
    failure = await caller.failure("get_current_time", timezone=zone)
    assert failure.error_type == "validation_error"
    assert failure.details["field"] == "timezone"
    assert "IANA" in str(failure)
    assert hint in str(failure)
    assert len(str(failure)) < 250


async def test_other_formats_are_refused(caller: Caller) -> None:
    failure = await caller.failure("get_current_time", format="unix")
    assert failure.details["field"] == "format"

"""When schedules are planned to fire: on days on which clocks change too, and what can't be planned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.schedules.schedule import MAX_PROMPT_CHARS, Schedule
from callboard.runtime.schedules.times import PlannedTimes, next_times, planned_times

BERLIN = "Europe/Berlin"
MINUTE_MS = 60_000


def cron(text: str, zone: str = BERLIN) -> PlannedTimes:
    return planned_times(text, None, None, zone)


def ms(text: str, zone: str = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def shown(times: list[int], zone: str = BERLIN) -> list[str]:
    return [
        f"{datetime.fromtimestamp(each / 1000, ZoneInfo(zone)):%m-%d %H:%M %Z}" for each in times
    ]


NEXT = [
    # The clocks go from 2:00 to 3:00 on 29 March 2026, and from 3:00 to 2:00 on 25 October.
    ("0 9 * * 1-5", "2026-03-27T12:00", ["03-30 09:00 CEST", "03-31 09:00 CEST"]),
    ("30 2 * * *", "2026-03-28T12:00", ["03-29 03:00 CEST", "03-30 02:30 CEST"]),
    ("30 2 * * *", "2026-10-24T12:00", ["10-25 02:30 CEST", "10-26 02:30 CET"]),
    ("0 * * * *", "2026-03-29T01:30", ["03-29 03:00 CEST", "03-29 04:00 CEST"]),
    ("0 * * * *", "2026-10-25T01:30", ["10-25 02:00 CEST", "10-25 02:00 CET", "10-25 03:00 CET"]),
    ("0 12 29 2 *", "2026-03-01T00:00", ["02-29 12:00 CET", "02-29 12:00 CET"]),  # 2028 and 2032
    ("0 0 L * *", "2027-02-01T00:00", ["02-28 00:00 CET", "03-31 00:00 CEST"]),
    ("0 0 13 * 5", "2026-11-01T00:00", ["11-06 00:00 CET", "11-13 00:00 CET"]),  # either day
]  # fmt: skip


@pytest.mark.parametrize(("text", "after", "wanted"), NEXT)
def test_what_is_next(text: str, after: str, wanted: list[str]) -> None:
    assert shown(next_times(cron(text), ms(after), len(wanted))) == wanted


def test_every_so_often_is_counted_from_midnight() -> None:
    quarter = planned_times(None, "15m", None, BERLIN)
    assert shown(next_times(quarter, ms("2026-10-25T01:50"), 2)) == ["10-25 02:00 CEST", "10-25 02:15 CEST"]  # fmt: skip
    assert shown(next_times(planned_times(None, "6h", None, "UTC"), ms("2026-01-01T07:00"), 1), "UTC") == ["01-01 12:00 UTC"]  # fmt: skip


def test_once_is_once() -> None:
    once = planned_times(None, None, "2026-10-25T02:30", BERLIN)
    planned = ms("2026-10-25T02:30")
    assert (once.after(planned - 1), once.after(planned)) == (planned, None)
    assert (once.until(planned - 1), once.until(planned)) == (None, planned)
    with_offset = planned_times(None, None, "2026-10-25T02:30+05:00", BERLIN)
    assert shown(next_times(with_offset, 0, 5), "UTC") == ["10-24 21:30 UTC"]


FIELDS = st.tuples(
    st.sampled_from(["0", "30", "*", "*/15", "5-50/7", "59"]),
    st.sampled_from(["*", "1", "2", "3", "1-3", "*/2", "0,23"]),
    st.sampled_from(["*", "1", "25", "29", "L", "28-31"]),
    st.sampled_from(["*", "3", "10", "2", "3,4,10,11"]),
    st.sampled_from(["*", "0", "1-5", "7", "SUN", "1#2"]),
).map(" ".join)
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu", "Antarctica/Troll")  # fmt: skip
AROUND = st.one_of(
    st.integers(ms("2026-03-07T00:00"), ms("2026-04-06T00:00")),
    st.integers(ms("2026-10-03T00:00"), ms("2026-11-02T00:00")),
)


@given(text=FIELDS, zone=st.sampled_from(ZONES), at_ms=AROUND)
def test_the_last_time_and_the_next_one_have_none_between(text: str, zone: str, at_ms: int) -> None:
    """Both directions agree, around the days on which clocks change: nothing is left out, nothing comes twice."""
    try:
        times = cron(text, zone)
    except ValueError:  # the 31st of February
        return
    last, following = times.until(at_ms), times.after(at_ms)
    assert last is not None
    assert following is not None
    assert last <= at_ms < following
    assert times.after(last) == following
    assert times.until(following) == following
    assert times.until(following - 1) == last
    assert times.after(last - 1) == last


BAD: list[tuple[dict[str, str], str]] = [
    ({}, "cron: nothing says when"),
    ({"cron": "0 9 * * *", "every": "1h"}, "cron: cron and every are given"),
    ({"cron": "@often"}, "cron: '@often' has 1 field, .* or one of @hourly, @daily"),
    ({"cron": "0 9 * *"}, "cron: .* has 4 fields"),
    ({"cron": "0 0 9 * * *"}, "cron: .* has 6 fields"),
    ({"cron": "61 9 * * *"}, "cron: .* look at its minute"),
    ({"cron": "0 0 30 2 *"}, "cron: .* never fires: look at its day-of-month"),
    ({"cron": "0 0 31 4,6,9,11 *"}, "cron: .* never fires"),
    ({"cron": "1," * 200 + "1 * * * *"}, "cron: it has more than 256"),
    ({"every": "30s"}, "every: '30s' .* from 1m to 24h"),
    ({"every": "0m"}, "every"),
    ({"every": "25h"}, "every"),
    ({"at": "tomorrow"}, "at: 'tomorrow' is not a time like"),
    ({"at": "0001-01-01T00:00"}, "at: "),
    ({"at": "2026-03-29T02:30"}, "at: .* does not exist in Europe/Berlin"),
    ({"every": "1h", "zone": "Europe/Berlni"}, "zone: there is no time zone 'Europe/Berlni'"),
    ({"every": "1h", "zone": "../../etc/passwd"}, "zone"),
    ({"every": "1h", "zone": "Europe"}, "zone"),
    ({"every": "1h", "workspace": "here"}, "workspace: 'here' is not an absolute path"),
    ({"every": "1h", "workspace": "/a\0b"}, "workspace: a path has no NUL"),
    ({"every": "1h", "prompt": "  "}, "prompt: it is empty"),
    ({"every": "1h", "prompt": "x" * (MAX_PROMPT_CHARS + 1)}, "prompt: it has 65537 characters"),
]


@pytest.mark.parametrize(("fields", "said"), BAD, ids=lambda each: str(each)[:40])
def test_what_can_not_be_planned_names_its_field(fields: dict[str, str], said: str) -> None:
    good = {"name": "a", "prompt": "Go.", "zone": BERLIN}
    with pytest.raises(ValueError, match=said):
        Schedule(**{**good, **fields})  # type: ignore[arg-type]


def test_a_rare_day_is_found() -> None:
    """29 February on a Monday: once in 28 years."""
    assert shown(next_times(cron("0 0 29 2 */7"), ms("2026-01-01T00:00"), 1))
    found = cron("0 0 * 2 MON#5").after(ms("2026-01-01T00:00"))
    assert found is not None
    assert datetime.fromtimestamp(found / 1000, UTC) - datetime(2026, 1, 1, tzinfo=UTC) > timedelta(
        6000
    )

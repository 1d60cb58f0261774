"""Sums of what model calls took and cost; what is unknown stays unknown."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from typing import Any

import pytest

from callboard.config.prices import Price, PriceTable
from callboard.config.usage_sums import PAGE_ROWS, UsageBy, UsageReport, UsageSums, read_usage
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import MessageCompleted, SessionCreated
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append, UsageRow
from callboard.runtime.stream import Usage

MILLION = 1_000_000
PRICES = PriceTable({"p/m": Price(input=1.0, output=2.0), "p/free": Price(input=0, output=0)})
EVENING_MS = 1_767_139_200_000  # 2025-12-31 00:00 UTC


def row(**fields: Any) -> UsageRow:
    values: dict[str, Any] = {
        "position": 1,
        "session_id": "s1",
        "agent": "general",
        "turn_id": "t1",
        "message_id": "m1",
        "provider": "p",
        "model": "m",
        "input_tokens": MILLION,
        "output_tokens": MILLION,
        "cached_tokens": None,
        "reasoning_tokens": None,
        "cache_write_tokens": None,
        "created_at_ms": EVENING_MS,
    }
    return UsageRow(**{**values, **fields})


def report_of(*rows: UsageRow, by: UsageBy = "session", zone: Any = None) -> UsageReport:
    sums = UsageSums(by, PRICES, zone)
    for each in rows:
        sums.add(each)
    return sums.report()


def test_calls_of_one_session_are_added_up() -> None:
    report = report_of(
        row(cached_tokens=5, created_at_ms=7), row(turn_id="t2", cache_write_tokens=3), row(session_id="s2")
    )  # fmt: skip
    first, second = report.sums
    assert (first.name, first.calls, first.cost) == ("s1", 2, 6.0)
    assert (first.input_tokens, first.output_tokens) == (2 * MILLION, 2 * MILLION)
    assert (first.cached_tokens, first.cache_write_tokens, first.reasoning_tokens) == (5, 3, None)
    assert (first.session_id, first.turn_id, first.model) == ("s1", None, "p/m")
    assert (first.unpriced_calls, first.uncounted_calls, first.began_at_ms) == (0, 0, 7)
    assert (second.name, second.calls, second.turn_id) == ("s2", 1, "t1")
    assert (report.total.calls, report.total.cost, report.total.session_id) == (3, 9.0, None)


def test_what_is_not_known_is_counted_apart_and_never_as_zero() -> None:
    nameless = row(model="unheard-of")
    uncounted = row(input_tokens=None)
    [known, unknown] = [
        report_of(row(), nameless, nameless, uncounted).total,
        report_of(nameless, uncounted).total,
    ]
    assert (known.cost, known.unpriced_calls, known.uncounted_calls) == (3.0, 2, 1)
    assert (known.input_tokens, known.output_tokens) == (3 * MILLION, 4 * MILLION)
    assert (unknown.cost, unknown.unpriced_calls, unknown.uncounted_calls) == (None, 1, 1)
    free = report_of(row(model="free", input_tokens=None, output_tokens=None)).total
    assert (free.cost, free.uncounted_calls, free.input_tokens) == (0.0, 0, None)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("call", ["m1", "m2", "m1", "m3"]),
        ("turn", ["t1", "t1", "t2"]),
        ("session", ["s1", "s2"]),
        ("agent", ["general", "coder"]),
        ("model", ["p/m", "q/m"]),
        ("day", ["2025-12-31", "2026-01-01"]),
    ],
)
def test_what_makes_one_sum(by: UsageBy, names: list[str]) -> None:
    day_ms = 86_400_000
    rows = [
        row(),
        row(message_id="m2", model="m", provider="q", created_at_ms=EVENING_MS + 1),
        row(session_id="s2", agent="coder", created_at_ms=EVENING_MS + day_ms - 1),
        row(session_id="s2", agent="coder", turn_id="t2", message_id="m3", created_at_ms=EVENING_MS + day_ms),
    ]  # fmt: skip
    report = report_of(*rows, by=by, zone=UTC)
    assert [each.name for each in report.sums] == names
    assert sum(each.calls for each in report.sums) == report.total.calls == 4


def test_a_day_is_one_of_the_asker() -> None:
    east = timezone(timedelta(hours=9))
    [day] = report_of(row(created_at_ms=EVENING_MS + 16 * 3_600_000), by="day", zone=east).sums
    assert day.name == "2026-01-01"


def test_nothing_has_a_total_too() -> None:
    report = report_of()
    assert (report.sums, report.total.calls, report.total.cost) == ((), 0, None)


def test_an_unknown_sum_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValidationError, match="'week'; choices: call, turn, session"):
        UsageSums("week", PRICES)  # type: ignore[arg-type]


async def test_a_long_record_is_read_page_by_page() -> None:
    store = open_memory_store()
    count = PAGE_ROWS + 1
    answers = [
        MessageCompleted(
            turn_id="t", message_id=f"m{n}", parts=(), provider="p", model="m", usage=Usage(1, 1)
        )
        for n in range(count)
    ]
    await store.commit([Append("s1", (SessionCreated(agent="general", workspace="/w"), *answers))])
    report = await read_usage(store, UsageSums("call", PRICES), session_id="s1")
    assert len(report.sums) == report.total.calls == report.total.input_tokens == count
    assert (await read_usage(store, UsageSums("call", PRICES), session_id="s2")).sums == ()
    await store.aclose()

"""Sums of what model calls took and cost: by call, turn, session, agent, model or day.

Only tokens are on record. Costs are computed when somebody asks, at the prices of that moment. What is
unknown stays unknown: a sum holds what is known, and counts the calls of which something is not.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any, Literal, get_args

import msgspec

from ..runtime.errors import ValidationError
from ..runtime.store.interface import StoreReader
from ..runtime.store.rows import UsageRow
from ..runtime.stream import Usage
from .prices import PriceTable

PAGE_ROWS = 1000
"""Rows read at once: the calls of years are not held in memory."""


UsageBy = Literal["call", "turn", "session", "agent", "model", "day"]
"""Which model calls make one sum."""


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """What some model calls took together; `None` is unknown, never zero.

    Attributes:
        name: The id of the call's message, of the turn or of the session, the agent's name,
            `PROVIDER/MODEL`, or the day like `2026-01-31`.
        session_id: Their session, `None` where they have several.
        turn_id: Their turn, likewise.
        agent: The agent of their sessions, likewise.
        model: Their `PROVIDER/MODEL`, likewise.
        calls: How many model calls.
        input_tokens: Of those calls where they were counted, as all counts of tokens here.
        output_tokens: As above; reasoning is part of it.
        cached_tokens: Of the input, what the providers had in their cache.
        cache_write_tokens: Of the input, what the providers put into their cache.
        reasoning_tokens: Of the output.
        cost: US dollars of the calls whose cost is known; `None` when none is.
        unpriced_calls: Calls of models without a known price.
        uncounted_calls: Calls whose price is known, and whose tokens nobody counted.
        estimated_tokens: Tokens of calls where nobody counted them (broken off, or a server that
            does not tell), by the length of their texts; in no other sum.
        began_at_ms: When the first of them was stored, in Unix milliseconds.

    Example:
        await session.run("What time is it in Tokyo?")
        for each in (await runtime.usage(by="model")).sums:
            print(each.name, each.calls, each.input_tokens, each.output_tokens, each.cost)
    """

    name: str
    session_id: str | None = None
    turn_id: str | None = None
    agent: str | None = None
    model: str | None = None
    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    unpriced_calls: int = 0
    uncounted_calls: int = 0
    estimated_tokens: int | None = None
    began_at_ms: int = 0


class UsageReport(msgspec.Struct, frozen=True):
    """The sums of what was asked for, in the order in which they began, and the sum of all.

    Example:
        await session.run("What time is it in Tokyo?")
        report = await session.usage(by="turn")
        print(report.total.calls, report.total.cost, report.total.unpriced_calls)
    """

    sums: tuple[UsageSum, ...]
    total: UsageSum


class UsageSums:
    """Adds up model calls, one after the other, in the order of the record.

    Args:
        by: Which calls make one sum.
        prices: What tokens cost.
        zone: Time zone of the days; `None` is this machine's.

    Raises:
        ValidationError: `by` is not one of `UsageBy`.
    """

    def __init__(self, by: UsageBy, prices: PriceTable, zone: tzinfo | None = None) -> None:
        if by not in (choices := get_args(UsageBy)):
            raise ValidationError(f"by is {by!r}; choices: {', '.join(choices)}", field="by")
        self._by = by
        self._prices = prices
        self._zone = zone
        self._sums: dict[tuple[str, str], dict[str, Any]] = {}
        self._total: dict[str, Any] = {"name": "total"}

    def add(self, row: UsageRow) -> None:
        """Add one call."""
        counts: dict[str, int | None] = {
            name: getattr(row, name) for name in Usage.__struct_fields__
        }
        price = self._prices.price(row.provider, row.model)
        cost = price.cost(Usage(**counts)) if price is not None else None
        estimates = [n for n in (row.estimated_input, row.estimated_output) if n is not None]
        added: dict[str, float | None] = {
            **counts,
            "calls": 1,
            "unpriced_calls": int(price is None),
            "uncounted_calls": int(price is not None and cost is None),
            "cost": cost,
            "estimated_tokens": sum(estimates) if estimates else None,
        }
        name = self._name(row)
        # Turns and messages are named within their session.
        key = (row.session_id if self._by in {"call", "turn"} else "", name)
        for sum_ in (self._sums.setdefault(key, {"name": name}), self._total):
            _add(sum_, row, added)

    def report(self) -> UsageReport:
        """Return what was added so far."""
        sums = tuple(UsageSum(**each) for each in self._sums.values())
        return UsageReport(sums, UsageSum(**self._total))

    def _name(self, row: UsageRow) -> str:
        if self._by == "day":
            return f"{datetime.fromtimestamp(row.created_at_ms / 1000, self._zone):%Y-%m-%d}"
        return {
            "call": row.message_id,
            "turn": row.turn_id,
            "session": row.session_id,
            "agent": row.agent,
            "model": f"{row.provider}/{row.model}",
        }[self._by]


def _add(sum_: dict[str, Any], row: UsageRow, added: dict[str, float | None]) -> None:
    """Add a call to the fields of a `UsageSum`."""
    origin = {
        "session_id": row.session_id,
        "turn_id": row.turn_id,
        "agent": row.agent,
        "model": f"{row.provider}/{row.model}",
    }
    if "began_at_ms" not in sum_:
        sum_ |= origin | {"began_at_ms": row.created_at_ms}
    for field, value in origin.items():
        if sum_[field] != value:
            sum_[field] = None
    for field, more in added.items():
        if more is not None:
            sum_[field] = (sum_.get(field) or 0) + more


async def read_usage(
    reader: StoreReader, sums: UsageSums, *, session_id: str | None = None, since_ms: int = 0
) -> UsageReport:
    """Add up what is on record, of one session or of all, since a time in Unix milliseconds."""
    after = 0
    while page := await reader.usage(session_id, since_ms=since_ms, after=after, limit=PAGE_ROWS):
        after = page[-1].position
        for row in page:
            sums.add(row)
    return sums.report()

"""What model calls took and cost, in sums: of a turn, a session, an agent, a model, a day.

Only tokens are on record. Costs are made of them when somebody asks, at the prices of that moment.
What is unknown stays unknown: a sum says what is known, and of how many calls something is not.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Literal, get_args

import msgspec

from ..runtime.errors import ValidationError
from ..runtime.store.interface import StoreReader
from ..runtime.store.rows import UsageRow
from ..runtime.stream import Usage
from .prices import Price, PriceTable

PAGE_ROWS = 1000
"""Read at once: the calls of years are not held in memory."""


UsageBy = Literal["call", "turn", "session", "agent", "model", "day"]
"""What makes model calls one sum."""


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
        by: What makes one sum.
        prices: What tokens cost.
        zone: Whose days are meant; `None` is this machine's.

    Raises:
        ValidationError: `by` is none of `UsageBy`.
    """

    def __init__(self, by: UsageBy, prices: PriceTable, zone: tzinfo | None = None) -> None:
        if by not in (choices := get_args(UsageBy)):
            raise ValidationError(f"by is {by!r}; choices: {', '.join(choices)}", field="by")
        self._by = by
        self._prices = prices
        self._zone = zone
        self._known: dict[tuple[str, str], Price | None] = {}
        self._sums: dict[tuple[str, str], _Sum] = {}
        self._total: _Sum | None = None

    def add(self, row: UsageRow) -> None:
        """One more call."""
        usage = Usage(
            row.input_tokens,
            row.output_tokens,
            row.cached_tokens,
            row.reasoning_tokens,
            row.cache_write_tokens,
        )
        price = self._price(row.provider, row.model)
        cost = price.cost(usage) if price is not None else None
        for each in (self._sum(row), self._whole(row)):
            each.add(row, usage, cost, is_priced=price is not None)

    def report(self) -> UsageReport:
        """What was added so far."""
        total = self._total.made() if self._total is not None else UsageSum(name="total")
        return UsageReport(tuple(each.made() for each in self._sums.values()), total)

    def _price(self, provider: str, model: str) -> Price | None:
        key = (provider, model)
        if key not in self._known:
            self._known[key] = self._prices.price(provider, model)
        return self._known[key]

    def _sum(self, row: UsageRow) -> _Sum:
        name = self._name(row)
        # Turns and messages are named within their session.
        is_inside = self._by in {"call", "turn"}
        key = (row.session_id if is_inside else "", name)
        if (known := self._sums.get(key)) is None:
            known = self._sums[key] = _Sum(name, row)
        return known

    def _whole(self, row: UsageRow) -> _Sum:
        if self._total is None:
            self._total = _Sum("total", row)
        return self._total

    def _name(self, row: UsageRow) -> str:
        match self._by:
            case "call":
                return row.message_id
            case "turn":
                return row.turn_id
            case "session":
                return row.session_id
            case "agent":
                return row.agent
            case "model":
                return f"{row.provider}/{row.model}"
            case "day":
                pass
        return f"{datetime.fromtimestamp(row.created_at_ms / 1000, self._zone):%Y-%m-%d}"


class _Sum:
    """A sum that grows."""

    def __init__(self, name: str, first: UsageRow) -> None:
        self._name = name
        self._began_at_ms = first.created_at_ms
        self._same = _origin(first)
        self._calls = self._unpriced = self._uncounted = 0
        self._tokens: dict[str, int | None] = dict.fromkeys(Usage.__struct_fields__)
        self._cost: float | None = None
        self._estimated: int | None = None

    def add(self, row: UsageRow, usage: Usage, cost: float | None, *, is_priced: bool) -> None:
        self._calls += 1
        self._unpriced += not is_priced
        self._uncounted += is_priced and cost is None
        for field in self._tokens:
            count: int | None = getattr(usage, field)
            if count is not None:
                self._tokens[field] = (self._tokens[field] or 0) + count
        if cost is not None:
            self._cost = (self._cost or 0.0) + cost
        if row.estimated_input is not None or row.estimated_output is not None:
            added = (row.estimated_input or 0) + (row.estimated_output or 0)
            self._estimated = (self._estimated or 0) + added
        for field, value in _origin(row).items():
            if self._same[field] != value:
                self._same[field] = None

    def made(self) -> UsageSum:
        tokens, same = self._tokens, self._same
        return UsageSum(
            name=self._name,
            session_id=same["session_id"],
            turn_id=same["turn_id"],
            agent=same["agent"],
            model=same["model"],
            calls=self._calls,
            input_tokens=tokens["input_tokens"],
            output_tokens=tokens["output_tokens"],
            cached_tokens=tokens["cached_tokens"],
            cache_write_tokens=tokens["cache_write_tokens"],
            reasoning_tokens=tokens["reasoning_tokens"],
            cost=self._cost,
            unpriced_calls=self._unpriced,
            uncounted_calls=self._uncounted,
            estimated_tokens=self._estimated,
            began_at_ms=self._began_at_ms,
        )


def _origin(row: UsageRow) -> dict[str, str | None]:
    return {
        "session_id": row.session_id,
        "turn_id": row.turn_id,
        "agent": row.agent,
        "model": f"{row.provider}/{row.model}",
    }


async def read_usage(
    reader: StoreReader, sums: UsageSums, *, session_id: str | None = None, since_ms: int = 0
) -> UsageReport:
    """Adds up what is on record: of one session or of all, since a time in Unix milliseconds."""
    after = 0
    while page := await reader.usage(session_id, since_ms=since_ms, after=after, limit=PAGE_ROWS):
        after = page[-1].position
        for row in page:
            sums.add(row)
    return sums.report()

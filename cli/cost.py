"""What model calls cost, in words."""

from __future__ import annotations

import math

from .style import counted

UNPRICED = "without a known price"
UNCOUNTED = "without a count of tokens"


def cost_text(cost: float | None, unpriced_calls: int, uncounted_calls: int) -> str:
    """`$0.12`, `at least $0.12, 3 calls without a known price`, or `unknown: 3 calls …`."""
    reasons = ", ".join(
        f"{counted(calls, 'call')} {why}"
        for calls, why in ((unpriced_calls, UNPRICED), (uncounted_calls, UNCOUNTED))
        if calls
    )
    if cost is None:
        return f"unknown: {reasons}" if reasons else dollars(0.0)
    return f"at least {dollars(cost)}, {reasons}" if reasons else dollars(cost)


def dollars(amount: float) -> str:
    """US dollars to the cent; below one, to two figures: `$12.30`, `$0.12`, `$0.0012`."""
    if amount <= 0:
        return "$0"
    places = 2 if amount >= 1 else 1 - math.floor(math.log10(amount))
    return f"${amount:,.{max(places, 2)}f}"

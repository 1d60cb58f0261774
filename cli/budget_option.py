"""Budgets as the command line has them: `tokens=50000,cost=0.5,seconds=60`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..runtime.budget import Budget

FIELDS = {
    "tokens": "tokens",
    "cost": "cost_usd",
    "seconds": "seconds",
    "tool-calls": "tool_calls",
    "model-calls": "model_calls",
}
"""The names on the command line, and those of `Budget`."""

EXAMPLE = "tokens=50000,cost=0.5,seconds=60,tool-calls=20,model-calls=10"


def budget_of(text: str) -> Budget:
    """The budget that a text says; raises `ValueError` with what is wrong."""
    import msgspec

    from ..runtime.budget import MAX_AMOUNT, Budget

    amounts: dict[str, float] = {}
    for entry in text.split(","):
        name, equals, amount = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"{entry.strip()!r} is no NAME=AMOUNT, as in {EXAMPLE}")
        if name not in FIELDS:
            raise ValueError(f"there is no {name!r}; choices: {', '.join(FIELDS)}")
        if FIELDS[name] in amounts:
            raise ValueError(f"{name} is given twice")
        try:
            number = float(amount.replace("_", ""))
        except ValueError:
            raise ValueError(f"{name}={amount} is no number") from None
        is_whole = name not in {"cost", "seconds"}
        if not 0 <= number <= MAX_AMOUNT or (is_whole and number != int(number)):
            kind = "a whole number" if is_whole else "a number"
            raise ValueError(f"{name}={amount}: it is {kind} from 0 to {MAX_AMOUNT}")
        amounts[FIELDS[name]] = int(number) if is_whole else number
    return msgspec.convert(amounts, Budget)

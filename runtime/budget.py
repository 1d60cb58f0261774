"""Budgets: limits of what turns and sessions may use."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

import msgspec

from .errors import ValidationError

MAX_AMOUNT = 10**12
"""More than any sensible budget; catches a typing error."""

Amount = Annotated[int, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of what is used; `None` is no limit.

    Attributes:
        tokens: Tokens of models, input and output together.
        cost_usd: Their cost in US dollars; models without a known price are then refused.
        seconds: Wall time of turns, waiting for people included. Delegated sessions that a turn waits
            for run within its time; the time of others is added.
        tool_calls: Tool calls that run.
        model_calls: Requests to models, repeated ones included.

    Example:
        budget = callboard.Budget(tokens=50_000, tool_calls=20)
        async with callboard.open_runtime(model="rehearsal") as runtime:
            session = await runtime.create_session(budget=budget)
            print(await session.run("What time is it?"))
    """

    tokens: Amount | None = None
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)] | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_AMOUNT)] | None = None
    tool_calls: Amount | None = None
    model_calls: Amount | None = None


UNLIMITED = Budget()
"""No limit at all."""


def narrowed(*budgets: Budget | None) -> Budget:
    """Return the smallest of each limit."""
    amounts: dict[str, float] = {}
    for budget in filter(None, budgets):
        for field in Budget.__struct_fields__:
            amount = getattr(budget, field)
            if amount is not None and amount < amounts.get(field, math.inf):
                amounts[field] = amount
    return Budget(**amounts)  # type: ignore[arg-type]  # each amount came from its own field


def checked_budget(budget: object) -> Budget | None:
    """Check a budget that a program passed; raise `ValidationError` if it is not valid."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise ValidationError(
            f"budget is {budget!r:.80}; pass a Budget, as in Budget(tokens=50_000)", field="budget"
        )
    try:
        return msgspec.convert(msgspec.structs.asdict(budget), Budget, strict=True)
    except msgspec.ValidationError as error:
        raise ValidationError(f"The budget is not valid: {error}.", field="budget") from error


class CallQuota(Protocol):
    """The number of tool calls that may still run."""

    def take(self, call_id: str) -> str | None:
        """Count a call that is about to run; return why it may not run, or `None` if it may."""
        ...

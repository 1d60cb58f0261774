"""What a turn or a session may use, and no more."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

import msgspec

from .errors import ValidationError

MAX_AMOUNT = 10**12
"""No budget is sensibly larger; it catches a slipped finger."""

Amount = Annotated[int, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of what is used; `None` is no limit.

    Attributes:
        tokens: Tokens of models, input and output together.
        cost_usd: What they cost, in US dollars; a model without a known price is refused then.
        seconds: Wall time of turns; waiting for people counts too. What a turn delegates and waits
            for runs within its time, and what it does not wait for adds up.
        tool_calls: Calls of tools that run.
        model_calls: Requests to models, those that are made again too.

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
    """The least of all limits."""
    amounts: dict[str, float] = {}
    for budget in filter(None, budgets):
        for field in Budget.__struct_fields__:
            amount = getattr(budget, field)
            if amount is not None and amount < amounts.get(field, math.inf):
                amounts[field] = amount
    return Budget(**amounts)  # type: ignore[arg-type]  # each amount came from its own field


def checked_budget(budget: object) -> Budget | None:
    """A budget as a program gave it; raises `ValidationError` for what is none."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise ValidationError(
            f"budget is {budget!r:.80}: pass a Budget, as in Budget(tokens=50_000)", field="budget"
        )
    try:
        return msgspec.convert(msgspec.structs.asdict(budget), Budget, strict=True)
    except msgspec.ValidationError as error:
        raise ValidationError(f"The budget can't be: {error}.", field="budget") from error


class CallQuota(Protocol):
    """How many calls of tools may still run."""

    def take(self, call_id: str) -> str | None:
        """Counts a call that is about to run; says why it may not, when nothing is left."""
        ...

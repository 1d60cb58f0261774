"""What a turn or a session may use, and no more."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_AMOUNT = 10**12
"""No budget is sensibly larger; it catches a slipped finger."""

Amount = Annotated[int, msgspec.Meta(ge=0, le=MAX_AMOUNT)]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of what is used; `None` is no limit.

    Attributes:
        tokens: Tokens of models, input and output together.
        cost_usd: What they cost, in US dollars; a model without a known price is refused then.
        seconds: Wall time of turns; waiting for people counts too.
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

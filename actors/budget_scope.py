"""One place where use is added up: a turn, or a session with all that it delegates.

Amounts are whole numbers: tokens, calls, and costs in billionths of a dollar, so that what is
added and taken back again leaves nothing behind.
"""

from __future__ import annotations

import math

import trio

from ..config.prices import PriceTable
from ..runtime.budget import UNLIMITED, Budget
from ..runtime.spending import Spending
from ..runtime.stream import Usage

NANOS = 1_000_000_000
"""Of a dollar; a token costs some hundreds of them at least."""


TURN_ADVICE = (
    "The next prompt has it anew; a larger one is given with --budget, prompt(…, budget=…) or the "
    "agent's turn_budget."
)
SESSION_ADVICE = (
    "A larger one is given with --session-budget, session.set_budget(…) or the agent's "
    "session_budget."
)


def nanos(dollars: float) -> int:
    """Dollars as a whole number."""
    return round(dollars * NANOS)


class Scope:
    """What one turn or one session has used, and what it may use.

    Attributes:
        limit: What it may use.
        unknown_cost: A model whose part of the cost nobody knows; empty when all is known.

    Args:
        session_id: Whose it is.
        is_turn: Whether it is one turn, and not the whole session.
    """

    __slots__ = (
        "__weakref__",
        "_costs_are_read",
        "_held_nanos",
        "_held_tokens",
        "_is_read",
        "_nanos",
        "_running_since",
        "_seconds",
        "_tokens",
        "is_turn",
        "limit",
        "model_calls",
        "session_id",
        "tool_calls",
        "unknown_cost",
    )

    def __init__(self, session_id: str, *, is_turn: bool) -> None:
        self.session_id = session_id
        self.is_turn = is_turn
        self.limit = UNLIMITED
        self.unknown_cost = ""
        self.model_calls = 0
        self.tool_calls = 0
        self._tokens = self._held_tokens = 0
        self._nanos = self._held_nanos = 0
        self._seconds = 0.0
        self._running_since: float | None = None
        self._is_read = self._costs_are_read = False

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.limit != UNLIMITED

    @property
    def is_up_to_date(self) -> bool:
        """Whether all that its limits are about was read from the record, once."""
        has_costs = self._costs_are_read or self.limit.cost_usd is None
        return not self.is_limited or (self._is_read and has_costs)

    # ── use ──────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Its time runs."""
        self._running_since = trio.current_time()

    def end(self) -> None:
        """Its time stands still."""
        self._seconds = self.seconds
        self._running_since = None

    def read(self, spending: Spending, prices: PriceTable) -> None:
        """Takes over what the record says; what runs now stays reserved."""
        self._is_read = True
        self.model_calls = len(spending.calls) + spending.failed_calls
        self.tool_calls = spending.tool_calls
        self._seconds = spending.seconds
        self._tokens = sum(sum(filter(None, call.tokens)) for call in spending.calls)
        if self.limit.cost_usd is None:
            return
        self._costs_are_read, self._nanos, self.unknown_cost = True, 0, ""
        for call in spending.calls:
            tokens_in, tokens_out = call.tokens
            cached, written = call.usage.cached_tokens, call.usage.cache_write_tokens
            whole = Usage(tokens_in, tokens_out, cached, None, written)
            cost = prices.cost(call.provider, call.model, whole)
            if cost is None:
                self.unknown_cost = f"{call.provider}/{call.model}"
            else:
                self._nanos += nanos(cost)

    def hold(self, tokens: int, cost: int) -> None:
        """Reserves more, or less when negative, for what runs now."""
        self._held_tokens += tokens
        self._held_nanos += cost

    def spend(self, tokens: int, cost: int) -> None:
        """Something was used for good."""
        self._tokens += tokens
        self._nanos += cost

    # ── what is left ─────────────────────────────────────────────────────────────────────────────

    @property
    def tokens(self) -> int:
        """Used and reserved."""
        return self._tokens + self._held_tokens

    @property
    def cost_nanos(self) -> int:
        """Used and reserved."""
        return self._nanos + self._held_nanos

    @property
    def seconds(self) -> float:
        """Used so far."""
        since = self._running_since
        return self._seconds + (trio.current_time() - since if since is not None else 0.0)

    @property
    def tokens_left(self) -> float:
        """Never negative, as all that follow."""
        return _left(self.limit.tokens, self.tokens)

    @property
    def nanos_left(self) -> float:
        """Of the cost."""
        limit = self.limit.cost_usd
        return _left(nanos(limit) if limit is not None else None, self.cost_nanos)

    @property
    def seconds_left(self) -> float:
        """Of the time."""
        return _left(self.limit.seconds, self.seconds)

    @property
    def tool_calls_left(self) -> float:
        """Of the calls of tools."""
        return _left(self.limit.tool_calls, self.tool_calls)

    @property
    def model_calls_left(self) -> float:
        """Of the requests to models."""
        return _left(self.limit.model_calls, self.model_calls)

    @property
    def left(self) -> Budget:
        """All that is left."""
        limit = self.limit
        return Budget(
            tokens=None if limit.tokens is None else int(self.tokens_left),
            cost_usd=None if limit.cost_usd is None else self.nanos_left / NANOS,
            seconds=None if limit.seconds is None else self.seconds_left,
            tool_calls=None if limit.tool_calls is None else int(self.tool_calls_left),
            model_calls=None if limit.model_calls is None else int(self.model_calls_left),
        )

    # ── in words ─────────────────────────────────────────────────────────────────────────────────

    def used_up(self, what: str, seen_from: str) -> str:
        """That a limit is reached, and what to do.

        Args:
            what: One of the fields of `Budget`.
            seen_from: The session that is told.
        """
        limit = self.limit
        used, most = {
            "tokens": (f"{self.tokens:,}", f"{limit.tokens or 0:,} tokens"),
            "cost_usd": (_dollars(self.cost_nanos), _dollars(nanos(limit.cost_usd or 0))),
            "seconds": (f"{self.seconds:.1f}", f"{limit.seconds or 0:g} seconds"),
            "tool_calls": (f"{self.tool_calls:,}", f"{limit.tool_calls or 0:,} calls of tools"),
            "model_calls": (f"{self.model_calls:,}", f"{limit.model_calls or 0:,} calls of models"),
        }[what]
        said = f"The budget of {self.title(seen_from)} is used up: {used} of {most}."
        return f"{said} {self.advice(seen_from)}"

    def too_little(self, what: str, tokens: int, seen_from: str) -> str:
        """That the next request alone would take more than is left of tokens or of the cost."""
        limit = self.limit
        if what == "tokens":
            rest = f"{int(self.tokens_left):,} of {limit.tokens or 0:,} tokens"
        else:
            rest = f"{_dollars(int(self.nanos_left))} of {_dollars(nanos(limit.cost_usd or 0))}"
        return (
            f"The budget of {self.title(seen_from)} has {rest} left, and the next request alone "
            f"takes about {tokens:,} tokens. {self.advice(seen_from)}"
        )

    def title(self, seen_from: str) -> str:
        """Whose budget it is, for a person."""
        kind = "turn" if self.is_turn else "session"
        if seen_from == self.session_id:
            return f"the {kind}"
        return f"the {kind} above, of {self.session_id},"

    def advice(self, seen_from: str) -> str:
        """Where a larger one is given, for a person."""
        if seen_from != self.session_id:
            return "A larger one is given there."
        return TURN_ADVICE if self.is_turn else SESSION_ADVICE


def _left(limit: float | None, used: float) -> float:
    return math.inf if limit is None else max(limit - used, 0)


def _dollars(amount: int) -> str:
    """An amount as people write it, to the billionth when it is that small."""
    return "$" + f"{amount / NANOS:,.9f}".rstrip("0").rstrip(".")

"""One place where use is added up: a turn, or a session with all that it delegates.

Amounts are whole numbers: tokens, calls, and costs in billionths of a dollar, so that what is
added and taken back again leaves nothing behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from ...config.prices import PriceTable
from ...runtime.budget import UNLIMITED, Budget
from ...runtime.store.rows import Spending
from ...runtime.stream import Usage

NANOS = 1_000_000_000
"""Billionths in a dollar; a token costs some hundreds of them at least."""


TURN_ADVICE = (
    "The next prompt has the whole of it again; a larger one is given with --budget, prompt(…, budget=…) or the "
    "agent's turn_budget."
)
SESSION_ADVICE = (
    "A larger one is given with --session-budget, session.set_budget(…) or the agent's "
    "session_budget."
)


Retime = Callable[[], None]
"""Computes a turn's deadline again."""


def nanos(dollars: float) -> int:
    """Return dollars as a whole number of billionths."""
    return round(dollars * NANOS)


class Scope:
    """What one turn or one session has used, and what it may use.

    It counts what the turns of this process use, from their beginning. What the record says of other
    turns is added once. So each use is counted once, whenever the record is read.

    Attributes:
        limit: What it may use.
        unknown_cost: A model whose cost nobody knows; empty when all is known.
        model_calls: Made so far.
        tool_calls: Those that ran, or are about to, by their session and id.
        is_read: Whether the use on record was added.

    Args:
        session_id: The session.
        turn_id: The turn; empty for the whole session.
    """

    def __init__(self, session_id: str, turn_id: str = "") -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.limit = UNLIMITED
        self.unknown_cost = ""
        self.model_calls = 0
        self.is_read = False
        self.tool_calls: dict[tuple[str, str], None] = {}
        self._turns: set[str] = set()
        self._tokens = self._held_tokens = 0
        self._nanos = self._held_nanos = 0
        self._seconds = self._since = 0.0
        self._watchers: dict[Retime, bool] = {}

    @property
    def is_limited(self) -> bool:
        """Whether there is any limit."""
        return self.limit != UNLIMITED

    # ── use ──────────────────────────────────────────────────────────────────────────────────────

    def begin(self, turn_id: str, retime: Retime, *, has_time: bool) -> None:
        """Count what a turn uses from here on.

        Args:
            turn_id: The turn.
            retime: Called when time goes faster or slower, as turns begin or end.
            has_time: Whether its time is its own, and not within that of another turn.
        """
        self._turns.add(turn_id)
        self._change(lambda: self._watchers.update({retime: has_time}))

    def end(self, retime: Retime) -> None:
        """Stop counting a turn that began."""
        self._change(lambda: self._watchers.pop(retime, None))

    def _change(self, change: Callable[[], object]) -> None:
        self._seconds, self._since = self.seconds, trio.current_time()
        change()
        for retime in tuple(self._watchers):
            retime()

    def read(self, spending: Spending, prices: PriceTable) -> None:
        """Add what the record says of turns that did not run here; only once."""
        if self.is_read:
            return
        self.is_read = True
        self.tool_calls.update(dict.fromkeys(spending.ran))
        for turn in spending.turns:
            if turn.turn_id not in self._turns:
                self.model_calls += turn.failed_calls
                self._seconds += turn.seconds
        for call in spending.calls:
            if call.turn_id in self._turns:
                continue
            tokens_in, tokens_out = call.tokens
            cached, written = call.usage.cached_tokens, call.usage.cache_write_tokens
            whole = Usage(tokens_in, tokens_out, cached, None, written)
            self.model_calls += 1
            self.spend(sum(filter(None, call.tokens)))
            self.spend_cost(
                prices.cost(call.provider, call.model, whole), f"{call.provider}/{call.model}"
            )

    def hold(self, tokens: int, cost: int) -> None:
        """Reserve more, or less when negative, for what runs now."""
        self._held_tokens += tokens
        self._held_nanos += cost

    def spend(self, tokens: int) -> None:
        """Count tokens that were used for good."""
        self._tokens += tokens

    def spend_cost(self, dollars: float | None, model: str) -> None:
        """Count what was paid to a model; `None` is unknown."""
        if dollars is None:
            self.unknown_cost = model
        else:
            self._nanos += nanos(dollars)

    # ── what is left ─────────────────────────────────────────────────────────────────────────────

    @property
    def tokens(self) -> int:
        """Tokens used and reserved."""
        return self._tokens + self._held_tokens

    @property
    def cost_nanos(self) -> int:
        """The cost, used and reserved."""
        return self._nanos + self._held_nanos

    @property
    def seconds(self) -> float:
        """Seconds used so far."""
        if not self._watchers:
            return self._seconds
        return self._seconds + (trio.current_time() - self._since) * self._pace

    @property
    def _pace(self) -> int:
        """How fast time goes: turns that run side by side, without waiting for each other, add up."""
        return max(sum(self._watchers.values()), 1)

    @property
    def time_left(self) -> float:
        """In how many seconds the time is over, if no turn begins or ends meanwhile."""
        return self.seconds_left / self._pace

    @property
    def tokens_left(self) -> float:
        """Tokens left; like all amounts left, never negative."""
        return _left(self.limit.tokens, self.tokens)

    @property
    def nanos_left(self) -> float:
        """Cost left, in billionths of a dollar."""
        limit = self.limit.cost_usd
        return _left(nanos(limit) if limit is not None else None, self.cost_nanos)

    @property
    def seconds_left(self) -> float:
        """Seconds left."""
        return _left(self.limit.seconds, self.seconds)

    @property
    def tool_calls_left(self) -> float:
        """Tool calls left."""
        return _left(self.limit.tool_calls, len(self.tool_calls))

    @property
    def model_calls_left(self) -> float:
        """Model calls left."""
        return _left(self.limit.model_calls, self.model_calls)

    @property
    def left(self) -> Budget:
        """All amounts that are left."""
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
        """Return the message that a limit is reached, and what to do.

        Args:
            what: One of the fields of `Budget`.
            seen_from: The session that reads it.
        """
        limit = self.limit
        used, most = {
            "tokens": (f"{self.tokens:,}", f"{limit.tokens or 0:,} tokens"),
            "cost_usd": (_dollars(self.cost_nanos), _dollars(nanos(limit.cost_usd or 0))),
            "seconds": (f"{self.seconds:.1f}", f"{limit.seconds or 0:g} seconds"),
            "tool_calls": (
                f"{len(self.tool_calls):,}",
                f"{limit.tool_calls or 0:,} calls of tools",
            ),
            "model_calls": (f"{self.model_calls:,}", f"{limit.model_calls or 0:,} calls of models"),
        }[what]
        said = f"The budget of {self.title(seen_from)} is used up: {used} of {most}."
        return f"{said} {self.advice(seen_from)}"

    def too_little(self, what: str, tokens: int, seen_from: str) -> str:
        """Return the message that the next request alone takes more than what is left."""
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
        """Return whose budget it is, for a person."""
        kind = "turn" if self.turn_id else "session"
        if seen_from == self.session_id:
            return f"the {kind}"
        return f"the {kind} above, of {self.session_id},"

    def advice(self, seen_from: str) -> str:
        """Return where a larger budget is given, for a person."""
        if seen_from != self.session_id:
            return "A larger one is given there."
        return TURN_ADVICE if self.turn_id else SESSION_ADVICE


def _left(limit: float | None, used: float) -> float:
    return math.inf if limit is None else max(limit - used, 0)


def _dollars(amount: int) -> str:
    """Return an amount as people write it, to the billionth when it is that small."""
    return "$" + f"{amount / NANOS:,.9f}".rstrip("0").rstrip(".")

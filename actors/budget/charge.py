"""What one model call is charged: reserved before it, grown while it streams, corrected behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...config.prices import Price, PriceTable
from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.budget import MAX_AMOUNT
from ...runtime.errors import BudgetError
from ...runtime.stream import AnyStreamEvent, Done, StreamError, TextDelta, Usage
from ..model.answer import AnswerBuilder, Tokens
from ..model.token_estimate import (
    BYTES_PER_TOKEN,
    event_bytes,
    request_tokens,
    tokens_of_bytes,
    tokens_taken,
)
from .scope import NANOS, Scope, nanos

_PROBE_TOKENS = 1_000_000
"""Enough to see the price of one: prices are for a million."""

MAX_TOKENS_AHEAD = 64
SHARE_AHEAD = 0.01
"""What a stream reserves ahead, so that not every token is carried up through all scopes: little of
what is left, so that others get the rest of it."""


class Charge:
    """One model call in all scopes that it counts for.

    Attributes:
        is_watched: Whether its stream must be measured: tokens or costs have a limit.

    Args:
        scopes: From the turn upwards.
        session_id: Whose turn it is.
        request: What is asked.
    """

    __slots__ = (
        "_bytes",
        "_granted",
        "_held_nanos",
        "_held_tokens",
        "_input",
        "_is_overdrawn",
        "_output",
        "_price",
        "_prices",
        "_rate",
        "_request",
        "_scopes",
        "_session_id",
        "_target",
        "is_watched",
    )

    def __init__(self, scopes: Sequence[Scope], session_id: str, request: ModelRequest) -> None:
        self.is_watched = any(
            scope.limit.tokens is not None or scope.limit.cost_usd is not None for scope in scopes
        )
        self._scopes = scopes
        self._session_id = session_id
        self._request = request
        self._price: Price | None = None
        self._prices: PriceTable | None = None
        self._target: ModelTarget | None = None
        self._rate = 0.0
        self._input = self._output = self._granted = self._bytes = 0
        self._held_tokens = self._held_nanos = 0
        self._is_overdrawn = False

    def reserve(self, prices: PriceTable, target: ModelTarget) -> None:
        """Counts the call and what it will read; raises `BudgetError` when there is no room."""
        for scope in self._scopes:
            if scope.model_calls_left < 1:
                raise BudgetError(scope.used_up("model_calls", self._session_id))
        if self.is_watched:
            if any(scope.limit.cost_usd is not None for scope in self._scopes):
                self._price = prices.price(target.provider, target.model)
                self._check_known_costs()
            self._input = request_tokens(self._request)
            cost = self._weigh_input()
            for scope in self._scopes:
                self._check_room(scope, cost)
            self._hold()
        self._prices, self._target = prices, target
        for scope in self._scopes:
            scope.model_calls += 1

    def fit(self, events: list[AnyStreamEvent]) -> tuple[list[AnyStreamEvent], BudgetError | None]:
        """What of a batch is within the limits; with the reason, when the stream ends by that.

        A batch that ends the answer is taken whole: nothing would be saved. A provider's count
        that is over the limit often comes right before that end, which is waited for.
        """
        told, size = 0, self._bytes
        for event in events:
            if type(event) is TextDelta and event.text.isascii():  # by far the most frequent
                size += len(event.text)
            elif type(event) is Usage:
                told = self._note(event, told)
            else:
                size += event_bytes(event)
        output = max(told, tokens_of_bytes(size), self._output)
        if output > self._granted or self._is_overdrawn:
            return self._grow(events, size, output, told)
        self._bytes, self._output = size, output
        return events, None

    def _grow(
        self, events: list[AnyStreamEvent], size: int, output: int, told: int
    ) -> tuple[list[AnyStreamEvent], BudgetError | None]:
        """Reserves for an answer of this length, and a little ahead; or cuts it."""
        room = self._room()
        most = self._granted + int(min(room, MAX_AMOUNT))
        is_over = isinstance(events[-1], Done | StreamError) if events else False
        is_within = output <= most and not self._is_overdrawn
        is_told = size == self._bytes and not self._is_overdrawn
        if is_over or is_within or is_told:
            self._is_overdrawn = not is_within
            self._bytes, self._output = size, output
            ahead = int(min(room * SHARE_AHEAD, MAX_TOKENS_AHEAD))
            self._granted = max(output, min(output + ahead, most))
            self._hold()
            return events, None
        room_bytes = 0 if self._is_overdrawn else most * BYTES_PER_TOKEN - self._bytes
        kept = events if told > most else _cut(events, room_bytes)
        self._output = self._granted = output if told > most else most
        self._hold()
        return kept, self._spent()

    def settle(self, answer: AnswerBuilder) -> Tokens:
        """The call is over: what it took is used, what was reserved for it free again."""
        taken = tokens_taken(answer, self._request)
        usage, estimate = taken.usage or Usage(), taken.estimate or Usage()
        tokens_in = _first(usage.input_tokens, estimate.input_tokens)
        tokens_out = _first(usage.output_tokens, estimate.output_tokens)
        for scope in self._scopes:
            scope.hold(-self._held_tokens, -self._held_nanos)
            scope.spend(tokens_in + tokens_out)
        if self._prices is not None and self._target is not None and not taken.is_nothing:
            cached, written = usage.cached_tokens, usage.cache_write_tokens
            whole = Usage(tokens_in, tokens_out, cached, None, written)
            # A limit of the cost may come later: what it cost is known by then.
            model = f"{self._target.provider}/{self._target.model}"
            cost = self._prices.cost(self._target.provider, self._target.model, whole)
            for scope in self._scopes:
                scope.spend_cost(cost, model)
        self._held_tokens = self._held_nanos = 0
        return taken

    # ── room ─────────────────────────────────────────────────────────────────────────────────────

    def _check_known_costs(self) -> None:
        for scope in self._scopes:
            if scope.limit.cost_usd is not None and scope.unknown_cost:
                raise BudgetError(
                    f"The budget of {scope.title(self._session_id)} limits the cost, and what it "
                    f"cost so far is unknown: {scope.unknown_cost} has no known price, or its "
                    f'tokens were not counted. Put a price into callboard.toml ([prices."'
                    f'{scope.unknown_cost}"]), or begin a new session.'
                )

    def _check_room(self, scope: Scope, cost: int) -> None:
        tokens_left, nanos_left = scope.tokens_left, scope.nanos_left
        is_free = self._price is not None and self._price.is_free
        if tokens_left < 1:
            raise BudgetError(scope.used_up("tokens", self._session_id))
        if nanos_left < 1 and not is_free:
            raise BudgetError(scope.used_up("cost_usd", self._session_id))
        if tokens_left <= self._input:
            raise BudgetError(scope.too_little("tokens", self._input, self._session_id))
        if nanos_left < cost:
            raise BudgetError(scope.too_little("cost_usd", self._input, self._session_id))

    def _room(self) -> float:
        """How many tokens more the answer may have."""
        room = math.inf
        for scope in self._scopes:
            room = min(room, scope.tokens_left)
            if self._rate:
                room = min(room, scope.nanos_left / self._rate)
        return room

    def _spent(self) -> BudgetError:
        """Which limit it is that has no room left."""
        by_tokens = min(self._scopes, key=lambda scope: scope.tokens_left)
        if by_tokens.tokens_left < 1:
            return BudgetError(by_tokens.used_up("tokens", self._session_id))
        by_cost = min(self._scopes, key=lambda scope: scope.nanos_left)
        return BudgetError(by_cost.used_up("cost_usd", self._session_id))

    def _note(self, usage: Usage, told: int) -> int:
        """The provider's own count, as far as it goes; gives that of the output."""
        # None was read is no count: see `tokens_taken`.
        if usage.input_tokens and usage.input_tokens != self._input:
            self._input = usage.input_tokens
            self._weigh_input()
            self._hold()
        return max(usage.output_tokens or 0, told)

    def _weigh_input(self) -> int:
        """What the input costs, and from then on each token of the output."""
        if self._price is None:
            return 0
        cost = self._price.cost(Usage(self._input, 0)) or 0.0
        with_output = self._price.cost(Usage(self._input, _PROBE_TOKENS)) or 0.0
        self._rate = (with_output - cost) * NANOS / _PROBE_TOKENS
        return nanos(cost)

    def _hold(self) -> None:
        tokens, cost = self._input + self._granted, 0
        if self._price is not None:
            cost = nanos(self._price.cost(Usage(self._input, self._granted)) or 0.0)
        for scope in self._scopes:
            scope.hold(tokens - self._held_tokens, cost - self._held_nanos)
        self._held_tokens, self._held_nanos = tokens, cost


def _cut(events: list[AnyStreamEvent], room: int) -> list[AnyStreamEvent]:
    """The events that so many bytes are enough for; a text is cut where they end."""
    kept: list[AnyStreamEvent] = []
    for event in events:
        size = event_bytes(event)
        if size > room:
            if type(event) is TextDelta and room > 0:
                text = event.text.encode(errors="replace")[:room].decode(errors="ignore")
                kept.append(TextDelta(text))
            break
        room -= size
        kept.append(event)
    return kept


def _first(counted: int | None, estimated: int | None) -> int:
    return counted if counted is not None else estimated or 0

"""What tokens cost: a table that ships, and the operator's own prices over it.

An unknown price is unknown, never zero; so is the cost of a call whose tokens nobody counted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from ..runtime.stream import Usage

if TYPE_CHECKING:
    from ..runtime.store.rows import MessageRow

TOKENS_PER_PRICE = 1_000_000
"""Prices are for a million tokens, as providers list them."""

MAX_FOUND = 256
"""Prices kept as they were found: more models than a process asks."""

Dollars = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]

_VERSION = re.compile(r"-latest|-\d{8}|-\d{4}-\d{2}-\d{2}|-preview(-\d{2}-\d{2,4})?|-\d{3}")
"""Suffixes that only name a version. Others, like `-mini` and `:free`, are models with other prices."""


class LongPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of calls whose input is longer than `tokens`."""

    tokens: Annotated[int, msgspec.Meta(gt=0)]
    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens of a model.

    Attributes:
        input: Of input tokens.
        output: Of output tokens, reasoning included.
        cached_input: Of input read from the provider's cache; `None` is like `input`.
        cache_write: Of input put into the provider's cache; `None` is like `input`.
        above: Another price for calls with a long input.
    """

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None
    above: LongPrice | None = None

    @property
    def is_free(self) -> bool:
        """Whether all calls cost nothing."""
        return not any((self.input, self.output, self.cached_input, self.cache_write, self.above))

    def cost(self, usage: Usage) -> float | None:
        """Return the US dollars of one call; `None` when it costs and nobody counted its tokens."""
        tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
        if tokens_in is None or tokens_out is None:
            return 0.0 if self.is_free else None
        is_long = self.above is not None and tokens_in > self.above.tokens
        price = self.above if self.above is not None and is_long else self
        cached = min(usage.cached_tokens or 0, tokens_in)
        written = min(usage.cache_write_tokens or 0, tokens_in - cached)
        dollars = (tokens_in - cached - written) * price.input + tokens_out * price.output
        dollars += cached * _or(price.cached_input, price.input)
        dollars += written * _or(price.cache_write, price.input)
        return dollars / TOKENS_PER_PRICE


class PriceRow(msgspec.Struct, frozen=True):
    """The price of a `PROVIDER/MODEL`, or of all of a provider's (`/*`).

    It holds for the model's versions too. `is_own` marks the operator's prices, which win.
    """

    model: str
    price: Price
    is_own: bool


class Prices(msgspec.Struct, frozen=True):
    """All prices that are known."""

    prices: list[PriceRow]


class PriceTable:
    """Finds the price of a model.

    The shipped table is read when a price is asked for that the operator has not set.

    Args:
        own: The operator's prices, by `PROVIDER/MODEL`; they win over the shipped ones.
    """

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})
        self._found: dict[tuple[str, str], Price | None] = {}

    def replace(self, other: PriceTable) -> None:
        """Take over the prices of another table."""
        self._own = other._own
        self._found.clear()

    def rows(self) -> Prices:
        """Return all prices, the operator's first; blocks on the shipped file."""
        own = [PriceRow(name, price, is_own=True) for name, price in self._own.items()]
        shipped = [
            PriceRow(name, price, is_own=False)
            for name, price in _shipped().items()
            if name not in self._own
        ]
        return Prices([*own, *shipped])

    def price(self, provider: str, model: str) -> Price | None:
        """Return the price of a model, or `None` when it is unknown."""
        key = (provider, model)
        if key not in self._found:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            found = _find(self._own, provider, model) or _find(_shipped(), provider, model)
            self._found[key] = found
        return self._found[key]

    def cost(self, provider: str, model: str, usage: Usage) -> float | None:
        """Return the US dollars of one call; `None` when price or tokens are unknown."""
        price = self.price(provider, model)
        return price.cost(usage) if price is not None else None


def priced(rows: Iterable[MessageRow], prices: PriceTable) -> list[MessageRow]:
    """Return messages with the cost of each that a model wrote, where it is known."""
    return [
        msgspec.structs.replace(row, cost=prices.cost(row.provider, row.model, _used(row)))
        if row.provider and row.model
        else row
        for row in rows
    ]


def _used(row: MessageRow) -> Usage:
    return Usage(
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cached_tokens=row.cached_tokens,
        cache_write_tokens=row.cache_write_tokens,
    )


def _find(prices: Mapping[str, Price], provider: str, model: str) -> Price | None:
    named = f"{provider}/{model}"
    if (exact := prices.get(named)) is not None:
        return exact
    fitting = [
        name
        for name in prices
        if named.startswith(name) and _VERSION.fullmatch(named, len(name)) is not None
    ]
    return prices[max(fitting, key=len)] if fitting else prices.get(f"{provider}/*")


@functools.cache
def _shipped() -> dict[str, Price]:
    text = Path(__file__).with_name("prices.toml").read_bytes()
    return msgspec.toml.decode(text, type=dict[str, Price])


def _or(price: float | None, otherwise: float) -> float:
    return otherwise if price is None else price

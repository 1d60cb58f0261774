"""Prices: what ships, what the operator says, and what is not known."""

from __future__ import annotations

import msgspec
import pytest

from callboard.config.prices import LongPrice, Price, PriceTable
from callboard.runtime.stream import Usage

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(MILLION, 0), 1.0),
        (Usage(0, MILLION), 10.0),
        (Usage(MILLION, 0, cached_tokens=MILLION), 0.1),
        (Usage(MILLION, 0, cache_write_tokens=MILLION), 2.0),
        (Usage(4 * MILLION, 0, cached_tokens=MILLION, cache_write_tokens=MILLION), 4.1),
        (Usage(0, 0), 0.0),
        (Usage(10, 10, cached_tokens=999_999), 0.000101),
    ],
)
def test_a_cost_is_the_sum_of_its_parts(usage: Usage, dollars: float) -> None:
    price = Price(input=1.0, output=10.0, cached_input=0.1, cache_write=2.0)
    assert price.cost(usage) == pytest.approx(dollars)


def test_without_prices_of_their_own_cached_tokens_cost_what_input_costs() -> None:
    usage = Usage(MILLION, 0, cached_tokens=400_000, cache_write_tokens=400_000)
    assert Price(input=3.0, output=0.0).cost(usage) == pytest.approx(3.0)


@pytest.mark.parametrize("usage", [Usage(), Usage(5, None), Usage(None, 5)])
def test_tokens_that_nobody_counted_have_no_known_cost(usage: Usage) -> None:
    assert Price(input=1.0, output=1.0).cost(usage) is None


def test_a_long_input_has_its_own_price_from_the_next_token_on() -> None:
    price = Price(input=1.0, output=1.0, above=LongPrice(tokens=100, input=2.0, output=2.0))
    assert price.cost(Usage(100, 0)) == pytest.approx(100 / MILLION)
    assert price.cost(Usage(101, 0)) == pytest.approx(202 / MILLION)


@pytest.mark.parametrize(
    "model",
    ["gpt-5-mini", "gpt-5-mini-2025-08-07", "gpt-5-mini-latest", "gpt-5-mini-20250807"],
)
def test_a_dated_version_has_the_price_of_its_model(model: str) -> None:
    table = PriceTable({"openai/gpt-5": _price(1), "openai/gpt-5-mini": _price(2)})
    assert table.price("openai", model) == _price(2)


@pytest.mark.parametrize("model", ["gpt-5-minimal", "gpt-5-mini-audio", "unheard-of"])
def test_a_model_that_is_not_listed_has_no_known_price(model: str) -> None:
    assert PriceTable().price("openai", model) is None
    assert PriceTable().cost("openai", model, Usage(1, 1)) is None


def test_what_ships_is_sound_and_the_operators_price_wins() -> None:
    shipped = PriceTable().price("openai", "gpt-5")
    assert shipped is not None
    assert shipped.input < shipped.output
    assert PriceTable({"openai/gpt-5": _price(7)}).price("openai", "gpt-5") == _price(7)


def test_a_whole_provider_may_have_one_price() -> None:
    assert PriceTable().cost("ollama", "anything", Usage(MILLION, MILLION)) == 0.0
    assert PriceTable({"mine/*": _price(3)}).price("mine", "some-model") == _price(3)


def test_a_negative_price_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"input": -1, "output": 0}, Price)


def _price(dollars: float) -> Price:
    return Price(input=dollars, output=dollars)

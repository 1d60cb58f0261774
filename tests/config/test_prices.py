"""Prices: what ships, what the operator says, and what is not known."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from callboard.config import prices as module
from callboard.config.files import parse_settings
from callboard.config.prices import LongPrice, Price, PriceTable
from callboard.providers.catalog.known import KNOWN
from callboard.runtime.errors import ValidationError
from callboard.runtime.stream import Usage

MILLION = 1_000_000
FILE = Path("callboard.toml")
TABLE = Path(str(module.__file__)).with_name("prices.toml")


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
    [
        "gpt-5-mini",
        "gpt-5-mini-2025-08-07",
        "gpt-5-mini-latest",
        "gpt-5-mini-20250807",
        "gpt-5-mini-001",
        "gpt-5-mini-preview",
        "gpt-5-mini-preview-06-05",
        "gpt-5-mini-preview-09-2025",
    ],
)
def test_a_dated_version_has_the_price_of_its_model(model: str) -> None:
    table = PriceTable({"openai/gpt-5": _price(1), "openai/gpt-5-mini": _price(2)})
    assert table.price("openai", model) == _price(2)


@pytest.mark.parametrize(
    "model",
    [
        "gpt-5-minimal",
        "gpt-5-mini-audio",
        "gpt-5-mini:free",
        "gpt-5-mini-preview-tts",
        "unheard-of",
    ],
)
def test_a_model_that_is_not_listed_has_no_known_price(model: str) -> None:
    assert PriceTable().price("openai", model) is None
    assert PriceTable().cost("openai", model, Usage(1, 1)) is None


@pytest.mark.parametrize("own", ["openai/gpt-5", "openai/*"])
def test_the_operators_price_wins(own: str) -> None:
    shipped = PriceTable().price("openai", "gpt-5")
    assert shipped is not None
    assert shipped != _price(7)
    assert PriceTable({own: _price(7)}).price("openai", "gpt-5-2025-08-07") == _price(7)


def test_every_price_that_ships_is_of_a_known_provider_and_plausible() -> None:
    prices = msgspec.toml.decode(TABLE.read_bytes(), type=dict[str, Price])
    assert len(prices) > 30
    for name, price in prices.items():
        provider, _, model = name.partition("/")
        assert provider in {*KNOWN, "rehearsal"}
        assert PriceTable().price(provider, model) == price
        for each in (price, price.above):
            if each is not None and each.input:
                assert (each.cached_input or 0) < each.input < each.output
                assert each.cache_write is None or each.cache_write > each.input
        if price.above is not None:
            assert price.above.input > price.input


def test_the_table_that_ships_is_read_when_it_is_needed_and_not_before(tmp_path: Path) -> None:
    program = (
        "import sys, callboard.cli.run.run, callboard.config.prices as prices\n"
        "assert prices.PriceTable({'a/*': prices.Price(input=1, output=1)}).price('a', 'b')\n"
        "assert prices._shipped.cache_info().currsize == 0\n"
        "assert prices.PriceTable().price('openai', 'gpt-5')\n"
        "assert prices._shipped.cache_info().currsize == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_a_whole_provider_may_have_one_price() -> None:
    assert PriceTable().cost("ollama", "anything", Usage(MILLION, MILLION)) == 0.0
    assert PriceTable({"mine/*": _price(3)}).price("mine", "some-model") == _price(3)


def test_what_is_free_costs_nothing_also_when_nobody_counted() -> None:
    free = Price(input=0, output=0, cached_input=0)
    assert free.cost(Usage()) == 0.0
    above = LongPrice(tokens=5, input=1, output=1)
    assert Price(input=0, output=0, above=above).cost(Usage()) is None


def test_prices_stand_in_the_configuration() -> None:
    text = """
        [prices."house/qwen-3.5"]
        input = 1
        output = 2.5
        above = { tokens = 200_000, input = 2, output = 5 }

        [prices."mine/*"]
        input = 0
        output = 0
    """
    settings = parse_settings(textwrap.dedent(text), FILE)
    table = PriceTable(settings.prices)
    assert table.cost("house", "qwen-3.5", Usage(200_000, 0)) == pytest.approx(0.2)
    assert table.cost("house", "qwen-3.5", Usage(400_000, 0)) == pytest.approx(0.8)
    assert table.cost("mine", "any", Usage()) == 0.0


@pytest.mark.parametrize(
    ("text", "line", "field", "problem"),
    [
        ("prices = 3", 1, "prices", 'expected tables like [prices."PROVIDER/MODEL"]'),
        ("[prices.openai.gpt-5]\ninput = 1", 1, "prices.openai.gpt-5", "with the quotes"),
        ('[prices."a/"]\ninput = 1', 1, "prices.a/", "with the quotes"),
        ('[prices]\n"a/b" = 3', 1, "prices.a/b", "got a single value"),
        ('[prices."a/b"]\ninput = 1', 1, "prices.a/b.output", "it is required"),
        ('[prices."a/b"]\ninput = -1\noutput = 1', 2, "prices.a/b.input", "expected number >="),
        ('[prices."a/b"]\ninput = nan\noutput = 1', 2, "prices.a/b.input", "expected number >="),
        ('[prices."a/b"]\ninput = inf\noutput = 1', 2, "prices.a/b.input", "expected number <="),
        ('[prices."a/b"]\ninput = 1\noutptu = 1', 3, "prices.a/b.outptu", "mean 'output'"),
        (
            '[prices."a/b"]\ninput = 1\noutput = 1\nabove = { tokens = 1, inptu = 1 }',
            4,
            "prices.a/b.above.inptu",
            "mean 'input'",
        ),
    ],
)
def test_a_wrong_price_is_named_with_its_line(
    text: str, line: int, field: str, problem: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_settings(text, FILE)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{FILE}, line {line}: {field}: ")
    assert problem in str(caught.value)


def _price(dollars: float) -> Price:
    return Price(input=dollars, output=dollars)

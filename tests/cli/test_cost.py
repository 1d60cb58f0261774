"""Costs in words."""

from __future__ import annotations

import pytest

from callboard.cli.terminal.style import cost_text, dollars


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "$0"),
        (0.0000123, "$0.000012"),
        (0.0012, "$0.0012"),
        (0.1, "$0.10"),
        (0.123, "$0.12"),
        (0.999, "$1.00"),
        (1.0, "$1.00"),
        (12.3, "$12.30"),
        (1234.567, "$1,234.57"),
    ],
)
def test_dollars_have_two_figures_or_two_places(amount: float, text: str) -> None:
    assert dollars(amount) == text


@pytest.mark.parametrize(
    ("cost", "unpriced", "uncounted", "text"),
    [
        (0.12, 0, 0, "$0.12"),
        (0.12, 3, 0, "at least $0.12, 3 calls without a known price"),
        (0.12, 0, 1, "at least $0.12, 1 call without a count of tokens"),
        (0.0, 1, 0, "at least $0, 1 call without a known price"),
        (
            None,
            2,
            1,
            "unknown: 2 calls without a known price, 1 call without a count of tokens",
        ),
        (None, 0, 0, "$0"),
    ],
)
def test_an_unknown_cost_is_never_zero(
    cost: float | None, unpriced: int, uncounted: int, text: str
) -> None:
    assert cost_text(cost, unpriced, uncounted) == text

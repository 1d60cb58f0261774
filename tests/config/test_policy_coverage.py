"""When one rule makes another one useless."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from callboard.cli.policy.lint import covers
from callboard.config.policy.rules import Condition, Rule
from callboard.runtime.definitions import Capability, SessionKind, Tier, Verdict


@pytest.mark.parametrize(
    "field", ["tool", "tier", "agent", "kind", "channel", "needs", "network", "arguments"]
)
def test_a_rule_covers_one_that_says_more(field: str) -> None:
    narrow = Rule(
        verdict=Verdict.DENY,
        tool="write_file",
        tier=Tier.WORKSPACE,
        agent="general",
        kind=SessionKind.MAIN,
        channel="web",
        needs=Capability.NETWORK,
        network="out",
        arguments={"path": Condition(path="a/**")},
    )
    nothing: Any = {"tool": "*", "arguments": {}, "network": None}.get(field, ())
    wide = msgspec.structs.replace(narrow, **{field: nothing})
    assert covers(wide, narrow)
    assert not covers(narrow, wide)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"tool": ("a", "b")}, {"tool": "a"}),
        ({"tool": "git_*"}, {"tool": ("git_push", "git_pull")}),
        ({"min_tier": Tier.WORKSPACE}, {"tier": Tier.SYSTEM}),
        ({"agent": ("a", "b")}, {"agent": "b"}),
        (
            {"arguments": {"x": Condition(path=("a/**", "b/**"))}},
            {"arguments": {"x": Condition(path="a/**")}},
        ),
        (
            {"arguments": {"x": Condition(is_=[1, 2])}},
            {"arguments": {"x": Condition(is_=2), "y": Condition(is_=3)}},
        ),
    ],
    ids=str,
)
def test_of_two_lists_the_longer_covers_the_shorter(
    wide: dict[str, Any], narrow: dict[str, Any]
) -> None:
    first, second = (Rule(verdict=Verdict.DENY, **{"tool": "t", **said}) for said in (wide, narrow))
    assert covers(first, second)
    assert not covers(second, first)


def test_conditions_of_two_kinds_are_not_compared() -> None:
    first, second = (
        Rule(verdict=Verdict.DENY, tool="t", arguments={"x": condition})
        for condition in (Condition(path="a"), Condition(is_="a"))
    )
    assert not covers(first, second)
    assert not covers(second, first)

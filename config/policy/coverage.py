"""Whether one rule covers another: matches all that the other matches, as far as their text tells."""

from __future__ import annotations

import msgspec

from .match import CompiledRule, is_pattern
from .rules import Condition, PlacedRule, Rule


def covers(wide: Rule, narrow: Rule) -> bool:
    """Whether `wide` certainly matches whenever `narrow` does; when in doubt, return `False`.

    Patterns are compared by their text: `src/**` is not known to cover `src/a.py`.
    """
    return (
        _covers_names(wide.agents, narrow.agents)
        and _covers_names(wide.channels, narrow.channels)
        and _covers_names(wide.kinds, narrow.kinds)
        and _covers_tiers(wide, narrow)
        and (wide.defer or not narrow.defer)
        and all(
            name in narrow.arguments and _covers_condition(condition, narrow.arguments[name])
            for name, condition in wide.arguments.items()
        )
        and _covers_tools(wide, narrow)
    )


def _covers_names(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    return not wide or (bool(narrow) and set(narrow) <= set(wide))


def _covers_tiers(wide: Rule, narrow: Rule) -> bool:
    return wide.tiers is None or (narrow.tiers is not None and narrow.tiers <= wide.tiers)


def _covers_tools(wide: Rule, narrow: Rule) -> bool:
    if "*" in wide.tools:
        return True
    about = CompiledRule(PlacedRule(Rule(verdict=wide.verdict, tool=wide.tools), ""))
    return all(
        name in wide.tools if is_pattern(name) else about.is_about_tool(name)
        for name in narrow.tools
    )


def _covers_condition(wide: Condition, narrow: Condition) -> bool:
    return all(
        set(map(_text, said)) >= set(map(_text, less))
        for said, less in (
            (wide.paths, narrow.paths),
            (wide.argvs, narrow.argvs),
            (wide.hosts, narrow.hosts),
            (wide.values, narrow.values),
        )
    )


def _text(value: object) -> bytes:
    return msgspec.json.encode(value, order="deterministic", enc_hook=str)

"""What a tool's own functions say of one call: its keys, its tier and its effect.

They are the application's code, called before anything of the call is decided. What they say is
checked here: beyond, a wrong word would fail in the middle of a batch, or where nobody looks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ...runtime.definitions import Capability, Effect, Resource, Tier
from ...runtime.errors import ValidationError

KeyRule = Callable[[Any], Iterable[Resource | str]]
"""Arguments → the keys of this call; a text is a key to write."""

TierRule = Callable[[Any], Tier | str]
"""Arguments → the tier of this call."""

NeedsRule = Callable[[Any], Iterable[Capability | str]]
"""Arguments → what this call needs besides."""

EffectRule = Callable[[Any], Effect | str]
"""Arguments → the effect of this call."""


class CallRules:
    """The functions that a tool was given; what is `None` was not, or was given as a plain word.

    Raises:
        ValidationError: One of them is no function, or is asynchronous and may not be.
    """

    __slots__ = ("approval", "effect", "more_needs", "preview", "raise_tier", "resources")

    def __init__(
        self,
        tool_name: str,
        approval: Any,
        effect: Any,
        resources: KeyRule | None,
        raise_tier: TierRule | None,
        preview: Any,
        more_needs: NeedsRule | None = None,
    ) -> None:
        self.approval = checked_rule(
            tool_name, "approval", approval if callable(approval) else None
        )
        self.effect = checked_rule(tool_name, "effect", effect if callable(effect) else None)
        self.resources = checked_rule(tool_name, "resources", resources)
        self.raise_tier = checked_rule(tool_name, "raise_tier", raise_tier)
        self.more_needs = checked_rule(tool_name, "more_needs", more_needs)
        self.preview = checked_function(tool_name, "preview", preview)


def checked_rule(tool_name: str, option: str, rule: Any) -> Any:
    """The function that was given for an option; raises `ValidationError` when it is none."""
    if not inspect.iscoroutinefunction(rule):
        return checked_function(tool_name, option, rule)
    raise _unfit(tool_name, option, rule, "is asynchronous. Pass a plain function of the arguments")


def checked_function(tool_name: str, option: str, rule: Any) -> Any:
    """The same, of one that may be asynchronous."""
    if rule is None or callable(rule):
        return rule
    raise _unfit(tool_name, option, rule, "is no function. Pass a function of the arguments")


def text_of(said: object) -> str | None:
    """The text that a function gave, or nothing; raises `ValidationError`."""
    if said is None or isinstance(said, str):
        return said
    raise ValidationError(f"preview gave {said!r:.100}, which is no text.", field="preview")


def _unfit(tool_name: str, option: str, rule: Any, why: str) -> ValidationError:
    return ValidationError(f"tool {tool_name}: {option}={rule!r} {why}.", field=option)


def keys_of(said: Iterable[Resource | str]) -> tuple[Resource, ...]:
    """The keys that a function, or a tool, named; raises `ValidationError`."""
    if isinstance(said, (str, bytes, Resource)) or not isinstance(said, Iterable):
        raise ValidationError(
            f'resources gave {said!r:.100}, and not a list of keys. Return a list, as in ["a/b"].',
            field="resources",
        )
    return tuple(_key(one) for one in said)


def _key(one: object) -> Resource:
    if isinstance(one, Resource):
        return one
    if isinstance(one, str):
        return Resource(one)
    raise ValidationError(
        f"resources gave the key {one!r:.100}, which is neither a text like `a/b` nor a "
        "callboard.Resource.",
        field="resources",
    )


def tier_of(said: Tier | str) -> Tier:
    """The tier that a function named; raises `ValidationError`."""
    try:
        return Tier(said)
    except ValueError:
        raise _unknown("raise_tier", said, Tier) from None


def needs_of(said: Iterable[Capability | str]) -> tuple[Capability, ...]:
    """The capabilities that a function named; raises `ValidationError`."""
    try:
        return tuple(Capability(one) for one in said)
    except (ValueError, TypeError):
        raise _unknown("more_needs", said, Capability) from None


def effect_of(said: Effect | str) -> Effect:
    """The effect that a function named; raises `ValidationError`."""
    try:
        return Effect(said)
    except ValueError:
        raise _unknown("effect", said, Effect) from None


def _unknown(option: str, said: object, words: Iterable[str]) -> ValidationError:
    return ValidationError(
        f"{option} gave {said!r:.100}, which is none of {', '.join(words)}.", field=option
    )

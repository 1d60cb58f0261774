"""Rules of the policy as they are written in TOML.

A rule names calls (tool, tier, arguments) and sessions (agent, channel, kind), and a verdict. What it
leaves out does not matter to it. `match` decides whether a rule matches a call.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from ...runtime.definitions import Capability, SessionKind, Tier, Verdict
from ...runtime.http.address_guard import parse_endpoint
from .path_pattern import PathPattern

MAX_PATTERNS = 1000
"""Patterns of one condition at most: lists that programs write fit."""

MAX_REASON_CHARS = 500
"""Longest reason: it is shown in questions and in results for the model."""

Names = str | tuple[str, ...]
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON_CHARS)]


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition on one argument: exactly one of these; of several values, any may match.

    Attributes:
        path: Patterns of paths in the workspace, as `PathPattern` reads them.
        argv: Beginnings of a command's list of words: `["git", "status"]`, or a list of such
            lists. It is never compared with a shell string.
        host: Hosts of URLs: `api.example.com`, or `.example.com` for every name below it.
        is_: Values, written `is`: one, or a list of them.
    """

    path: Names = ()
    argv: tuple[Any, ...] = ()
    host: Names = ()
    is_: Any = msgspec.field(default=msgspec.UNSET, name="is")

    def __post_init__(self) -> None:
        said = [bool(self.path), bool(self.argv), bool(self.host), self.is_ is not msgspec.UNSET]
        if sum(said) != 1:
            raise ValueError(
                "a condition says exactly one of path, argv, host and is, and not nothing; "
                "write a rule for each when several are meant"
            )
        if self.is_ == []:
            raise ValueError("is: an empty list would never match")
        for pattern in self.paths:
            PathPattern(pattern)
        for words in self.argvs:
            _check_words(words)
        _ = self.hosts
        if max(map(len, (self.paths, self.argvs, self.hosts, self.values))) > MAX_PATTERNS:
            raise ValueError(f"a condition lists at most {MAX_PATTERNS} things")

    @property
    def paths(self) -> tuple[str, ...]:
        """The patterns of `path`."""
        return _several(self.path)

    @property
    def argvs(self) -> tuple[tuple[str, ...], ...]:
        """The prefixes of `argv`."""
        if self.argv and isinstance(self.argv[0], str):
            return (self.argv,)
        return tuple(tuple(words) if isinstance(words, list) else words for words in self.argv)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of `host`, in the one spelling that URLs are compared in."""
        return tuple(map(_host, _several(self.host)))

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of `is`."""
        if self.is_ is msgspec.UNSET:
            return ()
        return tuple(self.is_) if isinstance(self.is_, list) else (self.is_,)


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[rules]]` table.

    Attributes:
        verdict: `allow`, `ask` or `deny`.
        tool: Names of tools; `*` and `?` stand for any characters and for one.
        tier: Tiers of calls.
        min_tier: Instead of `tier`: this one and every higher one.
        agent: Names of agents.
        channel: Names of channels.
        kind: Kinds of sessions.
        needs: Capabilities: calls whose tool needs one of them.
        network: `out`: calls by which something may leave the machine, whatever their tool is.
        arguments: Conditions by argument; all of them must hold.
        defer: With `ask`: the turn goes on while a person is asked.
        reason: Why, for the person and the model.
        match: Examples of arguments that it must match; checked when it is loaded.
        not_match: Examples that it must not match.
    """

    verdict: Verdict
    tool: Names = ()
    tier: Tier | tuple[Tier, ...] = ()
    min_tier: Tier | None = None
    agent: Names = ()
    channel: Names = ()
    kind: SessionKind | tuple[SessionKind, ...] = ()
    needs: Capability | tuple[Capability, ...] = ()
    network: Literal["out"] | None = None
    arguments: dict[str, Condition] = msgspec.field(default_factory=dict)
    defer: bool = False
    reason: Reason = ""
    match: tuple[dict[str, Any], ...] = ()
    not_match: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not (self.tool or self.tiers or self.capabilities or self.network):
            raise ValueError(
                'tool: say which tool, a tier, needs or network; tool = "*" is every tool'
            )
        if self.tier and self.min_tier is not None:
            raise ValueError("min_tier: tier says it already; one of them is enough")
        if self.defer and self.verdict is not Verdict.ASK:
            raise ValueError('defer: only a question can wait; it goes with verdict = "ask"')
        for field in ("tool", "agent", "channel"):
            if not all(_several(getattr(self, field))):
                raise ValueError(f"{field}: a name is empty")

    @property
    def tools(self) -> tuple[str, ...]:
        """The names or patterns of tools; `("*",)` when none are given."""
        return _several(self.tool) or ("*",)

    @property
    def tiers(self) -> frozenset[Tier] | None:
        """The tiers, or `None` for all."""
        if self.min_tier is not None:
            return frozenset(tier for tier in Tier if tier.rank >= self.min_tier.rank)
        said = (self.tier,) if isinstance(self.tier, Tier) else self.tier
        return frozenset(said) or None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of `needs`; empty means that they don't matter."""
        return frozenset((self.needs,) if isinstance(self.needs, Capability) else self.needs)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents; empty means all."""
        return _several(self.agent)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels; empty means all, and sessions without one too."""
        return _several(self.channel)

    @property
    def kinds(self) -> tuple[SessionKind, ...]:
        """The kinds; empty means all."""
        return (self.kind,) if isinstance(self.kind, SessionKind) else self.kind


class PlacedRule(msgspec.Struct, frozen=True):
    """A rule and its place, for people: `rules[3] (callboard.toml, line 12)`."""

    rule: Rule
    place: str


def _several(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _check_words(words: object) -> None:
    if isinstance(words, str):
        raise ValueError(f"argv: {words!r} stands among lists; a command is a list of words")
    if not isinstance(words, tuple) or not words or not all(isinstance(w, str) for w in words):
        raise ValueError(f"argv: {words!r} is not a list of words, like ['git', 'status']")


def _host(text: str) -> str:
    bracketed = f"[{text}]" if ":" in text and not text.startswith("[") else text
    try:
        return parse_endpoint(f"{bracketed}:443")[0]
    except ValueError:
        raise ValueError(
            f"host: {text!r} is neither a host, like api.example.com, nor .NAME, like .example.com for "
            "every name below it; a port, a path or a wildcard has no place here"
        ) from None

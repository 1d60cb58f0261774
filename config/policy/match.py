"""Whether a rule matches a call.

Doubt counts against the call. What can't be judged (an absolute path or one with `..`, a malformed URL, a
shell string where a list of words is meant) matches no rule that allows, and every rule that asks or
denies. Rules that ask or deny also ignore upper and lower case, and match a folder above the paths that
they name.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec

from ...runtime.definitions import (
    Capability,
    SessionKind,
    Tier,
    ToolDefinition,
    ToolFailure,
    Verdict,
)
from ...runtime.http.url import HttpUrl, parse_url
from .path_pattern import PathPattern, folded, is_wild, judged_path
from .rules import Condition, PlacedRule, Rule

_Read = TypeVar("_Read")
_Text = TypeVar("_Text")
_Test = Callable[["CallArguments", str], bool]

_LEFT_OUT = object()
"""Value of an argument that the call leaves out and that has no default."""


class CallArguments:
    """The arguments of one call as conditions read them, each once and when it is needed.

    Args:
        canonical: The arguments, as JSON of an object.
        properties: The tool's parameters (`properties` of its schema), for their defaults.
    """

    def __init__(self, canonical: str, properties: Mapping[str, Any] | None = None) -> None:
        self._canonical = canonical
        self._properties = properties or {}
        self._read: dict[tuple[str, str], Any] = {}

    @cached_property
    def given(self) -> dict[str, Any]:
        """The arguments that the call itself has."""
        return msgspec.json.decode(self._canonical, type=dict[str, Any])

    def has(self, name: str) -> bool:
        """Whether the call or the tool has such an argument."""
        return name in self.given or name in self._properties

    def value(self, name: str) -> Any:
        """Return an argument's value, or its default."""
        if name in self.given:
            return self.given[name]
        return self._properties.get(name, {}).get("default", _LEFT_OUT)

    def paths(self, name: str, *, fold: bool) -> tuple[str, ...] | None:
        """Return an argument's paths; `None` when they can't be judged."""
        key = "folded" if fold else "path"
        return self._once(key, name, lambda: self._texts(name, _folded if fold else judged_path))

    def hosts(self, name: str) -> tuple[str, ...] | None:
        """Return the hosts of an argument's URLs; `None` when they can't be judged."""
        urls = self.urls(name)
        return None if urls is None else tuple(url.host for url in urls)

    def urls(self, name: str) -> tuple[HttpUrl, ...] | None:
        """Return an argument's URLs; `None` when they can't be judged."""
        return self._once("url", name, lambda: self._texts(name, _url_of))

    def words(self, name: str) -> tuple[str, ...] | None:
        """Return an argument's list of words; `None` when it is something else, like a shell string."""
        value = self.value(name)
        is_words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        return tuple(value) if is_words else None

    def spelled(self, name: str, *, fold: bool) -> str:
        """Return the value as `spelled` writes it."""
        key = "folded value" if fold else "value"
        return self._once(key, name, lambda: spelled(self.value(name), fold=fold))

    def _texts(self, name: str, read: Callable[[str], _Text | None]) -> tuple[_Text, ...] | None:
        value = self.value(name)
        texts = value if isinstance(value, list) else [value]
        found = [read(text) if isinstance(text, str) else None for text in texts]
        return None if None in found else cast("tuple[_Text, ...]", tuple(found))

    def _once(self, kind: str, name: str, read: Callable[[], _Read]) -> _Read:
        key = kind, name
        if key not in self._read:
            self._read[key] = read()
        return cast("_Read", self._read[key])


class CompiledRule:
    """A rule that is ready to match calls.

    Raises:
        ValueError: One of its examples is wrong.
    """

    def __init__(self, placed: PlacedRule) -> None:
        rule = placed.rule
        self.rule = rule
        self.place = placed.place
        self.verdict = rule.verdict
        self.tools = frozenset(name for name in rule.tools if not is_wild(name))
        """Tools that it names; others may match `tool_pattern`."""
        patterns = [fnmatch.translate(name) for name in rule.tools if is_wild(name)]
        self.tool_pattern = re.compile("|".join(patterns)) if patterns else None
        is_strict = rule.verdict is not Verdict.ALLOW
        self._tiers = rule.tiers
        self._needs = rule.capabilities
        self._is_strict = is_strict
        self._tests = tuple(
            (name, _test(condition, is_strict)) for name, condition in rule.arguments.items()
        )
        self.may_answer_elevated = (
            self.tool_pattern is None
            and Tier.ELEVATED in (self._tiers or ())
            and all(condition.values for condition in rule.arguments.values())
        )
        """Whether it names the tier, the tool and exact values: then an elevated call needs no person."""
        check_examples(self)

    def is_about_tool(self, name: str) -> bool:
        """Whether the rule may match calls of this tool."""
        if name in self.tools:
            return True
        return self.tool_pattern is not None and self.tool_pattern.match(name) is not None

    def is_about_session(self, agent: str, kind: SessionKind, channel: str | None) -> bool:
        """Whether the rule holds in such a session."""
        rule = self.rule
        return (
            (not rule.agents or agent in rule.agents)
            and (not rule.kinds or kind in rule.kinds)
            and (not rule.channels or channel in rule.channels)
        )

    def matches(
        self, tier: Tier, arguments: CallArguments, definition: ToolDefinition | None
    ) -> bool:
        """Whether the rule matches a call of a tool that it is about; `definition` is that of the call."""
        if self._tiers is not None and tier not in self._tiers:
            return False
        if (self._needs or self.rule.network) and not self._is_about_needs(tier, definition):
            return False
        return self.accepts(arguments)

    def _is_about_needs(self, tier: Tier, definition: ToolDefinition | None) -> bool:
        """Whether the call needs what the rule names; of an unknown tool, nobody can tell."""
        if definition is None:
            return self._is_strict
        if self._needs and self._needs.isdisjoint(definition.needs):
            return False
        return self.rule.network is None or may_send(definition, tier, in_doubt=self._is_strict)

    def accepts(self, arguments: CallArguments) -> bool:
        """Whether every condition on the arguments holds."""
        return all(arguments.has(name) and test(arguments, name) for name, test in self._tests)

    def answers(self, tier: Tier, arguments: CallArguments, *, is_raised: bool) -> bool:
        """Whether an allow rule that matches may answer in place of a person.

        When the arguments raised the call's tier, the rule must name that tier. For an elevated
        call it must also name the tool, and the value of every argument.
        """
        if is_raised and self._tiers is None:
            return False
        if tier is not Tier.ELEVATED:
            return True
        return self.may_answer_elevated and arguments.given.keys() <= self.rule.arguments.keys()


_HANDLES = frozenset({Capability.PROCESSES, Capability.CHANNEL, Capability.SESSIONS})
"""What a tool of tier system may need instead of the network: the sandbox, people and sessions are
judged by themselves."""


def may_send(definition: ToolDefinition, tier: Tier, *, in_doubt: bool) -> bool:
    """Whether something may leave the machine by a call, which needs what its definition says.

    In doubt, that is so of a tool that reaches beyond the workspace and does not say through what: it calls
    the application.
    """
    if Capability.NETWORK in definition.needs:
        return True
    return in_doubt and tier.rank >= Tier.SYSTEM.rank and _HANDLES.isdisjoint(definition.needs)


def check_examples(compiled: CompiledRule) -> None:
    """Raise `ValueError` when a `match` does not match, or a `not_match` does.

    The text begins with the example's name: `match[2]: …`.
    """
    rule = compiled.rule
    for field, examples, wanted in (
        ("match", rule.match, True),
        ("not_match", rule.not_match, False),
    ):
        for number, example in enumerate(examples, 1):
            text = msgspec.json.encode(example, enc_hook=str).decode()
            if compiled.accepts(CallArguments(text)) is not wanted:
                found = "does not match the rule" if wanted else "matches the rule"
                raise ValueError(f"{field}[{number}]: {text} {found}")


def advice(rule: Rule, arguments: CallArguments) -> str:
    """Return how to write arguments that a strict rule matched because they can't be judged."""
    for name, condition in rule.arguments.items():
        if condition.paths and arguments.paths(name, fold=True) is None:
            return f"; give {name} relative to the workspace and without '..'"
        if condition.hosts and arguments.hosts(name) is None:
            return f"; give {name} as an http or https URL"
        if condition.argvs and arguments.words(name) is None:
            return f"; give {name} as a list of words, not as a shell string"
    return ""


def spelled(value: Any, *, fold: bool) -> str:
    """Return a value as JSON in which equal values are equal texts (1 and 1.0, but not true)."""
    if value is _LEFT_OUT:
        return ""
    if isinstance(value, str):
        text = folded(value).strip() if fold else value
        return f'"{text}'  # without an end quote, which no other JSON lacks
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = msgspec.json.encode(value, order="deterministic", enc_hook=str).decode()
    return folded(text) if fold else text


def _test(condition: Condition, is_strict: bool) -> _Test:
    if condition.paths:
        return _reaches_paths(condition.paths) if is_strict else _is_within(condition.paths)
    if condition.argvs:
        return _runs_program(condition.argvs) if is_strict else _has_prefix(condition.argvs)
    if condition.hosts:
        return _host_test(condition.hosts, is_strict)
    values = frozenset(spelled(value, fold=is_strict) for value in condition.values)
    return lambda arguments, name: arguments.spelled(name, fold=is_strict) in values


def _is_within(texts: tuple[str, ...]) -> _Test:
    patterns = tuple(map(PathPattern, texts))

    def test(arguments: CallArguments, name: str) -> bool:
        paths = arguments.paths(name, fold=False)
        if not paths:
            return False
        return all(any(pattern.matches(path) for pattern in patterns) for path in paths)

    return test


def _reaches_paths(texts: tuple[str, ...]) -> _Test:
    patterns = tuple(PathPattern(text, fold=True) for text in texts)

    def test(arguments: CallArguments, name: str) -> bool:
        paths = arguments.paths(name, fold=True)
        if paths is None:
            return True
        for path in paths:
            head = path.partition("/")[0]
            for pattern in patterns:
                if head and pattern.head is not None and pattern.head != head:
                    continue
                if pattern.matches(path) or pattern.reaches_into(path):
                    return True
        return False

    return test


def _has_prefix(argvs: tuple[tuple[str, ...], ...]) -> _Test:
    def test(arguments: CallArguments, name: str) -> bool:
        words = arguments.words(name)
        return words is not None and any(words[: len(argv)] == argv for argv in argvs)

    return test


def _runs_program(argvs: tuple[tuple[str, ...], ...]) -> _Test:
    # `/bin/rm` is `rm`.
    named = tuple((_program(argv[0]), *argv[1:]) for argv in argvs)

    def test(arguments: CallArguments, name: str) -> bool:
        words = arguments.words(name)
        if words is None:
            return True
        found = (_program(words[0]), *words[1:]) if words else ()
        return any(found[: len(argv)] == argv for argv in named)

    return test


def _host_test(hosts: tuple[str, ...], is_strict: bool) -> _Test:
    exact = frozenset(host for host in hosts if not host.startswith("."))
    suffixes = tuple(host for host in hosts if host.startswith("."))

    def test(arguments: CallArguments, name: str) -> bool:
        found = arguments.hosts(name)
        if found is None:
            return is_strict
        matched = [host in exact or host.endswith(suffixes) for host in found]
        return any(matched) if is_strict else bool(matched) and all(matched)

    return test


def _program(word: str) -> str:
    return folded(word.rpartition("/")[2])


def _folded(text: str) -> str | None:
    path = judged_path(text)
    return None if path is None else folded(path)


def _url_of(text: str) -> HttpUrl | None:
    try:
        return parse_url(text)
    except ToolFailure:
        return None

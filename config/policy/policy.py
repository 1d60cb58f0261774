"""The policy of a session: which calls run, which ask a person first, and which never run.

A layer is a preset and the rules that hold for one agent. In a layer the strictest rule that matches
wins, and a rule that allows speaks only where none asks or denies: it then answers what the preset would
have asked. A policy is the layers that hold for a session (its own, its parent's); the strictest of them
wins, so that each can only narrow the others. All of it is pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from ...runtime.definitions import (
    Agent,
    Capability,
    Preset,
    SessionKind,
    Tier,
    ToolDefinition,
    Verdict,
)
from ...runtime.errors import ValidationError
from .match import CallArguments, CompiledRule, advice
from .new_hosts import (
    LIST,
    AutoHosts,
    is_about,
    is_reading_web,
    listed_hosts,
    names_place,
    new_host,
    url_arguments,
    with_www,
)
from .path_pattern import PathPattern
from .preset import Ruling, ruling
from .rules import PlacedRule

PROCESS = "process"
SHELL = "shell"


def typed_command(tool: str, arguments: CallArguments) -> str | None:
    """Return a line typed into a running program as arguments of `shell`, or `None`."""
    if tool != PROCESS:
        return None
    given = arguments.given
    text = given.get("text")
    if given.get("action") != "write" or not isinstance(text, str):
        return None
    return msgspec.json.encode({"command": text.strip()}, order="deterministic").decode()


MAX_CACHED_TOOLS = 512
"""Tools whose rules a layer keeps indexed: more than a runtime has. For further names, which a model made
up, all rules are searched each time."""

MAX_CACHED_LAYERS = 256
"""Agents times kinds times channels. A full cache is emptied."""


class PolicyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as far as the policy depends on it.

    Attributes:
        tool: The name that the model said.
        definition: The tool's definition; `None` when there is no such tool.
        tier: The call's own tier; `None` when nobody said.
        arguments: Canonical JSON of an object.
        approval_reason: Why the tool itself asks, or `None`.
        hosts: The hosts that the session knows.
        is_exposed: Whether the session has read untrusted content and private data.
        is_redirect: Whether it is about a redirect of a call that was already decided about.
    """

    tool: str
    definition: ToolDefinition | None
    tier: Tier | None
    arguments: str
    approval_reason: str | None = None
    hosts: frozenset[str] = frozenset()
    is_exposed: bool = False
    is_redirect: bool = False

    @property
    def final_tier(self) -> Tier:
        """The tier that counts: never below the tool's, and elevated when it or the tool is unknown."""
        if self.definition is None or self.tier is None:
            return Tier.ELEVATED
        least = self.definition.tier
        return least if self.tier is least or self.tier.rank < least.rank else self.tier

    @property
    def is_raised(self) -> bool:
        """Whether the arguments made the call more dangerous than its tool is by itself."""
        return self.definition is None or self.final_tier is not self.definition.tier

    @property
    def properties(self) -> Mapping[str, Any]:
        """The tool's parameters."""
        return {} if self.definition is None else self.definition.parameters.get("properties", {})


class PolicyLayer:
    """A preset and rules of one owner.

    Args:
        owner: Whose it is, for people: `agent general`.
        preset: Its preset.
        rules: In any order.
        places: By tool, the one host that the operator lets it connect to.
        auto: Hosts that the web's tools may read from without a question.
    """

    def __init__(
        self,
        owner: str,
        preset: Preset,
        rules: Iterable[CompiledRule] = (),
        places: Mapping[str, str] | None = None,
        auto: Iterable[str] = (),
    ) -> None:
        self.owner = owner
        self.preset = preset
        self.rules = tuple(rules)
        self._by_tool: dict[str, Mapping[Verdict, RuleIndex]] = {}
        self._places = dict(places or {})
        self._auto = AutoHosts(auto)
        said: list[object] = [owner, preset, sorted({_canonical(rule) for rule in self.rules})]
        said += [self._places] if self._places else []
        said += [self._auto.canonical] if self._auto else []
        self.version = _digest(said)

    def ruling(self, question: PolicyQuestion, arguments: CallArguments) -> Ruling:
        """Return the ruling of this layer alone."""
        tier = question.final_tier
        about = self._rules_about(question.tool)
        for verdict in (Verdict.DENY, Verdict.ASK):
            if verdict not in about:
                continue
            said: Ruling | None = None
            for rule in about[verdict].candidates(arguments):
                if said is not None and not rule.rule.defer:
                    continue  # the verdict stands; only whether it may wait is open
                if rule.matches(tier, arguments, question.definition) and _judges(
                    rule, question, arguments
                ):
                    said = said or _ruling_of(rule, question, advice(rule.rule, arguments))
                    if rule.rule.defer:
                        return msgspec.structs.replace(said, defer=True)
                    if verdict is Verdict.DENY:
                        return said
            if said is not None:
                return said
        new = self._new_host(question, arguments)
        # The call of a redirect was asked about, or needed no question.
        least, reason = (
            (Tier.READ_ONLY, None) if question.is_redirect else (tier, question.approval_reason)
        )
        found = ruling(self.preset, least, reason, new, is_exposed=question.is_exposed)
        if found.verdict is not Verdict.ASK:
            return found
        is_way_out = new is not None and question.is_exposed
        rules = about[Verdict.ALLOW] if Verdict.ALLOW in about else RuleIndex(())
        return self._answered(question, arguments, rules, is_way_out=is_way_out) or found

    def _answered(
        self,
        question: PolicyQuestion,
        arguments: CallArguments,
        rules: RuleIndex,
        *,
        is_way_out: bool,
    ) -> Ruling | None:
        """Return what answers a question of the preset in a person's place, or `None`."""
        tool, tier = question.definition, question.final_tier
        if host := self._auto_host(question, arguments):
            return Ruling(Verdict.ALLOW, f"{host} is under {LIST}", "network.auto")
        for rule in rules.candidates(arguments):
            if (
                rule.matches(tier, arguments, tool)
                and rule.answers(tier, arguments, is_raised=question.is_raised)
                and (not is_way_out or (tool and names_place(rule, tool, arguments)))
            ):
                return _ruling_of(rule, question)
        return None

    def has_rules_about(self, tool: str) -> bool:
        """Whether the layer has rules that may match calls of this tool."""
        return bool(self._rules_about(tool))

    def _new_host(self, question: PolicyQuestion, arguments: CallArguments) -> str | None:
        """Say what is new about where the call connects, where this preset looks at that."""
        if question.definition is None or Capability.NETWORK not in question.definition.needs:
            return None
        if self.preset is Preset.AUTO:
            return None
        if question.is_exposed:
            # It may send what it has read, even to a host that is known.
            return new_host(question.definition, arguments, question.hosts)
        if is_reading_web(question.definition):
            known = with_www(question.hosts) if question.is_redirect else question.hosts
            said = new_host(question.definition, arguments, known)
            if said is not None:
                return f"{said}, and not under {LIST}"
            if self.preset is Preset.BALANCED or question.is_redirect:
                return None
            said = new_host(question.definition, arguments, frozenset()) or ""
            return said.replace("new to it", f"not under {LIST}")
        if self.preset is Preset.STRICT and not question.is_redirect:
            place = self._places.get(question.definition.name)
            return new_host(question.definition, arguments, question.hosts, place)
        return None

    def _auto_host(self, question: PolicyQuestion, arguments: CallArguments) -> str | None:
        """Return the host of a call that the list answers for: it only reads, and no taint is behind it."""
        if (
            question.is_exposed
            or question.approval_reason is not None
            or question.is_raised
            or not is_reading_web(question.definition)
        ):
            return None
        return listed_hosts(self._auto, arguments)

    def _rules_about(self, tool: str) -> Mapping[Verdict, RuleIndex]:
        found = self._by_tool.get(tool)
        if found is None:
            rules = [rule for rule in self.rules if rule.is_about_tool(tool)]
            found = {
                verdict: RuleIndex(rule for rule in rules if rule.verdict is verdict)
                for verdict in {rule.verdict for rule in rules}
            }
            if len(self._by_tool) < MAX_CACHED_TOOLS:
                self._by_tool[tool] = found
        return found


class Policy:
    """What holds for one session: the strictest ruling of its layers.

    Attributes:
        layers: Each layer once, in the order of their versions.
        version: A digest of everything that verdicts follow from; approvals bind to it.
    """

    def __init__(self, layers: Iterable[PolicyLayer]) -> None:
        unique = {layer.version: layer for layer in layers}
        self.layers = tuple(unique[version] for version in sorted(unique))
        if not self.layers:
            raise ValueError("a policy without a layer would allow everything")
        self.version = _digest([layer.version for layer in self.layers])

    def ruling(self, question: PolicyQuestion) -> Ruling:
        """Return the verdict about one call, with the reason and what decided."""
        arguments = CallArguments(question.arguments, question.properties)
        found = self._ruling(question, arguments)
        command = typed_command(question.tool, arguments)
        if command is None:
            return found
        typed = msgspec.structs.replace(question, tool=SHELL, arguments=command)
        as_command = self._ruling(typed, CallArguments(command, question.properties))
        # The preset rules on the call itself already.
        is_stricter = as_command.verdict.rank > found.verdict.rank and not as_command.is_by_preset
        return as_command if is_stricter else found

    def _ruling(self, question: PolicyQuestion, arguments: CallArguments) -> Ruling:
        if len(self.layers) == 1:
            return self.layers[0].ruling(question, arguments)
        said = [(layer.ruling(question, arguments), layer.owner) for layer in self.layers]
        found, owner = max(said, key=lambda word: word[0].verdict.rank)
        return msgspec.structs.replace(
            found,
            rule=f"{found.rule}, by the policy of {owner}",
            defer=any(ruling.defer for ruling, _ in said),
        )

    def has_rules_about(self, tool: str) -> bool:
        """Whether verdicts about calls of this tool may depend on more than their tier."""
        if tool == PROCESS and self.has_rules_about(SHELL):
            return True
        return any(layer.has_rules_about(tool) for layer in self.layers)

    def meet(self, other: Policy) -> Policy:
        """Return the policy under which both hold: the stricter verdict wins."""
        return Policy((*self.layers, *other.layers))


class PolicyBook:
    """All rules of a configuration, and the policies of sessions under them.

    Args:
        rules: The rules of all agents.
        places: As in `PolicyLayer`; see `search_places`.
        auto: As in `PolicyLayer`, of all agents; an agent may have more.

    Attributes:
        revision: Counts replacements, so that caches notice them.

    Raises:
        ValidationError: An example of a rule is wrong.
    """

    def __init__(
        self,
        rules: Iterable[PlacedRule] = (),
        places: Mapping[str, str] | None = None,
        auto: Iterable[str] = (),
    ) -> None:
        self.revision = 0
        self._rules = tuple(map(compiled, rules))
        self._places = places
        self._auto = tuple(auto)
        self._layers: dict[object, PolicyLayer] = {}

    def replace(self, other: PolicyBook) -> None:
        """Take over the rules of another book."""
        self._rules, self._places, self._auto = other._rules, other._places, other._auto
        self._layers.clear()
        self.revision += 1

    def policy(
        self,
        agent: Agent,
        *,
        kind: SessionKind = SessionKind.MAIN,
        channel: str | None = None,
        parent: Policy | None = None,
    ) -> Policy:
        """Return the policy of a session.

        Args:
            agent: Whose session it is; its preset is the layer's.
            kind: The session's kind.
            channel: The channel of its people, or `None`.
            parent: The policy of the session that started it, which holds here as it does there:
                with the rules for the parent's agent, kind and channel.
        """
        key = agent.name, agent.policy, agent.auto_hosts, kind, channel
        layer = self._layers.get(key)
        if layer is None:
            if len(self._layers) >= MAX_CACHED_LAYERS:
                self._layers.clear()
            rules = [r for r in self._rules if r.is_about_session(agent.name, kind, channel)]
            owner = f"agent {agent.name}"
            auto = (*self._auto, *agent.auto_hosts)
            layer = PolicyLayer(owner, agent.policy, rules, self._places, auto)
            self._layers[key] = layer
        own = Policy((layer,))
        return own if parent is None else parent.meet(own)


def compiled(placed: PlacedRule) -> CompiledRule:
    """Return the compiled rule; raise `ValidationError` when one of its examples is wrong."""
    try:
        return CompiledRule(placed)
    except ValueError as error:
        raise ValidationError(f"{placed.place}: {error}") from error


def _judges(rule: CompiledRule, question: PolicyQuestion, arguments: CallArguments) -> bool:
    """Whether a rule that asks applies. Of a redirect, only where it leads is new."""
    if not question.is_redirect or rule.verdict is Verdict.DENY or question.definition is None:
        return True
    return is_about(rule, url_arguments(question.definition, arguments))


def _ruling_of(rule: CompiledRule, question: PolicyQuestion, hint: str = "") -> Ruling:
    words = {
        Verdict.ALLOW: "lets it run",
        Verdict.ASK: "asks for such calls",
        Verdict.DENY: "denies such calls",
    }
    reason = rule.rule.reason or f"a rule about {question.tool} {words[rule.verdict]}"
    return Ruling(rule.verdict, reason + hint, rule.place)


def _canonical(rule: CompiledRule) -> str:
    """Return what a rule's verdicts follow from: not its place, reason, examples or order."""
    its = rule.rule
    conditions = {
        name: [sorted(c.paths), sorted(c.argvs), sorted(c.hosts), sorted(map(_json, c.values))]
        for name, c in its.arguments.items()
    }
    tiers = None if its.tiers is None else sorted(its.tiers)
    said: list[object] = [its.verdict, sorted(set(its.tools)), tiers, conditions]
    if its.capabilities or its.network:
        said.append([sorted(its.capabilities), its.network])
    return _json(said)


def _digest(value: object) -> str:
    return hashlib.sha256(_json(value).encode()).hexdigest()


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic", enc_hook=str).decode()


# ── an index of rules ────────────────────────────────────────────────────────────────────────────


class RuleIndex:
    """The rules of one verdict about one tool, indexed so that few of them must be tried.

    Most rules name a folder: a call on `src/a.py` tries those about `src`, not those about a thousand
    other folders. Patterns that begin with a wildcard are joined into one expression. The index only
    leaves out rules that can't match; the rules themselves decide.
    """

    def __init__(self, rules: Iterable[CompiledRule]) -> None:
        self.rules = tuple(rules)
        self._always: list[int] = []
        self._by_argument: dict[str, _FolderIndex] = {}
        for number, rule in enumerate(self.rules):
            paths = ((name, c.paths) for name, c in rule.rule.arguments.items() if c.paths)
            name, patterns = next(paths, ("", ()))
            if not patterns:
                self._always.append(number)
                continue
            is_strict = rule.verdict is not Verdict.ALLOW
            index = self._by_argument.setdefault(name, _FolderIndex(is_strict))
            for pattern in patterns:
                index.add(number, PathPattern(pattern, fold=is_strict))

    def candidates(self, arguments: CallArguments) -> Sequence[CompiledRule]:
        """Return the rules that may match such a call, in their order."""
        if not self._by_argument:
            return self.rules
        numbers = set(self._always)
        for name, index in self._by_argument.items():
            if arguments.has(name):
                numbers.update(index.numbers(arguments.paths(name, fold=index.is_strict)))
        return [self.rules[number] for number in sorted(numbers)]


class _FolderIndex:
    """Numbers of rules by the first name of their paths."""

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self._all: list[int] = []
        self._by_head: dict[str, list[int]] = {}
        self._anywhere: list[int] = []
        self._patterns: list[PathPattern] = []

    def add(self, number: int, pattern: PathPattern) -> None:
        self._all.append(number)
        if pattern.head is None:
            self._anywhere.append(number)
            self._patterns.append(pattern)
        else:
            self._by_head.setdefault(pattern.head, []).append(number)

    def numbers(self, paths: tuple[str, ...] | None) -> Iterable[int]:
        if paths is None:
            return self._all if self.is_strict else ()
        found: list[int] = []
        for path in paths:
            if not path:
                return self._all
            found += self._by_head.get(path.partition("/")[0], ())
            if self._patterns and self._expression.match(path):
                found += self._anywhere
        return found

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        """An expression that matches what any of the patterns without a first name matches."""
        said = (pattern.expression(reaching=self.is_strict) for pattern in self._patterns)
        return re.compile("|".join(said), re.DOTALL)

"""`callboard policy lint`: finds rules that don't do what they seem to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter

from ...config.files import load_settings
from ...config.policy.match import CompiledRule
from ...config.policy.new_hosts import URL_ARGUMENTS
from ...config.policy.path_pattern import is_wild
from ...config.policy.rules import Condition, PlacedRule, Rule
from ...config.settings import Settings
from ...runtime.definitions import Capability, SessionKind, Tier, ToolDefinition, Verdict
from ...runtime.taint.marks import PRIVATE
from ...tools.builtin import builtin_tools
from ...tools.registry import is_available, unknown_tools
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Json
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

COMMAND_TOOLS = frozenset({"shell", "run_code", "process"})
"""Tools whose arguments are programs."""

INTERPRETER = re.compile(
    r"(ba|da|z|k|c|tc|fi)?sh|busybox|env|xargs|sudo|doas|su|nohup|nice|timeout|setsid|stdbuf"
    r"|python[\d.]*|pypy[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|php[\d.]*|lua[\d.]*"
    r"|[gmn]?awk|find|ssh|parallel|make|npx|uvx|pipx|docker|podman|eval|exec|command"
)
"""Programs that run whatever their arguments say: allowing one allows everything."""


class LintFinding(msgspec.Struct, frozen=True):
    """One rule and what is odd about it."""

    place: str
    problem: str


Known = Annotated[
    tuple[str, ...],
    Parameter(help="A tool of your own program, which callboard does not know.", negative=()),
]


def lint(*, known: Known = (), json: Json = False, config: Config = None) -> int:
    """Look for rules that don't do what they seem to: exits with 1 when there are any.

    Examples that don't hold are errors of the configuration, here and everywhere.
    """
    settings = load_settings(config)
    findings = findings_about(settings, known)
    for finding in findings:
        line = f"{safe_line(finding.place)}: {safe_line(finding.problem)}\n"
        sys.stdout.write(json_line(finding) if json else line)
    if not json:
        count, found = len(settings.rules), len(findings)
        rules = "1 rule" if count == 1 else f"{count} rules"
        words = {0: "no findings", 1: "1 finding"}.get(found, f"{found} findings")
        sys.stdout.write(f"{rules}, {words}\n")
    return FAILED if findings else ANSWERED


def findings_about(settings: Settings, known: Iterable[str] = ()) -> tuple[LintFinding, ...]:
    """Return what is odd about the rules of a configuration.

    Args:
        settings: The configuration; examples were checked when it was loaded.
        known: Tools of the embedding program: they are not called unknown.
    """
    names = {tool.definition.name for tool in builtin_tools()}.union(known)
    names.update(tool.name for server in settings.mcp.values() for tool in server.tools)
    agents = [
        LintFinding(f"agents.{name}", problem)
        for name, agent in settings.agents.items()
        for problem in unknown_tools(name, agent.tools, names)
    ]
    return (*agents, *_rule_findings(settings, known))


def _rule_findings(settings: Settings, known: Iterable[str]) -> tuple[LintFinding, ...]:
    lint = _Lint(settings, frozenset(known))
    return tuple(
        LintFinding(placed.place, problem)
        for number, placed in enumerate(settings.rules)
        for problem in lint.problems(number, placed)
    )


class _Lint:
    def __init__(self, settings: Settings, known: frozenset[str]) -> None:
        self._settings = settings
        self._definitions = {tool.definition.name: tool.definition for tool in builtin_tools()}
        accepted = {tool.name for server in settings.mcp.values() for tool in server.tools}
        self._known = known.union(accepted)
        self._agents = {"general", *settings.agents}
        self._rules = tuple(map(CompiledRule, settings.rules))

    def problems(self, number: int, placed: PlacedRule) -> Iterator[str]:
        rule = placed.rule
        yield from self._unknown_names(number, rule)
        about = self._tools_of(number)
        if about:
            yield from self._never_matches(rule, about)
            yield from self._never_asked(rule, about)
            yield from self._new_hosts(rule, about)
        yield from self._gap_above(rule)
        yield from self._elevated(number, rule)
        yield from self._programs(number, rule)
        yield from self._ways_out(rule)
        yield from self._covered(number, rule)

    def _unknown_names(self, number: int, rule: Rule) -> Iterator[str]:
        names = self._known.union(self._definitions)
        for name in rule.tools:
            if is_wild(name):
                one = CompiledRule(PlacedRule(Rule(verdict=rule.verdict, tool=name), ""))
                if not any(map(one.is_about_tool, names)):
                    yield f"no tool that is known here is named like {name!r}"
            elif name not in names:
                yield (
                    f"there is no built-in tool {name!r}; if it is your program's, say "
                    f"--known {name}"
                )
        for name in rule.agents:
            if name not in self._agents:
                yield f"there is no agent {name!r}: the rule never matches in a configured one"

    def _tools_of(self, number: int) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools that a rule is about; nothing when one is unknown."""
        rule = self._rules[number]
        if any(name not in self._definitions for name in rule.tools):
            return ()
        if rule.tool_pattern is not None:  # it may be about tools that only a program knows
            return ()
        return tuple(self._definitions[name] for name in sorted(rule.tools))

    def _never_matches(self, rule: Rule, about: tuple[ToolDefinition, ...]) -> Iterator[str]:
        names = " or ".join(definition.name for definition in about)
        if rule.tiers is not None:
            highest = max(tier.rank for tier in rule.tiers)
            if all(definition.tier.rank > highest for definition in about):
                yield f"it never matches: calls of {names} have a higher tier"
        for name in rule.arguments:
            if not any(name in definition.parameters["properties"] for definition in about):
                yield f"it never matches: {names} has no argument {name!r}"
        if rule.capabilities and all(
            rule.capabilities.isdisjoint(needs_of(definition)) for definition in about
        ):
            yield f"it never matches: {names} needs none of {', '.join(sorted(rule.capabilities))}"
        if rule.network and not any(map(is_way_out, about)):
            yield f"it never matches: nothing leaves the machine by {names}"
        if rule.kinds == (SessionKind.WORKER,) and not any(
            is_available(definition, SessionKind.WORKER) for definition in about
        ):
            yield f"it never matches: workers don't have {names}"
        agents = [self._settings.agents.get(name) for name in rule.agents]
        if agents and not any(
            agent is None or agent.tools is None or definition.name in agent.tools
            for agent in agents
            for definition in about
        ):
            yield f"it never matches: {' and '.join(rule.agents)} may not use {names}"

    def _never_asked(self, rule: Rule, about: tuple[ToolDefinition, ...]) -> Iterator[str]:
        harmless = all(
            definition.tier is Tier.READ_ONLY
            and definition.approval == "never"
            and Capability.NETWORK not in definition.needs
            for definition in about
        )
        if rule.verdict is Verdict.ALLOW and harmless:
            yield "it never decides: no preset asks about such calls, and it overrules nothing else"

    def _new_hosts(self, rule: Rule, about: tuple[ToolDefinition, ...]) -> Iterator[str]:
        """Yield what is odd when a rule allows a tool that only reads: nobody is asked about new hosts."""
        if rule.verdict is not Verdict.ALLOW:
            return
        for definition in about:
            if definition.tier is not Tier.READ_ONLY or Capability.NETWORK not in definition.needs:
                continue
            places = [name for name in URL_ARGUMENTS if name in definition.parameters["properties"]]
            if not places:
                yield (
                    f"it lets {definition.name} run without a question in a session that has read "
                    "untrusted content and private data, which can leave with a call"
                )
            elif not any(name in rule.arguments for name in places):
                yield (
                    f"it lets {definition.name} reach every new host without a question where the "
                    f"preset would ask; name those that it may: arguments.{places[0]} = {{ host = … }}"
                )

    def _gap_above(self, rule: Rule) -> Iterator[str]:
        tiers = rule.tiers
        if rule.verdict is Verdict.ALLOW or tiers is None:
            return
        lowest = min(tier.rank for tier in tiers)
        above = [tier for tier in Tier if tier.rank > lowest and tier not in tiers]
        if above:
            yield (
                f"it leaves {' and '.join(above)} calls alone, which are more dangerous; "
                "min_tier includes them"
            )

    def _elevated(self, number: int, rule: Rule) -> Iterator[str]:
        if rule.verdict is not Verdict.ALLOW or rule.tiers != frozenset({Tier.ELEVATED}):
            return
        if not self._rules[number].may_answer_elevated:
            yield (
                "it never decides: an elevated call runs without a question only when the rule "
                "names the tool, without a wildcard, and the value of every argument with `is`"
            )

    def _programs(self, number: int, rule: Rule) -> Iterator[str]:
        if rule.verdict is not Verdict.ALLOW:
            return
        if not rule.arguments:
            about = filter(self._rules[number].is_about_tool, sorted(COMMAND_TOOLS))
            for name in about if rule.tools != ("*",) else ():
                yield f"it lets every command of {name} run; name the argv that may"
        for name, condition in rule.arguments.items():
            said = [*condition.argvs, *(v for v in condition.values if isinstance(v, list))]
            for words in said:
                program = str(words[0]).rpartition("/")[2] if words else ""
                if INTERPRETER.fullmatch(program.casefold()):
                    yield f"{name} begins with {program}, which runs whatever its arguments say"

    def _ways_out(self, rule: Rule) -> Iterator[str]:
        """Yield when a rule closes the network by tier or by tool, and leaves a way out of it open.

        Only where the agents can read private things: the others have nothing to send.
        """
        if not self._closes(rule, self._definitions["http_request"], rule):
            return
        for agent in [
            self._settings.agent(name)
            for name in sorted(self._agents)
            if not rule.agents or name in rule.agents
        ]:
            has = [
                each
                for each in self._definitions.values()
                if agent.tools is None or each.name in agent.tools
            ]
            open_ones = [each for each in has if not self._is_closed(each, agent.name, rule)]
            ways = sorted(each.name for each in open_ones if is_way_out(each))
            if ways and any(not PRIVATE.isdisjoint(each.needs) for each in open_ones):
                yield (
                    f"agent {agent.name} reads private things and keeps a way out: "
                    f'{", ".join(ways)}; network = "out" is about every way out'
                )
                return

    def _is_closed(self, definition: ToolDefinition, agent: str, like: Rule) -> bool:
        """Whether a rule denies every call that may send of a tool, where the rule `like` holds."""
        return any(
            self._closes(placed.rule, definition, like)
            for placed in self._settings.rules
            if not placed.rule.agents or agent in placed.rule.agents
        )

    def _closes(self, rule: Rule, definition: ToolDefinition, like: Rule) -> bool:
        """Whether a rule denies every call that may send of a tool, in the sessions of the rule `like`."""
        return (
            rule.verdict is Verdict.DENY
            and not rule.arguments
            and (not rule.capabilities or Capability.NETWORK in rule.capabilities)
            and (rule.tiers is None or sending_tier(definition) in rule.tiers)
            and _covers_names(rule.channels, like.channels)
            and _covers_names(rule.kinds, like.kinds)
            and CompiledRule(PlacedRule(rule, "")).is_about_tool(definition.name)
        )

    def _covered(self, number: int, rule: Rule) -> Iterator[str]:
        for other, placed in enumerate(self._settings.rules):
            its = placed.rule
            if other == number or its.verdict.rank < rule.verdict.rank or not covers(its, rule):
                continue
            # Of two that are the same, one is enough to mention.
            is_same = its.verdict is rule.verdict and covers(rule, its)
            if not is_same or other < number:
                yield f"it never decides: {placed.place} covers it"
                return


def is_way_out(definition: ToolDefinition) -> bool:
    """Whether something may leave the machine by a call of a tool, with whatever arguments."""
    return Capability.NETWORK in needs_of(definition)


def sending_tier(definition: ToolDefinition) -> Tier:
    """Return the tier of calls by which something may leave: a program's that reaches hosts is system."""
    raised = definition.tier.rank < Tier.SYSTEM.rank and Capability.NETWORK not in definition.needs
    return Tier.SYSTEM if raised and is_way_out(definition) else definition.tier


def needs_of(definition: ToolDefinition) -> frozenset[Capability]:
    """Return all that calls of a tool may need: those that run programs may ask for the network."""
    may_ask = "network" in definition.parameters["properties"]
    return frozenset(definition.needs) | ({Capability.NETWORK} if may_ask else frozenset())


def covers(wide: Rule, narrow: Rule) -> bool:
    """Whether `wide` certainly matches whenever `narrow` does, as far as their text tells.

    Patterns are compared by their text: `src/**` is not known to cover `src/a.py`. When in doubt, return `False`.
    """
    return (
        _covers_names(wide.agents, narrow.agents)
        and _covers_names(wide.channels, narrow.channels)
        and _covers_names(wide.kinds, narrow.kinds)
        and (wide.tiers is None or (narrow.tiers is not None and narrow.tiers <= wide.tiers))
        and (wide.defer or not narrow.defer)
        and (
            not wide.capabilities
            or (bool(narrow.capabilities) and narrow.capabilities <= wide.capabilities)
        )
        and wide.network in {None, narrow.network}
        and all(
            name in narrow.arguments and _covers_condition(condition, narrow.arguments[name])
            for name, condition in wide.arguments.items()
        )
        and _covers_tools(wide, narrow)
    )


def _covers_names(wide: tuple[str, ...], narrow: tuple[str, ...]) -> bool:
    return not wide or (bool(narrow) and set(narrow) <= set(wide))


def _covers_tools(wide: Rule, narrow: Rule) -> bool:
    if "*" in wide.tools:
        return True
    about = CompiledRule(PlacedRule(Rule(verdict=wide.verdict, tool=wide.tools), ""))
    return all(
        name in wide.tools if is_wild(name) else about.is_about_tool(name) for name in narrow.tools
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

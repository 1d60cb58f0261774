"""What no set of rules can break, whatever the rules and the calls."""

from __future__ import annotations

import json
from itertools import starmap
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.config.policy import Policy, PolicyBook, PolicyQuestion
from callboard.config.policy_coverage import covers
from callboard.config.policy_match import CallArguments, CompiledRule
from callboard.config.policy_rules import Condition, PlacedRule, Rule, Verdict
from callboard.runtime.definitions import Agent, Preset, SessionKind, Tier, ToolDefinition

TOOLS = ("read_file", "write_file", "shell", "git_push")
PATHS = ("a", "A/b", "a/b", "a/b/c", "b", ".", "/a", "a/../b", "b/x.md")
URLS = ("https://x.org/", "https://in.x.org/a", "https://y.org/", "no URL")
COMMANDS = (["git", "status"], ["git", "push"], ["/bin/git", "push"], "git status", [])
PATTERNS = ("a", "a/**", "**/b", "*/b", "b/*.md", "**", ".", "a/b")
NAMES = ("path", "url", "command", "mode")

SOMETHING = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(PATHS),
        "url": st.sampled_from(URLS),
        "command": st.sampled_from(COMMANDS),
        "mode": st.sampled_from(("w", "W", "r", 1, True)),
    },
)


def some(values: tuple[Any, ...], least: int = 0) -> st.SearchStrategy[Any]:
    both = tuple((first, second) for first in values for second in values if first != second)
    none = ((),) if not least else ()
    return st.sampled_from((*none, *((value,) for value in values), *both))


CONDITIONS = st.one_of(
    some(PATTERNS, 1).map(lambda said: Condition(path=said)),
    some(("x.org", ".x.org", "y.org"), 1).map(lambda said: Condition(host=said)),
    st.sampled_from((("git",), ("git", "push"))).map(lambda said: Condition(argv=said)),
    st.sampled_from(("w", "a/b", 1, ["r", "w"])).map(lambda said: Condition(is_=said)),
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    return Rule(
        verdict=draw(st.sampled_from(Verdict)),
        tool=draw(st.sampled_from((*TOOLS, "*", "git_*", ("read_file", "write_?ile")))),
        tier=draw(some(tuple(Tier))),
        agent=draw(some(("general", "other"))),
        kind=draw(some(tuple(SessionKind))),
        channel=draw(some(("web",))),
        arguments=draw(st.dictionaries(st.sampled_from(NAMES), CONDITIONS, max_size=2)),
    )


@st.composite
def questions(draw: st.DrawFn) -> PolicyQuestion:
    tool = draw(st.sampled_from(TOOLS))
    declared = draw(st.none() | st.sampled_from(Tier))
    properties = draw(st.sampled_from(({}, {"path": {"default": "."}}, {"path": {}, "mode": {}})))
    definition = declared and ToolDefinition(
        name=tool, description="", parameters={"properties": properties}, tier=declared
    )
    return PolicyQuestion(
        tool=tool,
        definition=definition,
        tier=draw(st.none() | st.sampled_from(Tier)),
        arguments=json.dumps(draw(SOMETHING)),
        approval_reason=draw(st.none() | st.just("it asks")),
    )


SESSIONS = st.fixed_dictionaries(
    {
        "agent": st.builds(
            Agent, name=st.sampled_from(("general", "other")), policy=st.sampled_from(Preset)
        ),
        "kind": st.sampled_from(SessionKind),
        "channel": st.none() | st.just("web"),
    }
)
RULES = st.lists(rules(), max_size=5)


def policy_of(said: list[Rule], session: dict[str, Any]) -> Policy:
    return PolicyBook(PlacedRule(rule, "here") for rule in said).policy(**session)


def strictness(made: Policy, asked: PolicyQuestion) -> int:
    return made.ruling(asked).verdict.rank


@given(RULES, rules(), SESSIONS, questions())
def test_one_more_rule_that_denies_or_asks_never_allows_more(
    said: list[Rule], more: Rule, session: dict[str, Any], asked: PolicyQuestion
) -> None:
    before = strictness(policy_of(said, session), asked)
    for verdict in (Verdict.ASK, Verdict.DENY):
        narrower = [*said, msgspec.structs.replace(more, verdict=verdict)]
        assert strictness(policy_of(narrower, session), asked) >= before


@given(RULES, rules(), SESSIONS, questions())
def test_one_more_rule_that_allows_only_answers_what_a_preset_asks(
    said: list[Rule], more: Rule, session: dict[str, Any], asked: PolicyQuestion
) -> None:
    before = policy_of(said, session).ruling(asked)
    wider = [*said, msgspec.structs.replace(more, verdict=Verdict.ALLOW)]
    after = policy_of(wider, session).ruling(asked)
    if after.verdict is not before.verdict:
        assert (before.verdict, after.verdict) == (Verdict.ASK, Verdict.ALLOW)
        assert before.rule == f"preset {session['agent'].policy}"


@given(RULES, rules(), SESSIONS, questions())
def test_an_elevated_call_is_allowed_only_by_a_rule_that_says_all_of_it(
    said: list[Rule], more: Rule, session: dict[str, Any], asked: PolicyQuestion
) -> None:
    exact = {name: Condition(is_=[value]) for name, value in json.loads(asked.arguments).items()}
    for arguments in (more.arguments, exact):
        answer = Rule(
            verdict=Verdict.ALLOW, tool=more.tool, tier=more.tier or (), arguments=arguments
        )
        ruling = policy_of([*said, answer], session).ruling(asked)
        if asked.final_tier is Tier.ELEVATED and ruling.verdict is Verdict.ALLOW:
            allowing = [
                rule
                for rule in (*said, answer)
                if rule.verdict is Verdict.ALLOW
                and asked.tool in rule.tools
                and Tier.ELEVATED in (rule.tiers or ())
                and rule.arguments.keys() >= json.loads(asked.arguments).keys()
                and all(condition.values for condition in rule.arguments.values())
            ]
            assert allowing


@given(RULES.flatmap(lambda said: st.tuples(st.just(said), st.permutations(said))), SESSIONS)
def test_the_order_of_rules_is_no_part_of_a_policy(
    orders: tuple[list[Rule], list[Rule]], session: dict[str, Any]
) -> None:
    first, second = (policy_of(said, session) for said in orders)
    assert first.version == second.version


@given(
    RULES.flatmap(lambda said: st.tuples(st.just(said), st.permutations(said))),
    SESSIONS,
    questions(),
)
def test_the_order_of_rules_does_not_matter(
    orders: tuple[list[Rule], list[Rule]], session: dict[str, Any], asked: PolicyQuestion
) -> None:
    first, second = (policy_of(said, session).ruling(asked) for said in orders)
    assert first.verdict is second.verdict


@given(st.tuples(RULES, RULES, RULES), st.tuples(SESSIONS, SESSIONS, SESSIONS), questions())
def test_policies_meet_in_any_order_and_never_laxer_than_one_of_them(
    said: tuple[list[Rule], ...], sessions: tuple[dict[str, Any], ...], asked: PolicyQuestion
) -> None:
    a, b, c = starmap(policy_of, zip(said, sessions, strict=True))
    both = a.meet(b)
    assert a.meet(a).version == a.version
    assert both.version == b.meet(a).version
    assert both.ruling(asked) == b.meet(a).ruling(asked)
    assert both.meet(c).version == a.meet(b.meet(c)).version
    assert both.meet(c).ruling(asked) == a.meet(b.meet(c)).ruling(asked)
    strictest = max(strictness(a, asked), strictness(b, asked))
    assert strictness(both, asked) == strictest


@given(RULES, SESSIONS, questions())
def test_the_index_leaves_out_no_rule_that_matches(
    said: list[Rule], session: dict[str, Any], asked: PolicyQuestion
) -> None:
    ruling = policy_of(said, session).ruling(asked)
    arguments = CallArguments(asked.arguments, asked.properties)
    matching = [
        rule.verdict
        for rule in (CompiledRule(PlacedRule(rule, "here")) for rule in said)
        if rule.is_about_tool(asked.tool)
        and rule.is_about_session(session["agent"].name, session["kind"], session["channel"])
        and rule.matches(asked.final_tier, arguments)
    ]
    for verdict in (Verdict.DENY, Verdict.ASK):
        if verdict in matching:
            assert ruling.verdict is verdict
            assert ruling.rule == "here"
            return
    assert ruling.verdict is not Verdict.DENY


@given(rules(), rules(), SESSIONS, questions())
def test_a_rule_that_covers_another_matches_what_it_matches(
    wide: Rule, narrow: Rule, session: dict[str, Any], asked: PolicyQuestion
) -> None:
    # Only a rule at least as strict makes another one useless, and only that is promised.
    if wide.verdict.rank < narrow.verdict.rank or not covers(wide, narrow):
        return
    arguments = CallArguments(asked.arguments, asked.properties)
    found = [
        rule.is_about_tool(asked.tool)
        and rule.is_about_session(session["agent"].name, session["kind"], session["channel"])
        and rule.matches(asked.final_tier, arguments)
        for rule in (CompiledRule(PlacedRule(rule, "here")) for rule in (narrow, wide))
    ]
    assert found != [True, False]


@given(rules(), st.lists(SOMETHING, max_size=6))
def test_examples_hold_exactly_when_the_rule_is_accepted(
    said: Rule, examples: list[dict[str, Any]]
) -> None:
    compiled = CompiledRule(PlacedRule(said, "here"))
    match = tuple(e for e in examples if compiled.accepts(CallArguments(json.dumps(e))))
    not_match = tuple(e for e in examples if e not in match)
    CompiledRule(PlacedRule(msgspec.structs.replace(said, match=match, not_match=not_match), ""))
    for field, one in (("match", not_match[:1]), ("not_match", match[:1])):
        if one:
            spoiled = msgspec.structs.replace(said, **{field: one})
            with pytest.raises(ValueError, match=rf"^{field}\[1\]: "):
                CompiledRule(PlacedRule(spoiled, "here"))

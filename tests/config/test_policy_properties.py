"""What no set of rules can break, whatever the rules and the calls."""

from __future__ import annotations

import json
from itertools import pairwise, starmap
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.policy.lint import covers
from callboard.config.policy.match import CallArguments, CompiledRule
from callboard.config.policy.policy import Policy, PolicyBook, PolicyQuestion, RuleIndex
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.runtime.definitions import (
    Agent,
    Capability,
    Preset,
    SessionKind,
    Tier,
    ToolDefinition,
    Verdict,
)

TOOLS = ("write_file", "git_push")
PATHS = ("a", "A/b", "a/b", "a/b/c", "b", ".", "/a", "a/../b", "b/x.md", 7)
PATTERNS = ("a", "a/**", "**/b", "*/b", "*/b/c", "b/*.md", "**", ".", ("a/b", "b/**"))
ARGUMENTS = st.sampled_from(
    (
        {},
        *({"path": path} for path in PATHS),
        *({"path": path, "mode": mode} for path in PATHS for mode in ("w", "W", 1, True)),
        *({"url": f"https://{host}/"} for host in ("x.org", "in.x.org", "y.org", "", "u@x.org")),
        *({"command": words} for words in (["git", "push"], ["/bin/git", "push"], "git", [])),
    )
)
ON_PATH = tuple(Condition(path=pattern) for pattern in PATTERNS)
CONDITIONS = st.sampled_from(
    (
        {},
        *({"path": condition} for condition in ON_PATH),
        *({"path": condition, "mode": Condition(is_=["w", 1])} for condition in ON_PATH),
        {"mode": Condition(is_="w")},
        {"path": Condition(is_="a/b")},
        *({"url": Condition(host=host)} for host in ("x.org", ".x.org", ("x.org", "y.org"))),
        *({"command": Condition(argv=words)} for words in (("git",), ("git", "push"))),
    )
)


def some(values: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Nothing as often as something: a rule that says much seldom matches."""
    said = ((), *((value,) for value in values), *pairwise(values))
    return st.sampled_from((*(() for _ in said), *said))


FIELDS = ("tool", "tier", "agent", "kind", "channel", "needs", "network", "arguments")
VERDICTS = st.sampled_from(Verdict)
NAMES = st.sampled_from((*TOOLS, *TOOLS, "*", "git_*", TOOLS, ("read_file", "write_?ile")))


def rules(conditions: st.SearchStrategy[Any] = CONDITIONS) -> st.SearchStrategy[Rule]:
    return st.builds(
        Rule,
        verdict=VERDICTS,
        tool=NAMES,
        tier=some(tuple(Tier)),
        agent=some(("general", "other")),
        kind=some(tuple(SessionKind)),
        channel=some(("web",)),
        needs=some((Capability.NETWORK, Capability.PROCESSES)),
        network=st.sampled_from((None, None, "out")),
        arguments=conditions,
    )


def definition(
    tool: str, tier: Tier, properties: dict[str, Any], needs: tuple[Capability, ...]
) -> ToolDefinition:
    parameters = {"properties": properties}
    return ToolDefinition(name=tool, description="", parameters=parameters, tier=tier, needs=needs)


QUESTIONS = st.builds(
    lambda tool, declared, properties, needs, **fields: PolicyQuestion(
        tool=tool, definition=declared and definition(tool, declared, properties, needs), **fields
    ),
    tool=st.sampled_from(TOOLS),
    declared=st.sampled_from((*Tier, *Tier, None)),
    properties=st.sampled_from(({}, {"path": {"default": "."}}, {"path": {}, "mode": {}})),
    tier=st.sampled_from((*Tier, *Tier, None)),
    arguments=ARGUMENTS.map(json.dumps),
    approval_reason=st.sampled_from((None, "it asks")),
    needs=st.sampled_from(((), (Capability.NETWORK,), (Capability.PROCESSES,))),
    hosts=st.sampled_from((frozenset[str](), frozenset({"x.org"}))),
    is_exposed=st.booleans(),
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
RULES = st.lists(rules(), max_size=6)


def policy_of(said: list[Rule], session: dict[str, Any]) -> Policy:
    return PolicyBook(PlacedRule(rule, "here") for rule in said).policy(**session)


def strictness(made: Policy, asked: PolicyQuestion) -> int:
    return made.ruling(asked).verdict.rank


@given(RULES, rules(), SESSIONS, QUESTIONS)
def test_one_more_rule_that_denies_or_asks_never_allows_more(
    said: list[Rule], more: Rule, session: dict[str, Any], asked: PolicyQuestion
) -> None:
    before = strictness(policy_of(said, session), asked)
    for verdict in (Verdict.ASK, Verdict.DENY):
        narrower = [*said, msgspec.structs.replace(more, verdict=verdict)]
        assert strictness(policy_of(narrower, session), asked) >= before


@given(RULES, rules(), SESSIONS, QUESTIONS)
def test_one_more_rule_that_allows_only_answers_what_a_preset_asks(
    said: list[Rule], more: Rule, session: dict[str, Any], asked: PolicyQuestion
) -> None:
    before = policy_of(said, session).ruling(asked)
    wider = [*said, msgspec.structs.replace(more, verdict=Verdict.ALLOW)]
    after = policy_of(wider, session).ruling(asked)
    if after.verdict is not before.verdict:
        assert (before.verdict, after.verdict) == (Verdict.ASK, Verdict.ALLOW)
        assert before.rule == f"preset {session['agent'].policy}"


@given(RULES, rules(), SESSIONS, QUESTIONS)
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


@given(RULES, SESSIONS, QUESTIONS)
def test_what_a_session_has_read_and_a_host_that_is_new_never_allow_more(
    said: list[Rule], session: dict[str, Any], asked: PolicyQuestion
) -> None:
    made = policy_of(said, session)
    found = strictness(made, asked)
    exposed = msgspec.structs.replace(asked, is_exposed=True)
    nowhere = msgspec.structs.replace(asked, hosts=frozenset())
    assert min(strictness(made, exposed), strictness(made, nowhere)) >= found


@given(RULES, SESSIONS, QUESTIONS)
def test_a_redirect_is_never_allowed_where_the_call_itself_is_denied(
    said: list[Rule], session: dict[str, Any], asked: PolicyQuestion
) -> None:
    made = policy_of(said, session)
    call, redirected = (
        made.ruling(asked),
        made.ruling(msgspec.structs.replace(asked, is_redirect=True)),
    )
    assert (redirected.verdict is Verdict.DENY) is (call.verdict is Verdict.DENY)
    assert redirected.verdict.rank <= call.verdict.rank


@given(RULES.flatmap(lambda said: st.tuples(st.just(said), st.permutations(said))), SESSIONS)
def test_the_order_of_rules_is_no_part_of_a_policy(
    orders: tuple[list[Rule], list[Rule]], session: dict[str, Any]
) -> None:
    first, second = (policy_of(said, session) for said in orders)
    assert first.version == second.version


@given(
    RULES.flatmap(lambda said: st.tuples(st.just(said), st.permutations(said))), SESSIONS, QUESTIONS
)
def test_the_order_of_rules_does_not_matter(
    orders: tuple[list[Rule], list[Rule]], session: dict[str, Any], asked: PolicyQuestion
) -> None:
    first, second = (policy_of(said, session).ruling(asked) for said in orders)
    assert first.verdict is second.verdict


@given(st.tuples(RULES, RULES, RULES), st.tuples(SESSIONS, SESSIONS, SESSIONS), QUESTIONS)
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


@pytest.mark.parametrize("conditions", [*((one,) for one in ON_PATH), ON_PATH], ids=str)
@pytest.mark.parametrize("verdict", Verdict)
def test_the_index_leaves_out_no_rule_that_matches(
    verdict: Verdict, conditions: tuple[Condition, ...]
) -> None:
    said = [
        CompiledRule(PlacedRule(Rule(verdict=verdict, tool="*", arguments={"path": one}), ""))
        for one in conditions
    ]
    index = RuleIndex(said)
    for path in PATHS:
        arguments = CallArguments(json.dumps({"path": path}))
        matching = [rule for rule in said if rule.accepts(arguments)]
        candidates = index.candidates(arguments)
        assert [rule for rule in candidates if rule in matching] == matching


@given(VERDICTS, rules(), st.sets(st.sampled_from(FIELDS)), SESSIONS, QUESTIONS, st.data())
def test_a_rule_that_covers_another_matches_what_it_matches(
    verdict: Verdict,
    narrow: Rule,
    left_out: set[str],
    session: dict[str, Any],
    asked: PolicyQuestion,
    data: st.DataObject,
) -> None:
    other = data.draw(rules())
    changed = {field: getattr(other, field) for field in left_out}
    wide = msgspec.structs.replace(narrow, verdict=verdict, **changed)
    # Only a rule at least as strict makes another one useless, and only that is promised.
    if wide.verdict.rank < narrow.verdict.rank or not covers(wide, narrow):
        return
    arguments = CallArguments(asked.arguments, asked.properties)
    found = [
        rule.is_about_tool(asked.tool)
        and rule.is_about_session(session["agent"].name, session["kind"], session["channel"])
        and rule.matches(asked.final_tier, arguments, asked.definition)
        for rule in (CompiledRule(PlacedRule(rule, "here")) for rule in (narrow, wide))
    ]
    assert found != [True, False]


@given(rules(), st.lists(ARGUMENTS, max_size=6))
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

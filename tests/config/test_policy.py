"""What a policy says about calls: presets, rules, and several policies at once."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from callboard.config.policy.policy import Policy, PolicyBook, PolicyQuestion
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.runtime.definitions import Agent, Preset, SessionKind, Tier, ToolDefinition, Verdict
from callboard.runtime.errors import ValidationError

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
OVERWRITES = "overwrites notes.md (12 bytes)"


def question(
    tool: str = "write_file",
    *,
    tier: Tier | None = Tier.WORKSPACE,
    declared: Tier | None = Tier.WORKSPACE,
    asks: str | None = None,
    **arguments: Any,
) -> PolicyQuestion:
    definition = None
    if declared is not None:
        definition = ToolDefinition(name=tool, description="", parameters={}, tier=declared)
    return PolicyQuestion(
        tool=tool,
        definition=definition,
        tier=tier,
        arguments=json.dumps(arguments),
        approval_reason=asks,
    )


def rule(verdict: Verdict, tool: str = "write_file", **fields: Any) -> Rule:
    return Rule(verdict=verdict, tool=tool, **fields)


def book(*rules: Rule) -> PolicyBook:
    return PolicyBook(PlacedRule(rule, f"rules[{n}]") for n, rule in enumerate(rules, 1))


def verdict(asked: PolicyQuestion, *rules: Rule, preset: Preset = Preset.BALANCED) -> Verdict:
    return book(*rules).policy(Agent(policy=preset)).ruling(asked).verdict


IN_NOTES = {"path": Condition(path="notes/**")}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((), ASK),
        ((ALLOW,), ALLOW),
        ((ASK, ALLOW), ASK),
        ((DENY, ALLOW), DENY),
        ((DENY, ASK), DENY),
        ((ALLOW, ASK, DENY), DENY),
    ],
)
def test_the_strictest_rule_that_matches_wins(
    rules: tuple[Verdict, ...], expected: Verdict
) -> None:
    asked = question(asks=OVERWRITES, path="notes/a.md")
    made = [rule(said, arguments=IN_NOTES) for said in rules]
    assert verdict(asked, *made) is expected
    assert verdict(asked, *reversed(made)) is expected
    elsewhere = question(asks=OVERWRITES, path="src/a.md")
    assert verdict(elsewhere, *made) is ASK


def test_a_rule_that_asks_narrows_what_a_preset_lets_run() -> None:
    assert verdict(question(path="notes/a"), preset=Preset.AUTO) is ALLOW
    assert verdict(question(path="notes/a"), rule(ASK), preset=Preset.AUTO) is ASK


def test_the_ruling_names_what_decided() -> None:
    policy = book(
        rule(DENY, arguments={"path": Condition(path="a/**")}, reason="a is finished."),
        rule(ALLOW, arguments=IN_NOTES),
    ).policy(Agent())
    denied = policy.ruling(question(path="a/b"))
    assert (denied.reason, denied.rule) == ("a is finished.", "rules[1]")
    allowed = policy.ruling(question(path="notes/a", asks=OVERWRITES))
    assert (allowed.reason, allowed.rule) == ("a rule about write_file lets it run", "rules[2]")
    preset = policy.ruling(question(path="c", asks=OVERWRITES))
    assert preset.rule == "preset balanced"
    assert preset.reason == f"balanced asks: {OVERWRITES}"


def test_a_preset_that_lets_it_run_needs_no_rule() -> None:
    policy = book(rule(ALLOW, arguments=IN_NOTES)).policy(Agent())
    assert policy.ruling(question(path="notes/a")).rule == "preset balanced"


def test_a_denial_says_how_to_be_judged() -> None:
    policy = book(rule(DENY, arguments=IN_NOTES, reason="No.")).policy(Agent())
    assert policy.ruling(question(path="/tmp/a")).reason == (
        "No.; give path relative to the workspace and without '..'"
    )
    assert policy.ruling(question(path="notes/a")).reason == "No."


# ── tiers ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("tier", "declared"), [(None, Tier.READ_ONLY), (Tier.READ_ONLY, None), (None, None)]
)
def test_an_unknown_tool_or_tier_is_elevated(tier: Tier | None, declared: Tier | None) -> None:
    asked = question(tier=tier, declared=declared)
    assert asked.final_tier is Tier.ELEVATED
    assert verdict(asked, preset=Preset.AUTO) is ASK
    assert verdict(asked, rule(ALLOW), preset=Preset.AUTO) is ASK


def test_a_call_is_never_below_its_tool() -> None:
    assert question(tier=Tier.READ_ONLY, declared=Tier.SYSTEM).final_tier is Tier.SYSTEM
    assert question(tier=Tier.SYSTEM, declared=Tier.READ_ONLY).final_tier is Tier.SYSTEM


PUSH = {"remote": Condition(is_="origin"), "branch": Condition(is_=["main", "next"])}


def push(**arguments: Any) -> PolicyQuestion:
    return question("git_push", tier=Tier.ELEVATED, declared=Tier.ELEVATED, **arguments)


@pytest.mark.parametrize("preset", Preset)
def test_an_elevated_call_runs_unasked_only_by_a_rule_for_it_and_its_arguments(
    preset: Preset,
) -> None:
    answers = rule(ALLOW, "git_push", tier=Tier.ELEVATED, arguments=PUSH)
    asked = push(remote="origin", branch="main")
    assert verdict(asked, answers, preset=preset) is ALLOW
    assert verdict(push(remote="origin", branch="old"), answers, preset=preset) is ASK
    assert verdict(push(remote="origin"), answers, preset=preset) is ASK
    more = push(remote="origin", branch="main", force=True)
    assert verdict(more, answers, preset=preset) is ASK


@pytest.mark.parametrize(
    "changed",
    [
        {"tool": "git_*"},
        {"tool": "*"},
        {"tier": ()},
        {"tier": Tier.SYSTEM},
        {"arguments": {}},
        {"arguments": {**PUSH, "branch": Condition(path="**")}},
    ],
    ids=str,
)
def test_any_wider_rule_leaves_an_elevated_call_to_a_person(changed: dict[str, Any]) -> None:
    answers = rule(ALLOW, "git_push", tier=Tier.ELEVATED, arguments=PUSH)
    wider = msgspec.structs.replace(answers, **changed)
    asked = push(remote="origin", branch="main")
    assert verdict(asked, wider, preset=Preset.AUTO) is ASK
    assert verdict(asked, answers, preset=Preset.AUTO) is ALLOW
    assert verdict(asked, answers, rule(DENY, "git_*"), preset=Preset.AUTO) is DENY


def test_a_raised_tier_is_allowed_only_by_a_rule_that_says_it() -> None:
    raised = question(tier=Tier.SYSTEM, declared=Tier.WORKSPACE, asks="uses the network")
    as_declared = question(tier=Tier.WORKSPACE, declared=Tier.WORKSPACE, asks="uses the network")
    assert verdict(raised, rule(ALLOW)) is ASK
    assert verdict(as_declared, rule(ALLOW)) is ALLOW
    assert verdict(raised, rule(ALLOW, tier=Tier.SYSTEM)) is ALLOW
    assert verdict(raised, rule(ALLOW, min_tier=Tier.WORKSPACE)) is ALLOW
    assert verdict(raised, rule(ALLOW, tier=Tier.WORKSPACE)) is ASK


def test_a_tier_or_higher() -> None:
    asked = [question(tier=tier, declared=tier) for tier in Tier]
    rules = rule(DENY, "*", min_tier=Tier.SYSTEM)
    assert [verdict(q, rules, preset=Preset.AUTO) for q in asked] == [ALLOW, ALLOW, DENY, DENY]
    rules = rule(DENY, "*", tier=(Tier.READ_ONLY, Tier.SYSTEM))
    assert [verdict(q, rules, preset=Preset.AUTO) for q in asked] == [DENY, ALLOW, DENY, ASK]


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────


def test_a_rule_holds_in_the_sessions_that_it_names() -> None:
    rules = book(
        rule(DENY, "a", agent="gardener"),
        rule(DENY, "b", kind=(SessionKind.BRANCH, SessionKind.WORKER)),
        rule(DENY, "c", channel="web"),
    )

    def denied(agent: str, kind: SessionKind, channel: str | None) -> str:
        policy = rules.policy(Agent(name=agent, policy=Preset.AUTO), kind=kind, channel=channel)
        said = ((tool, policy.ruling(question(tool)).verdict) for tool in "abc")
        return "".join(tool for tool, verdict in said if verdict is DENY)

    assert denied("gardener", SessionKind.MAIN, None) == "a"
    assert denied("general", SessionKind.BRANCH, None) == "b"
    assert denied("general", SessionKind.WORKER, "terminal") == "b"
    assert denied("general", SessionKind.MAIN, "web") == "c"
    assert denied("gardener", SessionKind.BRANCH, "web") == "abc"
    assert denied("general", SessionKind.MAIN, None) == ""


def test_a_child_never_holds_what_its_parent_lacks() -> None:
    rules = book(
        rule(DENY, agent="gardener", kind=SessionKind.MAIN),
        rule(ALLOW, "delete_file", agent="helper"),
        rule(DENY, "http_request", agent="helper"),
    )
    parent = rules.policy(Agent(name="gardener"))
    helper = Agent(name="helper", policy=Preset.AUTO)
    alone = rules.policy(helper, kind=SessionKind.BRANCH)
    child = rules.policy(helper, kind=SessionKind.BRANCH, parent=parent)

    # Neither the other agent nor the other kind frees the child of what binds its parent.
    assert alone.ruling(question()).verdict is ALLOW
    assert child.ruling(question()).verdict is DENY
    deletes = question("delete_file", asks="deletes a")
    assert alone.ruling(deletes).verdict is ALLOW
    ruling = child.ruling(deletes)
    assert ruling.verdict is ASK
    assert ruling.rule == "preset balanced, by the policy of agent gardener"
    # And the other way round: the parent may what its child may not.
    asks_web = question("http_request", tier=Tier.SYSTEM, declared=Tier.SYSTEM)
    assert parent.ruling(asks_web).verdict is ALLOW
    assert child.ruling(asks_web).verdict is DENY


def test_a_policy_has_a_layer() -> None:
    with pytest.raises(ValueError, match="without a layer"):
        Policy([])


def test_examples_of_rules_from_a_program_are_checked_too() -> None:
    wrong = rule(DENY, arguments=IN_NOTES, match=({"path": "src/a"},))
    with pytest.raises(ValidationError, match=r'rules\[1\]: match\[1\]: \{"path":"src/a"\} does'):
        book(wrong)


# ── versions ─────────────────────────────────────────────────────────────────────────────────────

WORDS = {"reason": "Why.", "match": ({"path": "notes/a"},), "not_match": ({"path": "b"},)}


def version(*rules: Rule, agent: Agent | None = None) -> str:
    return book(*rules).policy(agent or Agent()).version


def test_words_places_and_order_are_no_part_of_a_version() -> None:
    first, second = rule(DENY, arguments=IN_NOTES), rule(ASK, "read_file")
    assert version(first, second) == version(second, first)
    assert version(first) == version(msgspec.structs.replace(first, **WORDS))
    assert version(first) == version(first, first)
    elsewhere = rule(DENY, "read_file", agent="gardener")
    assert version(first) == version(first, elsewhere)


@pytest.mark.parametrize(
    "changed",
    [
        {"verdict": ASK},
        {"tool": ("write_file", "edit_file")},
        {"tier": Tier.WORKSPACE},
        {"min_tier": Tier.WORKSPACE},
        {"arguments": {}},
        {"arguments": {"path": Condition(path="notes/*")}},
        {"arguments": {"path": Condition(is_="notes/**")}},
        {"arguments": {"content": Condition(path="notes/**")}},
    ],
    ids=str,
)
def test_whatever_a_verdict_follows_from_is_part_of_the_version(changed: dict[str, Any]) -> None:
    made = rule(DENY, arguments=IN_NOTES)
    assert version(made) != version(msgspec.structs.replace(made, **changed))


def test_a_preset_and_a_parent_are_part_of_the_version() -> None:
    strict = Agent(policy=Preset.STRICT)
    assert version() != version(agent=strict)
    parent = PolicyBook().policy(strict)
    assert PolicyBook().policy(Agent(), parent=parent).version != version()
    assert PolicyBook().policy(strict, parent=parent).version == parent.version


# ── the caches ───────────────────────────────────────────────────────────────────────────────────


def test_more_tools_and_agents_than_are_kept_at_hand_are_judged_all_the_same() -> None:
    rules = book(rule(DENY, "tool_*"), rule(ASK, "tool_7", agent="a_9"))
    policy = rules.policy(Agent(policy=Preset.AUTO))
    for number in range(600):
        assert policy.ruling(question(f"tool_{number}")).verdict is DENY
        assert policy.ruling(question(f"other_{number}")).verdict is ALLOW
    for number in range(300):
        policy = rules.policy(Agent(name=f"a_{number}", policy=Preset.AUTO))
        assert policy.ruling(question("tool_7")).verdict is DENY

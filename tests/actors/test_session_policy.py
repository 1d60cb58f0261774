"""The policy of a place in the session tree: a child never gets more than its parent would."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.permissions.decisions import MAX_CACHED_POLICIES, SessionPolicies
from callboard.config.policy.policy import PolicyBook
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
from callboard.runtime.messages import Ancestor, CallPlace, PermissionQuestion
from callboard.runtime.taint.marks import UNMARKED, SessionMarks

KINDS = st.sampled_from(SessionKind)
TOOLS = ("fetch", "write")
RULES = st.lists(
    st.builds(
        Rule,
        verdict=st.sampled_from(Verdict),
        tool=st.sampled_from((*TOOLS, "*")),
        agent=st.sampled_from(((), ("a",), ("b",))),
        channel=st.sampled_from(((), ("web",), ("mail",))),
        kind=st.sampled_from(((), *((kind,) for kind in SessionKind))),
        arguments=st.sampled_from(({}, {"url": Condition(host="x.test")})),
    ),
    max_size=5,
)
ANCESTORS = st.builds(
    Ancestor,
    session_id=st.sampled_from(("s1", "s2")),
    agent=st.builds(Agent, name=st.sampled_from("ab"), policy=st.sampled_from(Preset)),
    kind=KINDS,
    channel=st.sampled_from((None, "web", "mail")),
)
QUESTIONS = st.builds(
    lambda name, tier, **fields: PermissionQuestion(
        call_id="c",
        name=name,
        tier=tier,
        definition=ToolDefinition(
            name=name, description="", parameters={}, tier=tier,
            needs=(Capability.NETWORK,) if name == "fetch" else (),
        ),
        **fields,
    ),
    name=st.sampled_from(TOOLS),
    tier=st.sampled_from(Tier),
    arguments=st.sampled_from(("{}", '{"url":"https://x.test/"}', '{"url":"https://y.test/"}')),
    approval_reason=st.sampled_from((None, "it asks")),
    is_redirect=st.booleans(),
)  # fmt: skip
MARKS = st.builds(
    SessionMarks,
    is_tainted=st.booleans(),
    has_private=st.booleans(),
    hosts=st.sampled_from((frozenset[str](), frozenset({"x.test"}))),
)


def book(*rules: Rule) -> PolicyBook:
    return PolicyBook(PlacedRule(rule, f"rules[{n}]") for n, rule in enumerate(rules, 1))


def place(chain: tuple[Ancestor, ...]) -> CallPlace:
    """The place of the first, whose parents are the others."""
    own, *above = chain
    return CallPlace(
        session_id=own.session_id, turn_id="t", agent=own.agent, session_kind=own.kind,
        workspace="/work", channel=own.channel, lineage=tuple(above),
    )  # fmt: skip


def strictness(
    policies: SessionPolicies, at: CallPlace, asked: PermissionQuestion, marks: SessionMarks
) -> int:
    return Verdict(policies.of(at).decision(asked, marks).verdict).rank


@given(RULES, st.lists(ANCESTORS, min_size=2, max_size=4).map(tuple), QUESTIONS, MARKS)
def test_a_child_never_gets_more_than_those_above_it(
    rules: list[Rule],
    chain: tuple[Ancestor, ...],
    asked: PermissionQuestion,
    marks: SessionMarks,
) -> None:
    policies = SessionPolicies(book(*rules))
    child = strictness(policies, place(chain), asked, marks)
    for depth in range(1, len(chain)):
        assert child >= strictness(policies, place(chain[depth:]), asked, marks)


@given(RULES, ANCESTORS, QUESTIONS, MARKS)
def test_what_a_session_has_read_never_allows_more(
    rules: list[Rule], own: Ancestor, asked: PermissionQuestion, marks: SessionMarks
) -> None:
    policies = SessionPolicies(book(*rules))
    found = strictness(policies, place((own,)), asked, marks)
    exposed = msgspec.structs.replace(marks, is_tainted=True, has_private=True)
    assert strictness(policies, place((own,)), asked, exposed) >= found
    nowhere = msgspec.structs.replace(marks, hosts=frozenset())
    assert strictness(policies, place((own,)), asked, nowhere) >= found


@given(RULES, st.lists(ANCESTORS, min_size=1, max_size=3).map(tuple), QUESTIONS, MARKS)
def test_what_is_kept_says_the_same_as_what_is_decided_anew(
    rules: list[Rule],
    chain: tuple[Ancestor, ...],
    asked: PermissionQuestion,
    marks: SessionMarks,
) -> None:
    policies, at = SessionPolicies(book(*rules)), place(chain)
    for other in (UNMARKED, marks):
        policies.of(at).decision(asked, other)
    fresh = SessionPolicies(book(*rules)).of(at).decision(asked, marks)
    assert policies.of(at).decision(asked, marks) == fresh


# ── one by one ───────────────────────────────────────────────────────────────────────────────────


def write(tier: Tier = Tier.SYSTEM) -> PermissionQuestion:
    definition = ToolDefinition(name="write", description="", parameters={}, tier=tier)
    return PermissionQuestion(
        call_id="c", name="write", tier=tier, arguments="{}", approval_reason=None,
        definition=definition,
    )  # fmt: skip


def session(kind: str = "main", *, agent: str = "a", **fields: Any) -> Ancestor:
    preset = fields.pop("preset", Preset.AUTO)
    kind_ = SessionKind(kind)
    return Ancestor(
        session_id=f"{kind} {agent}", agent=Agent(name=agent, policy=preset), kind=kind_, **fields
    )


READ_ONLY_ON_WEB = Rule(verdict=Verdict.DENY, min_tier=Tier.WORKSPACE, channel="web")


@pytest.mark.parametrize(
    ("chain", "verdict"),
    [
        ((session(channel="web"),), "deny"),
        ((session(channel="mail"),), "allow"),
        ((session(),), "allow"),
        ((session("branch"), session(channel="web")), "deny"),
        ((session("worker"), session("branch"), session(channel="web")), "deny"),
        ((session("branch"), session(channel="mail")), "allow"),
    ],
)
def test_the_policy_of_a_channel_narrows_all_that_is_done_from_there(
    chain: tuple[Ancestor, ...], verdict: str
) -> None:
    policies = SessionPolicies(book(READ_ONLY_ON_WEB))
    assert policies.of(place(chain)).decision(write()).verdict == verdict
    assert policies.of(place(chain)).decision(write(Tier.READ_ONLY)).verdict == "allow"


def test_a_rule_about_branches_of_a_channel_is_about_those_below_it() -> None:
    policies = SessionPolicies(
        book(Rule(verdict=Verdict.DENY, tool="*", channel="web", kind=SessionKind.BRANCH))
    )
    below = place((session("branch"), session(channel="web")))
    assert policies.of(below).decision(write()).verdict == "deny"
    assert policies.of(place((session(channel="web"),))).decision(write()).verdict == "allow"


def test_a_parents_preset_holds_for_its_child() -> None:
    policies = SessionPolicies(book())
    strict = session(agent="b", preset=Preset.STRICT)
    assert policies.of(place((session("branch"), strict))).decision(write()).verdict == "ask"
    assert policies.of(place((session("branch"), session()))).decision(write()).verdict == "allow"


def test_every_layer_counts_in_the_version() -> None:
    def version(rules: list[Rule], chain: tuple[Ancestor, ...]) -> str:
        return SessionPolicies(book(*rules)).of(place(chain)).decision(write()).policy_version

    child, parent = session("branch", agent="b"), session(agent="a")
    alone, below = version([], (child,)), version([], (child, parent))
    assert alone != below
    about_parent = [Rule(verdict=Verdict.DENY, tool="other", agent="a")]
    assert version(about_parent, (child,)) == alone
    assert version(about_parent, (child, parent)) != below
    on_web = [Rule(verdict=Verdict.DENY, tool="other", channel="web")]
    assert version(on_web, (child, parent)) == below
    assert version(on_web, (child, session(channel="web"))) != below


def test_sessions_that_are_alike_share_a_policy_and_the_cache_is_bounded() -> None:
    policies = SessionPolicies(book())
    first = place((session("branch"), session()))
    again = msgspec.structs.replace(first, session_id="other", turn_id="u")
    assert policies.of(first) is policies.of(again)
    for number in range(MAX_CACHED_POLICIES):
        policies.of(place((session(agent=f"n{number}"),)))
    assert policies.of(first).decision(write()).verdict == "allow"

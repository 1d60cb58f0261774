"""Which calls reach a new host, in words, and which rules are about where a call connects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.config.policy.match import CallArguments, CompiledRule
from callboard.config.policy.new_hosts import (
    MAX_NAMED,
    named_hosts,
    names_place,
    new_host,
    says_where,
)
from callboard.config.policy.policy import PolicyBook, PolicyQuestion
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.runtime.definitions import Agent, Capability, Preset, Tier, ToolDefinition, Verdict

EXPOSED = "the session has read untrusted content and private data"


def definition(*needs: Capability, tier: Tier = Tier.SYSTEM, name: str = "fetch") -> ToolDefinition:
    return ToolDefinition(name=name, description="", parameters={}, tier=tier, needs=needs)


WEB = definition(Capability.NETWORK)


def arguments(**said: Any) -> CallArguments:
    return CallArguments(json.dumps(said))


def many(count: int) -> list[str]:
    return [f"https://h{number}.test/" for number in range(count)]


@pytest.mark.parametrize(
    ("said", "known", "words"),
    [
        ({"url": "https://a.test/x"}, {"a.test"}, None),
        ({"url": "https://A.test./x"}, {"a.test"}, None),
        ({"url": "https://a.test/x"}, set(), "a.test is new to it"),
        ({"url": "https://in.a.test/x"}, {"a.test"}, "in.a.test is new to it"),
        ({"url": "a.test"}, {"a.test"}, "where fetch connects can't be told"),
        ({"url": 7}, set(), "where fetch connects can't be told"),
        ({"query": "https://a.test/"}, {"a.test"}, "where fetch connects can't be told"),
        ({}, set(), "where fetch connects can't be told"),
        ({"urls": []}, set(), "where fetch connects can't be told"),
        ({"urls": ["https://a.test", "https://b.test"]}, {"b.test"}, "a.test is new to it"),
        (
            {"url": "https://c.test", "urls": ["https://a.test", "https://a.test/x"]},
            {"c.test"},
            "a.test is new to it",
        ),
        ({"urls": many(2)}, set(), "h0.test, h1.test are new to it"),
        (
            {"urls": many(MAX_NAMED + 2)},
            set(),
            "h0.test, h1.test, h2.test and 2 more are new to it",
        ),
    ],
)
def test_what_is_new_about_where_a_call_connects(
    said: dict[str, Any], known: set[str], words: str | None
) -> None:
    assert new_host(WEB, arguments(**said), known) == words


def test_a_tool_that_connects_to_one_place_is_judged_by_that() -> None:
    """What its arguments say counts first, and what they say unclearly counts against it."""
    assert new_host(WEB, arguments(query="x"), {"e.test"}, "e.test") is None
    assert new_host(WEB, arguments(query="x"), set(), "e.test") == "e.test is new to it"
    assert new_host(WEB, arguments(url="https://a.test"), {"e.test"}, "e.test") == (
        "a.test is new to it"
    )
    assert new_host(WEB, arguments(url="a"), {"e.test"}, "e.test") == (
        "where fetch connects can't be told"
    )


def test_a_tool_without_the_network_reaches_nothing() -> None:
    assert (
        new_host(definition(Capability.FILES_READ), arguments(url="https://a.test"), set()) is None
    )


def test_the_hosts_of_a_call() -> None:
    assert named_hosts(WEB, arguments(url="https://a.test", urls=["https://b.test"])) == (
        "a.test",
        "b.test",
    )
    assert named_hosts(WEB, arguments(url="https://a.test", urls=["b"])) is None
    assert named_hosts(WEB, arguments()) is None


@pytest.mark.parametrize(
    ("said", "does"),
    [
        ({"url": "https://a.test"}, True),
        ({"url": "https://a.test", "urls": ["https://b.test"]}, True),
        ({"url": "https://a.test", "urls": ["b"]}, False),
        ({"url": "a.test"}, False),
        ({"urls": []}, False),
        ({"query": "https://a.test"}, False),
        ({}, False),
    ],
)
def test_whether_a_call_says_where_it_connects(said: dict[str, Any], does: bool) -> None:
    assert says_where(arguments(**said)) is does


@pytest.mark.parametrize(
    ("tool", "conditions", "said", "is_about"),
    [
        ("fetch", {"url": Condition(host="a.test")}, {"url": "https://a.test"}, True),
        ("fetch", {"url": Condition(is_="https://a.test")}, {"url": "https://a.test"}, True),
        ("fetch", {}, {"url": "https://a.test"}, False),
        ("fetch", {"method": Condition(is_="GET")}, {"url": "https://a.test"}, False),
        ("fetch", {}, {"word": "x"}, True),
        ("fe*", {}, {"word": "x"}, False),
        ("*", {}, {"word": "x"}, False),
        (
            "fetch",
            {"url": Condition(host="a.test")},
            {"url": "https://a.test", "urls": ["https://b.test"]},
            False,
        ),
    ],
)
def test_which_rules_are_about_where_a_call_connects(
    tool: str, conditions: dict[str, Condition], said: dict[str, Any], is_about: bool
) -> None:
    rule = Rule(verdict=Verdict.ALLOW, tool=tool, arguments=conditions)
    compiled = CompiledRule(PlacedRule(rule, "here"))
    assert names_place(compiled, WEB, arguments(**said)) is is_about


# ── in a policy ──────────────────────────────────────────────────────────────────────────────────


def ruled(
    preset: Preset, *rules: Rule, tier: Tier = Tier.SYSTEM, asks: str | None = None, **fields: Any
) -> tuple[Verdict, str]:
    policy = PolicyBook(PlacedRule(rule, "here") for rule in rules).policy(Agent(policy=preset))
    question = PolicyQuestion(
        tool="fetch",
        definition=definition(Capability.NETWORK, tier=tier),
        tier=tier,
        arguments='{"url":"https://a.test/"}',
        approval_reason=asks,
        **fields,
    )
    found = policy.ruling(question)
    return found.verdict, found.reason


KNOWN = frozenset({"a.test"})
NEW = "a.test is new to it"


@pytest.mark.parametrize(
    ("preset", "tier", "fields", "verdict", "reason"),
    [
        ("auto", "system", {"is_exposed": True}, "allow", "auto lets system calls run"),
        ("auto", "elevated", {"is_exposed": True}, "ask", "elevated calls ask in every preset"),
        ("balanced", "system", {}, "allow", "balanced lets system calls run"),
        ("balanced", "read_only", {"is_exposed": True}, "ask", f"balanced asks: {EXPOSED}, and {NEW}"),
        ("balanced", "system", {"is_exposed": True}, "ask", f"balanced asks: {EXPOSED}, and {NEW}"),
        (
            "balanced", "system", {"is_exposed": True, "asks": "sends POST to a.test"}, "ask",
            f"balanced asks: sends POST to a.test; {EXPOSED}, and {NEW}",
        ),
        ("balanced", "system", {"is_exposed": True, "hosts": KNOWN}, "allow", "balanced lets"),
        ("strict", "system", {}, "ask", "strict asks for every system call"),
        ("strict", "system", {"is_exposed": True}, "ask", f"strict asks: {EXPOSED}, and {NEW}"),
        ("strict", "read_only", {}, "ask", f"strict asks for each new host: {NEW}"),
        ("strict", "read_only", {"hosts": KNOWN}, "allow", "strict lets read_only calls run"),
        ("strict", "read_only", {"is_exposed": True}, "ask", f"strict asks: {EXPOSED}, and {NEW}"),
    ],
)  # fmt: skip
def test_presets_and_new_hosts(
    preset: str, tier: str, fields: dict[str, Any], verdict: str, reason: str
) -> None:
    found, said = ruled(Preset(preset), tier=Tier(tier), **fields)
    assert (found, said[: len(reason)]) == (verdict, reason)


ANY = Rule(verdict=Verdict.ALLOW, tool="fetch")
HERE = Rule(verdict=Verdict.ALLOW, tool="fetch", arguments={"url": Condition(host="a.test")})


def test_a_rule_answers_for_a_way_out_only_when_it_names_it() -> None:
    for preset in (Preset.BALANCED, Preset.STRICT):
        assert ruled(preset, ANY, is_exposed=True)[0] is Verdict.ASK
        assert ruled(preset, HERE, is_exposed=True)[0] is Verdict.ALLOW
        assert ruled(preset, ANY, is_exposed=True, hosts=KNOWN)[0] is Verdict.ALLOW
    # Unexposed, a new host is a matter of the preset like any other.
    assert ruled(Preset.STRICT, ANY, tier=Tier.READ_ONLY)[0] is Verdict.ALLOW


def test_a_redirect_is_judged_by_where_it_leads() -> None:
    ask_all = Rule(verdict=Verdict.ASK, tool="fetch")
    ask_here = Rule(verdict=Verdict.ASK, tool="fetch", arguments=HERE.arguments)
    deny_all = Rule(verdict=Verdict.DENY, tool="fetch")
    for preset in Preset:
        assert ruled(preset, is_redirect=True)[0] is Verdict.ALLOW
        assert ruled(preset, ask_all, is_redirect=True)[0] is Verdict.ALLOW
        assert ruled(preset, ask_here, is_redirect=True)[0] is Verdict.ASK
        assert ruled(preset, deny_all, is_redirect=True)[0] is Verdict.DENY
        exposed = ruled(preset, is_redirect=True, is_exposed=True)[0]
        assert exposed is (Verdict.ALLOW if preset is Preset.AUTO else Verdict.ASK)
        assert ruled(preset, is_redirect=True, is_exposed=True, hosts=KNOWN)[0] is Verdict.ALLOW
        assert ruled(preset, HERE, is_redirect=True, is_exposed=True)[0] is Verdict.ALLOW

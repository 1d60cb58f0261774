"""Hosts that the web's tools may read from without a question: what an entry covers, and what comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard.config.files import parse_settings
from callboard.config.policy.new_hosts import AutoHosts
from callboard.config.policy.policy import PolicyBook, PolicyQuestion
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.config.settings import NetworkSettings
from callboard.runtime.definitions import Agent, Preset, Verdict
from callboard.runtime.errors import ValidationError
from callboard.runtime.http.url import parse_url
from callboard.tools.builtin import builtin_tools

TOOLS = {tool.name: tool.definition for tool in builtin_tools()}
AUTO = (
    "docs.python.org",
    ".example.org",
    "wiki.corp.example:8443",
    "[2001:db8::1]",
    "bücher.example",
)


@pytest.mark.parametrize(
    ("url", "is_covered"),
    [
        ("https://docs.python.org/3/", True),
        ("http://docs.python.org/", True),
        ("https://DOCS.Python.ORG./", True),
        ("https://docs.python.org:443/", True),
        ("https://docs.python.org:8443/", False),
        ("http://docs.python.org:443/", True),
        ("https://python.org/", False),
        ("https://a.docs.python.org/", False),
        ("https://docs.python.org.evil.test/", False),
        ("https://docs.python.org@evil.test/", None),
        ("https://evil.test/docs.python.org", False),
        ("https://example.org/", False),
        ("https://a.example.org/", True),
        ("https://a.b.example.org./", True),
        ("https://badexample.org/", False),
        ("https://a.example.org:8080/", False),
        ("https://wiki.corp.example:8443/", True),
        ("https://wiki.corp.example/", False),
        ("https://[2001:db8:0::1]/", True),
        ("https://[2001:db8::2]/", False),
        ("https://xn--bcher-kva.example/", True),
        ("https://BÜCHER.example/", True),
    ],
)
def test_what_an_entry_covers(url: str, is_covered: bool | None) -> None:
    if is_covered is None:
        with pytest.raises(Exception, match="user name"):
            parse_url(url)
        return
    assert AutoHosts(AUTO).covers(parse_url(url)) is is_covered


@pytest.mark.parametrize(
    "entry",
    ["", ".", "*", "*.example.org", "https://example.org", "example.org/a", "a b", "example.org:0",
     "example.org:http", "..example.org", "user@example.org", ".127.0.0.1"],
)  # fmt: skip
def test_what_is_no_host_is_refused_with_its_place(entry: str) -> None:
    with pytest.raises(ValueError, match=r"auto: .* is not a host"):
        NetworkSettings(auto=(entry,))
    with pytest.raises(ValueError, match=r"auto_hosts: .* is not a host"):
        Agent(auto_hosts=(entry,))
    with pytest.raises(ValidationError, match=r"line 2: network.auto"):
        parse_settings(f"[network]\nauto = [{entry!r}]\n", Path("callboard.toml"))
    text = f"[agents.reader]\nauto_hosts = [{entry!r}]\n"
    with pytest.raises(ValidationError, match=r"agents.reader.auto_hosts"):
        parse_settings(text, Path("callboard.toml"))


def ruled(
    preset: str, tool: str, url: str, *rules: Rule, agent: tuple[str, ...] = (), **more: Any
) -> tuple[Verdict, str]:
    placed = [PlacedRule(rule, "here") for rule in rules]
    policy = PolicyBook(placed, None, AUTO).policy(
        Agent(policy=Preset(preset), auto_hosts=agent), parent=more.pop("parent", None)
    )
    arguments = {"url": url, **more.pop("arguments", {})}
    question = PolicyQuestion(
        tool=tool,
        definition=TOOLS[tool],
        tier=TOOLS[tool].tier,
        arguments=msgspec.json.encode(arguments, order="deterministic").decode(),
        **more,
    )
    found = policy.ruling(question)
    return found.verdict, found.reason


LISTED, OTHER = "https://a.example.org/x", "https://evil.test/x"
KNOWN = frozenset({"evil.test"})


@pytest.mark.parametrize("tool", ["web_fetch", "http_request"])
@pytest.mark.parametrize(
    ("preset", "url", "more", "verdict"),
    [
        ("auto", LISTED, {}, "allow"),
        ("auto", OTHER, {}, "allow"),
        ("balanced", LISTED, {}, "allow"),
        ("balanced", OTHER, {}, "ask"),
        ("balanced", OTHER, {"hosts": KNOWN}, "allow"),
        ("balanced", LISTED, {"approval_reason": "sends POST"}, "ask"),
        ("balanced", LISTED, {"is_exposed": True}, "ask"),
        ("balanced", OTHER, {"agent": ("evil.test",)}, "allow"),
        ("balanced", OTHER, {"is_redirect": True}, "ask"),
        ("balanced", LISTED, {"is_redirect": True}, "allow"),
        ("balanced", "https://www.evil.test/", {"is_redirect": True, "hosts": KNOWN}, "allow"),
        ("balanced", "https://www.evil.test/", {"hosts": KNOWN}, "ask"),
        ("balanced", "https://a.evil.test/", {"is_redirect": True, "hosts": KNOWN}, "ask"),
        ("strict", LISTED, {}, "allow"),
        ("strict", OTHER, {}, "ask"),
        ("strict", OTHER, {"hosts": KNOWN}, "ask"),
        ("strict", OTHER, {"hosts": KNOWN, "is_redirect": True}, "allow"),
        ("strict", LISTED, {"approval_reason": "sends POST"}, "ask"),
        ("strict", LISTED, {"is_exposed": True}, "ask"),
        ("strict", OTHER, {"is_redirect": True}, "ask"),
    ],
)
def test_presets_and_the_list(
    tool: str, preset: str, url: str, more: dict[str, Any], verdict: str
) -> None:
    assert ruled(preset, tool, url, **more)[0] == verdict


def test_a_rule_outweighs_the_list_and_answers_beside_it() -> None:
    deny = Rule(
        verdict=Verdict.DENY, tool="web_fetch", arguments={"url": Condition(host=".example.org")}
    )
    ask = Rule(verdict=Verdict.ASK, tool="web_fetch")
    allow = Rule(verdict=Verdict.ALLOW, tool="web_fetch")
    assert ruled("balanced", "web_fetch", LISTED, deny)[0] is Verdict.DENY
    assert ruled("auto", "web_fetch", LISTED, ask)[0] is Verdict.ASK
    assert ruled("strict", "web_fetch", OTHER, allow)[0] is Verdict.ALLOW
    assert ruled("strict", "web_fetch", OTHER, allow, is_exposed=True)[0] is Verdict.ASK


def test_the_reason_says_how_to_be_asked_no_more() -> None:
    said = ruled("balanced", "web_fetch", OTHER)[1]
    assert said == (
        "balanced asks for each new host: evil.test is new to it, and not under [network] auto"
    )
    assert ruled("strict", "web_fetch", OTHER, hosts=KNOWN)[1] == (
        "strict asks for each new host: evil.test is not under [network] auto"
    )
    assert ruled("strict", "web_fetch", LISTED)[1] == "a.example.org is under [network] auto"


def test_what_a_session_may_reach_is_what_those_above_it_may_too() -> None:
    book = PolicyBook([], None, ("docs.python.org",))
    above = book.policy(Agent(name="above"))
    child = Agent(name="child", auto_hosts=("evil.test",))
    assert (
        ruled("balanced", "web_fetch", OTHER, agent=("evil.test",), parent=above)[0] is Verdict.ASK
    )
    wide = book.policy(Agent(name="above", auto_hosts=("evil.test",)))
    assert (
        ruled("balanced", "web_fetch", OTHER, agent=child.auto_hosts, parent=wide)[0]
        is Verdict.ALLOW
    )


def test_the_version_of_a_policy_is_that_of_its_list() -> None:
    versions = {
        PolicyBook([], None, auto).policy(Agent(auto_hosts=own)).version
        for auto, own in [
            ((), ()),
            (("a.test",), ()),
            ((), ("a.test",)),
            (("A.test.",), ("a.test",)),
        ]
    }
    assert len(versions) == 2

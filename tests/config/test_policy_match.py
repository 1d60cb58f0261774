"""Conditions on arguments: a rule that allows needs certainty, one that asks or denies does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.config.policy.match import CallArguments, CompiledRule
from callboard.config.policy.rules import Condition, PlacedRule, Rule
from callboard.runtime.definitions import Verdict


def matched(condition: Condition, value: Any) -> tuple[bool, bool]:
    """Whether a rule that allows matches, and whether one that denies does."""
    found = []
    for verdict in (Verdict.ALLOW, Verdict.DENY):
        rule = Rule(verdict=verdict, tool="t", arguments={"x": condition})
        arguments = CallArguments(json.dumps({"x": value}))
        found.append(CompiledRule(PlacedRule(rule, "here")).accepts(arguments))
    return found[0], found[1]


BOTH, NONE, IN_DOUBT = (True, True), (False, False), (False, True)
"""In doubt: no rule that allows, and every rule that denies."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("src/a.py", BOTH),
        ("./src//deep/a.py", BOTH),
        ("srcs/a.py", NONE),
        ("lib/a.py", NONE),
        ("SRC/a.py", IN_DOUBT),
        ("src", IN_DOUBT),
        (".", IN_DOUBT),
        ("/work/lib/a.py", IN_DOUBT),
        ("lib/../src/a.py", IN_DOUBT),
        ("src/../lib/a.py", IN_DOUBT),
        ("..", IN_DOUBT),
        ("lib/a\0.py", IN_DOUBT),
        (7, IN_DOUBT),
        (None, IN_DOUBT),
        ({"src": 1}, IN_DOUBT),
        (["src/a", "src/b"], BOTH),
        (["src/a", "lib/b"], IN_DOUBT),
        (["lib/a", 3], IN_DOUBT),
        ([], NONE),
    ],
)
def test_paths(value: Any, expected: tuple[bool, bool]) -> None:
    assert matched(Condition(path="src/**"), value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["git", "status"], BOTH),
        (["git", "status", "--short"], BOTH),
        (["git", "push"], NONE),
        (["git"], NONE),
        (["/usr/bin/git", "status"], IN_DOUBT),
        (["Git", "status"], IN_DOUBT),
        ("git status", IN_DOUBT),
        ("ls; rm -rf .", IN_DOUBT),
        (["git", 1], IN_DOUBT),
        (["sh", "-c", "git status"], NONE),
        (["git status"], NONE),
        ([], NONE),
    ],
)
def test_commands(value: Any, expected: tuple[bool, bool]) -> None:
    assert matched(Condition(argv=("git", "status")), value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("https://api.example.com/a", BOTH),
        ("HTTPS://API.EXAMPLE.COM.:8443/", BOTH),
        ("http://a.b.inner.example/", BOTH),
        ("https://xn--bcher-kva.example/", BOTH),
        ("https://b\u00fccher.example/", BOTH),
        ("https://inner.example/", NONE),
        ("https://evilapi.example.com/", NONE),
        ("https://api.example.com.evil.test/", NONE),
        ("https://evil.test/?api.example.com", NONE),
        ("https://evil.test/#@api.example.com", NONE),
        ("https://api.example.com@evil.test/", IN_DOUBT),
        ("https://evil.test\\@api.example.com/", IN_DOUBT),
        ("api.example.com", IN_DOUBT),
        ("file:///etc/passwd", IN_DOUBT),
        ("https://", IN_DOUBT),
        (3, IN_DOUBT),
        (["https://api.example.com/", "https://evil.test/"], IN_DOUBT),
    ],
)
def test_hosts(value: Any, expected: tuple[bool, bool]) -> None:
    hosts = ("api.example.com", ".inner.example", "b\u00fccher.example")
    assert matched(Condition(host=hosts), value) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("http://1.2.3.4/", "http://1.2.772/", "http://16909060/", "http://0x01020304/", "http://0x1.2.3.4/"),
        *("http://[::ffff:1.2.3.4]/", "http://[::ffff:102:304]:80/x", "http://1.2.3.4./", "http://1。2。3。4/"),
    ],
)  # fmt: skip
def test_an_address_is_the_same_in_every_spelling(url: str) -> None:
    for host in ("1.2.3.4", "0x1020304", "::ffff:1.2.3.4"):
        assert matched(Condition(host=host), url) == BOTH
    assert matched(Condition(host=("1.2.3.5", ".3.4.example")), url) == NONE


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        ("DELETE", "DELETE", BOTH),
        ("DELETE", "delete ", IN_DOUBT),
        ("DELETE", "DELETED", NONE),
        (True, True, BOTH),
        (True, 1, NONE),
        (1, 1.0, BOTH),
        (1, "1", NONE),
        ("true", True, NONE),
        ([["git", "status"]], ["git", "status"], BOTH),
        ([["git", "status"]], ["git", "status", "-s"], NONE),
        (["a", "b"], "b", BOTH),
        ({"k": [1]}, {"k": [1]}, BOTH),
    ],
)
def test_values(wanted: Any, value: Any, expected: tuple[bool, bool]) -> None:
    assert matched(Condition(is_=wanted), value) == expected


PROPERTIES = {"path": {"default": "."}, "cwd": {}}


@pytest.mark.parametrize(
    ("verdict", "condition", "argument", "expected"),
    [
        (Verdict.DENY, Condition(path="secrets/**"), "path", True),  # `.` lies above it
        (Verdict.ALLOW, Condition(path="."), "path", True),
        (Verdict.ALLOW, Condition(is_="."), "path", True),
        (Verdict.DENY, Condition(path="secrets/**"), "cwd", True),  # nobody knows what it is
        (Verdict.ALLOW, Condition(path="**"), "cwd", False),
        (Verdict.DENY, Condition(is_=""), "cwd", False),
        (Verdict.DENY, Condition(path="**"), "other", False),  # the tool has no such argument
    ],
)
def test_an_argument_that_is_left_out(
    verdict: Verdict, condition: Condition, argument: str, expected: bool
) -> None:
    rule = Rule(verdict=verdict, tool="t", arguments={argument: condition})
    compiled = CompiledRule(PlacedRule(rule, "here"))
    assert compiled.accepts(CallArguments("{}", PROPERTIES)) is expected


def test_all_conditions_must_hold() -> None:
    rule = Rule(
        verdict=Verdict.DENY,
        tool="t",
        arguments={"path": Condition(path="a/**"), "recursive": Condition(is_=True)},
    )
    compiled = CompiledRule(PlacedRule(rule, "here"))
    assert compiled.accepts(CallArguments('{"path":"a/b","recursive":true}'))
    assert not compiled.accepts(CallArguments('{"path":"a/b","recursive":false}'))
    assert not compiled.accepts(CallArguments('{"path":"b","recursive":true}'))


@pytest.mark.parametrize(
    ("tools", "name", "expected"),
    [
        (("git_*",), "git_push", True),
        (("git_*",), "git_", True),
        (("git_*",), "gitpush", False),
        (("*",), "anything", True),
        (("read_file", "list_?"), "list_a", True),
        (("read_file",), "Read_file", False),
        (("[ab]",), "a", False),
    ],
)
def test_names_of_tools(tools: tuple[str, ...], name: str, expected: bool) -> None:
    compiled = CompiledRule(PlacedRule(Rule(verdict=Verdict.DENY, tool=tools), "here"))
    assert compiled.is_about_tool(name) is expected

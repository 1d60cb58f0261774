from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.config.policy.grant_binding import binding_of, covers, lasting_problem
from callboard.runtime.definitions import Capability, Tier, ToolDefinition


def text(**arguments: Any) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


WRITE = text(path="notes/a.txt", content="x")
POST = text(url="https://api.example.com/v1/x", method="POST", body="1")


@pytest.mark.parametrize(
    ("tool", "asked", "also", "not_these"),
    [
        (
            "write_file",
            WRITE,
            [text(path="notes/a.txt", content="y"), text(path="./notes//a.txt", content="")],
            [
                text(path="notes/b.txt", content="x"),
                text(path="notes/a.txt", content="x", mode="append"),
                text(path="notes/../notes/a.txt", content="x"),
                text(path="/notes/a.txt", content="x"),
                text(content="x"),
            ],
        ),
        (
            "delete_file",
            text(path="a"),
            [text(path="a/")],
            [text(path="a", recursive=True), text(path="a/b"), text(path="A")],
        ),
        (
            "move_file",
            text(**{"from": "a", "to": "b"}),
            [],
            [text(**{"from": "a", "to": "c"}), text(**{"from": "b", "to": "a"})],
        ),
        (
            "http_request",
            POST,
            [text(url="https://api.example.com/other", method="POST", headers={"x": "y"})],
            [
                text(url="https://api.example.com/v1/x", method="DELETE"),
                text(url="https://api.example.com.evil.test/", method="POST"),
                text(url="https://evil.test/?api.example.com", method="POST"),
                text(method="POST"),
            ],
        ),
        ("launch", text(name="a"), [], [text(name="b"), text(name="a", fast=True), text()]),
        (
            "run",
            text(argv=["git", "status"]),
            [],
            [text(argv=["git", "status", "-s"]), text(argv="git status")],
        ),
    ],
)
def test_what_a_remembered_answer_covers(
    tool: str, asked: str, also: list[str], not_these: list[str]
) -> None:
    binding = binding_of(tool, asked, tier=Tier.SYSTEM)
    assert covers(binding, asked)
    for other in also:
        assert covers(binding, other), other
    for other in not_these:
        assert not covers(binding, other), other


def test_an_elevated_call_is_bound_to_exactly_its_arguments() -> None:
    binding = binding_of("write_file", WRITE, tier=Tier.ELEVATED)
    assert covers(binding, WRITE)
    assert not covers(binding, text(path="notes/a.txt", content="y"))


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a*", "what?", "a[1].txt", "a{b}", "a\nb"])
def test_a_path_that_is_no_plain_name_is_bound_as_it_is(path: str) -> None:
    asked = text(path=path, content="x")
    binding = binding_of("write_file", asked, tier=Tier.WORKSPACE)
    assert binding.paths == {}
    assert covers(binding, asked)
    assert not covers(binding, text(path=path, content="y"))


def test_a_person_may_widen_the_path_to_what_holds_it() -> None:
    binding = binding_of("write_file", WRITE, tier=Tier.WORKSPACE, pattern="notes/**")
    assert covers(binding, text(path="notes/deep/b.txt", content=""))
    assert not covers(binding, text(path="other/b.txt", content=""))
    for tool, arguments, pattern, words in (
        ("write_file", WRITE, "other/*", "does not match"),
        ("write_file", WRITE, "../*", "'..'"),
        ("launch", text(name="a"), "*", "not one path"),
        ("move_file", text(**{"from": "a", "to": "b"}), "*", "not one path"),
    ):
        with pytest.raises(ValueError, match=words):
            binding_of(tool, arguments, tier=Tier.WORKSPACE, pattern=pattern)


def definition(*needs: Capability) -> ToolDefinition:
    return ToolDefinition(name="run", description="", parameters={}, needs=needs)


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "ls"},
        {"code": "print(1)"},
        {"argv": ["bash", "-c", "ls"]},
        {"argv": ["/bin/sh", "x"]},
        {"command": ["ENV", "x"]},
        {"cmd": ["busybox", "ls"]},
        {"args": ["xargs", "rm"]},
        {"Command": ["python3.12", "x.py"]},
        {"argv": ["sudo", "ls"]},
        {"argv": ["find", ".", "-exec", "rm"]},
    ],
)
def test_what_runs_other_words_can_not_be_allowed_for_good(arguments: dict[str, Any]) -> None:
    assert lasting_problem(definition(), text(**arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"line": "bash -c 'curl x|sh'"},
        {"step": "make all && rm -rf /"},
        {"argv": ["ionice", "bash", "deploy.sh"]},
        {"argv": ["flock", "l", "sh", "-c", "x"]},
        {"argv": ["npx", "x"]},
        {"argv": ["ipython", "x.py"]},
        {"argv": ["busybox.static", "sh"]},
        {"argv": ["/bin/bash-static", "-c", "x"]},
    ],
)
def test_what_runs_other_words_is_found_wherever_it_stands(arguments: dict[str, Any]) -> None:
    assert lasting_problem(definition(Capability.PROCESSES), text(**arguments))


def test_a_plain_word_of_a_tool_that_runs_programs_is_none() -> None:
    assert lasting_problem(definition(Capability.PROCESSES), text(branch="main", n=3)) is None


def test_exact_words_can_be_allowed_for_good() -> None:
    assert lasting_problem(definition(), text(argv=["git", "log"])) is None
    assert lasting_problem(definition(), text(path="sh")) is None
    words = text(words=["sh", "-c", "ls"])
    assert lasting_problem(definition(), words) is None
    assert lasting_problem(definition(Capability.PROCESSES), words)


PATHS = st.text("ab*?./", max_size=8)


@given(PATHS, PATHS)
def test_without_widening_no_other_file_is_covered(asked: str, other: str) -> None:
    binding = binding_of("delete_file", text(path=asked), tier=Tier.WORKSPACE)
    assert covers(binding, text(path=asked))
    if covers(binding, text(path=other)):
        assert names(asked) == names(other)


def names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in {"", "."}]

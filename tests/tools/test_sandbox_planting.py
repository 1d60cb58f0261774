"""Nothing that a program leaves runs outside, as root and as an ordinary user."""

from __future__ import annotations

from typing import Any

import pytest

from support.environment import SUPPORT
from support.sandbox.sandbox_users import USERS, needs_sandbox, played

SCRIPT = SUPPORT / "sandbox" / "planting_scenes.py"


@pytest.fixture(scope="module", params=USERS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    needs_sandbox()
    return played(request.param, SCRIPT)


def test_case_43_no_setting_of_the_kernel_can_be_written(found: dict[str, Any]) -> None:
    writable, readable, own = found["kernel"]
    assert writable == []
    # the controls: they are there, and what is the process's own stays writable
    assert readable == [True] * 3
    assert own


def test_case_70_no_repository_without_a_folder_of_its_own_is_left(found: dict[str, Any]) -> None:
    bare = found["bare"]
    for name in ("without", "broken"):
        assert bare[name] == [0, False, False]
        assert bare[f"{name} control"] == [0, True, True]


def test_case_70_it_is_none_while_the_program_runs_either(found: dict[str, Any]) -> None:
    """The control is the one above."""
    for name in ("without", "broken"):
        assert found["seen_meanwhile"][name] == [False, False]


def test_what_is_kept_away_is_in_nobodys_way(found: dict[str, Any]) -> None:
    for name, said in found["looked_through"].items():
        assert {key: row[:2] for key, row in said.items()} == {key: [0, ""] for key in said}, name
        # the control: it is there
        assert {" refs\n", " HEAD\n"} & {line[-6:] for line in said["list"][2].splitlines(True)}
        assert said["below each folder"][2] == ""
    said = found["looked_through"]["repository"]
    assert [said[key][2] for key in ("status", "add", "history", "names")] == [
        "?? own.txt\n",
        "own.txt\n",
        "one\n",
        "one\n",
    ]


def test_case_70_a_repository_below_is_told_of(found: dict[str, Any]) -> None:
    assert found["nested"] == [["vendor/part"], []]


def test_case_70_hooks_that_settings_name_can_not_be_planted(found: dict[str, Any]) -> None:
    assert found["named"] == [[[], []], False]


def test_a_fifo_in_a_repository_keeps_nobody_waiting(found: dict[str, Any]) -> None:
    assert found["fifo"] == [0, "on\n"]

"""The security cases of the sandbox, as root and as an ordinary user: each denial with its control."""

from __future__ import annotations

from typing import Any

import pytest

from support.sandbox.sandbox_users import USERS, needs_sandbox, played


@pytest.fixture(scope="module", params=USERS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    needs_sandbox()
    return played(request.param)


def test_its_own_test_finds_it_full(found: dict[str, Any]) -> None:
    assert found["strength"] == ["full", ""]


def test_case_43_nothing_but_workspace_and_programs_is_readable(found: dict[str, Any]) -> None:
    looks = found["looks"]
    assert set(looks["hidden"].values()) == {"(FileNotFoundError)"}
    assert not looks["canary anywhere"]
    assert looks["own data"] == "(FileNotFoundError)"  # though it lies in the workspace
    assert looks["/etc/passwd"].count("\n") == 1
    assert looks["/proc/1/environ"] == ""
    assert "own-value" not in looks["/proc/1/cmdline"]
    assert looks["descriptors"] == ["0", "1", "2"]
    names = {"HOME", "LANG", "LOGNAME", "OWN", "PATH", "PWD", "TERM", "TMPDIR", "USER"}
    assert names <= set(looks["environment"]) <= names | {"LC_CTYPE", "VIRTUAL_ENV"}
    assert "home" in looks["tmp"]
    assert looks["root"] == []
    # the controls
    assert looks["plain.txt"] == "plain"
    assert looks["written"] == "written"
    assert looks["shown"] == "fine"


def test_case_44_no_socket_leads_anywhere(found: dict[str, Any]) -> None:
    reaches, outside = found["reaches"]
    # the controls: inside it has a network of its own, and outside the same is reached
    assert reaches.pop("own") == reaches.pop("other call") == "worked"
    assert outside.pop("io_uring") in {"worked", "EPERM", "ENOSYS"}  # as the machine has it
    assert set(outside.values()) == {"worked"}
    assert reaches == {
        "tcp": "ECONNREFUSED",
        "public": "ENETUNREACH",
        "udp": "ENETUNREACH",
        "icmp": "EPERM",
        "vsock": "EAFNOSUPPORT",
        "netlink": "EAFNOSUPPORT",
        "packet": "EAFNOSUPPORT",
        "abstract": "ECONNREFUSED",
        "path": "ENOENT",
        "io_uring": "EPERM",
        "interfaces": ["lo"],
        "routes": 0,
    }


def test_case_45_what_is_used_up_is_bounded(found: dict[str, Any]) -> None:
    uses = found["uses_up"]
    # An ordinary user's processes are bounded by the kernel; that they try on takes time.
    # The kernel refuses an ordinary user more, and the bomb ends; without a bound it sleeps on.
    assert uses["fork bomb"] in {"processes", None}
    assert uses["names"] == "files"
    assert not uses["own memory grew"]
    # Without a control group for memory this is bounded by its sizes alone, and by its time.
    assert uses["memory that nobody maps"] == ("memory" if uses["is memory grouped"] else "timeout")
    assert uses["hog"] == uses["shared memory"] == "memory"
    assert uses["flood"] == "output"
    assert uses["spin"] == "cpu"
    assert uses["alone"] == "MemoryError"
    assert uses["file"] == uses["memfd"] == "27"  # EFBIG
    assert uses["tmp"] == "28"  # ENOSPC
    is_cut, length, begin, end = uses["long"]
    assert (is_cut, begin, end) == (True, "aa", "zz")
    assert 64 * 1024 <= length < 65 * 1024


def test_case_46_what_left_its_group_and_ignores_signals_is_gone(found: dict[str, Any]) -> None:
    leaves = found["leaves"]
    assert leaves["end"] == ["left\n", 0, []]
    assert leaves["timeout"] == ["left\n", "timeout", True, []]
    assert leaves["cancel"] == [["left True"], True, []]  # it was there before


def test_case_47_cancels_while_it_starts_leave_nothing(found: dict[str, Any]) -> None:
    """500 of them in `make soak`, else some; each moment of a start is hit by several."""
    assert found["cancels"] == {
        "ended by themselves": 0,
        "left": [],
        "descriptors": 0,
        "workspace": [],
    }


def test_case_48_it_outlives_the_threads_that_were_used_before(found: dict[str, Any]) -> None:
    assert found["sleeps"] == {"ran": [0, None], "control": -9}


def test_case_70_nothing_that_runs_another_day_can_be_planted(found: dict[str, Any]) -> None:
    plants = found["plants"]
    assert [name for name, worked in plants["bad"].items() if worked] == []
    assert len(plants["bad"]) == 22
    assert set(plants["fine"].values()) == {True}
    assert plants["commit"] == [0, "1", ""]
    assert plants["left"] == []
    assert plants["bare"] == [False, []]


def test_twenty_at_once_share_what_protects_them(found: dict[str, Any]) -> None:
    assert found["many"] == {"codes": ["1"], "workspace": []}

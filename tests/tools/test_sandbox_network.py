"""What programs in a sandbox reach, as root and as an ordinary user, in an empty network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.environment import SUPPORT
from support.sandbox.sandbox_users import NOBODY, USERS, give_up, needs_sandbox, python_of
from support.web.namespaces import namespace_problem

SCRIPT = SUPPORT / "sandbox" / "program_network_scenes.py"


@pytest.fixture(scope="module", params=USERS)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    needs_sandbox()
    if os.geteuid() != 0:
        give_up("only root can give the scenes a network of their own")
    if problem := namespace_problem():
        give_up(problem)
    return played(request.param)


@cache
def played(user: str) -> dict[str, Any]:
    command = python_of(user)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "scenes")
        folder.mkdir()
        os.chmod(place, 0o755)
        if user == "nobody":
            os.chown(folder, int(NOBODY), int(NOBODY))
        ran = subprocess.run(
            ["unshare", "-n", sys.executable, str(SCRIPT), str(folder), *command],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd=place,
        )
        assert list(folder.rglob("*callboard*")) == []
    assert ran.returncode == 0, ran.stderr
    scenes: dict[str, Any] = json.loads(ran.stdout)
    return scenes


def statuses(said: dict[str, str]) -> dict[str, int]:
    return {name: int(text.split(" ")[1]) for name, text in said.items()}


def test_case_23_the_proxy_takes_one_host_and_port_and_nothing_else(found: dict[str, Any]) -> None:
    evil = found["targets"]["evil"]
    too_large = {"huge head", "endless head", "300 headers"}
    assert statuses(evil["printed"]) == {
        name: 403 if name == "port 22" else 431 if name in too_large else 400
        for name in evil["printed"]
    }
    assert len(evil["printed"]) == 24
    assert evil["connects"] == evil["requests"] == evil["hosts"] == []
    assert list(evil["refused"]) == ["good.test:22"]


def test_case_23_the_control_reaches_the_host_that_was_said(found: dict[str, Any]) -> None:
    good = found["targets"]["good"]
    assert set(statuses(good["printed"]).values()) == {200}
    assert all(text.endswith("reached") for text in good["printed"].values())
    assert set(good["connects"]) == {"93.184.216.34"}
    assert good["hosts"] == good["recorded"] == ["good.test"]
    # Of a plain request the server gets the host of its URL, and nothing that was for the proxy.
    assert good["requests"][2:] == [{"host": "good.test", "connection": "close"}] * 2


def test_the_guard_is_that_of_web_tools(found: dict[str, Any]) -> None:
    closed, control = found["addresses"]["closed"], found["addresses"]["control"]
    assert set(statuses(closed["printed"]).values()) == {403}
    assert closed["connects"] == closed["requests"] == []
    assert len(closed["refused"]) == len(closed["printed"]) - 5  # one address has six spellings
    reached = [name for name, status in statuses(control["printed"]).items() if status == 200]
    assert {"127.0.0.1:80", "10.0.0.5:80", "169.254.169.254:80", "mixed.test:443"} <= set(reached)
    assert set(control["refused"]) & set(reached) == set()


def test_a_name_is_judged_by_the_answer_that_is_connected(found: dict[str, Any]) -> None:
    first, second = found["addresses"]["rebinding"]
    assert (first["connects"], first["recorded"]) == (["93.184.216.34"], ["rebind.test"])
    assert (second["connects"], list(second["refused"])) == ([], ["rebind.test:80"])


def test_the_runtimes_own_port_is_refused_even_when_it_is_listed(found: dict[str, Any]) -> None:
    own = found["own_port"]
    assert statuses(own["printed"]) == {
        "127.0.0.1:8765": 403,
        "127.0.0.1:2222": 200,  # the control
        "localhost:8765": 403,
    }
    assert own["connects"] == ["127.0.0.1"]


def test_case_44_with_a_network_too_no_socket_leads_past_the_proxy(found: dict[str, Any]) -> None:
    direct = found["direct"]
    assert direct["printed"].pop("own") == "worked"  # the control: it has a network of its own
    assert len(direct["printed"]) == 12
    assert "worked" not in direct["printed"].values()
    assert direct["requests"] == direct["hosts"] == []


def test_case_44_the_control_is_reached_through_it(found: dict[str, Any]) -> None:
    fetched = found["fetches"]["with"]
    assert {url: row[0] for url, row in fetched["printed"].items()} == {
        "http://good.test/": 200,
        "http://good.test/?a=b": 200,
        "https://good.test/": 200,
        "http://listed.test:2222/": 200,
        "http://listed.test/": 403,
        "https://unlisted.test:22/": 0,
    }
    assert "[network] allow" in fetched["printed"]["http://listed.test/"][1]
    assert fetched["hosts"] == ["good.test", "listed.test"]
    assert set(fetched["refused"]) == {"listed.test:80", "unlisted.test:22"}
    [[status, _]] = found["fetches"]["without"]["printed"].values()
    assert status == 0


def test_what_one_program_moves_is_bounded(found: dict[str, Any]) -> None:
    small, large = found["bytes_of_one_program"]["small"], found["bytes_of_one_program"]["large"]
    assert [row[0] for row in small["printed"].values()] == [200, 0, 403]
    assert "network_bytes" in small["refused"]["good.test:80"]
    assert [row[0] for row in large["printed"].values()] == [200, 200, 200]
    assert [row[2] for row in large["printed"].values()] == [7, 3 * 1024 * 1024, 7]

"""What Ray's actor does, without Ray: it keeps a process running, says why it ended, and ends it in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from callboard.cli.cluster import keeper
from callboard.cli.cluster.keeper import KeeperPlan, NodeKeeper, node_arguments, node_environment
from support.cluster.nodes import wait_until

DAEMON = """
import json, os, pathlib, signal, subprocess, sys
data = pathlib.Path(os.environ["CALLBOARD_HOME"], "data")
def end(*_):
    subprocess.Popen(["sleep", "0.5"])  # it holds the pipe of what the daemon says
    (data / "ended").write_text(str(os.getpid()))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("it began", *sys.argv[1:], flush=True)
if (data / "refuse").exists():
    sys.exit("no database answers")
if (data / "stay").exists():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "0.5"])  # it holds the pipe of what the daemon says
(data / "daemon.json").write_text(json.dumps({"pid": os.getpid(), "url": "ws://127.0.0.1:1/ws"}))
while True:
    signal.pause()
"""
"""What matters of a daemon here: it says where it serves, and ends in order at SIGTERM."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture
def plan(tmp_path: Path) -> KeeperPlan:
    program = tmp_path / "daemon.py"
    program.write_text(DAEMON)
    (tmp_path / "home" / "data").mkdir(parents=True)
    return KeeperPlan(
        node="board-0",
        python=sys.executable,
        arguments=(str(program),),
        configuration='policy = "strict"\n',
        home=str(tmp_path / "home"),
        host="0.0.0.0",
        port=8790,
        environment_file="",
        password_file="",
        stop_seconds=60,
    )


@contextmanager
def kept(plan: KeeperPlan) -> Generator[NodeKeeper]:
    one = NodeKeeper(plan, "10.0.0.7")
    try:
        yield one
    finally:
        if (pid := one.state()["pid"]) is not None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        one.drain()


def is_serving(one: NodeKeeper) -> Callable[[], bool]:
    return lambda: one.state()["state"] == "serving"


def test_a_daemon_that_was_killed_comes_again(plan: KeeperPlan) -> None:
    with kept(plan) as one:
        wait_until(is_serving(one), "its start")
        first = one.state()
        assert first["url"] == "ws://127.0.0.1:1/ws"
        assert (first["machine"], first["starts"], first["last_end"]) == ("10.0.0.7", 1, "")
        os.kill(first["pid"], signal.SIGKILL)
        wait_until(lambda: one.state()["starts"] == 2 and is_serving(one)(), "its next start")
        assert one.state()["last_end"] == "was ended by SIGKILL"
        assert one.state()["pid"] != first["pid"]
        assert one.drain() == "ended in order"
    assert one.drain() == "did not run"
    configuration = Path(plan.home, "config", "callboard.toml")
    assert configuration.read_text() == plan.configuration
    assert configuration.stat().st_mode & 0o777 == 0o600


def test_one_that_fails_is_started_again_ever_later_and_says_why(
    plan: KeeperPlan, capfd: pytest.CaptureFixture[str]
) -> None:
    refuse = Path(plan.home, "data", "refuse")
    refuse.touch()
    with kept(plan) as one:
        wait_until(lambda: one.state()["starts"] > 3, "its starts")
        refuse.unlink()
        wait_until(is_serving(one), "a start that succeeds")
        assert one.state()["last_end"].startswith("ended with exit code 1, and said: it began ")
        assert one.state()["last_end"].endswith("; no database answers")
    said = capfd.readouterr().err
    assert "it is started again in 0.01 s\n" in said
    assert "it is started again in 0.02 s\n" in said
    assert "it is started again in 0.04 s\n" in said


def test_one_that_can_not_be_started_says_so(plan: KeeperPlan) -> None:
    with kept(replace(plan, python="/nowhere/python")) as one:
        wait_until(lambda: one.state()["last_end"], "its end")
        assert "can't be started" in one.state()["last_end"]
        assert "/nowhere/python" in one.state()["last_end"]


def test_one_that_was_drained_stays_ended_until_somebody_wants_it(plan: KeeperPlan) -> None:
    with kept(plan) as one:
        wait_until(is_serving(one), "its start")
        os.kill(one.state()["pid"], signal.SIGTERM)
        wait_until(lambda: one.state()["last_end"], "its end")
        state = one.state()  # also while what it has left behind still holds the pipe of its output
        assert (state["state"], state["starts"], state["last_end"]) == (
            "ended",
            1,
            "ended in order",
        )
        one.begin()
        wait_until(is_serving(one), "its next start")


def test_one_that_does_not_end_in_time_is_killed(plan: KeeperPlan) -> None:
    Path(plan.home, "data", "stay").touch()
    with kept(replace(plan, stop_seconds=0.2)) as one:
        wait_until(is_serving(one), "its start")
        assert one.drain() == "did not end within 0.2 s, and was killed"
        state = one.state()
        assert (state["state"], state["pid"]) == ("ended", None)
        assert state["last_end"] == "was ended by SIGKILL"


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process of its parent's end"
)
def test_the_daemon_ends_in_order_when_its_keeper_is_killed(plan: KeeperPlan) -> None:
    program = (
        "import signal, sys\n"
        "from callboard.cli.cluster.keeper import KeeperPlan, NodeKeeper\n"
        f"NodeKeeper({plan!r}, '127.0.0.1')\n"
        "signal.pause()\n"
    )
    ended = Path(plan.home, "data", "ended")
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        served = Path(plan.home, "data", "daemon.json")
        wait_until(served.exists, "its start")
        process.kill()
        wait_until(ended.exists, "the end of the daemon")
    wait_until(lambda: not _lives(int(ended.read_text() or 0)), "the end of the daemon")


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_others_reach_a_node_by_the_address_of_its_machine(plan: KeeperPlan) -> None:
    def url(address: str, host: str = "0.0.0.0", port: int = 8790) -> list[str]:
        return node_arguments(replace(plan, host=host, port=port), address)[1:]

    assert url("10.0.0.7") == ["--node", "board-0", "--node-url", "http://10.0.0.7:8790"]
    assert url("fd00::7")[-1] == "http://[fd00::7]:8790"
    assert url("10.0.0.7", host="127.0.0.1")[-1] == "http://127.0.0.1:8790"
    assert url("10.0.0.7", port=0) == ["--node", "board-0"]  # only the daemon knows it


def test_a_daemon_has_its_files_variables_and_none_of_rays(
    plan: KeeperPlan, tmp_path: Path
) -> None:
    variables, password = tmp_path / "variables", tmp_path / "password"
    variables.write_text('# keys\n\nOPENAI_API_KEY=sk-1\nQUOTED="a b"\nEMPTY=\n')
    password.write_text("hunter2\n")
    there = replace(plan, environment_file=str(variables), password_file=str(password))
    given = {"PATH": "/bin", "LC_ALL": "C", "RAY_JOB_ID": "1", "PYTHONPATH": "/ray", "HOME": "/h"}
    assert node_environment(there, given) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "HOME": "/h",
        "CALLBOARD_HOME": plan.home,
        "OPENAI_API_KEY": "sk-1",
        "QUOTED": "a b",
        "EMPTY": "",
        "PGPASSWORD": "hunter2",
    }
    variables.write_text("OPENAI_API_KEY sk-1\n")
    with pytest.raises(ValueError, match="line 1: it is not NAME=value") as raised:
        node_environment(there, given)
    assert "sk-1" not in str(raised.value)

"""What can go wrong with the nodes of a cluster and their database, with real ones: nothing is lost, doubled or left out.

Each test is short here, and long with `CALLBOARD_SOAK=1` (`make soak`).
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from callboard.runtime.cluster.lease import LEASE_SECONDS
from callboard.tools.processes.process_tree import is_stopped
from callboard.tools.sandbox.tiers.landlock import why_none
from support.cluster.nodes import (
    KINDS,
    NOBODY,
    effects_of,
    gone_on,
    node_process,
    owed_by,
    said,
    sum_up,
    wait_settled,
    wait_taken,
    wait_until,
    written_by,
)
from support.cluster.programs import prepare_server
from support.mcp.stage import accepted, fake
from support.postgres.cut_line import Direction, open_line
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres, own_cluster
from support.sandbox.sandbox_users import give_up, needs_sandbox

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
ROUNDS = 10 if SOAK else 1
INPUTS = 20 if SOAK else 5
SESSIONS = 3
MANY = (67, 67, 66) if SOAK else (3, 3, 2)
"""The sessions of three nodes."""
MANY_INPUTS = 12 if SOAK else 4
PROMPTS = 3
"""A machine that is so busy that its node's lease lapses for a moment refuses the programs of one."""
SLEEP_SECONDS = 10.0 if SOAK else 3.0
"""Longer than a lease, and as long as a machine may be suspended."""
HOUR = 3600.0
BOTH: tuple[Direction, ...] = ("to the database", "to the node")


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


@pytest.mark.parametrize("skews", [(0.0, 0.0), (HOUR, -HOUR)] if SOAK else [(HOUR, -HOUR)])
def test_what_a_killed_node_had_goes_on_elsewhere_once_whatever_the_clocks_say(
    url: str, tmp_path: Path, skews: tuple[float, float]
) -> None:
    a_skew, b_skew = (f"--skew={seconds}" for seconds in skews)
    with (
        node_process(url, "b", tmp_path, 0, 0, b_skew) as b,
        node_process(url, "a", tmp_path, 3, INPUTS, a_skew) as a,
    ):
        wait_until(lambda: effects_of(tmp_path, "a"), "a call of a")
        a.kill()
        wait_taken(url, "a")
        wait_settled(url, tmp_path, 3 * INPUTS)
        assert effects_of(tmp_path, "b")
        assert b.poll() is None  # no clock made it believe that its lease was over


def test_a_node_that_slept_has_every_append_refused(url: str, tmp_path: Path) -> None:
    outcomes = tmp_path / "insisted"
    for round_number in range(ROUNDS):
        name = f"a{round_number}"
        outcomes.unlink(missing_ok=True)
        with (
            node_process(url, f"b{round_number}", tmp_path, 0) as b,
            node_process(url, name, tmp_path, SESSIONS, INPUTS, "--insist") as a,
        ):
            wait_until(lambda: "stored" in lines_of(outcomes), "an append of a")
            wait_until(lambda: effects_of(tmp_path, name), "a call of a")  # ruff: ignore[function-uses-loop-variable]  ends here
            stop(a)
            asleep = effects_of(tmp_path, name)
            time.sleep(SLEEP_SECONDS)
            wait_taken(url, name)
            woken = time.time()
            os.kill(a.pid, signal.SIGCONT)
            said(a, "fenced")
            a.wait()
            # What was on record as started when it was stopped may take its first step; nothing else begins.
            assert len(effects_of(tmp_path, name)) - len(asleep) <= SESSIONS
            late = [
                line for line in lines_of(outcomes).splitlines() if float(line.split()[0]) > woken
            ]
            assert late  # it did try
            assert [line for line in late if line.endswith("stored")] == []
            wait_settled(url, tmp_path, SESSIONS * INPUTS * (round_number + 1))
            b.kill()


def test_all_sessions_of_three_nodes_go_on_when_one_is_killed_and_one_sleeps(
    url: str, tmp_path: Path
) -> None:
    with (
        node_process(url, "c", tmp_path, MANY[2], MANY_INPUTS, "--held") as c,
        node_process(url, "b", tmp_path, MANY[1], MANY_INPUTS, "--held") as b,
        node_process(url, "a", tmp_path, MANY[0], MANY_INPUTS, "--held") as a,
    ):
        (tmp_path / "go").touch()  # nobody has done its own before the last has begun
        wait_until(lambda: effects_of(tmp_path, "a"), "a call of a")
        wait_until(lambda: effects_of(tmp_path, "b"), "a call of b")
        owed: dict[str, tuple[set[str], float]] = {}
        a.kill()
        a.wait()
        owed["killed"] = owed_by(url, "a"), time.time()
        stop(b)
        owed["asleep"] = owed_by(url, "b"), time.time()
        asleep = effects_of(tmp_path, "b")
        wait_taken(url, "a")
        wait_taken(url, "b")
        os.kill(b.pid, signal.SIGCONT)
        said(b, "fenced")
        b.wait()
        # What was on record as started when it was stopped may take its first step; nothing else begins.
        assert len(effects_of(tmp_path, "b")) - len(asleep) <= MANY[1]
        total = wait_settled(url, tmp_path, sum(MANY) * MANY_INPUTS)
        assert c.poll() is None
        assert effects_of(tmp_path, "c")
        told = [f"{total.effects} effects"]
        for how, (sessions, since) in owed.items():
            assert sessions
            after = gone_on(url, sessions, since)
            assert len(after) == len(sessions)
            told.append(
                f"{how}: {len(after)} next turns, p50 {after[len(after) // 2]:.2f} s, last {after[-1]:.2f} s"
            )
        sys.stdout.write("\n".join(told) + "\n")  # shown by `pytest -s`


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a process, and return when it does nothing any more."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(process.pid), "the process stopped")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder with a workspace, in a place that the user of programs in a partial sandbox can get to."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        programs = Path(place, "work", "programs")
        programs.mkdir(parents=True)
        if os.geteuid() == 0:
            for each in (programs, programs.parent):
                os.chown(each, pwd.getpwnam(NOBODY).pw_uid, -1)
        needs_sandbox()
        prepare_server(Path(place), trio.run(accepted, fake(tier="read_only")))
        yield Path(place)


def give_homes(folder: Path) -> None:
    """Give the homes of the nodes' servers to the user of programs in a partial sandbox, who gets to them."""
    for node in ("a", "b"):
        home = folder / node / "mcp" / "fake"
        home.mkdir(parents=True)
        if os.geteuid() == 0:
            for above in (home.parent, home.parent.parent):
                above.chmod(0o711)
            os.chown(home, pwd.getpwnam(NOBODY).pw_uid, -1)


@pytest.mark.parametrize(
    ("fault", "options"),
    [("stopped", ()), ("cut off", ()), ("stopped", ("--partial",))],
    ids=["stopped", "cut off", "stopped, Landlock alone"],
)
def test_all_programs_of_a_node_have_ended_before_another_node_goes_on(
    url: str, open_folder: Path, fault: str, options: tuple[str, ...]
) -> None:
    """Those of calls, in the background, of servers, and functions in a process of their own; with Landlock alone, too."""

    def written(node: str) -> dict[str, list[float]]:
        return {kind: written_by(open_folder, node, kind) for kind in KINDS}

    if options and (why := why_none()) is not None:
        give_up(why)
    if options:
        give_homes(open_folder)
    with (
        open_line(url) as line,
        node_process(url, "b", open_folder, 0, 0, "--program=0.2", *options),
        node_process(line.url, "a", open_folder, 1, PROMPTS, "--program=60", *options) as a,
    ):
        wait_until(
            lambda: all(
                times and times[-1] - times[0] > LEASE_SECONDS for times in written("a").values()
            ),
            "all programs of a have run for longer than a lease",
        )
        if fault == "stopped":
            stop(a)
        else:
            line.cut(*BOTH)
        wait_until(lambda: all(written("b").values()), "all programs of b")
        of_a, of_b = written("a"), written("b")
        began = min(times[0] for times in of_b.values())
        assert [kind for kind, times in of_a.items() if times[-1] >= began] == []
        os.kill(a.pid, signal.SIGCONT)
        line.mend()
        said(a, "fenced")
        a.wait()
        assert written("a") == of_a
        wait_settled(url, open_folder, PROMPTS)


def lines_of(file: Path) -> str:
    return file.read_text(encoding="ascii") if file.exists() else ""


def test_a_database_that_starts_again_in_mid_turn_loses_and_doubles_nothing(tmp_path: Path) -> None:
    needs_postgres()
    with (
        own_cluster() as server,
        node_process(server.url, "a", tmp_path, 2, INPUTS) as a,
        node_process(server.url, "b", tmp_path, 2, INPUTS) as b,
    ):
        for round_number in range(min(ROUNDS, 3)):
            wait_until(lambda: len(effects_of(tmp_path)) > 2 * round_number, "calls")  # ruff: ignore[function-uses-loop-variable]
            server.stop()  # as in a crash
            time.sleep(SLEEP_SECONDS * round_number)  # at once, and longer than a lease
            server.start()
        total = wait_settled(server.url, tmp_path, 4 * INPUTS)
        assert total.effects > 0
        assert (a.poll(), b.poll()) == (None, None)  # nobody was fenced by a database that was away


def test_the_sum_finds_what_is_doubled_and_what_is_left_out(url: str, tmp_path: Path) -> None:
    with node_process(url, "a", tmp_path, 1, 1):
        total = wait_settled(url, tmp_path, 1)
        assert (total.effects, total.doubled) == (1, 0)
    effects = tmp_path / "effects"
    effects.write_text(effects.read_text() * 2)
    assert sum_up(url, tmp_path).doubled == 1


@pytest.mark.parametrize("directions", [BOTH[:1], BOTH[1:], BOTH] if SOAK else [BOTH[:1], BOTH[1:]])
def test_a_node_that_is_cut_off_does_nothing_once_others_have_its_sessions(
    url: str, tmp_path: Path, directions: tuple[Direction, ...]
) -> None:
    with (
        open_line(url) as line,
        node_process(url, "b", tmp_path, 0) as b,
        node_process(line.url, "a", tmp_path, 3, INPUTS) as a,
    ):
        wait_until(lambda: effects_of(tmp_path, "a"), "a call of a")
        line.cut(*directions)
        wait_taken(url, "a")
        cut_off = effects_of(tmp_path, "a")
        wait_until(lambda: effects_of(tmp_path, "b"), "calls of b")
        assert effects_of(tmp_path, "a") == cut_off
        line.mend()
        said(a, "fenced")
        wait_settled(url, tmp_path, 3 * INPUTS)
        assert effects_of(tmp_path, "a") == cut_off
        assert b.poll() is None


def test_a_line_that_is_slow_for_less_than_a_lease_costs_nothing(url: str, tmp_path: Path) -> None:
    with (
        open_line(url) as line,
        node_process(url, "b", tmp_path, 0),
        node_process(line.url, "a", tmp_path, 2, INPUTS) as a,
    ):
        for _ in range(3):
            wait_until(lambda: effects_of(tmp_path, "a"), "a call of a")
            line.cut(*BOTH)
            time.sleep(0.3)
            line.mend()
            time.sleep(1.0)
        wait_settled(url, tmp_path, 2 * INPUTS)
        assert a.poll() is None
        assert effects_of(tmp_path, "b") == []

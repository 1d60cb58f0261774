"""The tier of macOS on a Mac that is none: its text, its flow, its refusals. No Mac has tried it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from fake_seatbelt import Form, read
from leftovers import nothing_left as nothing_left
from mac_scenes import mac, settings
from sandbox_scenes import LEAVES, new_tag, tagged
from sandbox_users import needs_sandbox

from callboard.config.sections import SandboxSettings, Strength
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.processes import Command, Ran
from callboard.tools.processes.left_running import reaped
from callboard.tools.programs.run_code import run_code
from callboard.tools.sandbox.box.machine import Machine, this_machine
from callboard.tools.sandbox.box.recipe import Box, Recipe
from callboard.tools.sandbox.box.roots import View
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.selftest.self_test import StrengthTest, cheap_problem
from callboard.tools.sandbox.tiers.profile import profile_of, quoted
from callboard.tools.sandbox.tiers.warden import Row, listed, marked_ones

SCENES = Path(__file__).with_name("mac_scenes.py")
ODD_NAMES = ['a"b', "a\\", 'a") (allow default) ("', "a\nb", "a;b", "a\x01\x7f\t", "ä\udcff"]


@pytest.fixture(scope="module")
def faked(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    found: Machine = mac(tmp_path_factory.mktemp("mac"))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / ".git" / "hooks").mkdir(parents=True)
    return workspace


async def python(
    sandbox: Sandbox, folder: Path, code: str, *words: str, seconds: float = 20
) -> Ran:
    command = Command(
        argv=("python3", "/run/callboard/code.py", *words),
        files={"code.py": code.encode()},
        seconds=seconds,
    )
    return await sandbox.processes(str(folder), "session").run(command)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_path_is_one_word_of_the_profile_whatever_is_in_it(name: str) -> None:
    path = f"/work/{name}"
    assert read(f"(literal {quoted(path)})") == [["literal", f'"{path}']]
    assert "\n" not in quoted(path)


def test_a_path_with_a_nul_has_no_word() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quoted("/work/a\0b")


def rules_of(workspace: str, **more: Any) -> Form:
    view = View(
        links=(), shown=("/opt/tool",), masked=("/opt/tool/.npmrc",), path="", environment={}
    )
    recipe = Recipe(
        bwrap="",
        disables_userns=False,
        view=view,
        settings=SandboxSettings(),
        bound=(("/opt/tool", "/opt/tool"),),
        forbidden=("/home/ada/.callboard",),
    )
    box = Box(
        workspace=workspace,
        cwd=workspace,
        environment={},
        mounts=[("--bind", f"{workspace}/.git"), ("--ro-bind", f"{workspace}/.git/hooks")],
        data={},
        copies={},
        masks={},
        gate=0,
    )
    return read(os.fsdecode(profile_of(msgspec.structs.replace(recipe, **more), box)))


def test_the_profile_says_what_is_shown_and_what_is_taken_away_behind_it() -> None:
    rules = rules_of("/work")
    assert rules[:2] == [["version", "1"], ["deny", "default"]]
    assert rules[-1] == ["deny", "network*"]
    own = [["subpath", '"/work'], ["subpath", ["param", '"PRIVATE']]]
    [given] = [rule for rule in rules if ["subpath", '"/opt/tool'] in rule]
    assert given[:3] == ["allow", "file-read*", "process-exec*"]
    assert given[-3:] == [["subpath", ["param", '"GIVEN']], *own]
    written = rules.index(["allow", "file-write*", *own])
    for taken in (
        ["deny", "file-write-unlink", ["literal", '"/work']],
        ["deny", "file-write*", ["literal", '"/work/.git']],
        ["deny", "file-write*", ["subpath", '"/work/.git/hooks']],
    ):
        assert rules.index(taken) > written
    hidden = [["subpath", '"/opt/tool/.npmrc'], ["subpath", '"/home/ada/.callboard']]
    assert ["deny", "file-read*", "file-write*", "process-exec*", *hidden] in rules[written:]
    places = json.dumps([rule for rule in rules if rule[0] == "allow"])
    assert '"\\"/home' not in places
    # A rule that is about nothing is left out: without a place it would be about every one.
    assert all(isinstance(rule[-1], list) for rule in rules if "file-write*" in rule)
    assert not any(rule[-1] == "file-write*" for rule in rules_of("/work", forbidden=()))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_workspace_of_an_odd_name_makes_no_other_rules(name: str) -> None:
    plain, odd = rules_of("/work/plain"), rules_of(f"/work/{name}")
    assert json.dumps(odd) == json.dumps(plain).replace("plain", json.dumps(name)[1:-1])


def test_without_the_setting_no_program_runs_on_a_mac(faked: Machine) -> None:
    sandbox = Sandbox(SandboxSettings(minimum=Strength.PARTIAL), os.environ, machine=faked)
    assert sandbox.status().strength is Strength.NONE
    why = sandbox.why_not(run_code.definition)
    assert why is not None
    for part in ("nobody has tried", "macos_untested = true", 'minimum = "partial"'):
        assert part in why
    with pytest.raises(ToolFailure, match="macos_untested"):
        sandbox.recipe()


def test_with_it_the_sandbox_is_partial_at_most(faked: Machine) -> None:
    needs_sandbox()
    sandbox = Sandbox(settings(), os.environ, machine=faked)
    found = sandbox.status()
    assert (found.strength, sandbox.problem()) == (Strength.PARTIAL, None), found.reason
    for part in ("nobody has tried", "no namespaces", "no filter", "memory", "is missed"):
        assert part in found.reason
    assert ("run_as" in found.reason) is (os.geteuid() == 0)
    full = Sandbox(SandboxSettings(macos_untested=True), os.environ, machine=faked)
    assert "is partial, and must be full" in (full.problem() or "")


def test_case_49_a_sandbox_exec_that_merely_runs_its_command_is_none(tmp_path: Path) -> None:
    needs_sandbox()
    runs = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    found = StrengthTest(settings(), os.environ, mac(tmp_path, runs)).status()
    assert (found.strength, found.recipe) == (Strength.NONE, None)
    assert "sandbox-exec does not hold here" in found.reason
    for attempt in ("read outside the workspace", "connect to a port", "put .git aside"):
        assert attempt in found.reason


def test_case_49_one_that_can_not_start_says_why(tmp_path: Path) -> None:
    script = "echo sandbox_apply: Operation not permitted >&2; exit 71"
    found = StrengthTest(settings(), os.environ, mac(tmp_path, script)).status()
    assert found.strength is Strength.NONE
    assert "sandbox_apply: Operation not permitted" in found.reason


def test_what_a_mac_lacks_is_named(tmp_path: Path) -> None:
    there = mac(tmp_path, "exit 1")
    assert cheap_problem(settings(), there) is None
    for name in ("sandbox_exec", "listing"):
        value = "/nowhere/it" if name == "sandbox_exec" else ("/nowhere/it",)
        lacking = msgspec.structs.replace(there, **{name: value})
        assert "/nowhere/it is not there" in (cheap_problem(settings(), lacking) or "")


def test_on_linux_the_setting_changes_nothing() -> None:
    needs_sandbox()
    assert not this_machine().is_macos
    plain = StrengthTest(SandboxSettings(), os.environ).status()
    told = StrengthTest(SandboxSettings(macos_untested=True), os.environ).status()
    assert told.recipe is not None
    same = msgspec.structs.replace(told.recipe, settings=SandboxSettings())
    assert msgspec.structs.replace(told, recipe=same) == plain


@pytest.mark.parametrize("is_set", [False, True])
def test_elsewhere_there_is_none(is_set: bool) -> None:
    windows = Machine(platform="win32")
    problem = cheap_problem(SandboxSettings(macos_untested=is_set), windows)
    assert problem is not None
    assert "win32" in problem


LOOKS = """
import json, os, resource, socket, sys
told = json.loads(sys.argv[1])
def put(path):
    return lambda: open(path, "w").close()
def worked(attempt):
    try:
        attempt()
    except OSError:
        return False
    return True
bad = {
    "read outside": lambda: open(told["outside"]),
    "write outside": put(told["outside"]),
    "read data": lambda: open("data/token"),
    "connect": lambda: socket.create_connection(("127.0.0.1", told["port"]), timeout=2),
    "hook": put(".git/hooks/pre-commit"),
    "config": put(".git/config"),
    "aside": lambda: os.rename(".git", "aside"),
    "start-up file": put(".bashrc"),
    "given file": lambda: open(__file__, "a"),
    "beside the given": put(os.path.dirname(__file__) + "/more"),
    "its profile": lambda: open(os.environ["TMPDIR"] + "/../profile"),
}
fine = {
    "write": put("new.txt"),
    "git's own": put(".git/index"),
    "own folder": put(os.environ["TMPDIR"] + "/x"),
    "home": put(os.environ["HOME"] + "/x"),
}
limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)]
wrong = [n for n, a in bad.items() if worked(a)], [n for n, a in fine.items() if not worked(a)]
print(json.dumps([*wrong, limits, os.environ["TMPDIR"], sorted(os.environ)]))
"""


async def test_a_program_reaches_its_workspace_and_nothing_else(
    faked: Machine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_sandbox()
    monkeypatch.setenv("SERVICE_KEY", "canary")
    outside = folder.parent / "outside"
    outside.write_text("canary")
    (folder / "data").mkdir()
    (folder / "data" / "token").write_text("canary")
    sandbox = Sandbox(settings(), os.environ, [folder / "data"], machine=faked)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass  # the control: from here it is reached
        told = json.dumps({"outside": str(outside), "port": port})
        ran = await python(sandbox, folder, LOOKS, told)
    assert (ran.exit_code, ran.stderr, ran.sandbox) == (0, "", "partial")
    worked, failed, limits, own, variables = json.loads(ran.stdout)
    assert (worked, failed, limits) == ([], [], [600, 256])
    assert "SERVICE_KEY" not in variables
    assert Path(own).parent.name not in os.listdir(Path(own).parent.parent)
    assert sorted(os.listdir(folder)) == [".git", "data", "new.txt"]
    assert sorted(os.listdir(folder / ".git")) == ["hooks", "index"]


async def test_how_a_program_ends_is_told(faked: Machine, folder: Path) -> None:
    needs_sandbox()
    processes = Sandbox(settings(), os.environ, machine=faked).processes(str(folder), "s")
    for argv, code in (
        (("sh", "-c", "exit 3"), 3),
        (("no-such-program",), 127),
        (("sh", "-c", "kill -KILL $$"), 137),
    ):
        ran = await processes.run(Command(argv=argv, seconds=20))
        assert (ran.exit_code, ran.killed_by, ran.killed) == (code, None, 0)


async def test_there_is_no_network_in_it(faked: Machine, folder: Path) -> None:
    needs_sandbox()

    async def answer(asked: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return asked

    processes = Sandbox(settings(), os.environ, machine=faked).processes(str(folder), "s")
    with pytest.raises(ToolFailure, match="no network and no socket in it"):
        await processes.run(Command(argv=("true",), seconds=5, answers={"x": answer}))
    assert (await processes.run(Command(argv=("true",), seconds=5))).exit_code == 0


async def test_what_it_leaves_behind_is_ended(faked: Machine, folder: Path) -> None:
    """It has left its group, its parent is gone, it ignores signals and holds no output."""
    needs_sandbox()
    sandbox = Sandbox(settings(), os.environ, machine=faked)
    ran = await python(sandbox, folder, LEAVES, tag := new_tag(), "0")
    assert (ran.stdout, ran.exit_code, tagged(tag)) == ("left\n", 0, [])


def lister(folder: Path, lines: str) -> list[str]:
    (folder / "list").write_text(lines)
    return ["/bin/cat", str(folder / "list")]


def test_zombies_and_what_is_no_process_are_not_listed(tmp_path: Path) -> None:
    command = lister(tmp_path, "  7  1  7 501 Ss\n  8 7 7 501 Z+\nPID PPID\n\n 9 x 9 501 R\n")
    assert listed(command) == [(7, Row(parent=1, group=7, user=501, state="Ss"))]
    assert listed(["/nowhere/ps"]) == []


def test_a_variable_that_imitates_a_line_does_not_have_another_process_ended(
    tmp_path: Path,
) -> None:
    real = "41 1 41 501 S python3 A=1 CALLBOARD_PROGRAM=ab\n42 1 42 501 S other\n"
    assert marked_ones(lister(tmp_path, real), b"CALLBOARD_PROGRAM=ab") == {41}
    planted = real + "43 1 43 501 S sh B=\n42 1 42 501 S CALLBOARD_PROGRAM=ab\n"
    assert marked_ones(lister(tmp_path, planted), b"CALLBOARD_PROGRAM=ab") == {41}


async def test_what_is_cancelled_is_gone(faked: Machine, folder: Path) -> None:
    needs_sandbox()
    sandbox = Sandbox(settings(), os.environ, machine=faked)
    tag = new_tag()
    said: list[bool] = []
    with trio.CancelScope() as scope:
        command = Command(
            argv=("python3", "/run/callboard/code.py", tag, "600"),
            files={"code.py": LEAVES.encode()},
            seconds=30,
        )

        def heard(line: str) -> None:
            said.append(bool(tagged(tag)))
            scope.cancel()

        await sandbox.processes(str(folder), "session", "turn", "call").run(command, heard)
    assert (said, scope.cancelled_caught, tagged(tag)) == ([True], True, [])
    assert reaped().take("turn")["call"] >= 2  # what hung, and what it had left


async def test_one_that_is_ended_before_it_began_leaves_nothing(
    faked: Machine, folder: Path
) -> None:
    needs_sandbox()
    processes = Sandbox(settings(), os.environ, machine=faked).processes(str(folder), "s")
    for seconds in (0.0, 0.02, 0.05, 0.1):
        tag = new_tag()
        ran: Ran | None = None
        with trio.move_on_after(seconds):
            ran = await processes.run(Command(argv=("sleep", tag), seconds=20))
        assert ran is None or ran.killed_by == "timeout"
        assert tagged(tag) == []


@pytest.mark.parametrize("ends", ["by itself", "killed"])
def test_case_46_it_works_and_ends_without_what_linux_alone_has(
    faked: Machine, folder: Path, ends: str
) -> None:
    needs_sandbox()
    tag = new_tag()
    place = os.path.dirname(faked.sandbox_exec)
    words = [str(folder), place, LEAVES, tag, "0" if ends == "by itself" else "600"]
    with subprocess.Popen(
        [sys.executable, str(SCENES), *words], stdout=subprocess.PIPE, text=True
    ) as runtime:
        assert runtime.stdout is not None
        try:
            assert runtime.stdout.readline() == "left\n"
            if ends == "by itself":
                assert json.loads(runtime.stdout.readline()) == [0, "left\n", "partial"]
            else:
                assert tagged(tag)  # the control: it runs
        finally:
            if ends == "killed":
                runtime.kill()
    for _ in range(500):
        if not tagged(tag):
            break
        time.sleep(0.01)
    assert tagged(tag) == []

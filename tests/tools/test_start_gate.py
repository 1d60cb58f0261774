"""Nothing begins in a sandbox before it is bounded, when its runtime dies, or in another folder."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from callboard.config.sections import SandboxSettings, Strength
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.processes import Command, Processes
from callboard.tools.sandbox.box.start_gate import MAX_KEY_BYTES, Gate, identity_of
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.selftest.self_test import strength_test
from callboard.tools.sandbox.session_processes import SessionProcesses
from support.sandbox.sandbox_users import needs_sandbox

GONE_SECONDS = 20

STOPPED = """
import os, sys, time, trio
from callboard.config.sections import SandboxSettings
from callboard.runtime.processes import Command
from callboard.tools.sandbox.running import process as module
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses

def admit(pid, **_):
    print(pid, flush=True)
    time.sleep(600)

sandbox = Sandbox(SandboxSettings(), os.environ)
processes = SessionProcesses(sandbox, sys.argv[1], "session")
sandbox.status()
module.admit = admit
trio.run(processes.run, Command(argv=("touch", "begun"), seconds=60))
"""
"""A runtime that stands still between the sandbox's start and its admission."""


def test_case_46_a_runtime_that_is_killed_while_it_starts_a_sandbox_leaves_nothing(
    tmp_path: Path,
) -> None:
    needs_sandbox()
    runtime = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert runtime.stdout is not None
        first = os.pidfd_open(int(runtime.stdout.readline()))
        try:
            assert select.select([first], [], [], 0)[0] == []  # the control: it waits at its gate
            runtime.kill()
            assert select.select([first], [], [], GONE_SECONDS)[0] == [first]
        finally:
            os.close(first)
    finally:
        runtime.kill()
        runtime.wait()
        if runtime.stdout is not None:
            runtime.stdout.close()
    assert runtime.returncode == -signal.SIGKILL
    assert not (tmp_path / "begun").exists()


def test_a_gate_that_is_closed_ends_without_a_key() -> None:
    for opens, wanted in ((True, b"filter"), (False, b"")):
        gate = Gate(b"filter")
        theirs = os.dup(gate.theirs)
        if opens:
            gate.open()
            gate.open()
        gate.close()
        assert os.read(theirs, 100) == wanted
        os.close(theirs)
    with pytest.raises(ValueError, match="at most"):
        Gate(b"x" * (MAX_KEY_BYTES + 1))


async def test_case_24_a_workspace_that_was_replaced_is_not_worked_in(tmp_path: Path) -> None:
    needs_sandbox()
    sandbox = Sandbox(SandboxSettings(), os.environ)
    await sandbox.ready()
    outer, private = tmp_path / "outer", tmp_path / "private"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    private.mkdir()
    meant = identity_of(str(inner))
    command = Command(argv=("touch", "begun"), seconds=20)
    held = SessionProcesses(sandbox, str(inner), "s", identity=meant)
    assert (await held.run(command)).exit_code == 0  # the control
    (inner / "begun").unlink()
    os.rename(inner, outer / "moved")
    inner.mkdir()
    assert await was_refused(held, command)
    inner.rmdir()
    inner.symlink_to(private)
    assert await was_refused(SessionProcesses(sandbox, str(inner), "s", identity=meant), command)
    with pytest.raises(ToolFailure, match="no such folder"):
        await held.run(command)
    assert not any((folder / "begun").exists() for folder in (inner, private, outer / "moved"))


async def was_refused(processes: Processes, command: Command) -> bool:
    ran = await processes.run(command)
    return ran.killed_by == "sandbox" and "replaced by another folder" in ran.stderr


async def test_where_a_link_leads_outside_nothing_is_told_of_it(tmp_path: Path) -> None:
    needs_sandbox()
    sandbox = Sandbox(SandboxSettings(), os.environ)
    await sandbox.ready()
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    (workspace / "in").mkdir(parents=True)
    (outside / "there").mkdir(parents=True)
    (workspace / "out").symlink_to(outside)
    (workspace / "within").symlink_to("in")
    processes = SessionProcesses(sandbox, str(workspace), "s")
    told = set()
    for folder in ("out/there", "out/nothing", "out"):
        with pytest.raises(ToolFailure) as caught:
            await processes.run(Command(argv=("true",), cwd=folder, seconds=5))
        assert caught.value.error_type is ErrorType.NOT_A_DIRECTORY
        told.add(str(caught.value).replace(folder, "X"))
    assert len(told) == 1
    ran = await processes.run(Command(argv=("pwd",), cwd="within", seconds=20))
    assert ran.stdout.strip() in {str(workspace / "in"), str(workspace / "within")}


async def test_a_session_that_has_ended_gets_nothing_in_the_background(tmp_path: Path) -> None:
    needs_sandbox()
    sandbox = Sandbox(SandboxSettings(), os.environ)
    await sandbox.ready()
    command = Command(argv=("sleep", "60"), seconds=60, title="sleep")
    async with trio.open_nursery() as nursery:
        await nursery.start(sandbox.background.serve)
        before = SessionProcesses(sandbox, str(tmp_path), "s")
        await before.start(command)
        await sandbox.end_session("s")
        assert sandbox.background.running() == {}
        with pytest.raises(ToolFailure, match="the session has ended meanwhile"):
            await before.start(command)
        assert sandbox.background.running() == {}
        # The control: a call that begins behind it, as in a session that was restored.
        await SessionProcesses(sandbox, str(tmp_path), "s").start(command)
        assert sandbox.background.running() == {"s": 1}
        nursery.cancel_scope.cancel()


async def test_while_it_is_tested_other_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_sandbox()
    sandbox = Sandbox(SandboxSettings(), os.environ)
    done = threading.Event()
    slow = threading.Thread(target=done.wait)
    slow.start()
    test = strength_test(SandboxSettings(), os.environ, is_new=True)
    test.status()
    monkeypatch.setattr(test, "_thread", slow)
    monkeypatch.setattr(sandbox, "_test", test)
    try:
        with trio.move_on_after(0) as scope:
            await sandbox.ready()  # whoever is cancelled does not wait for it
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandbox.ready)
            for _ in range(3):
                await trio.lowlevel.checkpoint()  # nor does anybody else
            assert slow.is_alive()
            done.set()
    finally:
        done.set()
        slow.join()
    assert sandbox.status().strength is Strength.FULL

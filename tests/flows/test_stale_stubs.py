"""What a killed runtime leaves in a workspace is named, and gone with the next start of any."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

import callboard
from callboard.cli.doctor.files import left_finding
from callboard.config.sections import SandboxSettings
from callboard.providers.testing.script import reply
from callboard.runtime.disk.private_folder import hold
from callboard.tools.sandbox.box.protected import Protection
from callboard.tools.sandbox.selftest.self_test import StrengthTest
from callboard.tools.sandbox.stale_stubs import FILE_NAME, StaleStubs, stale_stubs
from support.flows import killed_program
from support.flows.killed import killed_when_ready
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import make_workspace, open_in, play, read_result, run_in

pytestmark = pytest.mark.usefixtures("sandbox")


def killed_in(folder: Path) -> Path:
    """A workspace in which a runtime was killed while a program ran."""
    work = folder / "work"
    work.mkdir()
    (work / "b.txt").write_text("b\n")
    killed_when_ready(killed_program.__file__, folder)
    return work


def kill(protection: Protection) -> None:
    """Lets go of what is held, as the kernel does."""
    while protection._stubs:
        os.close(protection._stubs.pop().descriptor)


async def test_the_next_runtime_removes_it_wherever_that_works(tmp_path: Path) -> None:
    work = killed_in(tmp_path)
    left = set(os.listdir(work))
    assert {".git", ".bashrc", "callboard.toml", ".callboard"} <= left  # the control
    found = left_finding(tmp_path / "data")
    assert found.state == "warning"
    assert all(str(work / name) in found.words for name in (".git", ".bashrc"))

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with callboard.open_runtime(
        workspace=elsewhere, data=tmp_path / "data", model="rehearsal", environ={}
    ):
        assert os.listdir(work) == []
    assert left_finding(tmp_path / "data").state == "good"
    assert not (tmp_path / "data" / FILE_NAME).exists()


async def test_what_people_put_in_its_place_stays(tmp_path: Path) -> None:
    work = killed_in(tmp_path)
    (work / ".callboard").chmod(0o755)
    (work / ".callboard" / "mine").write_text("mine")
    (work / ".envrc").rmdir()
    (work / ".envrc").write_text("export A=1\n")
    (work / "kept").mkdir(0o555)
    assert len(StaleStubs(tmp_path / "data").clear()) > 8
    assert sorted(os.listdir(work)) == [".callboard", ".envrc", "kept"]


async def test_what_a_program_uses_stays_and_nothing_else_does(tmp_path: Path) -> None:
    work, data = tmp_path / "work", tmp_path / "data"
    work.mkdir()

    @callboard.tool(tier="read_only")
    def clear() -> list[str]:
        """Does what a second runtime would do."""
        assert (work / ".git").is_dir()
        return StaleStubs(data).clear()

    started = ("shell", {"command": "echo on; sleep 60", "background": True})
    model = callboard.ScriptedModel(
        [reply(calls=[started]), reply(calls=[("clear", {})]), reply("So.")]
    )
    async with callboard.open_runtime(
        workspace=work, data=data, model=model, tools=[clear], on_approval="allow"
    ) as runtime:
        session = await runtime.create_session()
        _, cleared = (await play(session, "Go.")).results
        assert read_result(cleared)["result"] == []
        assert left_finding(data).state == left_finding(data, str(work)).state == "good"
        assert (work / ".git").is_dir()
    assert os.listdir(work) == []


async def test_a_workspace_is_noted_on_the_disk_before_anything_is_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a machine that loses its power keeps the note, wherever it keeps what was put there."""
    work, file = make_workspace(tmp_path), tmp_path / "data" / FILE_NAME
    synced: list[tuple[str, bytes, list[str]]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        noted = file.read_bytes() if file.exists() else b""
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), noted, os.listdir(work)))

    monkeypatch.setattr(os, "fsync", watched)
    seen: list[set[str]] = []

    @callboard.tool(tier="read_only")
    def look() -> None:
        """Looks."""
        seen.append({*os.listdir(work)})

    calls = [("shell", {"command": "sleep 60", "background": True}), ("look", {})]
    steps = [*(reply(calls=[call]) for call in calls), reply("So.")]
    async with open_in(tmp_path, steps, "disk", tools=[look], on_approval="allow") as runtime:
        await run_in(runtime, "Go.")
    assert len(seen[0]) > 10  # the control
    for path in (file, file.parent):
        assert (str(path), os.fsencode(work) + b"\0", []) in synced
    assert not file.exists()


def test_what_another_runtime_uses_stays_noted_and_doctor_says_only_what_nobody_uses(
    tmp_path: Path,
) -> None:
    work = make_workspace(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(os.fsencode(work) + b"\0")
    protection = Protection(str(work))
    assert StaleStubs(tmp_path).clear() == []
    assert left_finding(tmp_path).state == "good"
    used = protection.mounts[0][1]
    kill(protection)
    found = left_finding(tmp_path)
    assert found.state == "warning"
    assert used in found.words
    elsewhere = left_finding(tmp_path / "other", str(work))  # of a folder that is not noted
    assert elsewhere.words == found.words
    assert used in StaleStubs(tmp_path).clear()
    assert os.listdir(work) == []
    assert not (tmp_path / FILE_NAME).exists()


def test_folders_of_killed_runtimes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_sandbox()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "aim").mkdir()
    for name in (
        "callboard-inside-a",
        "callboard-program-b",
        "callboard-other-c",
        "callboard-inside-d",
        "callboard-program-e",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        os.utime(tmp_path / name, (time.time() - 60, time.time() - 60))
    os.utime(tmp_path / "callboard-inside-d")  # just made, and not locked yet
    (tmp_path / "callboard-inside-link").symlink_to(tmp_path / "aim")
    running = os.open(tmp_path / "callboard-program-e", os.O_RDONLY)
    hold(running)
    assert StrengthTest(SandboxSettings(), os.environ).status().recipe is not None
    os.close(running)
    assert sorted(os.listdir(tmp_path)) == [
        *("aim", "callboard-inside-d", "callboard-inside-link", "callboard-other-c"),
        "callboard-program-e",
    ]


def test_what_keeps_git_from_a_broken_repository_is_found(tmp_path: Path) -> None:
    """For root that is `commondir`, too: a folder at the top, and a file in `.git`."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    protection = Protection(str(work))
    (tmp_path / FILE_NAME).write_bytes(os.fsencode(work) + b"\0")
    made = {path for how, path in protection.mounts if how == "--ro-bind"}
    assert str(work / "refs") in made
    assert (str(work / "commondir") in made) == (os.geteuid() == 0)
    assert stale_stubs(tmp_path) == []  # they are in use
    kill(protection)
    assert set(stale_stubs(tmp_path)) == made
    assert set(StaleStubs(tmp_path).clear()) == made
    assert os.listdir(work) == [".git"]


async def test_what_is_noted_may_be_anything(tmp_path: Path) -> None:
    """The file is ours alone, and may be torn or of another time all the same."""
    gone, file = tmp_path / "gone", tmp_path / "file"
    file.write_text("x")
    (tmp_path / FILE_NAME).write_bytes(
        b"\0".join([os.fsencode(gone), os.fsencode(file), b"relative", b"/\xff\n", b"/torn"])
    )
    assert StaleStubs(tmp_path).clear() == []
    assert not (tmp_path / FILE_NAME).exists()

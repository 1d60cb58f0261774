"""Sandboxes of another user than the runtime's: `sandbox.run_as`."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from callboard.config.sections import SandboxSettings, Strength
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.processes import Command, Ran
from callboard.tools.sandbox.box.user import find_user
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from callboard.tools.workspace.atomic_write import write_temporary
from callboard.tools.workspace.workspace import open_workspace
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import open_in, play_in, read_result

NOBODY = "nobody"

LOOK = """
import os, resource
open("made", "w").close()
print(os.getuid(), os.environ["USER"], resource.getrlimit(resource.RLIMIT_NPROC)[0])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that others can get to, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        workspace = Path(place, "workspace")
        workspace.mkdir()
        yield workspace


def needs_root() -> None:
    needs_sandbox()
    if os.geteuid() != 0:
        pytest.skip("only root runs programs as others")


async def looked(folder: Path, **settings: Any) -> Ran:
    sandbox = Sandbox(SandboxSettings(run_as=NOBODY, processes=99, **settings), os.environ)
    assert sandbox.problem() is None
    command = Command(
        argv=("python3", "/run/callboard/look.py"), files={"look.py": LOOK.encode()}, seconds=20
    )
    return await SessionProcesses(sandbox, str(folder), "session").run(command)


async def test_programs_run_as_that_user_and_its_files_are_that_users(folder: Path) -> None:
    needs_root()
    uid = pwd.getpwnam(NOBODY).pw_uid
    os.chown(folder, uid, uid)
    ran = await looked(folder)
    assert (ran.stdout.split(), ran.stderr) == ([str(uid), "user", "99"], "")
    assert os.stat(folder / "made").st_uid == uid


async def test_a_workspace_that_the_user_can_not_write_is_told_and_nothing_runs(
    folder: Path,
) -> None:
    needs_root()
    os.chmod(folder, 0o700)
    with pytest.raises(ToolFailure, match="chown -R nobody") as caught:
        await looked(folder)
    assert caught.value.error_type == "sandbox_unavailable"
    assert os.listdir(folder) == []


def test_who_can_not_be_become_is_told() -> None:
    with pytest.raises(ValueError, match="useradd --system no-such-user"):
        find_user("no-such-user")
    assert find_user(None) is None
    if os.geteuid() == 0:
        assert find_user("root") is None  # that is who it is
        found = find_user(NOBODY)
        assert found is not None
        assert found.uid == pwd.getpwnam(NOBODY).pw_uid


def test_a_user_that_is_not_there_leaves_no_sandbox() -> None:
    needs_sandbox()
    found = Sandbox(SandboxSettings(run_as="no-such-user"), os.environ).status()
    assert found.strength is Strength.NONE
    assert "useradd" in found.reason


async def test_programs_take_the_next_python_where_the_first_can_not_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a virtual environment whose interpreter pyenv or uv keeps below a closed /root."""
    needs_root()
    os.chown(folder, (uid := pwd.getpwnam(NOBODY).pw_uid), uid)
    closed, environment = folder.parent / "closed", folder.parent / "venv" / "bin"
    closed.mkdir(mode=0o700)
    environment.mkdir(parents=True)
    os.symlink("/usr/bin/env", closed / "python3")
    os.symlink(closed / "python3", environment / "python3")
    monkeypatch.setenv("PATH", f"{environment}:{os.environ['PATH']}")
    ran = await looked(folder)
    assert (ran.stdout.split()[0], ran.stderr, ran.sandbox) == (str(uid), "", Strength.FULL)
    assert f"{environment}/python3" in _unread_of(os.environ)
    closed.chmod(0o755)
    assert f"{environment}/python3" not in _unread_of({**os.environ, "PYENV_VERSION": "other"})


def _unread_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    status = Sandbox(SandboxSettings(run_as=NOBODY), environ).status()
    assert status.recipe is not None
    unread = status.recipe.view.unread
    assert ("nobody, who runs programs here" in status.advice) is bool(unread)
    return unread


async def ran_in(folder: Path, **settings: Any) -> tuple[int, Ran]:
    """Who runs a program there."""
    sandbox = Sandbox(SandboxSettings(**settings), os.environ)
    command = Command(argv=("sh", "-c", "id -u; touch made"), seconds=20)
    ran = await SessionProcesses(sandbox, str(folder), "session").run(command)
    return int(ran.stdout), ran


async def test_case_73_for_root_programs_run_as_whom_the_workspace_belongs_to(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    needs_root()
    uid = pwd.getpwnam(NOBODY).pw_uid
    assert (await ran_in(folder))[0] == 0  # it is root's
    (folder / "made").unlink()
    os.chown(folder, uid, uid)
    found, ran = await ran_in(folder)
    assert (found, ran.exit_code, ran.sandbox) == (uid, 0, Strength.FULL)
    assert (folder / "made").stat().st_uid == uid
    # root without capabilities has no right there
    found, ran = await ran_in(folder, run_as="root")
    assert (found, ran.exit_code) == (0, 1)
    # nor can they where that user does not get to
    folder.parent.chmod(0o700)
    assert caplog.records == []
    assert (await ran_in(folder))[0] == 0
    assert f"programs in {folder} run as root and not as {NOBODY}" in caplog.text


async def test_what_file_tools_of_root_make_there_programs_can_work_on(folder: Path) -> None:
    needs_root()
    uid = pwd.getpwnam(NOBODY).pw_uid
    os.chown(folder, uid, uid)
    (folder / "roots").touch()
    edit = {"path": "roots", "content": "1\n"}
    calls: list[tuple[str, Any]] = [
        ("write_file", {"path": "new/deep/a.txt", "content": "1\n"}),
        ("write_file", edit),
        ("shell", {"command": "echo 2 >> new/deep/a.txt && touch new/deep/b && echo 2 >> roots"}),
    ]
    steps = [*(reply(calls=[call]) for call in calls), reply("Done.")]
    async with open_in(folder, steps, workspace=folder, on_approval="allow") as runtime:
        _, played = await play_in(runtime, "Go.")
    assert "roots: Permission denied" in read_result(played.results[-1])["result"]["stderr"]
    assert (folder / "new" / "deep" / "a.txt").read_text() == "1\n2\n"
    made = ("new", "new/deep", "new/deep/a.txt", "new/deep/b", "roots")
    assert [(folder / name).stat().st_uid for name in made] == [uid, uid, uid, uid, 0]


async def test_what_root_writes_anew_belongs_to_the_folders_owner_unless_it_is_private(
    folder: Path,
) -> None:
    needs_root()
    uid = pwd.getpwnam(NOBODY).pw_uid
    os.chown(folder, uid, uid)
    with open_workspace(folder) as files:
        for name, mode, owner in (("public", 0o644, 1), ("private", 0o600, 1)):
            (folder / name).touch(mode)
            os.chown(folder / name, owner, owner)
            files.write(name, b"new", replace=True, create_dirs=False)
            found = (folder / name).stat()
            assert (found.st_uid, found.st_mode & 0o777) == (owner, mode)
        with files.resolver.open_directory(()) as parent:
            for mode, owner in ((0o644, uid), (0o600, 0)):
                with write_temporary(parent, b"restored", mode) as made:
                    assert made.status is not None
                    assert made.status.st_uid == owner

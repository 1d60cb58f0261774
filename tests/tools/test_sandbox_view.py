"""What a program sees of the machine: tools, and none of their credentials."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.config.sections import SandboxSettings
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.processes import Command
from callboard.tools.sandbox.box.recipe import FILES, why_no_room
from callboard.tools.sandbox.box.roots import MAX_INSTALLATIONS, find_view
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from support.sandbox.sandbox_users import needs_sandbox

CANARY = "canary-9d1e44"

HIDDEN = (
    ".nvm/versions/node/v20/etc/npmrc",
    ".pyenv/versions/3.12/pip.conf",
    ".volta/tools/image/node/20/lib/node_modules/npm/npmrc",
    ".local/share/uv/tools/thing/.netrc",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with version managers, each with an installation and its credentials."""
    for name in HIDDEN:
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(CANARY)
    for place in (".nvm/versions/node/v20", ".pyenv/versions/3.12"):
        (tmp_path / place / "bin").mkdir()
        (tmp_path / place / "bin" / "tool").write_text("#!/bin/sh\necho tool\n")
        (tmp_path / place / "bin" / "tool").chmod(0o755)
    return tmp_path


async def test_case_43_credentials_of_what_version_managers_keep_read_as_empty(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    needs_sandbox()
    workspace = tmp_path_factory.mktemp("workspace")
    path = f"{home}/.nvm/versions/node/v20/bin:/usr/bin:/bin"
    sandbox = Sandbox(SandboxSettings(), {"HOME": str(home), "PATH": path})
    await sandbox.ready()
    words = [str(home / name) for name in HIDDEN]
    code = 'tool; for file; do cat "$file" && echo "$?"; done'
    command = Command(argv=("sh", "-c", code, "sh", *words), seconds=20)
    ran = await SessionProcesses(sandbox, str(workspace), "s").run(command)
    assert ran.stdout.split() == ["tool", *["0"] * len(HIDDEN)]  # with the control
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("place", "has_room"),
    [
        *((place, False) for place in ("/", "/run", "/run/callboard", "/run/callboard/below")),
        *(
            (place, True)
            for place in ("/run/user", "/run/callboards", "/srv/run/callboard", "/tmp")
        ),
    ],
)
def test_no_workspace_holds_the_sandboxs_own_files(place: str, has_room: bool) -> None:
    assert (why_no_room(place) is None) is has_room


def is_there(path: str) -> bool:
    return os.path.lexists(path)


async def test_a_call_in_run_leaves_no_file_on_the_host(tmp_path: Path) -> None:
    needs_sandbox()
    if is_there(FILES):
        pytest.skip(f"{FILES} is there already")
    sandbox = Sandbox(SandboxSettings())
    await sandbox.ready()
    look = Command(argv=("ls", FILES), seconds=20, files={"given.txt": b"given"})
    with pytest.raises(ToolFailure, match="Nothing was run") as refused:
        await SessionProcesses(sandbox, "/run", "s").run(look)
    assert refused.value.error_type == "sandbox_unavailable"
    ran = await SessionProcesses(sandbox, str(tmp_path), "s").run(look)
    assert ran.stdout.split() == ["given.txt"]
    assert not is_there(FILES)


@pytest.mark.parametrize("size", [0, 1])
async def test_the_largest_file_has_exactly_so_many_bytes(tmp_path: Path, size: int) -> None:
    """By each way to make it longer; with `size` one byte more than it may."""
    needs_sandbox()
    code = f"""
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
most = {SandboxSettings().file_bytes + size}
ways = {{
    "write": lambda fd: os.pwrite(fd, b"ab", most - 2),
    "truncate": lambda fd: os.ftruncate(fd, most),
    "allocate": lambda fd: os.posix_fallocate(fd, most - 2, 2),
}}
for name, way in ways.items():
    fd = os.open("big", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        way(fd)
    except OSError:
        pass
    print(os.fstat(fd).st_size - {SandboxSettings().file_bytes})
"""
    sandbox = Sandbox(SandboxSettings())
    await sandbox.ready()
    ran = await SessionProcesses(sandbox, str(tmp_path), "s").run(
        Command(argv=("python3", "-c", code), seconds=30)
    )
    assert all(int(line) <= 0 for line in ran.stdout.split()), ran.stdout
    assert len(ran.stdout.split()) == 3
    assert size or set(ran.stdout.split()) == {"0"}


def test_the_search_for_them_ends(tmp_path: Path) -> None:
    for number in range(MAX_INSTALLATIONS + 10):
        (tmp_path / ".pyenv" / "versions" / f"{number:04}" / "bin").mkdir(parents=True)
        (tmp_path / ".pyenv" / "versions" / f"{number:04}" / "pip.conf").write_text("")
    view = find_view({"HOME": str(tmp_path), "PATH": "/usr/bin"})
    found = [path for path in view.masked if str(tmp_path) in path]
    assert len(found) == MAX_INSTALLATIONS - 1  # and the root of them
    assert str(tmp_path / ".pyenv" / "versions") in view.shown


@pytest.mark.parametrize("folder", ["/opt", "/srv", "/mnt"])
def test_no_folder_of_everything_is_shown_for_programs_right_below_it(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {folder, f"{folder}/bin"}
    is_dir = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: path in there or is_dir(path))
    environ = {"HOME": str(tmp_path), "PATH": f"{folder}/bin:/usr/bin"}
    shown = find_view(environ).shown
    assert f"{folder}/bin" in shown
    assert folder not in shown


def test_of_an_application_only_its_programs_are_shown(tmp_path: Path) -> None:
    for name in ("app", "node"):
        (tmp_path / name / "bin").mkdir(parents=True)
    (tmp_path / "node" / "lib" / "node_modules").mkdir(parents=True)
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/app/bin:{tmp_path}/node/bin:/usr/bin"}
    shown = find_view(environ).shown
    assert {f"{tmp_path}/app/bin", f"{tmp_path}/node"} <= set(shown)
    assert f"{tmp_path}/app" not in shown

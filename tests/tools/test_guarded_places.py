"""Hooks that settings name, callboard's own code and the parts of a repository, to file tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.config.sections import SandboxSettings
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.errors import ValidationError
from callboard.runtime.processes import Command
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.session_processes import SessionProcesses
from callboard.tools.workspace.protected_places import (
    MAX_FILES,
    HeldPlaces,
    own_code,
    paths_in_settings,
)
from callboard.tools.workspace.workspace import Workspace, open_workspace
from support.sandbox.sandbox_users import needs_sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    (place / ".git").mkdir(parents=True)
    return place


@pytest.fixture
def own_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """callboard as it is when it is installed in the project's own environment."""
    place = folder / ".venv"
    (place / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(place))
    own_code.cache_clear()
    yield place
    own_code.cache_clear()


def put(workspace: Workspace, path: str) -> bool:
    try:
        workspace.write(path, b"x", replace=True, create_dirs=True)
    except ToolFailure as failure:
        if failure.error_type is not ErrorType.PATH_NOT_ALLOWED:
            raise
        return False
    return True


def test_case_70_hooks_that_settings_name_are_not_written_or_moved(folder: Path) -> None:
    settings = "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../shared.cfg\n"
    (folder / ".git" / "config").write_text(settings)
    (folder / "tools").mkdir()
    with open_workspace(folder) as workspace:
        bad = ["tools/hooks/pre-commit", "TOOLS/hooks/pre-commit", "shared.cfg"]
        assert [path for path in bad if put(workspace, path)] == []
        assert put(workspace, "tools/other")
        assert put(workspace, "made/hooks/pre-commit")
        for act in (
            lambda: workspace.move("tools", "aside", overwrite=False),
            lambda: workspace.delete("tools", recursive=True),
        ):
            with pytest.raises(ToolFailure, match="not allowed"):
                act()
        (folder / ".git" / "config").write_text("[core]\n\thooksPath = made/elsewhere/hooks\n")
        (folder / "tools" / "hooks").mkdir()
        with pytest.raises(ToolFailure, match="not allowed"):
            workspace.move("tools", "made/elsewhere", overwrite=False)
        workspace.move("tools", "made/fine", overwrite=False)  # the control


def test_case_70_what_is_missing_of_a_repository_is_not_made(folder: Path) -> None:
    for name in ("HEAD", "config"):
        (folder / name).write_text("")
    (folder / "objects").mkdir()
    with open_workspace(folder) as workspace:
        assert not put(workspace, "refs/heads/main")
        assert put(workspace, "below/refs/heads/main")
        (folder / "HEAD").unlink()
        assert put(workspace, "refs/heads/main")  # the control: now something else is missing
        assert not put(workspace, "HEAD")
    (folder / "HEAD").write_text("")
    with pytest.raises(ValidationError, match="a git repository's own folder"):
        open_workspace(folder)


async def test_case_70_own_code_is_written_by_nobody(folder: Path, own_environment: Path) -> None:
    with open_workspace(folder) as workspace:
        assert not put(workspace, ".venv/lib/callboard.pth")
        assert put(workspace, "venv/lib/callboard.pth")
    with pytest.raises(ValidationError, match="callboard itself runs from there"):
        open_workspace(own_environment / "lib")
    needs_sandbox()
    sandbox = Sandbox(SandboxSettings(), os.environ)
    await sandbox.ready()
    code = "touch .venv/lib/x; mv .venv aside; touch fine; ls .venv"
    command = Command(argv=("sh", "-c", code), seconds=20)
    ran = await SessionProcesses(sandbox, str(folder), "s").run(command)
    assert ran.stdout == "lib\n"
    assert list((own_environment / "lib").iterdir()) == []
    assert (folder / "fine").exists()


def test_settings_are_read_as_git_reads_them(folder: Path) -> None:
    config = folder / ".git" / "config"
    for text, wanted in {
        "[core]\nhookspath=a/b": ["a/b"],
        '[CORE] hooksPath = "a \\"b" # x': ['a "b'],
        "[core]\n\thooksPath = .husky/_ ; x": [".husky"],
        "[core]\n\thooksPath = /elsewhere": [],
        "[core]\n\thooksPath = ../outside": [],
        "[remote]\n\thooksPath = a": [],
        '[includeIf "gitdir:~/x"]\n\tpath = ../y': ["y"],
        "# [core]\n;hooksPath = a": [],
        "": [],
    }.items():
        config.write_text(text)
        assert paths_in_settings(str(folder)) == tuple(str(folder / each) for each in wanted), text


def test_settings_that_include_themselves_or_are_no_file_end(folder: Path) -> None:
    config = folder / ".git" / "config"
    config.write_text("[include]\n\tpath = config\n\tpath = ../other\n")
    (folder / "other").write_text("[core]\n\thooksPath = hooks\n[include]\n\tpath = other\n")
    found = paths_in_settings(str(folder))
    assert set(found) == {str(folder / name) for name in (".git/config", "other", "hooks")}
    assert len(found) < MAX_FILES
    config.unlink()
    os.mkfifo(config)
    assert paths_in_settings(str(folder)) == ()


def test_case_24_a_path_that_leads_elsewhere_later_is_refused() -> None:
    held = HeldPlaces()
    held.check("/a", "/a")
    held.check("/b", "/real/b")
    held.check("/b", "/real/b")
    with pytest.raises(ValidationError, match="leads to /private now"):
        held.check("/a", "/private")

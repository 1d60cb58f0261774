"""What the sandbox of one program puts into a workspace, nobody else sees: it is nobody's work."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from callboard.providers.testing.script import reply
from callboard.runtime.errors import ValidationError
from callboard.runtime.events import CallFinished, CallProgress
from callboard.tools.sandbox.box.protected import Protection
from callboard.tools.sandbox.changes.scan import written_since
from callboard.tools.workspace.workspace import open_workspace
from support.sandbox.sandbox_scenes import make_repository
from support.stage import make_workspace, open_in, read_result, results

KINDS = ["plain", "repository"]


@pytest.fixture
def work(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A workspace: a plain folder, or a repository whose settings name what is not there."""
    work = make_workspace(tmp_path)
    (work / "own.txt").write_text("own\n")
    if request.param == "repository":
        make_repository(work)
        config = work / ".git" / "config"
        config.write_text(f"{config.read_text()}[core]\n\thooksPath = tool-hooks\n")
    return work


def stubs_in(work: Path) -> set[str]:
    return {path.name for path in work.iterdir()} - {"own.txt", ".git", "go", "made"}


def untimed(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the times of folders, which change with all that comes and goes in them."""
    for each in found:
        for entry in each["result"].get("entries", ()):
            del entry["modified"]
    return found


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("work", KINDS, indirect=True)
async def test_a_neighbour_that_ends_meanwhile_is_no_change_of_the_program(
    tmp_path: Path, work: Path
) -> None:
    neighbour = Protection(str(work))  # of another runtime's sandbox
    assert len(stubs_in(work)) > 10  # the control: they are there
    code = "touch made; echo on; while [ ! -e go ]; do sleep 0.01; done"
    steps = [reply(calls=[("run_code", {"language": "bash", "code": code})]), reply("Done.")]
    async with open_in(tmp_path, steps, on_approval="allow") as runtime:
        session = await runtime.create_session()
        found: dict[str, Any] = {}
        async with session.prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    neighbour.close()
                    (work / "go").touch()
                elif isinstance(event, CallFinished):
                    found = read_result(event)["result"]
    assert stubs_in(work) == set()
    assert found["changed"] == {"created": ["go", "made"]}
    assert found.get("not_undoable", []) in (
        [],
        ["the workspace is no git repository, so that what programs change is not kept"],
    )


@pytest.mark.parametrize("work", KINDS, indirect=True)
async def test_file_tools_list_and_find_only_what_is_somebodys(tmp_path: Path, work: Path) -> None:
    calls: list[tuple[str, Any]] = [
        ("list_directory", {"path": ".", "include_hidden": True}),
        ("search_files", {"pattern": "own"}),
        ("list_directory", {"path": "below", "include_hidden": True, "recursive": True}),
    ]
    below = work / "below"
    below.mkdir()
    (below / "refs").mkdir()  # somebody's: it may be written
    before = untimed(await results(tmp_path, *calls))
    around, within = Protection(str(work)), Protection(str(below))
    try:
        assert len(os.listdir(below)) > 10  # the control
        assert untimed(await results(tmp_path, *calls)) == before
        with open_workspace(work) as files:
            hidden = [name for name in stubs_in(work) - {"below"} if files.find(name) is None]
            assert len(hidden) > 10
            assert files.find("below/refs") is not None
    finally:
        within.close()
        around.close()
    assert stubs_in(work) == {"below"}


@pytest.mark.parametrize("work", KINDS, indirect=True)
def test_no_mark_of_untrusted_content_is_put_on_them(work: Path) -> None:
    began = time.time_ns()
    os.utime(work / "own.txt")
    neighbour = Protection(str(work))
    try:
        found = written_since(str(work), began)
    finally:
        neighbour.close()
    assert found is not None
    assert {*found.files} - {".git"} == {"own.txt"}
    assert found.folders == ()


def test_they_make_no_repository_of_a_folder(tmp_path: Path) -> None:
    work = make_workspace(tmp_path)
    for name in ("objects", "refs"):
        (work / name).mkdir()
    neighbour = Protection(str(work))  # HEAD is missing, and held by a stub
    try:
        assert (work / "HEAD").is_dir()
        open_workspace(work).close()
        (work / "HEAD").rmdir()
        (work / "HEAD").write_text("ref: refs/heads/main\n")
        with pytest.raises(ValidationError, match="git repository's own folder"):
            open_workspace(work)
    finally:
        neighbour.close()

"""The cases of paths that a tool alone does not show: out by a folder's link, devices, very many
entries, kills between two steps, and names in `/tmp` that somebody else made first."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard.runtime.definitions import ToolFailure
from callboard.tools.workspace.workspace import Workspace
from support.environment import SUPPORT, finds_support
from support.tools.leftovers import nothing_left
from support.tools.path_scenes import ENTRIES
from support.tools.workbench import Caller, text_of

_nothing_left = nothing_left

SCENES = SUPPORT / "tools" / "path_scenes.py"
BAD = "path_not_allowed"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device or a mount")


def played(scene: str, folder: Path, *arguments: str) -> Any:
    """What a scene of `path_scenes` found, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, str(SCENES), scene, str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=finds_support(),
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


async def test_case_02_a_sibling_whose_name_begins_alike_is_outside(
    caller: Caller, folder: Path
) -> None:
    twin = folder.with_name(f"{folder.name}-twin")
    twin.mkdir()
    (twin / "k").write_text("canary")
    (folder / "k").write_text("mine")
    for path in (f"../{twin.name}/k", f"{twin}/k", f"{folder}/../{twin.name}/k", f"{folder}-twin"):
        assert await caller.error_type("read_file", path=path) == BAD
    for path in ("k", f"{folder}/k", f"{folder}/../{folder.name}/k", f"/..//{folder}/./k"):
        assert (await caller.output("read_file", path=path))["content"] == "mine"


@pytest.mark.parametrize("target", ["{out}", "..", "inner/up/up"])
async def test_case_03_04_nothing_is_removed_or_moved_through_a_folders_link(
    caller: Caller, folder: Path, outside: Path, target: str
) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "up").symlink_to("..")
    (folder / "inner" / "mine").write_text("mine")
    (folder / "d").symlink_to(target.format(out=outside.parent))
    if target == "inner/up/up":
        (folder / "up").symlink_to("..")  # a chain, of which each link alone stays inside
    there = f"d/{outside.name}"
    assert await caller.error_type("delete_file", path=there) == BAD
    assert await caller.error_type("move_file", **{"from": there, "to": "got"}) == BAD
    for overwrite in (False, True):
        moved = {"from": "inner/mine", "to": there, "overwrite": overwrite}
        assert await caller.error_type("move_file", **moved) == BAD
    assert await caller.error_type("write_file", path="d/new/f", content="x") == BAD
    assert text_of(outside) == "canary"
    assert sorted(os.listdir(outside.parent)) == [folder.name, outside.name]
    (folder / "e").symlink_to("inner")
    await caller.result("move_file", **{"from": "e/mine", "to": "e/moved"})
    await caller.result("delete_file", path="e/moved")
    assert os.listdir(folder / "inner") == ["up"]


@needs_root
@pytest.mark.parametrize(("major", "minor"), [(1, 5), (1, 3), (5, 0), (240, 77)])
async def test_case_09_a_device_is_neither_read_nor_written(
    caller: Caller, folder: Path, major: int, minor: int
) -> None:
    """Those of `zero`, `null`, a terminal, and one that nobody drives."""
    try:
        os.mknod(folder / "d", stat.S_IFCHR | 0o666, os.makedev(major, minor))
    except PermissionError:
        pytest.skip("this container lets nobody make a device")
    edits = [{"old_text": "a", "new_text": "b"}]
    assert await caller.error_type("read_file", path="d") in {"not_a_file", "access_denied"}
    assert await caller.error_type("write_file", path="d", content="x") == "not_a_file"
    for tool, more in (
        ("write_file", {"content": "x", "mode": "append"}),
        ("edit_file", {"edits": edits}),
    ):
        assert await caller.error_type(tool, path="d", **more) in {"not_a_file", "access_denied"}
    assert (await caller.output("search_files", pattern="."))["matches"] == []
    listed = await caller.output("list_directory", path=".")
    assert [entry["type"] for entry in listed["entries"]] == ["other"]
    (folder / "f").write_text("plain")
    assert (await caller.output("read_file", path="f"))["content"] == "plain"


def test_case_10_of_very_many_entries_a_bounded_part_is_held(tmp_path: Path) -> None:
    """200,000 of them in `make soak`, else a quarter; what is held is the same."""
    found = played("crowd", tmp_path)
    assert found["listed"] == [1_000, True, ENTRIES, "f000000"]
    assert found["searched"] == [True, ["f000007"]]
    assert found["deleted"] == "not_empty"
    assert found["read"] == "file_too_large"
    assert found["rise_kib"] < 20 * 1024
    # The control of the measure: who holds what the folder has, all of it, sees it.
    assert found["control_kib"] > 20 * 1024


def test_case_13_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """Killed at every step that a write makes to the disk, one after the other."""
    found = played("kills", tmp_path)
    assert len(found) > 6
    contents = [content for content, _, _ in found]
    assert set(contents) == {"old" * 1000, "new" * 1000}
    assert contents == sorted(contents, reverse=True)  # once it is new, it stays so
    assert {left for _, left, _ in found} == {0, 1}
    assert all(names == ["f"] for _, _, names in found)


def test_case_14_nothing_in_a_folder_of_everybodys_has_a_name_that_can_be_guessed(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    found = played("day", tmp_path / "day", str(shared))
    assert found["statuses"] == ["success"] * len(found["statuses"])
    assert found["control"]
    # What is made there is made by `tempfile`: no name is chosen that is there, none is guessed.
    assert {stat.S_IMODE(mode) for mode in found["modes"]} <= {0o700}
    assert found["named"] == []
    assert os.listdir(shared) == []


@needs_root
def test_what_is_mounted_in_a_workspace_is_out_of_reach(tmp_path: Path) -> None:
    """A folder of the same disk, one file of it, and `/proc`: seen and never entered."""
    ran = subprocess.run(
        ["unshare", "-m", sys.executable, str(SCENES), "mounts", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=finds_support(),
    )
    if "may not mount" in ran.stderr:
        pytest.skip("this container lets nobody mount")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["canary"] == "canary"
    assert len(found["entered"]) == 12
    assert {outcome for _, _, outcome in found["entered"]} == {BAD}
    assert found["removed"] == [BAD, True]
    assert found["control"] == "plain"
    assert found["listed"] == ["disk", "file", "plain", "proc"]


NAMES = [
    *(".GIT/hooks/x", ".git/HOOKS/x", ".Git/Config", ".git./config", ".git /hooks/x"),
    *(".CallBoard/x", ".callboard./x", "CALLBOARD.TOML", "callboard.toml.", "callboard.toml "),
    *("a/../.git/config", "./.git//hooks/./x", ".git/x/../config", "sub/.git/modules/m/hooks/x"),
    *(".git/hook\u017f/x", ".callboar\uff44/x/../../.callboard/x"),
]


@pytest.mark.parametrize("path", NAMES)
async def test_no_spelling_of_a_protected_name_is_written(
    caller: Caller, folder: Path, path: str
) -> None:
    assert await caller.error_type("write_file", path=path, content="x") == BAD
    (folder / "f").write_text("x")
    assert await caller.error_type("move_file", **{"from": "f", "to": path}) in {
        BAD,
        "file_not_found",
    }
    assert os.listdir(folder) == ["f"]


@pytest.mark.parametrize("path", [".git/hooks/x", "a/.git/config", "a/.git"])
async def test_a_repository_under_another_name_is_one(
    caller: Caller, folder: Path, path: str
) -> None:
    for place in (folder, folder / "a"):
        (place / "elsewhere" / "hooks").mkdir(parents=True)
        (place / ".git").symlink_to("elsewhere")
    (folder / "f").write_text("x")
    assert await caller.error_type("write_file", path=path, content="x") == BAD
    assert await caller.error_type("move_file", **{"from": "f", "to": path}) == BAD
    assert await caller.error_type("delete_file", path=path) == BAD
    assert os.listdir(folder / "elsewhere" / "hooks") == []
    assert (folder / "a" / ".git").is_symlink()
    await caller.result("write_file", path=".git/notes", content="x")
    assert (folder / "elsewhere" / "notes").read_text() == "x"


@pytest.mark.parametrize("hidden", ["\u206a", "\u206f", "\u00ad", "\ufff9", "\U000e0041", "\u180e"])
async def test_a_protected_name_with_what_some_file_systems_ignore_is_not_written(
    workspace: Workspace, folder: Path, hidden: str
) -> None:
    for path in (f".g{hidden}it/config", f"{hidden}callboard.toml"):
        with pytest.raises(ToolFailure) as caught:
            workspace.write(path, b"x", replace=True, create_dirs=True)
        assert caught.value.error_type == "validation_error"
        assert hidden not in str(caught.value)
    assert os.listdir(folder) == []

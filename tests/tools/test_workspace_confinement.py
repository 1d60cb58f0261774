"""File tools never leave the workspace: the cases of the security design, with their controls."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.runtime.definitions import ToolFailure
from callboard.tools.sandbox.box.protected import AT_TOP
from callboard.tools.workspace.workspace import Workspace
from support.tools.workbench import Caller, text_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device or a mount")

BAD = "path_not_allowed"
ROUNDS = 50_000 if os.environ.get("CALLBOARD_SOAK") else 1_500

ToolUse = tuple[str, dict[str, Any]]

READ: ToolUse = ("read_file", {})
LIST: ToolUse = ("list_directory", {})
SEARCH: ToolUse = ("search_files", {"pattern": "canary"})
WRITE: ToolUse = ("write_file", {"content": "x"})
APPEND: ToolUse = ("write_file", {"content": "x", "mode": "append"})
EDIT: ToolUse = ("edit_file", {"edits": [{"old_text": "canary", "new_text": "x"}]})
DELETE: ToolUse = ("delete_file", {})
EVERY_TOOL = [READ, LIST, SEARCH, WRITE, APPEND, EDIT, DELETE]
THROUGH_LINKS = [READ, WRITE, APPEND, EDIT]


async def error_of(caller: Caller, tool: ToolUse, path: str) -> str:
    return await caller.error_type(tool[0], path=path, **tool[1])


@pytest.mark.parametrize("tool", EVERY_TOOL)
@pytest.mark.parametrize(
    "path", ["../workspace-secret", "a/../../workspace-secret", "{out}", "{out}/x", "{root}-secret"]
)
async def test_case_01_02_paths_that_lead_out_are_refused_alike_whether_they_exist_or_not(
    caller: Caller, folder: Path, outside: Path, tool: ToolUse, path: str
) -> None:
    path = path.format(out=outside, root=folder)
    present = await caller.failure(tool[0], path=path, **tool[1])
    missing = await caller.failure(tool[0], path=path + "0", **tool[1])
    assert present.error_type == missing.error_type == BAD
    assert str(present).removeprefix(path) == str(missing).removeprefix(path + "0")
    assert present.details == missing.details == {}
    assert text_of(outside) == "canary"


@pytest.mark.parametrize("end", ["from", "to"])
async def test_case_01_nothing_is_moved_out_or_in(
    caller: Caller, folder: Path, outside: Path, end: str
) -> None:
    (folder / "mine").write_text("mine")
    ends = {"from": "mine", "to": "other", end: f"../{outside.name}"}
    assert await caller.error_type("move_file", **ends, overwrite=True) == BAD
    assert text_of(outside) == "canary"
    assert (folder / "mine").read_text() == "mine"
    await caller.result("move_file", **{"from": "mine", "to": "other"})


async def test_absolute_paths_inside_work(caller: Caller, folder: Path) -> None:
    await caller.result("write_file", path=f"{folder}/a/b", content="hello")
    assert (await caller.output("read_file", path=f"{folder}/a/b"))["content"] == "hello"


@pytest.mark.parametrize("tool", THROUGH_LINKS)
@pytest.mark.parametrize(
    ("links", "path"),
    [
        ({"l": "{out}"}, "l"),
        ({"l": "../workspace-secret"}, "l"),
        ({"l": "m", "m": "n", "n": "{out}"}, "l"),
        ({"d": ".."}, "d/workspace-secret"),
        ({"d": "{up}"}, "d/workspace-secret"),
        ({"l": "/proc/self/root{out}"}, "l"),
        ({"l": "/proc/self/cwd/x"}, "l"),
        ({"l": "/dev/fd/0"}, "l"),
        ({"l": "l"}, "l"),
    ],
)
async def test_case_03_04_07_links_that_lead_out_are_refused(
    caller: Caller, folder: Path, outside: Path, tool: ToolUse, links: dict[str, str], path: str
) -> None:
    for name, target in links.items():
        (folder / name).symlink_to(target.format(out=outside, up=outside.parent))
    assert await error_of(caller, tool, path) == BAD
    assert text_of(outside) == "canary"
    assert set(os.listdir(outside.parent)) == {"workspace", "workspace-secret"}


async def test_case_04_a_directory_link_that_leads_out_is_not_listed_nor_searched(
    caller: Caller, folder: Path, outside: Path
) -> None:
    (folder / "d").symlink_to(outside.parent)
    (folder / "inner").mkdir()
    (folder / "inner" / "f").write_text("canary")
    (folder / "e").symlink_to("inner")
    assert await error_of(caller, LIST, "d") == BAD
    assert await error_of(caller, SEARCH, "d") == BAD
    listed = await caller.output("list_directory", path=".", recursive=True)
    assert [entry["name"] for entry in listed["entries"]] == ["d", "e", "inner", "inner/f"]
    found = await caller.output("search_files", pattern="canary")
    assert [match["file"] for match in found["matches"]] == ["inner/f"]
    assert [e["name"] for e in (await caller.output("list_directory", path="e"))["entries"]] == [
        "f"
    ]


async def test_case_05_links_inside_are_followed(caller: Caller, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real" / "f").write_text("old")
    (folder / "l").symlink_to("real/f")
    (folder / "deep").mkdir()
    (folder / "deep" / "up").symlink_to("../real")
    assert (await caller.output("read_file", path="l"))["content"] == "old"
    assert (await caller.output("read_file", path="deep/up/f"))["content"] == "old"
    written = await caller.output("write_file", path="l", content="new")
    assert written["path"] == "real/f"
    assert (folder / "l").is_symlink()
    assert (folder / "real" / "f").read_text() == "new"
    edits = [{"old_text": "new", "new_text": "newer"}]
    await caller.result("edit_file", path="deep/up/f", edits=edits)
    assert (folder / "real" / "f").read_text() == "newer"


async def test_case_03_deleting_and_moving_a_link_touches_the_link_only(
    caller: Caller, folder: Path, outside: Path
) -> None:
    (folder / "l").symlink_to(outside)
    await caller.result("move_file", **{"from": "l", "to": "m"})
    assert (folder / "m").is_symlink()
    assert (await caller.output("delete_file", path="m"))["deleted"] == ["m"]
    assert os.listdir(folder) == []
    assert text_of(outside) == "canary"


async def test_removing_a_tree_does_not_follow_links(
    caller: Caller, folder: Path, outside: Path
) -> None:
    (folder / "t" / "u").mkdir(parents=True)
    (folder / "t" / "out").symlink_to(outside.parent)
    (folder / "t" / "u" / "f").write_text("x")
    deleted = await caller.output("delete_file", path="t", recursive=True)
    assert deleted["deleted"] == ["t/out", "t/u", "t/u/f", "t"]
    assert not (folder / "t").exists()
    assert text_of(outside) == "canary"


async def test_a_link_to_nothing_is_not_written_through(caller: Caller, folder: Path) -> None:
    (folder / "l").symlink_to("nothing")
    assert await error_of(caller, WRITE, "l") == "file_not_found"
    assert await error_of(caller, APPEND, "l") == "file_not_found"
    assert os.listdir(folder) == ["l"]


@pytest.mark.parametrize("tool", [WRITE, APPEND, EDIT, DELETE])
@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/x",
        ".callboard/x",
        "callboard.toml",
        "start/.bashrc",
        "start/.envrc",
        ".gitconfig",
    ],
)
async def test_protected_names_can_be_read_and_not_written(
    caller: Caller, folder: Path, tool: ToolUse, path: str
) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text("canary")
    (folder / "alias").symlink_to(Path(path).parent)
    through = f"alias/{Path(path).name}"
    assert await error_of(caller, tool, path) == BAD
    assert await error_of(caller, tool, through) == BAD
    assert (folder / path).read_text() == "canary"
    assert (await caller.output("read_file", path=path))["content"] == "canary"
    await caller.result("write_file", path="notes/config", content="x")


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        ".git/hooks",
        "sub/.git",
        ".callboard",
        "callboard.toml",
        ".bashrc",
        "sub/.envrc",
        *(name for name in AT_TOP if name not in {".bashrc", ".callboard", "callboard.toml"}),
    ],
)
async def test_protected_names_are_not_made_moved_nor_replaced(
    caller: Caller, folder: Path, path: str
) -> None:
    (folder / "sub").mkdir()
    (folder / "evil").mkdir()
    (folder / "evil" / "config").write_text("x")
    (folder / path).parent.mkdir(exist_ok=True)
    assert await caller.error_type("move_file", **{"from": "evil", "to": path}) == BAD
    assert await caller.error_type("write_file", path=f"{path}/config", content="x") == BAD
    assert not (folder / path).exists()
    (folder / path).mkdir()
    assert await caller.error_type("move_file", **{"from": path, "to": "elsewhere"}) == BAD
    assert await caller.error_type("delete_file", path=path, recursive=True) == BAD
    assert (folder / path).exists()
    await caller.result("move_file", **{"from": "evil", "to": "good"})


async def test_a_folder_is_not_moved_into_a_repository(caller: Caller, folder: Path) -> None:
    (folder / ".git" / "modules").mkdir(parents=True)
    (folder / "evil").mkdir()
    assert await caller.error_type("move_file", **{"from": "evil", "to": ".git/modules/m"}) == BAD
    (folder / "packed-refs").write_text("x")
    await caller.result("move_file", **{"from": "packed-refs", "to": ".git/packed-refs"})


async def test_a_tree_that_holds_a_protected_name_is_not_removed(
    caller: Caller, folder: Path
) -> None:
    (folder / "t" / ".git" / "hooks").mkdir(parents=True)
    (folder / "t" / "f").write_text("x")
    assert await caller.error_type("delete_file", path="t", recursive=True) == BAD
    assert (folder / "t" / "f").exists()


async def test_a_tree_that_holds_a_start_up_file_is_removed(caller: Caller, folder: Path) -> None:
    (folder / "t" / "sub").mkdir(parents=True)
    (folder / "t" / "sub" / ".envrc").write_text("x")
    assert await caller.error_type("delete_file", path="t/sub/.envrc") == BAD
    await caller.result("delete_file", path="t", recursive=True)
    assert not (folder / "t").exists()


@pytest.mark.parametrize("tool", [WRITE, APPEND, EDIT])
async def test_case_08_a_file_with_a_second_name_is_not_written(
    caller: Caller, folder: Path, outside: Path, tool: ToolUse
) -> None:
    os.link(outside, folder / "h")
    failure = await caller.failure(tool[0], path="h", **tool[1])
    assert failure.error_type == "access_denied"
    assert "hard links" in str(failure)
    assert text_of(outside) == "canary"
    assert (await caller.output("read_file", path="h"))["content"] == "canary"
    os.unlink(outside)
    await caller.result(tool[0], path="h", **tool[1])


@pytest.mark.parametrize("tool", [READ, WRITE, APPEND, EDIT])
@pytest.mark.parametrize("kind", ["fifo", "socket", pytest.param("device", marks=needs_root)])
async def test_case_09_what_is_no_regular_file_neither_blocks_nor_opens(
    caller: Caller, folder: Path, tool: ToolUse, kind: str
) -> None:
    if kind == "fifo":
        os.mkfifo(folder / "f")
    elif kind == "device":
        try:
            os.mknod(folder / "f", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            pytest.skip("this container lets nobody make a device")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            here = os.open(folder, os.O_RDONLY)
            # A socket's path is short; the folder's may not be.
            listener.bind(f"/proc/self/fd/{here}/f")
            os.close(here)
    assert await error_of(caller, tool, "f") == "not_a_file"
    listed = await caller.output("list_directory", path=".")
    assert listed["entries"][0]["type"] == "other"
    found = await caller.output("search_files", pattern="x")
    assert found["matches"] == []
    (folder / "file").write_text("text")
    for source, target in (("f", "g"), ("file", "f")):
        words = {"from": source, "to": target, "overwrite": True}
        assert await caller.error_type("move_file", **words) == "not_a_file"
    await caller.result("move_file", **{"from": "file", "to": "g"})
    await caller.result("delete_file", path="f")  # its name, which opens nothing


async def test_case_09_a_mounted_device_is_out_of_reach(caller: Caller) -> None:
    assert await error_of(caller, READ, "/dev/zero") == BAD


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "\u202egpj.exe", "a\u200bb"])
async def test_case_11_names_that_deceive_are_shown_escaped_and_never_written(
    caller: Caller, folder: Path, name: str
) -> None:
    assert await error_of(caller, WRITE, name) == "validation_error"
    assert await caller.error_type("move_file", **{"from": "x", "to": name}) in {
        "validation_error",
        "file_not_found",
    }
    assert os.listdir(folder) == []
    (folder / name).write_text("text")
    listed = await caller.result("list_directory", path=".")
    read = await caller.result("read_file", path=name)
    found = await caller.result("search_files", glob="*")
    gone = await caller.result("delete_file", path=name)
    shown = listed.output["entries"][0]["name"]
    assert found.output["matches"] == [{"file": shown}]
    assert gone.output["deleted"] == [shown]
    for text in (shown, read.display, gone.display, caller.reason("delete_file", path=name)):
        assert text is not None
        assert text.isprintable()


@pytest.mark.parametrize("tool", EVERY_TOOL)
@pytest.mark.parametrize("path", ["a\0b", "x" * 300, "a\ud800"])
async def test_case_11_what_can_be_no_name_is_refused_by_each_tool(
    caller: Caller, tool: ToolUse, path: str
) -> None:
    failure = await caller.failure(tool[0], path=path, **tool[1])
    assert failure.error_type == "validation_error"
    str(failure).encode()


async def test_case_11_names_that_are_no_text_are_listed_escaped(
    caller: Caller, folder: Path
) -> None:
    (folder / os.fsdecode(b"caf\xe9")).write_text("x")
    listed = await caller.output("list_directory", path=".")
    assert [entry["name"] for entry in listed["entries"]] == ["caf\\udce9"]
    assert (await caller.output("search_files", glob="*"))["matches"] == [{"file": "caf\\udce9"}]


async def test_case_10_a_huge_file_is_paged_not_read(caller: Caller, folder: Path) -> None:
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 5 * 2**30)
    failure = await caller.failure("read_file", path="sparse")
    assert failure.error_type == "file_too_large"
    assert "Read it in pages: offset=0, then offset=next_offset" in str(failure)
    page = await caller.output(
        "read_file", path="sparse", encoding="base64", offset=5 * 2**30 - 3, limit=1000
    )
    assert page["content"] == "AAAA"
    assert "next_offset" not in page
    assert await caller.error_type("edit_file", path="sparse", **EDIT[1]) == "file_too_large"


async def test_a_directory_of_many_entries_is_cut_in_the_order_of_names(
    caller: Caller, folder: Path
) -> None:
    for number in range(5_000):
        (folder / f"f{number:05}").touch()
    listed = await caller.output("list_directory", path=".")
    assert [entry["name"] for entry in listed["entries"]] == [f"f{n:05}" for n in range(1_000)]
    assert listed["truncated"] is True
    assert listed["total"] == 5_000


async def test_a_deep_tree_is_cut_too(caller: Caller, folder: Path) -> None:
    for directory in range(12):
        (folder / f"d{directory:02}").mkdir()
        for number in range(100):
            (folder / f"d{directory:02}" / f"f{number}").touch()
    listed = await caller.output("list_directory", path=".", recursive=True)
    assert len(listed["entries"]) == 1_000
    assert listed["truncated"] is True
    assert "total" not in listed
    names = {entry["name"] for entry in listed["entries"]}
    assert {f"d{directory:02}" for directory in range(12)} <= names


def test_the_folder_may_be_renamed_while_it_is_open(workspace: Workspace, folder: Path) -> None:
    folder.rename(folder.with_name("renamed"))
    workspace.write("a/f", b"x", replace=False, create_dirs=True)
    assert (folder.with_name("renamed") / "a" / "f").read_bytes() == b"x"


SWAPPING = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
first, second = (word.encode() for word in sys.argv[1:])
print("begins", flush=True)
while not libc.renameat2(-100, first, -100, second, 2):  # RENAME_EXCHANGE: both names, in one step
    pass
sys.exit(str(ctypes.get_errno()))
"""


@contextlib.contextmanager
def swapped(first: Path, second: Path) -> Generator[None]:
    """While it is open, an attacker in a process of its own swaps two names without a pause."""
    words = [sys.executable, "-c", SWAPPING, str(first), str(second)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"begins\n"
        try:
            yield
            assert attacker.poll() is None
        finally:
            attacker.kill()


def test_case_06_a_directory_that_is_swapped_for_a_link_never_leads_out(
    workspace: Workspace, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "f").write_text("canary")
    (folder / "d").mkdir()
    (folder / "d" / "f").write_text("mine")
    (folder / "swap").symlink_to(out)
    outcomes: Counter[str] = Counter()
    with swapped(folder / "d", folder / "swap"):
        for turn in range(100 * ROUNDS):
            # On a busy machine the attacker may stand still for a while.
            if turn >= ROUNDS and outcomes["read"] and outcomes[BAD]:
                break
            try:
                content = workspace.read("d/f", limit=100).data
                assert content.startswith(b"mine")
                outcomes["read"] += 1
                workspace.write("d/f", b"mine too", replace=True, create_dirs=False)
                workspace.append("d/f", b"!", create_dirs=True)
                outcomes["written"] += 1
            except ToolFailure as failure:
                outcomes[failure.error_type.value] += 1
        # The control: who looks where a path leads, and then opens it, is led out.
        assert any(read_after_a_look(folder, "d/f") == b"canary" for _ in range(200_000))
    assert (out / "f").read_text() == "canary"
    assert os.listdir(out) == ["f"]
    assert outcomes["read"] > 0
    assert outcomes[BAD] > 0
    assert set(outcomes) <= {"read", "written", BAD, "file_not_found", "not_a_directory"}


def read_after_a_look(folder: Path, path: str) -> bytes:
    with contextlib.suppress(OSError):  # it was swapped in the middle
        if os.path.realpath(folder / path).startswith(f"{folder}/"):
            return (folder / path).read_bytes()
    return b""


segments = st.sampled_from(["..", ".", "a", "b", "l", "m", "workspace", "workspace-secret"])
targets = st.lists(segments, min_size=1, max_size=4).map("/".join)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(links=st.lists(st.tuples(segments, targets), max_size=4), path=targets)
def test_no_path_over_any_links_leaves_the_root(
    workspace: Workspace, folder: Path, outside: Path, links: list[tuple[str, str]], path: str
) -> None:
    for name in os.listdir(folder):
        entry = folder / name
        if entry.is_symlink() or entry.is_file():
            entry.unlink()
        else:
            for inner in entry.iterdir():
                inner.unlink()
            entry.rmdir()
    (folder / "a").mkdir()
    for name, target in links:
        if name not in {".", ".."} and not os.path.lexists(folder / name):
            (folder / name).symlink_to(target)
    with contextlib.suppress(ToolFailure):
        assert workspace.read(path, limit=100).data != b"canary"
    with contextlib.suppress(ToolFailure):
        workspace.write(path, b"mine", replace=True, create_dirs=False)
    assert text_of(outside) == "canary"
    assert set(os.listdir(outside.parent)) == {"workspace", "workspace-secret"}
    assert stat.S_ISREG(outside.lstat().st_mode)

"""Listing, writing, moving and deleting: results, errors and what a person is asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from callboard.runtime.definitions import Artifact, ErrorType, Resource, ToolFailure
from callboard.tools.workspace import workspace as workspace_module
from support.tools.workbench import Caller


async def test_a_listing_is_sorted_and_states_everything(caller: Caller, folder: Path) -> None:
    (folder / "b.txt").write_text("hello")
    (folder / "a").mkdir()
    (folder / "a" / "z").write_text("")
    (folder / "c").symlink_to("b.txt")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x").write_text("")
    os.utime(folder / "b.txt", (0, 1_000_000_000.5))
    result = await caller.result("list_directory", path=".")
    entries = result.output["entries"]
    assert [(entry["name"], entry["type"]) for entry in entries] == [
        ("a", "directory"),
        ("b.txt", "file"),
        ("c", "symlink"),
    ]
    assert entries[1] == {
        "name": "b.txt",
        "type": "file",
        "size": 5,
        "modified": "2001-09-09T01:46:40Z",
    }
    assert result.output["truncated"] is False
    assert result.output["total"] == 3
    assert result.display == "Listed . (entries: 3)"
    everything = await caller.output(
        "list_directory", path=".", recursive=True, include_hidden=True
    )
    assert [entry["name"] for entry in everything["entries"]] == [
        ".hidden",
        ".hidden/x",
        "a",
        "a/z",
        "b.txt",
        "c",
    ]
    visible = await caller.output("list_directory", path=".", recursive=True)
    assert [entry["name"] for entry in visible["entries"]] == ["a", "a/z", "b.txt", "c"]
    below = await caller.output("list_directory", path="a")
    assert [entry["name"] for entry in below["entries"]] == ["z"]


async def test_listing_errors(caller: Caller, folder: Path) -> None:
    (folder / "f").touch()
    assert await caller.error_type("list_directory", path="missing") == "file_not_found"
    assert await caller.error_type("list_directory", path="f") == "not_a_directory"
    assert (await caller.output("list_directory", path=""))["total"] == 1


async def test_a_write_gives_path_size_and_artifact(caller: Caller, folder: Path) -> None:
    result = await caller.result("write_file", path="./a/../b/f.txt", content="grüße\n")
    assert result.output == {"path": "b/f.txt", "size": 8, "bytes_written": 8}
    assert result.display == "Wrote b/f.txt (8 bytes)"
    assert result.artifacts == (Artifact(kind="file", id="b/f.txt", size_bytes=8),)
    assert (folder / "b" / "f.txt").read_bytes() == "grüße\n".encode()
    more = await caller.result("write_file", path="b/f.txt", content="!", mode="append")
    assert more.output == {"path": "b/f.txt", "size": 9, "bytes_written": 1}
    assert more.display == "Appended to b/f.txt (1 byte)"
    await caller.result("write_file", path="b/f.txt", content="")
    assert (folder / "b" / "f.txt").read_bytes() == b""


@pytest.mark.parametrize(
    ("encoding", "content", "expected"),
    [
        ("latin-1", "é", b"\xe9"),
        ("utf-16", "a", b"\xff\xfea\0"),
        ("base64", "AAH/\n", b"\x00\x01\xff"),
    ],
)
async def test_a_write_takes_any_encoding(
    caller: Caller, folder: Path, encoding: str, content: str, expected: bytes
) -> None:
    await caller.result("write_file", path="f", content=content, encoding=encoding)
    assert (folder / "f").read_bytes() == expected


@pytest.mark.parametrize(
    ("encoding", "content", "field"),
    [
        ("latin-1", "€", "content"),
        ("base64", "***", "content"),
        ("base64", "AAA", "content"),
        ("klingon", "x", "encoding"),
        ("rot13", "x", "encoding"),
        ("a\0b", "x", "encoding"),
    ],
)
async def test_what_can_not_be_encoded_is_refused(
    caller: Caller, folder: Path, encoding: str, content: str, field: str
) -> None:
    failure = await caller.failure("write_file", path="f", content=content, encoding=encoding)
    assert failure.error_type == "validation_error"
    assert failure.details["field"] == field
    assert os.listdir(folder) == []


async def test_write_errors(caller: Caller, folder: Path) -> None:
    (folder / "d").mkdir()
    (folder / "f").touch()
    for mode in ("overwrite", "append"):
        write = {"content": "x", "mode": mode}
        assert await caller.error_type("write_file", path="d", **write) == "not_a_file"
        assert await caller.error_type("write_file", path=".", **write) == "not_a_file"
        assert await caller.error_type("write_file", path="f/x", **write) == "not_a_directory"
        assert (
            await caller.error_type("write_file", path="n/x", **write, create_dirs=False)
            == "file_not_found"
        )
        await caller.result("write_file", path=f"d/{mode}", **write, create_dirs=False)
    assert sorted(os.listdir(folder)) == ["d", "f"]


def test_overwriting_asks_and_a_new_file_does_not(caller: Caller, folder: Path) -> None:
    (folder / "notes.md").write_text("twelve bytes")
    (folder / "d").mkdir()
    reason = caller.reason("write_file", path="notes.md", content="x")
    assert reason == "overwrites notes.md (12 bytes)"
    assert caller.reason("write_file", path="notes.md", content="x", mode="append") is None
    assert caller.reason("write_file", path="new.md", content="x") is None
    assert caller.reason("write_file", path="d", content="x") is None
    assert caller.reason("write_file", path="../out", content="x") is None


async def test_a_file_that_appeared_since_the_decision_is_not_replaced(
    caller: Caller, folder: Path
) -> None:
    tool = caller.tool("write_file")
    arguments = tool.decode('{"path": "f", "content": "mine"}')
    context = caller.context(approval_reason=tool.approval_reason(arguments, caller.context()))
    (folder / "f").write_text("theirs")
    with pytest.raises(ToolFailure) as caught:
        await tool.execute(arguments, context)
    assert caught.value.error_type == ErrorType.ALREADY_EXISTS
    assert (folder / "f").read_text() == "theirs"
    await caller.result("write_file", path="f", content="mine")
    assert (folder / "f").read_text() == "mine"


async def test_a_move_renames_and_makes_no_folders(caller: Caller, folder: Path) -> None:
    (folder / "f").write_text("x")
    result = await caller.result("move_file", **{"from": "./f", "to": "g"})
    assert result.output == {"from": "f", "to": "g"}
    assert result.display == "Moved f to g"
    assert os.listdir(folder) == ["g"]
    error = await caller.error_type("move_file", **{"from": "g", "to": "d/g"})
    assert error == "file_not_found"
    assert os.listdir(folder) == ["g"]


async def test_move_errors(caller: Caller, folder: Path) -> None:
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "f").write_text("f")
    (folder / "g").write_text("g")

    async def error(source: str, destination: str, overwrite: bool = False) -> str:
        return await caller.error_type(
            "move_file", **{"from": source, "to": destination, "overwrite": overwrite}
        )

    assert await error("missing", "x") == "file_not_found"
    assert await error("f", "g") == "already_exists"
    assert await error("f", "d") == "already_exists"
    assert await error("f", "d", overwrite=True) == "already_exists"
    assert await error("f", "g/x") == "not_a_directory"
    assert await error("d", "d/e/x") == "validation_error"
    assert await error(".", "x") == "path_not_allowed"
    assert await error("f", ".") == "path_not_allowed"
    assert await error("d", "f", overwrite=True) == "not_a_directory"
    assert (folder / "f").read_text() == "f"
    assert (folder / "g").read_text() == "g"


async def test_a_move_that_overwrites_asks(caller: Caller, folder: Path) -> None:
    (folder / "f").write_text("new")
    (folder / "g").write_text("old")
    move = {"from": "f", "to": "g"}
    assert caller.reason("move_file", **move) is None
    assert caller.reason("move_file", **move, overwrite=True) == "overwrites g (3 bytes)"
    assert caller.reason("move_file", **{"from": "f", "to": "h"}, overwrite=True) is None
    tool = caller.tool("move_file")
    arguments = tool.decode('{"from": "f", "to": "g", "overwrite": true}')
    with pytest.raises(ToolFailure) as caught:
        await tool.execute(arguments, caller.context(approval_reason=None))
    assert caught.value.error_type == ErrorType.ALREADY_EXISTS
    await caller.result("move_file", **move, overwrite=True)
    assert (folder / "g").read_text() == "new"


async def test_deleting_says_what_is_gone(caller: Caller, folder: Path) -> None:
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "d" / "e" / "f").touch()
    (folder / "d" / ".g").touch()
    (folder / "empty").mkdir()
    assert (await caller.output("delete_file", path="empty")) == {"deleted": ["empty"]}
    refused = await caller.failure("delete_file", path="d")
    assert refused.error_type == "not_empty"
    assert "recursive=true" in str(refused)
    result = await caller.result("delete_file", path="d", recursive=True)
    assert result.output == {"deleted": ["d/.g", "d/e", "d/e/f", "d"]}
    assert result.display == "Deleted d and all in it (3)"
    assert os.listdir(folder) == []


async def test_delete_errors(caller: Caller, folder: Path) -> None:
    (folder / "f").touch()
    assert await caller.error_type("delete_file", path="missing") == "file_not_found"
    assert await caller.error_type("delete_file", path="f/x") == "not_a_directory"
    for path in (".", "", "a/.."):
        assert await caller.error_type("delete_file", path=path, recursive=True) == (
            "path_not_allowed"
        )
    assert os.listdir(folder) == ["f"]


async def test_a_tree_too_large_for_one_call_stays_whole(
    caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_module, "MAX_REMOVED_ENTRIES", 1_100)
    (folder / "d").mkdir()
    for number in range(1_101):
        (folder / "d" / str(number)).touch()
    refused = await caller.failure("delete_file", path="d", recursive=True)
    assert refused.error_type == "not_empty"
    assert len(os.listdir(folder / "d")) == 1_101
    (folder / "d" / "0").unlink()
    output = await caller.output("delete_file", path="d", recursive=True)
    assert output["total"] == 1_101
    assert output["truncated"] is True
    assert len(output["deleted"]) == 1_000
    assert output["deleted"][-1] == "d"


def test_deleting_always_asks(caller: Caller) -> None:
    assert caller.reason("delete_file", path="missing") == "deletes missing"
    reason = caller.reason("delete_file", path="d\n", recursive=True)
    assert reason == "deletes d\\n and all that it holds"


def test_resource_keys_are_normalised_paths(caller: Caller) -> None:
    def keys(name: str, **arguments: Any) -> tuple[Resource, ...]:
        tool = caller.tool(name)
        return tool.resources(tool.decode(json.dumps(arguments)))

    assert keys("read_file", path="./a/../b") == (Resource("b", write=False),)
    assert keys("list_directory", path=".") == (Resource("", write=False),)
    assert keys("search_files", pattern="x") == (Resource("", write=False),)
    assert keys("write_file", path="b//c", content="") == (Resource("b/c"),)
    assert keys("write_file", path="/somewhere/b", content="") == (Resource(""),)
    assert keys("move_file", **{"from": "a", "to": "b/c"}) == (Resource("a"), Resource("b/c"))
    assert keys("delete_file", path="d") == (Resource("d"),)
    assert keys("edit_file", path="e", edits=[{"old_text": "a", "new_text": ""}]) == (
        Resource("e"),
    )
    assert keys("read_file", path="../x") == ()

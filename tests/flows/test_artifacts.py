"""What a call has made is named beside its result: files, memories, commits, sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.providers.testing.script import reply
from support.stage import make_workspace, open_in


def made(called: callboard.CalledTool) -> list[tuple[str, str, int]]:
    assert called.status == "success", called.error
    return [(each.kind, each.id, each.size_bytes) for each in called.artifacts]


async def test_files_that_are_written_and_moved(tmp_path: Path) -> None:
    (make_workspace(tmp_path) / "folder").mkdir()
    async with open_in(tmp_path, []) as runtime:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("write_file", {"path": "a.txt", "content": "four"}),
            ("edit_file", {"path": "a.txt", "edits": [{"old_text": "four", "new_text": "eleven"}]}),
            ("move_file", {"from": "a.txt", "to": "new/b.txt"}),
            ("move_file", {"from": "folder", "to": "other"}),
            ("move_file", {"from": "way out", "to": "moved link"}),
            ("move_file", {"from": "way in", "to": "other link"}),
        ]
        (tmp_path / "work" / "way out").symlink_to(tmp_path)
        (tmp_path / "work" / "way in").symlink_to("new")
        (tmp_path / "work" / "new").mkdir()
        found = [made(await runtime.call_tool(name, given)) for name, given in calls]
    assert found == [
        [("file", "a.txt", 4)],
        [("file", "a.txt", 6)],
        [("file", "new/b.txt", 6)],
        [("directory", "other", 0)],
        [("link", "moved link", 0)],
        [("link", "other link", 0)],
    ]


async def test_a_memory(tmp_path: Path) -> None:
    async with open_in(tmp_path, []) as runtime:
        called = await runtime.call_tool("memory_store", {"text": "Grüße", "tags": ["a"]})
    assert made(called) == [("memory", called.output["memory_id"], 7)]


async def test_a_session_that_was_delegated_to(tmp_path: Path) -> None:
    async with open_in(tmp_path, [reply("Found.")]) as runtime:
        called = await runtime.call_tool("delegate", {"kind": "worker", "task": "Look."})
    assert made(called) == [("session", called.output["session_id"], 0)]


@pytest.mark.usefixtures("sandbox")
async def test_files_that_a_program_made_or_changed(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    (workspace / "old.txt").write_text("old")
    (workspace / "gone.txt").write_text("gone")
    code = (
        "mkdir new; printf 12345 > new/a.txt; printf 67 >> old.txt; rm gone.txt; ln -s old.txt link"
    )
    async with open_in(tmp_path, []) as runtime:
        called = await runtime.call_tool("run_code", {"language": "bash", "code": code})
    assert made(called) == [("file", "new/a.txt", 5), ("file", "old.txt", 5)]
    assert called.output["changed"]["deleted"] == ["gone.txt"]

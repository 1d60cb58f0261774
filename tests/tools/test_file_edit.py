"""edit_file: exact, all or nothing, and never over somebody else's change."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import Artifact, ErrorType, ToolFailure
from callboard.tools.files import file_edit, text_diff
from callboard.tools.workspace.workspace import Workspace
from support.tools.workbench import Caller


def edit(old: str, new: str, **count: int) -> dict[str, Any]:
    return {"old_text": old, "new_text": new, **count}


async def test_edits_are_made_in_order_and_shown(caller: Caller, folder: Path) -> None:
    (folder / "f").write_text("one\ntwo\nthree\nfour\nfive\nsix\n")
    result = await caller.result(
        "edit_file", path="./f", edits=[edit("five", "FIVE"), edit("FIVE\nsix", "5\n6\n7")]
    )
    assert (folder / "f").read_text() == "one\ntwo\nthree\nfour\n5\n6\n7\n"
    assert result.output == {
        "path": "f",
        "replacements": 2,
        "diff": ("--- f\n+++ f\n@@ -2,5 +2,6 @@\n two\n three\n four\n-five\n-six\n+5\n+6\n+7\n"),
    }
    assert result.display == "Edited f (2 replacements)"
    assert result.artifacts == (Artifact(kind="file", id="f", size_bytes=25),)


async def test_count_says_how_often_the_text_occurs(caller: Caller, folder: Path) -> None:
    (folder / "f").write_text("a b a\nb a\n")
    failure = await caller.failure("edit_file", path="f", edits=[edit("a", "c")])
    assert failure.error_type == "edit_conflict"
    assert failure.details == {"edit": 0, "found": 3, "lines": [1, 1, 2]}
    assert await caller.error_type("edit_file", path="f", edits=[edit("a", "c", count=4)]) == (
        "edit_conflict"
    )
    result = await caller.output("edit_file", path="f", edits=[edit("a", "c", count=3)])
    assert result["replacements"] == 3
    assert (folder / "f").read_text() == "c b c\nb c\n"


async def test_one_edit_that_does_not_fit_undoes_all(caller: Caller, folder: Path) -> None:
    (folder / "f").write_text("def greet(name):\n    return name\n")
    failure = await caller.failure(
        "edit_file", path="f", edits=[edit("return", "yield"), edit("def greet(nam):", "x")]
    )
    assert failure.error_type == "edit_conflict"
    assert failure.details["edit"] == 1
    assert failure.details["nearest"] == [{"line": 1, "text": "def greet(name):"}]
    assert (folder / "f").read_text() == "def greet(name):\n    return name\n"


async def test_line_ends_are_kept(caller: Caller, folder: Path) -> None:
    (folder / "f").write_bytes(b"a\r\nb\r\nc\r\n")
    await caller.result("edit_file", path="f", edits=[edit("a\nb", "x\ny\nz")])
    assert (folder / "f").read_bytes() == b"x\r\ny\r\nz\r\nc\r\n"
    (folder / "f").write_bytes(b"a\r\nb\nc")
    await caller.result("edit_file", path="f", edits=[edit("b\nc", "d")])
    assert (folder / "f").read_bytes() == b"a\r\nd"


async def test_edit_errors(caller: Caller, folder: Path) -> None:
    (folder / "d").mkdir()
    (folder / "f").write_text("text")
    (folder / "nul").write_bytes(b"text\0")
    (folder / "latin").write_bytes(b"text\xff")
    (folder / "large").write_bytes(b"text" + b" " * file_edit.MAX_EDITED_BYTES)
    edits = [edit("text", "x")]
    expected = {
        "missing": "file_not_found",
        "d": "not_a_file",
        "f/x": "not_a_directory",
        "nul": "binary_file",
        "latin": "binary_file",
        "large": "file_too_large",
    }
    for path, error_type in expected.items():
        assert await caller.error_type("edit_file", path=path, edits=edits) == error_type
    for wrong in ([], [edit("", "x")], [edit("text", "x", count=0)], edits * 101):
        assert await caller.error_type("edit_file", path="f", edits=wrong) == "validation_error"
    assert (folder / "f").read_text() == "text"
    await caller.result("edit_file", path="f", edits=edits)


async def test_a_change_made_meanwhile_is_not_lost(
    caller: Caller, workspace: Workspace, folder: Path
) -> None:
    (folder / "f").write_text("old")

    class Interfering(Workspace):
        """Another program writes just after the edit has read the file."""

        def read(self, path: str, *, offset: int = 0, limit: int) -> Any:
            content = super().read(path, offset=offset, limit=limit)
            (folder / "f").write_text("theirs")
            return content

    tool = caller.tool("edit_file")
    arguments = tool.decode('{"path": "f", "edits": [{"old_text": "old", "new_text": "mine"}]}')
    context = caller.context(files_write=Interfering(workspace.root, workspace.place))
    with pytest.raises(ToolFailure) as caught:
        await tool.execute(arguments, context)
    assert caught.value.error_type == ErrorType.EDIT_CONFLICT
    assert (folder / "f").read_text() == "theirs"
    assert os.listdir(folder) == ["f"]


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=30)


@given(before=lines, after=lines, end=st.sampled_from(["", "z"]))
def test_a_diff_says_what_a_full_comparison_says(
    before: list[str], after: list[str], end: str
) -> None:
    old, new = "".join(before), "".join(after) + end
    text = text_diff.diff(old, new, "f")
    assert (text == "") == (old == new)
    removed = [line[1:] for line in text.splitlines()[2:] if line.startswith("-")]
    added = [line[1:] for line in text.splitlines()[2:] if line.startswith("+")]
    counts = dict.fromkeys({*removed, *added}, 0)
    for line in old.splitlines():
        counts[line] = counts.get(line, 0) + 1
    for line in removed:
        counts[line] -= 1
    for line in added:
        counts[line] += 1
    for line in new.splitlines():
        counts[line] = counts.get(line, 0) - 1
    assert not any(counts.values())


def test_hunks_are_numbered_as_diff_does() -> None:
    old = [f"line {number}\n" for number in range(40)]
    new = [*old[:10], "inserted\n", *old[10:30], *old[31:]]
    expected = "".join(difflib.unified_diff(old, new, "f", "f"))
    assert text_diff.diff("".join(old), "".join(new), "f") == expected


def test_a_diff_that_is_too_large_is_not_made() -> None:
    old = "".join(f"{number}\n" for number in range(3_000))
    new = "".join(f"{number}!\n" for number in range(3_000))
    assert "too many to show" in text_diff.diff(old, new, "f")

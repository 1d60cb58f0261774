"""Previews: what a person sees of a call before they allow it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.definitions import ToolFailure
from callboard.tools.files import preview, text_diff
from callboard.tools.files.preview import bounded, command_line
from callboard.tools.workspace.paths import UNSHOWABLE
from support.tools.workbench import Caller


async def preview_of(caller: Caller, name: str, **arguments: Any) -> str:
    """What the tool shows, with handles that can't write."""
    tool = caller.tool(name)
    context = caller.context(files_write=None)
    said = await tool.preview(tool.decode(json.dumps(arguments)), context)
    assert said is not None
    return said


# ── write_file ───────────────────────────────────────────────────────────────────────────────────


async def test_an_overwritten_file_is_shown_as_a_diff(caller: Caller, folder: Path) -> None:
    (folder / "notes.md").write_text("one\ntwo\nthree\n")
    said = await preview_of(caller, "write_file", path="./notes.md", content="one\n2\nthree\n")
    assert said == (
        "notes.md (14 bytes) is replaced by 12 bytes\n"
        "--- notes.md\n+++ notes.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    )
    assert (folder / "notes.md").read_text() == "one\ntwo\nthree\n"


async def test_appending_shows_what_is_added(caller: Caller, folder: Path) -> None:
    (folder / "log").write_text("a\nb")
    said = await preview_of(caller, "write_file", path="log", content="c\n", mode="append")
    assert said == (
        "log (3 bytes): 2 bytes are added to its end\n"
        "--- log\n+++ log\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+bc\n"
    )


@pytest.mark.parametrize("mode", ["overwrite", "append"])
async def test_a_new_file_is_all_new(caller: Caller, mode: str) -> None:
    said = await preview_of(caller, "write_file", path="a/new", content="x\ny\n", mode=mode)
    assert said == "new file a/new (4 bytes)\n--- /dev/null\n+++ a/new\n@@ -0,0 +1,2 @@\n+x\n+y\n"


async def test_what_is_no_text_is_said_in_words(caller: Caller, folder: Path) -> None:
    (folder / "b").write_bytes(b"\x89PNG\0")
    (folder / "t").write_text("text")
    (folder / "d").mkdir()
    (folder / "wide").write_bytes("zwei\n".encode("utf-16"))
    words = {
        "b": "(no diff: what is there, or what comes, is not text)",
        "t": "(the content stays the same)",
        "d": "d/ (directory) is there: nothing can be written in its place",
    }
    for path, expected in words.items():
        assert (await preview_of(caller, "write_file", path=path, content="text")).endswith(
            expected
        )
    image = await preview_of(caller, "write_file", path="t", content="AAEC", encoding="base64")
    assert image == f"t (4 bytes) is replaced by 3 bytes\n{words['b']}"
    wide = await preview_of(caller, "write_file", path="wide", content="drei\n", encoding="utf-16")
    assert "-zwei\n+drei\n" in wide


async def test_a_large_file_is_not_compared(
    caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "MAX_COMPARED_BYTES", 10)
    (folder / "f").write_text("x" * 11)
    for mode in ("overwrite", "append"):
        said = await preview_of(caller, "write_file", path="f", content="y", mode=mode)
        assert said.endswith("(no diff: a file of more than 10 bytes is not compared)")
    (folder / "f").write_text("x" * 10)
    assert "-xxxxxxxxxx\n" in await preview_of(caller, "write_file", path="f", content="y")


async def test_a_rewrite_of_thousands_of_lines_is_shown_whole(caller: Caller, folder: Path) -> None:
    old = [f"old {number}\n" for number in range(3_000)]
    new = [f"new {number}\n" for number in range(3_000)]
    (folder / "f").write_text("".join(["top\n", *old, "end\n"]))
    content = "".join(["top\n", *new, "end\n"])
    said = await preview_of(caller, "write_file", path="f", content=content)
    body = said.splitlines(keepends=True)[3:]
    assert body[0] == "@@ -1,3002 +1,3002 @@\n"
    assert body[1:] == [" top\n", *(f"-{x}" for x in old), *(f"+{x}" for x in new), " end\n"]


async def test_links_inside_lead_to_their_file_and_those_outside_nowhere(
    caller: Caller, folder: Path, outside: Path
) -> None:
    (folder / "real").write_text("here\n")
    (folder / "ok").symlink_to("real")
    (folder / "out").symlink_to(outside)
    said = await preview_of(caller, "write_file", path="ok", content="there\n")
    assert said.startswith("real (5 bytes) is replaced by 6 bytes\n--- real\n")
    with pytest.raises(ToolFailure) as caught:
        await preview_of(caller, "write_file", path="out", content="x")
    assert caught.value.error_type == "path_not_allowed"
    assert "canary" not in str(caught.value)


# ── the other file tools ─────────────────────────────────────────────────────────────────────────


async def test_edits_are_shown_before_they_are_made(caller: Caller, folder: Path) -> None:
    (folder / "f").write_text("one\ntwo\n")
    edits = [{"old_text": "two", "new_text": "2"}]
    said = await preview_of(caller, "edit_file", path="f", edits=edits)
    assert said == "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert (folder / "f").read_text() == "one\ntwo\n"
    with pytest.raises(ToolFailure, match="not found"):
        await preview_of(
            caller, "edit_file", path="f", edits=[{"old_text": "three", "new_text": ""}]
        )


async def test_a_deletion_lists_what_would_go(
    caller: Caller, folder: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "d" / "sub").mkdir(parents=True)
    (folder / "d" / ".hidden").write_text("12345")
    (folder / "d" / "link").symlink_to(outside)
    (folder / "d" / "sub" / "a\u202eb").write_text("")
    os.mkfifo(folder / "d" / "pipe")
    said = await preview_of(caller, "delete_file", path="d", recursive=True)
    assert said.splitlines() == [
        "d/ (directory) and all that it holds (5)",
        "  d/.hidden (5 bytes)",
        "  d/link (link)",
        "  d/pipe (a FIFO, socket or device)",
        "  d/sub/ (directory)",
        "  d/sub/a\\u202eb (0 bytes)",
    ]
    monkeypatch.setattr(preview, "MAX_NAMED_ENTRIES", 2)
    said = await preview_of(caller, "delete_file", path="d", recursive=True)
    assert said.splitlines()[2:] == ["  d/link (link)", "  (… and 3 more …)"]
    monkeypatch.setattr(preview, "MAX_COUNTED_ENTRIES", 3)
    said = await preview_of(caller, "delete_file", path="d", recursive=True)
    assert said.splitlines()[0].endswith("(more than 3: too many, it is refused)")


async def test_a_deletion_of_one_entry(caller: Caller, folder: Path, outside: Path) -> None:
    (folder / "f").write_text("12")
    (folder / "link").symlink_to(outside)
    (folder / "empty").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "f").write_text("")
    expected = {
        "f": "f (2 bytes)",
        "link": "link (link): the link itself, not what it leads to",
        "empty": "empty/ (directory), which is empty",
        "full": "full/ (directory): refused, it is not empty",
        "missing": "missing: there is nothing to delete",
    }
    for path, said in expected.items():
        assert await preview_of(caller, "delete_file", path=path) == said
    assert sorted(os.listdir(folder)) == ["empty", "f", "full", "link"]


async def test_a_move_shows_what_is_lost(caller: Caller, folder: Path) -> None:
    (folder / "a").write_text("new\n")
    (folder / "b").write_text("old\n")
    (folder / "l").symlink_to("b")

    async def move(source: str, to: str, *, overwrite: bool = True) -> str:
        arguments = {"from": source, "to": to, "overwrite": overwrite}
        return await preview_of(caller, "move_file", **arguments)

    assert await move("a", "b") == (
        "a (4 bytes) becomes b\nb (4 bytes) is lost\n--- b\n+++ b\n@@ -1,1 +1,1 @@\n-old\n+new\n"
    )
    assert await move("a", "l") == "a (4 bytes) becomes l\nl (link) is lost"
    assert await move("a", "c") == "a (4 bytes) becomes c"
    assert await move("a", "b", overwrite=False) == (
        "a (4 bytes) becomes b: refused, b (4 bytes) is there"
    )
    assert await move("x", "b") == "x: there is nothing to move"


# ── http_request ─────────────────────────────────────────────────────────────────────────────────


async def test_a_request_is_shown_without_its_secrets(caller: Caller) -> None:
    said = await preview_of(
        caller,
        "http_request",
        url="https://API.example/items?q=" + "x" * 300,
        method="post",
        headers={
            "Authorization": "Bearer abcdefghijkl",
            "X-Api-Key": "k1",
            "X-Note": "see sk-abcdefghijklmnop",
            "Accept": "text/plain",
        },
        body='{"a": 1}',
    )
    assert said == (
        "POST https://api.example/items?q=" + "x" * 300 + "\n"
        "authorization: *** (19 characters)\n"
        "x-api-key: *** (2 characters)\n"
        "x-note: see ***\n"
        "accept: text/plain\n"
        "content-type: application/json\n"
        '\n{"a": 1}'
    )
    got = await preview_of(caller, "http_request", url="http://a.example")
    assert got == "GET http://a.example"


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def test_a_long_preview_keeps_both_ends_and_says_what_is_left_out() -> None:
    assert bounded("short") == "short"
    whole = "ä" * (preview.MAX_PREVIEW_BYTES // 2)
    assert bounded(whole) == whole
    long = "head " + "ä" * preview.MAX_PREVIEW_BYTES + " tail"
    cut = bounded(long)
    assert len(cut.encode()) < preview.MAX_PREVIEW_BYTES + 100
    assert cut.startswith("head ä")
    assert cut.endswith("ä tail")
    [said] = [line for line in cut.split("\n") if line.startswith("(…")]
    shown = sum(len(line.encode()) for line in cut.split("\n") if line != said)
    assert (
        said
        == f"(… {len(long.encode()) - shown} of {len(long.encode())} bytes are not shown here …)"
    )


# ── diffs of everything ──────────────────────────────────────────────────────────────────────────

lines = st.lists(st.sampled_from(["a\n", "b\r\n", "c\u2028d\n", "\n"]), max_size=12)


@given(before=lines, after=lines, end=st.sampled_from(["", "z"]), is_large=st.booleans())
def test_a_whole_diff_can_be_applied(
    before: list[str], after: list[str], end: str, is_large: bool
) -> None:
    old, new = "".join(before) + end, "".join(after)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_diff, "MAX_DIFF_LINES", 0 if is_large else 2_000)
        text = text_diff.whole_diff(old, new, "f")
    assert (text == "") == (old == new)
    if text:
        assert applied(text, old) == new


def applied(text: str, old: str) -> str:
    """What `patch` would make of it."""
    source = [f"{line}\n" for line in old.split("\n")]
    source[-1] = source[-1][:-1]
    rows = text.split("\n")[2:-1]
    made: list[str] = []
    at = 0
    for row, next_row in pairwise([*rows, ""]):
        mark, line = row[:1], row[1:] + ("" if next_row.startswith("\\") else "\n")
        if mark == "@":
            start, _, count = row.split(" ")[1][1:].partition(",")
            first = int(start) - (1 if int(count) else 0)
            made += source[at:first]
            at = first
        elif mark == "+":
            made.append(line)
        elif mark in {" ", "-"}:
            assert source[at] == line
            at += 1
            made += [line] if mark == " " else []
    return "".join([*made, *source[at:]])


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


def test_a_command_is_shown_as_a_shell_takes_it() -> None:
    assert command_line(["git", "commit", "-m", "two words"]) == "git commit -m 'two words'"
    assert command_line(["echo", "", "a;b"], cwd="my dir") == "(in 'my dir') echo '' 'a;b'"
    odd = ["printf", "a\nb\u202e'\\", "\udcff"]
    assert command_line(odd) == r"printf $'a\nb\u202e\'\\' $'\xff'"


words = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=1
)


@given(argv=words)
def test_no_word_of_a_command_can_pass_for_two(argv: list[str]) -> None:
    line = command_line(argv)
    assert not UNSHOWABLE.search(line)
    if "$'" not in line:
        assert shlex.split(line) == argv


def test_a_shell_reads_the_line_back() -> None:
    argv = ["a b", "it's", "tab\there", "line\nend", "\\n", "bidi\u202e", "$HOME", "*", "`x`"]
    script = f"printf '%s\\0' {command_line(argv)}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode().split("\0")[:-1] == argv

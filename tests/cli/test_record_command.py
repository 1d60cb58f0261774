"""`callboard record` and `callboard run --attach`, as processes before a scripted server."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

import callboard
from callboard.cli.run.attachments import read_attachments
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.errors import NotFoundError, ValidationError
from callboard.runtime.history import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS, Attachment
from support.cli.command import Command, at
from support.cli.command import command as command

PIXEL = b"\x89PNG\r\n\x1a\n not much of an image"


async def test_what_is_recorded_is_played_back_without_a_server(
    command: Command, tmp_path: Path
) -> None:
    steps = [
        reply("I write.", calls=[("write_file", {"path": "a.txt", "content": "hello"})]),
        reply(["Wri", "tten. é"]),
    ]
    async with open_scripted_server(steps) as server:
        done = await command("record", *at(server), "--policy", "auto", "Write it.")
    *_, summary, told = done.err.splitlines()
    assert (done.code, done.complaints, done.out) == (0, [], "Written. é\n")
    assert summary.startswith("answered · ")
    path = command.home / "data" / "recordings" / f"{summary.split()[-1]}.jsonl"
    assert told == f"recorded in {path}"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    (command.workspace / "a.txt").unlink()

    model = callboard.ReplayProvider(path)
    async with callboard.open_runtime(
        model=model, workspace=command.workspace, policy="auto", environ={}, strict=True
    ) as runtime:
        session = await runtime.create_session()
        assert await session.run("Write it.") == "Written. é"
    model.assert_complete()
    assert (command.workspace / "a.txt").read_text() == "hello"


async def test_a_record_of_a_failure_is_told_too_and_of_nothing_is_not(command: Command) -> None:
    async with open_scripted_server([reply("Half of", finish=None)]) as server:
        # --max-tokens is there to show that `record` takes what `run` takes.
        failed = await command("record", *at(server), "--json", "--max-tokens", "9", "Go.")
    [session_id] = {line["session_id"] for line in failed.lines}
    assert failed.code == 1
    assert f"recorded in {command.home}/data/recordings/{session_id}.jsonl" in failed.err
    nothing = await command("record", "--model", "rehearsal", "Hello")
    assert nothing.code == 0
    assert nothing.err.splitlines()[-1].startswith("nothing was recorded: ")
    ran = await command("run", "--model", "rehearsal", "Hello")
    assert "recorded" not in ran.err


async def test_attached_files_reach_the_model_and_the_record(command: Command) -> None:
    (command.workspace / "pixel.png").write_bytes(PIXEL)
    (command.workspace / "notes\x1b.txt").write_text("Remember the milk.")
    async with open_scripted_server([reply("I see.")]) as server:
        files = ("--attach", "pixel.png", "--attach", "notes\x1b.txt")
        done = await command("run", *at(server), *files, "What is it?")
        assert (done.code, done.complaints) == (0, [])
        [message] = [m for m in server.requests[0].body["messages"] if m["role"] == "user"]
    assert base64.b64encode(PIXEL).decode() in str(message["content"])
    assert "Remember the milk." in str(message["content"])
    shown = await command("show", "last")
    assert "*attached: pixel.png (image/png, 29 bytes)*" in shown.out
    assert r"*attached: notes\x1b.txt (text/plain, 18 bytes)*" in shown.out


async def test_a_file_that_can_not_be_attached_is_named_before_anything_begins(
    command: Command,
) -> None:
    async with open_scripted_server([]) as server:
        done = await command("run", *at(server), "--attach", "none.png", "What is it?")
        assert server.requests == []
    assert (done.code, done.out) == (1, "")
    assert done.err == "callboard: There is no file none.png to attach.\n"
    assert not (command.home / "data").exists()


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.png", PIXEL, "image/png"),
        ("a.PNG", PIXEL, "image/png"),
        ("a.jpg", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ("a.pdf", b"%PDF-1.7", "application/pdf"),
        ("a.md", b"# Title", "text/markdown"),
        ("a.csv", b"a,b", "text/csv"),
        ("a.py", b"print()", "text/x-python"),
        ("a.json", b"{}", "application/json"),
        ("a.toml", b"a = 1", "application/toml"),
        ("a.txt.gz", b"\x1f\x8b", "application/octet-stream"),
        ("picture", PIXEL, "image/png"),
        ("Makefile", "test: é".encode(), "text/plain"),
        ("core", b"a\0b", "application/octet-stream"),
        ("latin", b"caf\xe9 \x1b[1mred", "text/plain"),
    ],
)
def test_the_media_type_comes_from_the_name_or_else_from_the_content(
    tmp_path: Path, name: str, content: bytes, media_type: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert read_attachments([tmp_path / name]) == (Attachment(media_type, content, name),)


def test_what_is_no_file_to_attach_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "fake.png").write_bytes(b"GIF89a")
    (tmp_path / "locked.txt").write_text("x")
    (tmp_path / "large.txt").write_bytes(bytes(MAX_ATTACHED_BYTES + 1))
    (tmp_path / "half.txt").write_bytes(bytes(MAX_ATTACHED_BYTES // 2))
    for name, problem in (
        ("pipe", "is not a regular file"),
        (".", "is not a regular file"),
        ("empty.txt", "is empty"),
        ("fake.png", "is not image/png; it begins like image/gif"),
        ("large.txt", "too large"),
        ("locked.txt/x", "can't be read"),
    ):
        with pytest.raises(ValidationError, match=problem):
            read_attachments([tmp_path / name])
    with pytest.raises(NotFoundError, match="There is no file"):
        read_attachments([tmp_path / "none"])
    with pytest.raises(ValidationError, match=r"half\.txt is too large"):
        read_attachments([tmp_path / "locked.txt", tmp_path / "half.txt", tmp_path / "half.txt"])
    with pytest.raises(ValidationError, match="too many"):
        read_attachments([tmp_path / "locked.txt"] * (MAX_ATTACHMENTS + 1))
    # The positive control: as many as are allowed.
    assert len(read_attachments([tmp_path / "locked.txt"] * MAX_ATTACHMENTS)) == MAX_ATTACHMENTS

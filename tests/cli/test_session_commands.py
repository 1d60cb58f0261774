"""`callboard session`, without a daemon, as a person types it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from callboard.cli.app import execute
from callboard.providers.testing.script import reply
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from support.cli.command import Command
from support.cli.in_process import own_logging as own_logging
from support.cli.in_process import run_here as run_here
from support.portal.doors import RunHere


def callboard(folder: Path, *words: str) -> int:
    return execute(["session", *words, "--data", str(folder / "data")])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace beside a store with one session."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    words = ["run", "--model", "rehearsal", "What time is it in Tokyo?"]
    assert execute([*words, "--data", str(tmp_path / "data")]) == 0
    return tmp_path


def test_a_session_leaves_as_a_file_and_comes_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callboard(folder, "rename", "last", "My clock") == 0
    assert callboard(folder, "export", "last", "out.jsonl") == 0
    assert Path("out.jsonl").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConflictError, match="exists already"):
        callboard(folder, "export", "last", "out.jsonl")
    (old,) = json.loads(Path("out.jsonl").read_bytes().splitlines()[0])["sessions"]
    with pytest.raises(ConflictError, match="delete it first"):
        callboard(folder, "purge", old)
    for change in ("delete", "restore", "delete", "purge"):
        assert callboard(folder, change, old) == 0
    capsys.readouterr()
    assert callboard(folder, "search", "tokyo") == 0
    assert capsys.readouterr().out == ""
    assert callboard(folder, "import", "out.jsonl") == 0
    capsys.readouterr()
    assert callboard(folder, "search", "TOKYO") == 0
    assert "My clock" in capsys.readouterr().out
    assert callboard(folder, "calls", "--status", "success") == 0
    assert "get_current_time" in capsys.readouterr().out


def test_what_is_no_session_file_is_refused(folder: Path) -> None:
    Path("bad.jsonl").write_text("{}\n")
    with pytest.raises(ValidationError, match="Line 1"):
        callboard(folder, "import", "bad.jsonl")
    with pytest.raises(NotFoundError, match=r"none\.jsonl"):
        callboard(folder, "import", "none.jsonl")
    with pytest.raises(ValidationError, match="Name the sessions"):
        callboard(folder, "delete")


def test_messages_are_listed_deleted_and_gone_on_from(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(*words: str) -> list[dict[str, object]]:
        capsys.readouterr()
        assert callboard(folder, "messages", *words, "--json") == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    rows = listed("last")
    assert [row["type"] for row in rows][:2] == ["user", "assistant"]
    assert listed("last", "--limit", "1") == rows[-1:]
    first = str(rows[0]["message_id"])
    assert callboard(folder, "fork", "last", str(rows[-1]["message_id"]), "--title", "Other") == 0
    told = capsys.readouterr()
    fork = told.out.removeprefix("forked: ").strip()
    assert "callboard undo" in told.err
    assert [row["content"] for row in listed(fork)] == [row["content"] for row in rows]
    assert callboard(folder, "delete-messages", fork, first) == 0
    assert capsys.readouterr().out == f"deleted: {first}\n"
    assert listed(fork)[0]["is_deleted"]
    with pytest.raises(NotFoundError, match="no message nothing"):
        callboard(folder, "delete-messages", fork, "nothing")
    with pytest.raises(ValidationError, match="Name the messages"):
        callboard(folder, "delete-messages", fork)


def test_the_advice_of_a_fork_can_be_followed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callboard(folder, "fork", "last") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Files are as they are" in said
    for line in re.findall(r"`callboard ([^`]+)`", said):
        words = shlex.split(line)
        assert words[words.index("--data") + 1] == str(folder / "data")
        assert execute([*words, "--model", "rehearsal"] if "run" in words else words) == 0
    assert "is not for" not in capsys.readouterr().err


async def test_each_answer_in_a_list_has_its_cost(tmp_path: Path, run_here: RunHere) -> None:
    command = Command(tmp_path)
    async with command.open_runtime([reply("Yes.")]) as runtime:
        session = await runtime.create_session()
        await session.run("Well?")
        *_, row = await session.messages()
    command.configure(f'[prices."{row.provider}/{row.model}"]\ninput = 1000\noutput = 2000\n')
    listed = await run_here(command, "session", "messages", session.session_id, "--json")
    asked, answered = map(json.loads, listed.out.splitlines())
    assert asked["cost"] is None
    used = row.input_tokens or 0, row.output_tokens or 0
    assert answered["cost"] == pytest.approx((used[0] * 1000 + used[1] * 2000) / 1_000_000)
    assert all(used)

"""`callboard replay`, of a session on record and of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callboard.cli.app import execute
from callboard.runtime.disk.data_lock import DataLock
from callboard.runtime.errors import NotFoundError, ValidationError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data folder with one session, which wrote a file."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    words = ["run", "--model", "rehearsal", "Write 'buy milk' to list.txt."]
    assert execute([*words, "--data", str(tmp_path / "data")]) == 0
    return str(tmp_path / "data")


def test_a_session_is_run_again_and_no_tool_runs(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("list.txt").unlink()
    lock = DataLock(Path(data))  # a daemon has it
    capsys.readouterr()
    try:
        assert execute(["replay", "last", "--data", data]) == 0
    finally:
        lock.release()
    out = capsys.readouterr().out
    assert "> Write 'buy milk' to list.txt." in out
    assert "write_file" in out
    assert out.endswith("1 turn, 2 answers, 1 call, the same as on record\n")
    assert not Path("list.txt").exists()


def test_a_file_is_run_again_where_there_is_no_store(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["session", "export", "last", "out.jsonl", "--data", data]) == 0
    capsys.readouterr()
    words = ["replay", "out.jsonl", "--json", "--data", str(tmp_path / "none")]
    assert execute(words) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["is_same"] is True
    assert lines[0]["event"]["type"] == "session_created"
    assert not (tmp_path / "none").exists()

    changed = Path("out.jsonl").read_text().replace('"outcome":"answered"', '"outcome":"failed"')
    Path("out.jsonl").write_text(changed)
    assert execute(words) == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["is_same"], "the end (failed)" in last["difference"]) == (False, True)


def test_what_can_not_be_replayed_is_said(data: str) -> None:
    with pytest.raises(NotFoundError, match="no session"):
        execute(["replay", "nothing", "--data", data])
    Path("bad.jsonl").write_text("{}\n")
    with pytest.raises(ValidationError, match="Line 1"):
        execute(["replay", "bad.jsonl", "--data", data])
    assert execute(["session", "export", "last", "out.jsonl", "--data", data]) == 0
    lines = Path("out.jsonl").read_text().splitlines()
    odd = json.loads(lines[-1])
    odd["event"] = {"type": "input_delivered", "turn_id": "turn_x", "input_id": "input_x"}
    Path("odd.jsonl").write_text("\n".join([*lines[:-1], json.dumps(odd)]))
    with pytest.raises(ValidationError, match="contradicts itself"):
        execute(["replay", "odd.jsonl", "--data", data])

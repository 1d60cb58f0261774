"""A provider's raw answers beside the session, and a runtime that plays them back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from stage import Stage, open_stage, play

import callboard
from callboard.providers.recording import read_recording
from callboard.providers.script import Step, cut_after, reply, stall, status
from callboard.runtime.errors import NotFoundError, ValidationError
from callboard.runtime.redaction import redactor
from callboard.runtime.secrets import Secret

KEY = "a-very-secret-word-0815"
WRITE = reply(["I wr", "ite."], calls=[("write_file", {"path": "a.txt", "content": "hello"})])


async def recorded(tmp_path: Path, stage: Stage, prompt: str) -> Path:
    """The recording of one turn of a new session."""
    session = await stage.runtime.create_session()
    await play(session, prompt)
    return tmp_path / "recordings" / f"{session.session_id}.jsonl"


async def test_a_recorded_turn_is_played_back_without_a_server(tmp_path: Path) -> None:
    steps = [WRITE, reply(["Wri", "tten. é"])]
    async with open_stage(tmp_path, steps, policy="auto", record=tmp_path / "recordings") as stage:
        path = await recorded(tmp_path, stage, "Write it.")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [call.status for call in read_recording(path)] == [200, 200]
    (tmp_path / "again").mkdir()
    model = callboard.ReplayProvider(path)
    async with callboard.open_runtime(
        model=model, workspace=tmp_path / "again", policy="auto", environ={}, strict=True
    ) as runtime:
        session = await runtime.create_session()
        assert await session.run("Write it.") == "Written. é"
        model.assert_complete()
        with pytest.raises(callboard.CallboardError, match="no call number 3"):
            await session.run("And more?")
    assert (tmp_path / "again" / "a.txt").read_text() == "hello"


async def test_nothing_is_recorded_unless_it_is_asked_for(tmp_path: Path) -> None:
    async with open_stage(tmp_path, [reply("Hi.")]) as stage:
        path = await recorded(tmp_path, stage, "Hello.")
    assert not path.parent.exists()


async def test_a_key_is_in_no_recording(tmp_path: Path) -> None:
    redactor.add(Secret(KEY))
    steps: list[Step] = [
        reply(f"The key is {KEY}."),
        status(401, {"error": {"message": f"bad key {KEY}"}}),
    ]
    async with open_stage(tmp_path, steps, record=tmp_path / "recordings") as stage:
        said = await recorded(tmp_path, stage, f"Is {KEY} a key?")
        refused = await recorded(tmp_path, stage, "Again.")
    for path in (said, refused):
        assert KEY not in path.read_text()
    assert "Is *** a key?" in json.loads(read_recording(said)[0].request)["messages"][1]["content"]
    assert read_recording(refused)[0].status == 401
    assert b"bad key ***" in read_recording(refused)[0].answer


async def test_what_came_of_a_broken_or_cancelled_call_is_recorded(tmp_path: Path) -> None:
    steps: list[Step] = [cut_after(40, reply("never whole " * 20)), stall("Half a ")]
    async with open_stage(tmp_path, steps, record=tmp_path / "recordings") as stage:
        broken = await recorded(tmp_path, stage, "Go.")
        session = await stage.runtime.create_session()
        with trio.move_on_after(0.5) as scope:
            await session.run("Stop.")
        assert scope.cancelled_caught
    cancelled = tmp_path / "recordings" / f"{session.session_id}.jsonl"
    assert len(read_recording(broken)[0].answer) <= 40
    assert b"Half a " in read_recording(cancelled)[0].answer


async def test_a_replayed_fault_is_the_same_fault(tmp_path: Path) -> None:
    steps = [status(401, {"error": {"message": "no such key"}})]
    async with open_stage(tmp_path, steps, record=tmp_path / "recordings") as stage:
        path = await recorded(tmp_path, stage, "Go.")
    async with callboard.open_runtime(
        model=callboard.ReplayProvider(path), workspace=stage.workspace, environ={}
    ) as runtime:
        played = await play(await runtime.create_session(), "Go.")
    assert (played.ended.outcome, played.ended.error_type) == ("failed", "auth")
    assert "no such key" in played.ended.message


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no recording"):
        callboard.ReplayProvider(tmp_path / "none.jsonl")
    (tmp_path / "odd.jsonl").write_text('{"some": "json"}\n')
    with pytest.raises(ValidationError, match="line 1"):
        callboard.ReplayProvider(tmp_path / "odd.jsonl")

"""A provider's raw answers beside the session, and a runtime that plays them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.config.settings import Limits, Settings
from callboard.providers.recording import MAX_REQUEST_BYTES, read_recording
from callboard.providers.testing.script import Step, cut_after, reply, stall, status
from callboard.runtime.errors import NotFoundError, StorageError, ValidationError
from callboard.runtime.redaction import Secret, redactor
from support.stage import Stage, open_in, open_stage, play, play_in, run_in

ONE_RETRY = Settings(limits=Limits(model_retries=1))
KEY = "a-very-secret-word-0815"
WRITE = reply(["I wr", "ite."], calls=[("write_file", {"path": "a.txt", "content": "hello"})])


async def recorded(tmp_path: Path, stage: Stage, prompt: str) -> Path:
    """The recording of one turn of a new session."""
    session, _ = await play_in(stage.runtime, prompt)
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


@pytest.mark.parametrize("where", ["text", "thinking", "arguments"])
@pytest.mark.parametrize("is_secret", [True, False])
async def test_a_key_in_pieces_is_not_kept(tmp_path: Path, where: str, is_secret: bool) -> None:
    redactor.add(Secret(KEY if is_secret else "some-other-word-4711"))
    steps: list[Step] = [
        reply(["It is ", *KEY, "."])
        if where == "text"
        else reply("Ok.", thinking=list(KEY))
        if where == "thinking"
        else reply("Ok.", calls=[("read_file", {"path": KEY})])
    ]
    if where == "arguments":
        steps.append(reply("Done."))
    async with open_stage(tmp_path, steps, record=tmp_path / "recordings") as stage:
        path = await recorded(tmp_path, stage, "Spell it.")
    call = read_recording(path)[0]
    assert KEY not in call.body
    assert (call.body == "") is call.is_cut is bool(call.note) is is_secret


async def test_what_came_of_a_broken_or_cancelled_call_is_recorded(tmp_path: Path) -> None:
    steps: list[Step] = [cut_after(40, reply("never whole " * 20)), stall("Half a ")]
    async with open_stage(tmp_path, steps, record=tmp_path / "recordings") as stage:
        broken = await recorded(tmp_path, stage, "Go.")
        session = await stage.runtime.create_session()
        async with session.prompt("Stop.") as turn:
            async for event in turn:
                if isinstance(event, callboard.TextDelta):
                    await turn.cancel()
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


async def test_a_call_that_got_no_answer_is_made_again_in_the_replay_too(tmp_path: Path) -> None:
    answer = 'data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\n'
    calls: list[dict[str, Any]] = [
        {"dialect": "openai_chat"},
        {"dialect": "openai_chat", "status": 200, "body": answer + "data: [DONE]\n\n"},
    ]
    path = tmp_path / "hand-made.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    model = callboard.ReplayProvider(path)
    async with open_in(tmp_path, model, settings=ONE_RETRY) as runtime:
        assert await (await runtime.create_session()).run("Hello.") == "Hi."
    model.assert_complete()


async def test_a_recording_goes_on_behind_a_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    async with open_stage(
        tmp_path, [reply("One."), reply("Two.")], record=tmp_path / "recordings"
    ) as stage:
        session = await run_in(stage.runtime, "Go.")
        path = tmp_path / "recordings" / f"{session.session_id}.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole + whole[: len(whole) // 2])
        await session.run("Go on.")
    with pytest.raises(ValidationError, match="line 2 is not a recorded call"):
        read_recording(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    assert [b"One." in call.answer for call in read_recording(path)] == [True, False]


async def test_a_turn_goes_on_when_its_recording_can_not_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "recordings"
    async with open_stage(tmp_path, [reply("One."), reply("Two.")], record=folder) as stage:
        session = await stage.runtime.create_session()
        path = folder / f"{session.session_id}.jsonl"
        path.symlink_to(tmp_path / "elsewhere")
        assert await session.run("Go.") == "One."
        path.unlink()
        assert await session.run("Go on.") == "Two."
    assert not (tmp_path / "elsewhere").exists()
    assert [record.getMessage()[:32] for record in caplog.records] == [
        "a model call was not recorded in"
    ]
    assert len(read_recording(path)) == 1


async def test_a_folder_that_can_not_be_one_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="can't hold recordings"):
            async with open_stage(tmp_path, [], store="disk", record=folder):
                pytest.fail("it opened")
    # The positive control, and the store was not left open.
    async with open_stage(tmp_path, [], store="disk", record=tmp_path / "new" / "folder"):
        assert (tmp_path / "new" / "folder").is_dir()


@pytest.mark.parametrize(
    "body",
    [b"[" * 100 + b"\xff", b'{"a": "' + b"b" * 200_000 + b'"}', b'"' * 200_000, "é".encode() * 99],
)
async def test_what_is_kept_of_an_answer_is_bounded_and_else_the_same(
    tmp_path: Path, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = status(418, body)
    monkeypatch.setattr("callboard.actors.model.stream.MAX_ERROR_BODY_BYTES", 10**6)
    for limit in (10**6, 7):
        monkeypatch.setattr("callboard.providers.recording.MAX_RECORDED_BYTES", limit)
        async with open_stage(tmp_path, [step], record=tmp_path / "recordings") as stage:
            [call] = read_recording(await recorded(tmp_path, stage, "Go."))
        assert call.answer == body[:limit]
        assert call.is_cut == (len(body) > limit)
        assert json.loads(call.request)["messages"][1]["content"] == "Go."


async def test_a_request_with_a_large_file_is_cut_in_the_recording(tmp_path: Path) -> None:
    image = callboard.Attachment("image/png", b"\x89PNG\r\n\x1a\n" + bytes(MAX_REQUEST_BYTES))
    async with open_stage(tmp_path, [reply("I see.")], record=tmp_path / "recordings") as stage:
        session = await stage.runtime.create_session()
        assert await session.run("Look.", attachments=[image]) == "I see."
    [call] = read_recording(tmp_path / "recordings" / f"{session.session_id}.jsonl")
    assert (len(call.request), call.is_request_cut) == (MAX_REQUEST_BYTES, True)
    assert not call.is_cut


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no recording"):
        callboard.ReplayProvider(tmp_path / "none.jsonl")
    with pytest.raises(StorageError, match="can't be read"):
        callboard.ReplayProvider(tmp_path)
    for line in ('{"some": "json"}', "[", '{"dialect": "x", "is_base64": true, "body": "%"}'):
        (tmp_path / "odd.jsonl").write_text(f"{line}\n")
        with pytest.raises(ValidationError, match="line 1"):
            callboard.ReplayProvider(tmp_path / "odd.jsonl")


async def test_a_recording_of_an_unknown_wire_format_says_so(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text('{"dialect": "telex", "status": 200}')
    async with open_in(tmp_path, callboard.ReplayProvider(tmp_path / "odd.jsonl")) as runtime:
        with pytest.raises(callboard.CallboardError, match="no wire format 'telex'"):
            await (await runtime.create_session()).run("Go.")

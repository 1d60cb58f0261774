"""The rehearsal model tells what ran, when a person changed it, answered late or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import callboard
from callboard.actors.conversation.inputs import asked_again_text, late_text
from callboard.providers.rehearsal.model import late_report
from callboard.providers.rehearsal.report import INTRODUCTION
from callboard.runtime.definitions import CallStatus
from callboard.runtime.events import CallDeferred, CallFinished
from callboard.runtime.history import Answer, Input, Text


def changing(**arguments: object) -> callboard.ApprovalAnswer:
    return callboard.ApprovalAnswer(decision="allow", arguments=json.dumps(arguments))


async def said(folder: Path, answer: callboard.ApprovalAnswer, *texts: str) -> list[str]:
    """The model's answers in one session, with one answer to all that it asks."""

    async def ask(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        return answer

    async with callboard.open_runtime(
        model="rehearsal", workspace=folder, environ={}, on_approval=ask, strict=True
    ) as runtime:
        session = await runtime.create_session()
        return [await session.run(text) for text in texts]


async def test_what_a_person_changed_is_reported_as_it_ran(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    # The file that was written is the one that is meant later.
    answer = changing(path="c.txt", content="other\n")
    written, read = await said(tmp_path, answer, "Write 'hello' to a.txt.", "Read it.")
    assert written.endswith("A person changed the call. Wrote c.txt (6 bytes).")
    assert read.endswith("c.txt says: other\n")
    assert (tmp_path / "c.txt").read_text() == "other\n"
    [deleted] = await said(tmp_path, changing(path="c.txt"), "Delete a.txt.")
    assert deleted.endswith("A person changed the call. Deleted c.txt.")
    [failed] = await said(tmp_path, changing(path="d.txt"), "Delete a.txt.")
    assert "A person changed the call. Failed: deleting d.txt: " in failed


async def test_a_pending_call_waits_and_its_late_result_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    agent = callboard.Agent(name="asker", defer=True)
    async with callboard.open_runtime(
        model="rehearsal", workspace=tmp_path, environ={}, on_approval="wait", agents=[agent],
        strict=True, wake=False,
    ) as runtime:  # fmt: skip
        session = await runtime.create_session(agent="asker")
        told = await session.run("Write 'hello' to a.txt and read it back.")
        (row,) = await runtime.approvals()
        assert (
            f"Writing a.txt waits for your answer: callboard approve {row.approval_id}.\n" in told
        )
        assert told.endswith(
            "Not done: reading a.txt, because what it needs waits for your answer."
        )
        assert "Failed" not in told
        await runtime.answer(row.approval_id, "allow")
        turn = await session.resume()
        assert turn is not None
        async with turn:
            late = await turn.answer()
        assert late == f"{INTRODUCTION}\n\nThe call that waited has run: Wrote a.txt (5 bytes)."
        assert (tmp_path / "a.txt").read_text() == "hello"


def finished(status: CallStatus, result: str, name: str = "delete_file") -> CallFinished:
    arguments = '{"path":"a.txt"}'
    return CallFinished(
        turn_id="t", call_id="c", name=name, status=status, result=result, arguments=arguments
    )


DENIED = '{"status":"error","error_type":"permission_denied","message":"Not run: denied by Ann"}'


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            finished(CallStatus.SUCCESS, '{"status":"success","result":{"deleted":["a.txt"]}}'),
            "The call that waited has run: Deleted a.txt.",
        ),
        (
            finished(CallStatus.SUCCESS, '{"status":"success","result":"up"}', "launch"),
            "The call of launch that waited has run: up.",
        ),
        (
            finished(CallStatus.DENIED, DENIED),
            "The call of delete_file that waited was not allowed, and did not run: "
            "denied by Ann (permission_denied).",
        ),
        (
            finished(
                CallStatus.ERROR,
                '{"status":"error","error_type":"file_not_found","message":"No a.txt."}',
            ),
            "The call of delete_file that waited was allowed, and failed: "
            "No a.txt (file_not_found).",
        ),
    ],
)
def test_each_end_of_a_late_call_is_understood(event: CallFinished, sentence: str) -> None:
    assert late_report([Input(late_text(event, "approval_1"))]) == sentence


def test_what_is_asked_anew_and_what_a_person_says_is_told_apart() -> None:
    deferred = CallDeferred(
        turn_id="t", call_id="c", name="delete_file", approval_id="approval_2", result="{}"
    )
    again = Input(asked_again_text(deferred, "approval_1"))
    sentence = "delete_file waits for your answer once more: callboard approve approval_2."
    assert late_report([again]) == sentence
    assert late_report([Input("Hello."), again, again]) == f"{sentence}\n{sentence}"
    assert late_report([again, Answer((Text("Fine."),)), Input("Hello.")]) is None
    assert late_report([again, Answer((Text("Fine."),))]) is None
    assert late_report([]) is None

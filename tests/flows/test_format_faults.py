"""Faults of a provider in each wire format: one clear line, and nothing of a broken answer runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import callboard
from callboard.actors.conversation.unanswered import FAILED
from callboard.config.settings import Limits
from callboard.providers.testing.script import (
    ScriptedReply,
    Step,
    close_before_head,
    cut_after,
    fail,
    garbage,
    html,
    reply,
    reset,
    status,
)
from callboard.providers.testing.wires import wire_named
from callboard.runtime.events import MessageCompleted
from support.flows.format_stage import FORMATS, open_formats
from support.flows.screen import failures, screen
from support.flows.sent_parts import conversation
from support.stage import Played, play, read_result

each_format = pytest.mark.parametrize("dialect", FORMATS)

ONCE = Limits(model_retries=0)

DANGEROUS = reply(
    ["I dele", "te it"],
    thinking="Hm.",
    calls=[("write_file", {"path": "ran.txt", "content": "it ran " * 5}), ("read_file", {})],
)
"""An answer of which nothing may run unless it is whole."""


def check_failed(played: Played, workspace: Path) -> str:
    """The turn failed with one line, and nothing ran."""
    message = played.ended.message
    assert played.ended.outcome == "failed"
    assert played.ended.error_type
    assert 10 < len(message) < 700
    assert len(message.splitlines()) == 1
    assert "Traceback" not in message
    assert played.results == []
    assert list(workspace.iterdir()) == []
    assert not [event for event in played.events if isinstance(event, MessageCompleted)]
    assert [event for event in played.events if isinstance(event, callboard.MessageDiscarded)]
    return message


FINAL: dict[str, tuple[Step, str, str]] = {
    "401": (status(401, message="bad key"), "auth", "bad key"),
    "403": (status(403, message="not yours"), "auth", "not yours"),
    "404": (status(404, message="no such model"), "provider", "no such model"),
    "400": (status(400, message="no such field"), "provider", "no such field"),
    "wrong key inside a 200": (fail("bad key", error_type="auth", text="So"), "auth", "bad key"),
    "refused inside a 200": (fail("no such field"), "provider", "no such field"),
    "page": (html(), "provider", "web page"),
    "other JSON": (status(200, b'{"hello": "world"}'), "provider", ""),
    "asks to wait too long": (
        status(429, message="slow down", retry_after="60"), "overloaded", "asks to wait 60 s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FINAL)
@each_format
async def test_a_fault_that_stays_ends_the_turn(tmp_path: Path, dialect: str, fault: str) -> None:
    step, error_type, words = FINAL[fault]
    async with open_formats(tmp_path, {dialect: [step, reply("Here I am.")]}) as stage:
        session = await stage.session()
        played = await play(session, "Go.")
        assert words in check_failed(played, stage.workspace)
        assert played.ended.error_type == error_type
        assert failures(played) == []
        assert await session.run("Again.") == "Here I am."
        asked = conversation(stage.servers[dialect].requests[1])
    said = "".join(part[1] for part in asked).replace("\n", "")
    assert said == f"Go.{FAILED.format(left_out='')}Again."


PASSING: dict[str, tuple[Step, str]] = {
    "429": (status(429, message="slow down", retry_after="0.01"), "overloaded"),
    "429 in milliseconds": (status(429, message="slow", retry_after_ms="10"), "overloaded"),
    "500": (status(500, message="boom"), "provider"),
    "502 page": (html(502), "provider"),
    "503": (status(503, message="busy"), "overloaded"),
    "504": (status(504, message="late"), "timeout"),
    "529": (status(529, message="busy"), "overloaded"),
    "overloaded inside a 200": (
        fail("busy", error_type="overloaded", retryable=True), "overloaded",
    ),
    "overloaded behind text": (
        fail("busy", error_type="overloaded", retryable=True, text="I dele"), "overloaded",
    ),
    "failed behind text": (fail("boom", retryable=True, text="I dele"), "provider"),
    "closed before the head": (close_before_head(), "network"),
    "reset": (reset(), "network"),
    "no HTTP": (garbage(), "network"),
    "no terminal event": (reply("I dele", finish=None), "network"),
    "empty": (cut_after(0, DANGEROUS, clean=True), "network"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PASSING)
@each_format
async def test_a_fault_that_may_pass_is_retried(tmp_path: Path, dialect: str, fault: str) -> None:
    step, error_type = PASSING[fault]
    async with open_formats(tmp_path, {dialect: [step, DANGEROUS, reply("Done.")]}) as stage:
        played = await play(await stage.session(), "Go.")
        assert (played.ended.outcome, played.text) == ("answered", "I delete itDone.")
        assert [each.error_type for each in failures(played)] == [error_type]
        assert played.statuses == [("read_file", "error"), ("write_file", "success")]
        shown = screen(played)
        first, second, _ = stage.servers[dialect].requests
    assert shown == ["I delete it", "Done."]
    assert first.body == second.body


def ends(dialect: str, answer: ScriptedReply, number: int) -> list[int]:
    """The ends of all events of the n-th answer, but the one that makes it whole and those behind."""
    events = wire_named(dialect).reply_events(answer, number)
    marks = {
        "openai_chat": b'"finish_reason":"',
        "openai_responses": b"event: response.completed",
        "anthropic": b"event: message_stop",
        "gemini": b'"finishReason"',
    }
    last = next(at for at, event in enumerate(events) if marks[dialect] in event)
    return [sum(map(len, events[:count])) for count in range(last + 1)]


@pytest.mark.parametrize("clean", [False, True], ids=["broken", "clean"])
@each_format
async def test_an_answer_that_is_cut_behind_any_event_never_runs(
    tmp_path: Path, dialect: str, clean: bool
) -> None:
    count = len(ends(dialect, DANGEROUS, 1))
    assert count >= 6
    steps: list[Step] = [
        # Its n-th answer is a little longer than its first: numbers are in it.
        cut_after(ends(dialect, DANGEROUS, number + 1)[number], DANGEROUS, clean=clean)
        for number in range(count)
    ]
    script = {dialect: [*steps, DANGEROUS, reply("Done.")]}
    async with open_formats(tmp_path, script, limits=ONCE) as stage:
        for _ in steps:
            played = await play(await stage.session(), "Go.")
            check_failed(played, stage.workspace)
            assert played.ended.error_type == "network"
        # The positive control: the same answer, whole.
        played = await play(await stage.session(), "Go.")
        assert played.statuses == [("read_file", "error"), ("write_file", "success")]
        assert (stage.workspace / "ran.txt").exists()


@each_format
async def test_calls_of_an_answer_at_its_limit_never_run(tmp_path: Path, dialect: str) -> None:
    calls: list[tuple[str, Any]] = [("write_file", {"path": "a", "content": "x"})]
    if dialect != "gemini":  # its format can't even write half a call
        calls.append(("write_file", '{"path": "b", "con'))
    cut = reply("I write", calls=calls, finish="length")
    async with open_formats(tmp_path, {dialect: [cut, reply("Again, then.")]}) as stage:
        session = await stage.session()
        played = await play(session, "Go.")
        assert (played.ended.outcome, played.statuses) == (
            "max_tokens",
            [("write_file", "cancelled")] * len(calls),
        )
        assert all("cut off" in read_result(result)["message"] for result in played.results)
        assert list(stage.workspace.iterdir()) == []
        assert await session.run("Go on.") == "Again, then."


@pytest.mark.parametrize(
    "refused",
    [reply(refusal=["I can", "not."]), reply("I cannot.", finish="content_filter")],
    ids=["refusal", "filter"],
)
@each_format
async def test_a_refusal_is_told_and_kept(
    tmp_path: Path, dialect: str, refused: ScriptedReply
) -> None:
    steps = [refused, reply("That I can do.")]
    async with open_formats(tmp_path, {dialect: steps}) as stage:
        session = await stage.session()
        played = await play(session, "Do evil.")
        assert (played.ended.outcome, played.text) == ("refused", "I cannot.")
        assert await session.run("Do good.") == "That I can do."
        assert ("text", "I cannot.") in conversation(stage.servers[dialect].requests[1])

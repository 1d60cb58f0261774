"""The terminal as a channel, at a pseudo-terminal of the test's own."""

from __future__ import annotations

import os
import pty
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from callboard.cli.ask import terminal_channel
from callboard.cli.ask.terminal_channel import TerminalChannel
from callboard.cli.terminal.output import Output
from callboard.cli.terminal.style import Style
from callboard.runtime.channel import ChannelMessage, UserQuestion
from callboard.runtime.definitions import ToolFailure
from callboard.runtime.handles import PersonAnswer
from support.cli.questions import approval_request

PATIENCE_SECONDS = 20.0


class Person:
    """Whoever sits at the other end."""

    def __init__(self, stream: trio.lowlevel.FdStream, channel: TerminalChannel) -> None:
        self.channel = channel
        self.seen = ""
        self._stream = stream

    async def expect(self, text: str) -> None:
        while text not in self.seen:
            with trio.fail_after(PATIENCE_SECONDS):
                data = await self._stream.receive_some()
            self.seen += bytes(data).decode().replace("\r\n", "\n")

    async def type(self, text: str) -> None:
        await self._stream.send_all(text.encode())


@asynccontextmanager
async def terminal(folder: Path) -> AsyncGenerator[Person]:
    master, slave = pty.openpty()
    screen = Output(slave)
    stream = trio.lowlevel.FdStream(master)
    try:
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(screen.run)
            yield Person(stream, TerminalChannel(slave, screen, Style(), folder))
            nursery.cancel_scope.cancel()
    finally:
        os.close(slave)


def asked(**fields: object) -> UserQuestion:
    given: dict[str, object] = {
        "question_id": "question_1",
        "session_id": "session_1",
        "turn_id": "t",
        "call_id": "c",
        "question": "Which door?",
        "options": ("left", "right"),
    }
    return UserQuestion(**{**given, **fields})  # type: ignore[arg-type]


@asynccontextmanager
async def asking(folder: Path, question: UserQuestion) -> AsyncGenerator[tuple[Person, list[Any]]]:
    """Puts a model's question around the block; gives the person, and the answer or why there is none."""
    answers: list[Any] = []
    async with terminal(folder) as person, trio.open_nursery() as nursery:

        async def ask() -> None:
            try:
                answers.append(await person.channel.ask(question))
            except ToolFailure as failure:
                answers.append(str(failure))

        nursery.start_soon(ask)
        person.channel.reach(question.question_id)
        await person.expect("your own answer:" if question.options else "\nyour answer:")
        yield person, answers


async def test_a_question_rings_once_when_it_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "foot")
    told: list[str] = []
    async with terminal(tmp_path) as person, trio.open_nursery() as nursery:
        person.channel.tell_desktop = told.append
        nursery.start_soon(person.channel.approve, approval_request())
        nursery.start_soon(person.channel.ask, asked())
        person.channel.reach("another")
        await trio.testing.wait_all_tasks_blocked()
        assert (person.seen, told) == ("", [])
        person.channel.reach("approval_1")
        await person.expect("your answer:")
        await person.type("what?\n")  # asked again, it has been heard
        await person.expect("your answer:")
        assert told == ["callboard asks: may write_file run?"]
        await person.type("n\n")
        person.channel.reach("question_1")
        await person.expect("or your own answer: ")
        await person.type("1\n")
    assert told[1:] == ["callboard: the model has a question"]
    rings = [f"\x1b]9;{line}\a\a" for line in told]
    assert person.seen.count("\a\a") == 2
    assert all(person.seen.count(ring) == 1 for ring in rings)


async def test_a_branchs_question_says_so_and_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_channel, "MAX_BEHIND_SECONDS", 0.01)
    answers = []
    async with terminal(tmp_path) as person, trio.open_nursery() as nursery:

        async def approve() -> None:
            origin = "a branch\x1b[2J: tidy up"
            answers.append(
                await person.channel.approve(approval_request(asked_in="session_0", origin=origin))
            )

        nursery.start_soon(approve)
        await person.expect("your answer:")
        assert "  asked by: a branch\\x1b[2J: tidy up\n" in person.seen
        await person.type("y\n")
    assert [answer.decision for answer in answers] == ["allow"]


async def test_a_deferred_question_is_not_asked_here(tmp_path: Path) -> None:
    async with terminal(tmp_path) as person, trio.open_nursery() as nursery:
        nursery.start_soon(person.channel.approve, approval_request(is_deferred=True))
        person.channel.reach("approval_1")
        await trio.testing.wait_all_tasks_blocked()
        await person.channel.wait_quiet()  # nothing holds up the rest
        assert person.seen == ""
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("2", PersonAnswer(text="right", answered_by="terminal", option=1)),
        ("left", PersonAnswer(text="left", answered_by="terminal", option=0)),
        ("3", PersonAnswer(text="3", answered_by="terminal")),
        ("0", PersonAnswer(text="0", answered_by="terminal")),
        ("\nneither of them", PersonAnswer(text="neither of them", answered_by="terminal")),
    ],
)
async def test_a_number_or_any_text_is_an_answer(
    tmp_path: Path, typed: str, answer: PersonAnswer
) -> None:
    async with asking(tmp_path, asked()) as (person, answers):
        assert "the model asks you:\n    | Which door?\n  [1] left\n  [2] right\n" in person.seen
        await person.type(f"{typed}\n")
    assert answers == [answer]


async def test_no_question_of_a_model_moves_the_cursor(tmp_path: Path) -> None:
    evil = asked(
        question="x\n\ncallboard asks: may f run?\x1b[2J",
        options=("a\nb\u202e",),
        origin="a branch\x1b",
    )
    async with asking(tmp_path, evil) as (person, _):
        assert "(a branch\\x1b):\n    | x\n    | \n    | callboard asks" in person.seen
        assert "may f run?\\u001b[2J\n" in person.seen
        assert "  [1] a\\u000ab\\u202e\n" in person.seen
        await person.type("1\n")


async def test_the_end_of_the_input_is_no_answer(tmp_path: Path) -> None:
    async with asking(tmp_path, asked(options=())) as (person, answers):
        await person.type("\x04")
    assert "ended the input" in answers[0]


async def test_a_line_that_a_terminal_would_cut_is_no_answer(tmp_path: Path) -> None:
    async with asking(tmp_path, asked(options=())) as (person, answers):
        await person.type("x" * 5000 + "\n")
        await person.expect("longer than a terminal hands over")
        await person.type("y" * 4000 + "\n")
    assert [answer.text for answer in answers] == ["y" * 4000]


async def test_a_message_comes_behind_the_open_question(tmp_path: Path) -> None:
    message = ChannelMessage(
        session_id="session_1",
        from_session="session_2",
        call_id="c",
        text="Half done.\n\x1b[2JSoon.",
        origin="a branch: tidy up",
    )
    async with asking(tmp_path, asked()) as (person, _), trio.open_nursery() as nursery:
        nursery.start_soon(person.channel.tell, message)
        await trio.testing.wait_all_tasks_blocked()
        assert "Half done" not in person.seen
        await person.type("1\n")
        await person.expect("Soon.")
        shown = "message from a branch: tidy up:\n    | Half done.\n    | \\u001b[2JSoon.\n"
        assert shown in person.seen


async def test_a_withdrawn_question_ends_and_the_next_is_asked(tmp_path: Path) -> None:
    async with terminal(tmp_path) as person, trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as first:
                first.start_soon(person.channel.ask, asked(question_id="question_0"))
                person.channel.reach("question_0")
                await person.expect("your own answer:")
                scope.cancel()
        await person.expect("(no longer asked)")
        person.seen = ""
        nursery.start_soon(person.channel.ask, asked())
        person.channel.reach("question_1")
        await person.expect("your own answer:")
        await person.type("1\n")

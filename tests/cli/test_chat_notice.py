"""A question makes itself heard, in the words that the terminal knows, and without a model's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.cli.ask.notify import heard, tell_desktop
from callboard.cli.ask.pending_questions import PendingQuestion


@pytest.mark.parametrize(
    ("environ", "sent"),
    [
        ({}, ""),
        ({"TERM": "dumb"}, ""),
        ({"TERM": "xterm"}, "\a"),
        ({"TERM": "xterm-kitty"}, "\x1b]9;may x run?\a\a"),
        ({"TERM": "xterm", "TERM_PROGRAM": "WezTerm"}, "\x1b]9;may x run?\a\a"),
        ({"TERM": "rxvt-unicode-256color"}, "\x1b]777;notify;callboard;may x run?\a\a"),
    ],
)
def test_a_terminal_is_told_in_its_words(environ: dict[str, str], sent: str) -> None:
    assert heard("may x run?", environ) == sent


def test_no_name_of_a_tool_ends_the_notice() -> None:
    asked = PendingQuestion(question_id="approval_1", call_id="c", tool="x\x1b\\\a;y")
    sent = heard(asked.headline, {"TERM": "foot"})
    assert sent == "\x1b]9;callboard asks: may x\\x1b\\\\x07,y run?\a\a"


async def test_a_desktop_is_told_where_there_is_one(tmp_path: Path) -> None:
    said = tmp_path / "said"
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$3" > {said}\n')
    program.chmod(0o755)
    place = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    await tell_desktop("--help", place)
    await tell_desktop("--help", {**place, "DISPLAY": ":0", "SSH_CONNECTION": "far away"})
    assert not said.exists()
    await tell_desktop("--help", {**place, "DISPLAY": ":0"})
    assert said.read_text() == "--help"

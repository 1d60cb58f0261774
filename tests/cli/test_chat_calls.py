"""The calls of a chat: how long they have run, and their outputs when they have ended."""

from __future__ import annotations

import msgspec

from callboard.cli.chat.view import ChatView
from callboard.cli.show.ended_calls import (
    MAX_ENDED_CALLS,
    MAX_ENDED_CHARS,
    MAX_ENDED_LINES,
    EndedCalls,
    output_lines,
)
from callboard.cli.show.transcript import Transcript
from callboard.cli.terminal.style import Style
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import CallStatus, Tier
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallProposed,
    CallStarted,
    DurableEvent,
    QuestionAnswered,
    QuestionAsked,
    Stored,
)
from support.cli.chat_scene import chatting, prompt, say, scripted
from support.cli.chat_scene import command as command
from support.cli.command import Command

CTRL_O = "\x0f"
PLAIN = Style(colours=False, signs=False)
PROPOSED = CallProposed(
    turn_id="t", message_id="m", call_id="c", index=0, name="delete_file", arguments='{"path":"a"}'
)
STARTED = CallStarted(turn_id="t", call_id="c")


class Scene:
    """A chat's view of a session, under a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.printed: list[str] = []
        write = self.printed.append
        self.view = ChatView(
            "session_1",
            Transcript(write, PLAIN),
            write,
            PLAIN,
            is_live=True,
            now=lambda: self.now,
        )

    def take(self, event: DurableEvent, after: float = 0.0) -> None:
        self.now += after
        self.view.take(Stored("session_1", self.view.seq + 1, 0, event))

    def call(self) -> str:
        return self.view.live_lines(80)[0]


def asked(approval_id: str) -> ApprovalAsked:
    return ApprovalAsked(
        approval_id=approval_id,
        turn_id="t",
        call_id="c",
        name="delete_file",
        tier=Tier.WORKSPACE,
        reason="",
        arguments="{}",
        digest="",
    )


def allowed(approval_id: str) -> ApprovalAnswered:
    return ApprovalAnswered(
        approval_id=approval_id, call_id="c", decision="allow", answered_by="terminal"
    )


def test_the_time_that_a_person_is_asked_is_not_the_calls() -> None:
    scene = Scene()
    scene.take(PROPOSED)
    scene.take(asked("a1"), after=2)
    scene.take(asked("a2"), after=1)
    scene.now += 100
    assert scene.call() == ". delete_file waits for an answer  a"
    scene.take(allowed("a1"))
    assert "waits" in scene.call()  # for the other one
    scene.take(allowed("a2"))
    scene.now += 1
    assert scene.call() == ". delete_file 3.0 s  a"  # as of one that only reads, which has no start
    scene.take(STARTED)
    scene.now += 4
    assert scene.call() == ". delete_file 4.0 s  a"


def test_a_call_that_asks_while_it_runs_does_not_run_meanwhile() -> None:
    scene = Scene()
    scene.take(PROPOSED)
    scene.take(STARTED)
    scene.take(QuestionAsked(question_id="q", turn_id="t", call_id="c", question="?"), after=5)
    scene.take(QuestionAnswered(question_id="q", call_id="c", answer="x"), after=60)
    scene.now += 2
    assert scene.call() == ". delete_file 7.0 s  a"


def ended(number: int, result: object) -> CallFinished:
    return CallFinished(
        turn_id="t",
        call_id=f"c{number}",
        name="shell",
        status=CallStatus.SUCCESS,
        result=msgspec.json.encode({"status": "success", "result": result}).decode(),
        arguments=f'{{"command":"make {number}"}}',
        duration_ms=1200,
    )


def test_the_outputs_that_are_kept_and_shown_are_bounded() -> None:
    calls = EndedCalls()
    assert calls.next() is None
    for number in range(MAX_ENDED_CALLS + 5):
        calls.add(ended(number, "\n".join(f"line {each}" for each in range(1000))), None)
    calls.add(ended(99, "x" * (3 * MAX_ENDED_CHARS)), None)
    assert len(calls.lines(PLAIN)) == MAX_ENDED_CALLS
    assert calls.lines(PLAIN)[-1] == "   1  + shell 1.2 s  $ make 99"
    latest, second = calls.next(), calls.next()
    assert latest is not None
    assert second is not None
    assert (latest[0], second[0]) == (1, 2)
    assert len(latest[1].result) < MAX_ENDED_CHARS + 100
    shown = output_lines(second[1], PLAIN, "session_1")
    assert len(shown) == MAX_ENDED_LINES + 2
    assert shown[1] == "  | line 0"
    assert shown[-1] == "  | line 999"
    gap = "  | … 800 lines left out (callboard show session_1)"
    assert shown[1 + MAX_ENDED_LINES // 2] == gap
    calls.add(ended(100, "new"), None)
    newest = calls.next()
    assert newest is not None
    assert output_lines(newest[1], PLAIN, "") == ["+ shell 1.2 s  $ make 100", "  | new"]


def test_an_output_is_shown_with_its_fields_and_moves_no_cursor() -> None:
    calls = EndedCalls()
    calls.add(ended(1, {"exit_code": 2, "stdout": "a\n  b\x1b[2J\n", "stderr": "no\n"}), None)
    found = calls.get(1)
    assert found is not None
    assert output_lines(found, PLAIN, "")[1:] == [
        "  | exit_code: 2",
        "  | stdout:",
        "  | a",
        "  |   b\\x1b[2J",
        "  | stderr: no",
    ]
    assert calls.get(0) is None
    assert calls.get(2) is None


def test_a_call_that_was_denied_has_no_time_of_its_own() -> None:
    scene = Scene()
    denied = msgspec.structs.replace(ended(1, ""), status=CallStatus.DENIED, duration_ms=17_700)
    scene.take(ended(0, ""))
    scene.take(denied)
    assert "+ shell 1.2 s" in scene.printed[-2]
    assert "x shell denied  " in scene.printed[-1]
    assert scene.view.ended_calls.lines(PLAIN)[-1] == "   1  x shell denied  $ make 1"


async def test_the_output_of_an_ended_call_can_be_seen(command: Command) -> None:
    (command.workspace / "b.txt").write_text("first of b\nlast of b\n")
    read_both = [("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})]
    steps = [reply(calls=[each]) for each in read_both]
    async with scripted(command, *steps, reply("Done.")), chatting(command) as terminal:
        await terminal.type(CTRL_O)
        await terminal.expect("no call has ended yet")
        await prompt(terminal, "Read them", "Done.")
        assert "last of b" not in terminal.seen
        await terminal.type(CTRL_O)
        await terminal.expect("last of b")
        assert "  │ old" not in terminal.seen
        await terminal.type(CTRL_O)
        await terminal.expect("old")
        await say(terminal, "/calls")
        await terminal.expect("1  ✓ read_file")
        await say(terminal, "/calls 2")
        await terminal.expect("old")
        await say(terminal, "/calls 7")
        await terminal.expect("there is no call '7' here")

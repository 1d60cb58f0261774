"""A turn as a person reads it, event by event."""

from __future__ import annotations

import io

import msgspec
import pytest

from callboard.cli.show.transcript import Transcript, TurnEvent
from callboard.cli.terminal.style import Style, counted, seconds, style_of
from callboard.config.prices import Price, PriceTable
from callboard.runtime.approval import ApprovalDecision
from callboard.runtime.definitions import Binding, CallStatus, InputSource, Tier
from callboard.runtime.events import (
    ApprovalAnswered,
    CallDeferred,
    CallFinished,
    CallProgress,
    CallProposed,
    CallStarted,
    GrantGiven,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    MessageDiscarded,
    PrivateDataRead,
    QuestionAnswered,
    SessionTainted,
    ToolGivenUp,
    TurnEnded,
    TurnOutcome,
    TurnResumed,
    TurnSuspended,
)
from callboard.runtime.history import Call, Part, Refusal, Text, Thinking
from callboard.runtime.store.rows import CallRow
from callboard.runtime.stream import Done, RefusalDelta, StopReason, TextDelta, ThinkingDelta, Usage

PLAIN = Style()


def shown(*events: TurnEvent, style: Style = PLAIN, prices: PriceTable | None = None) -> str:
    pieces: list[str] = []
    transcript = Transcript(pieces.append, style, "session_1", prices)
    for event in events:
        transcript.show(event)
    return "".join(pieces)


def finished(status: CallStatus = CallStatus.SUCCESS, **fields: str | int) -> CallFinished:
    defaults = {"turn_id": "t", "call_id": "c", "name": "read_file", "result": "{}"}
    return CallFinished(**{**defaults, "status": status, **fields})  # type: ignore[arg-type]


def ended(outcome: TurnOutcome = "answered") -> TurnEnded:
    return TurnEnded(turn_id="t", outcome=outcome, duration_ms=1500)


def message(usage: Usage | None, parts: tuple[Part, ...] = (Text("x"),)) -> MessageCompleted:
    return MessageCompleted(
        turn_id="t", message_id="m", parts=parts, provider="p", model="m", usage=usage
    )


@pytest.mark.parametrize(("columns", "between"), [(80, " · "), (40, "\n")])
def test_a_session_that_does_not_fit_behind_the_summary_has_a_row(
    columns: int, between: str
) -> None:
    pieces: list[str] = []
    session_id = "session_3rychq039a0z1chrjmnv"
    transcript = Transcript(pieces.append, PLAIN, session_id, columns=lambda: columns)
    transcript.show(ended())
    assert "".join(pieces) == f"answered · 1.5 s{between}{session_id}\n"


def test_text_calls_and_summary_stand_apart() -> None:
    text = shown(
        TextDelta("Let me "),
        TextDelta("look."),
        Done(StopReason.TOOL_CALLS),
        message(Usage(10, 5)),
        finished(display="Read a.txt (3 bytes)", duration_ms=3),
        finished(CallStatus.ERROR, display="b.txt: no such file"),
        TextDelta("Done.\n"),
        message(Usage(20, None)),
        ended(),
    )
    assert text == (
        "\nLet me look.\n\n"
        "✓ read_file 3 ms  Read a.txt (3 bytes)\n"
        "✗ read_file error 0 ms  b.txt: no such file\n"
        "\nDone.\n\n"
        "answered · 1.5 s · 2 calls (1 failed) · 30 tokens in · 5 tokens out · session_1\n"
    )


def test_unknown_tokens_are_not_told_as_zero() -> None:
    assert "token" not in shown(message(None), ended())
    assert shown(ended("loop_guard")) == "loop guard · 1.5 s · session_1\n"


def test_a_summary_tells_what_the_turn_cost_as_far_as_it_is_known() -> None:
    prices = PriceTable({"p/m": Price(input=100.0, output=100.0)})
    elsewhere = msgspec.structs.replace(message(Usage(20, 20)), provider="q")
    compacted = HistoryCompacted(
        turn_id="t", rounds=1, summary="s", provider="p", model="m", usage=Usage(1, 1)
    )
    assert " · $0.0012 · session_1" in shown(message(Usage(10, 2)), ended(), prices=prices)
    assert " · $0.0014 · session_1" in shown(
        compacted, message(Usage(10, 2)), ended(), prices=prices
    )
    for unknown in (elsewhere, message(Usage(5)), message(None)):
        text = shown(message(Usage(10, 2)), unknown, ended(), prices=prices)
        assert " · at least $0.0012 · session_1" in text
        assert "$" not in shown(unknown, ended(), prices=prices)
    free = PriceTable({"p/m": Price(input=0, output=0)})
    assert "$" not in shown(message(Usage(10, 2)), ended(), prices=free)


@pytest.mark.parametrize("status", [s for s in CallStatus if s.is_final])
def test_each_end_of_a_call_is_named(status: CallStatus) -> None:
    line = shown(finished(status, display="what happened"))
    word = "" if status is CallStatus.SUCCESS else f" {status}"
    took = "" if status is CallStatus.DENIED else " 0 ms"  # it never ran
    assert f"read_file{word}{took}  what happened" in line


def test_a_result_without_a_line_of_its_own_is_shown_itself() -> None:
    assert shown(finished(result='{"status":"success","result":"hello"}')).endswith("  hello\n")
    assert shown(finished(result='{"status":"success","result":{"a":1}}')).endswith('  {"a":1}\n')
    failed = '{"status":"error","error_type":"timeout","message":"stopped after 5 s"}'
    assert shown(finished(CallStatus.TIMEOUT, result=failed)).endswith("  stopped after 5 s\n")
    assert shown(finished(result="[1]")).endswith("  [1]\n")
    assert shown(finished(result="no json")).endswith("  no json\n")


def test_progress_is_shown_under_the_name_of_its_tool() -> None:
    proposed = CallProposed(
        turn_id="t", message_id="m", call_id="c", index=0, name="build", arguments="{}"
    )
    assert shown(proposed, CallProgress("c", "50 %")) == "build: 50 %\n"


def proposed(name: str, **arguments: object) -> CallProposed:
    text = msgspec.json.encode(arguments).decode()
    return CallProposed(
        turn_id="t", message_id="m", call_id="c", index=0, name=name, arguments=text
    )


STARTED = CallStarted(turn_id="t", call_id="c")


def test_what_a_program_runs_is_shown_when_it_begins_and_when_it_has_ended() -> None:
    done = finished(name="shell", display="shell: exit code 0 after 1.2 s", duration_ms=1200)
    assert shown(proposed("shell", command="pytest -q"), STARTED, done) == (
        "shell: $ pytest -q\n✓ shell 1.2 s  $ pytest -q  exit code 0 after 1.2 s\n"
    )
    assert shown(proposed("shell", cwd="src", command=["ls", "a b"]), STARTED) == (
        "shell: $ ls 'a b'\n"
    )
    denied = finished(CallStatus.DENIED, name="shell", display="denied by terminal")
    assert shown(proposed("shell", command="rm -rf /"), denied) == (
        "✗ shell denied  $ rm -rf /  denied at a terminal\n"
    )
    wrote = finished(name="write_file", display="Wrote it")
    assert shown(proposed("write_file", content="x", path="notes/a.txt"), STARTED, wrote) == (
        "✓ write_file 0 ms  notes/a.txt  Wrote it\n"
    )


def test_a_program_text_is_folded() -> None:
    code = "\n".join(["def f():", "    return 1", *(f"print({n})" for n in range(9))])
    done = finished(name="run_code", display="run_code: exit code 0")
    assert shown(proposed("run_code", language="python", code=code), STARTED, done) == (
        "run_code:\n  │ def f():\n  │     return 1\n"
        + "".join(f"  │ print({n})\n" for n in range(4))
        + "  │ … 5 lines more\n✓ run_code 0 ms  def f(): (+ 10 lines)  exit code 0\n"
    )


def test_of_a_long_output_the_first_and_the_last_lines_are_shown() -> None:
    lines = [CallProgress("c", f"  row {number}") for number in range(100)]
    done = finished(name="build", display="built")
    text = shown(proposed("build"), *lines, CallProgress("c", "one\ntwo"), done)
    rows = [f"build:   row {number}" for number in range(10)]
    gap = "build: … 87 lines left out (callboard show session_1)"
    last = ["build:   row 97", "build:   row 98", "build:   row 99", "build: one", "build: two"]
    assert text.splitlines() == [*rows, gap, *last, "✓ build 0 ms  built"]


def test_progress_after_a_resume_has_the_name_of_its_tool_too() -> None:
    pieces: list[str] = []
    transcript = Transcript(pieces.append, PLAIN)
    row = CallRow(
        call_id="c", session_id="s", turn_id="t", name="build", status=CallStatus.RUNNING,
        arguments="{}", result=None, display="", proposed_at_ms=1, started_at_ms=1,
        finished_at_ms=None, duration_ms=None,
    )  # fmt: skip
    transcript.know([row])
    transcript.show(CallProgress("c", "50 %"))
    transcript.show(CallProgress("other", "on its way"))
    assert "".join(pieces) == "build: 50 %\non its way\n"


def test_each_turn_is_summed_up_by_itself() -> None:
    text = shown(
        finished(), finished(CallStatus.ERROR), finished(CallStatus.DENIED), message(Usage(10, 5)), ended(),
        finished(), message(Usage(1, 2)), ended(),
    )  # fmt: skip
    first, second = [line for line in text.splitlines() if line.startswith("answered")]
    assert "3 calls (1 failed, 1 denied) · 10 tokens in · 5 tokens out" in first
    assert "1 call · 1 tokens in · 2 tokens out" in second


def test_the_models_advice_is_not_for_the_person() -> None:
    line = shown(
        finished(CallStatus.ERROR, display="f: `a`: no. Correct the arguments and call it again.")
    )
    assert line == "✗ read_file error 0 ms  f: `a`: no.\n"


def test_what_was_allowed_and_did_not_start_is_one_sentence() -> None:
    void = msgspec.structs.replace(answered("void", "callboard"), reason="the policy has changed")
    assert shown(void) == (
        "c: allowed, and not started: the policy has changed; if it comes to that, it is asked again\n"
    )


def test_withdrawn_text_is_said_to_be() -> None:
    assert "withdrawn" in shown(TextDelta("Half an"), MessageDiscarded("s", "broke"))
    assert shown(MessageDiscarded("s", "broke")) == ""


def test_a_refusal_is_text_and_reasoning_is_not() -> None:
    assert shown(RefusalDelta("No.")) == "\nNo."
    assert shown(ThinkingDelta("secret")) == ""
    on_terminal = shown(ThinkingDelta("one"), ThinkingDelta("two"), style=Style(colours=True))
    assert on_terminal.count("thinking") == 1
    assert "one" not in on_terminal


def test_nothing_foreign_reaches_the_terminal_as_a_command() -> None:
    text = shown(
        TextDelta("a\x1b[31m"),
        CallProgress("c", "\x1b]0;title\x07\nsecond"),
        finished(name="x\x1b[1m", display="\x1b[2J\u202e"),
    )
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b]0;title\\x07\nsecond\n" in text


def test_colours_only_where_they_are_colours() -> None:
    assert "\x1b[32m✓" in shown(finished(), style=Style(colours=True))
    assert shown(finished(), style=Style(signs=False)).startswith("+ read_file")


class FakeTerminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_the_style_follows_the_stream() -> None:
    utf8 = FakeTerminal(io.BytesIO(), encoding="utf-8")
    assert style_of(utf8, {"TERM": "xterm"}) == Style(colours=True)
    assert style_of(utf8, {"TERM": "xterm", "NO_COLOR": "1"}) == Style()
    assert style_of(utf8, {"TERM": "dumb"}) == Style()
    assert style_of(FakeTerminal(io.BytesIO(), encoding="ascii"), {"TERM": "dumb"}) == Style(
        signs=False
    )
    assert style_of(io.StringIO(), {"TERM": "xterm"}).colours is False
    assert style_of(None) == Style()


def test_durations_and_counts_read_well() -> None:
    assert [seconds(n) for n in (0, 999, 1200, 125_000)] == ["0 ms", "999 ms", "1.2 s", "2 min 5 s"]
    assert (counted(1, "call"), counted(0, "call")) == ("1 call", "0 calls")


@pytest.mark.parametrize("part", [Text("x"), Refusal("no"), Call("c", "f", "{}")], ids=repr)
def test_an_answer_without_anything_is_said_to_be_one(part: Part) -> None:
    line = "(the model answered nothing)\n"
    assert line in shown(message(None, ()), ended())
    assert line in shown(message(None, (Thinking("hm"), Text(""))), ended())
    assert line not in shown(message(None, (part,)), ended())
    broken = msgspec.structs.replace(message(None, ()), incomplete=True)
    assert line not in shown(broken, ended("cancelled"))


def answered(decision: ApprovalDecision, who: str) -> ApprovalAnswered:
    return ApprovalAnswered(
        approval_id="approval_1", call_id="c", decision=decision, answered_by=who, reason="fine"
    )


def test_what_others_answered_is_told_and_what_was_typed_here_is_not() -> None:
    proposed = CallProposed(
        turn_id="t", message_id="m", call_id="c", index=0, name="write_file", arguments="{}"
    )
    by_others = shown(proposed, answered("allow", "application"))
    assert by_others == "write_file: allowed by application: fine\n"
    assert shown(proposed, answered("allow", "terminal")) == ""
    assert shown(answered("deny", "application")) == ""  # the call's own line says it
    assert "asked about itself" in shown(proposed, answered("revised", "terminal"))


TOLD: list[tuple[TurnEvent, str]] = [
    (
        CallDeferred(turn_id="t", call_id="c", name="f", approval_id="approval_1", result="{}"),
        "f waits for an answer: callboard approve approval_1\n",
    ),
    (
        ToolGivenUp(turn_id="t", name="f", attempts=3, message="path: missing", child_id="s_2"),
        "f is given up in s_2 after 3 answers: path: missing\n",
    ),
    (
        InputAccepted(
            input_id="i", text="Done\x1b[2J\nat last", source=InputSource.DELEGATE, child_id="s_2"
        ),
        "answer of s_2: Done\\x1b[2J at last\n",
    ),
    (
        InputAccepted(input_id="i", text="It ran.", source=InputSource.DEFERRED, call_id="c"),
        "late result of c: It ran.\n",
    ),
    (InputAccepted(input_id="i", text="what a person said"), ""),
    (
        GrantGiven(
            grant_id="grant_1",
            verdict="deny",
            scope="agent",
            tool="f",
            definition="d",
            tier=Tier.SYSTEM,
            binding=Binding(arguments="{}", hosts={"url": "example.com"}),
            agent="general",
            turn_id="t",
            workspace="/w",
            approval_id="approval_1",
            given_by="terminal",
        ),
        "remembered as grant_1: not asked about, denied for this agent: "
        'f with host "example.com"\n',
    ),
    (
        SessionTainted(source="http_request"),
        "http_request may hold words of others: from now on less runs without a question\n",
    ),
    (PrivateDataRead(source="read_file"), ""),
    (QuestionAnswered(question_id="q", call_id="c", answer="no", answered_by="terminal"), ""),
    (QuestionAnswered(question_id="q", call_id="c", answer="no", answered_by="ann"), "ann answers"),
    (QuestionAnswered(question_id="q", call_id="c", answer=""), "nobody answered\n"),
    (TurnSuspended(turn_id="t", call_ids=("c",)), "the turn waits for people: 1 call open\n"),
    (TurnResumed(turn_id="t", approval_ids=("a", "b")), "the turn goes on; 2 questions open\n"),
    (TurnResumed(turn_id="t", approval_ids=()), "the turn goes on\n"),
]


@pytest.mark.parametrize(("event", "line"), TOLD, ids=lambda value: type(value).__name__)
def test_what_happens_about_permissions_is_one_line(event: TurnEvent, line: str) -> None:
    text = shown(event)
    assert text.startswith(line)
    assert text.count("\n") == bool(line)


def test_private_data_is_told_where_it_matters() -> None:
    text = shown(SessionTainted(source="http_request"), PrivateDataRead(source="read_file"))
    assert text.endswith("the session has read private data, by read_file\n")

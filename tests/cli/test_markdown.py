"""A session as Markdown: what is shown of its events, in which order, and what no content can forge."""

from __future__ import annotations

import re

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.show.markdown import Markdown
from callboard.runtime.definitions import CallStatus, InputSource, SessionKind, Tier
from callboard.runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    SessionTainted,
    Stored,
    TurnEnded,
)
from callboard.runtime.history import Attachment, Text, Thinking
from callboard.runtime.store.rows import SessionRow

ROW = SessionRow(
    session_id="session_1",
    title="A `title`\x1b",
    agent="general",
    kind=SessionKind.MAIN,
    workspace="/work",
    model=None,
    parent_id=None,
    message_count=0,
    last_message_preview="",
    is_active=False,
    head_seq=0,
    created_at_ms=0,
    updated_at_ms=0,
    deleted_at_ms=None,
)


def rendered(*events: DurableEvent) -> str:
    markdown = Markdown(ROW)
    body = [markdown.add(Stored("session_1", n, 0, event)) for n, event in enumerate(events, 1)]
    return "".join([markdown.head(), *body, markdown.end()])


def proposed(call_id: str, name: str, arguments: str = "{}") -> CallProposed:
    return CallProposed(
        turn_id="t", message_id="m", call_id=call_id, index=0, name=name, arguments=arguments
    )


def finished(call_id: str, name: str, result: str = "{}") -> CallFinished:
    return CallFinished(
        turn_id="t", call_id=call_id, name=name, status=CallStatus.SUCCESS, result=result
    )


def test_files_that_came_with_a_result_are_named() -> None:
    made = msgspec.structs.replace(
        finished("a", "draw"),
        attachments=(
            Attachment("image/png", b"12345", "plan\x1b.png"),
            Attachment("image/png", b"1"),
        ),
    )
    text = rendered(proposed("a", "draw"), made)
    assert "*attached: plan\\x1b.png (image/png, 5 bytes)*" in text
    assert "*attached: without a name (image/png, 1 byte)*" in text
    late = rendered(
        proposed("a", "draw"),
        CallDeferred(turn_id="t", call_id="a", name="draw", approval_id="x", result="{}"),
        TurnEnded(turn_id="t", outcome="answered"),
        made,
    )
    assert "*attached: plan" in late


def test_a_conversation() -> None:
    text = rendered(
        InputAccepted(input_id="i", text="What\x1b[2J is there?"),
        MessageCompleted(
            turn_id="t",
            message_id="m",
            parts=(Thinking("private"), Text("I look.")),
            provider="openai",
            model="gpt",
        ),
        proposed("a", "list_directory"),
        proposed("b", "delete_file", "not json"),
        ApprovalAnswered(
            approval_id="p", call_id="b", decision="deny", answered_by="terminal", reason="keep it"
        ),
        finished("b", "delete_file"),
        finished("a", "list_directory", '{"status":"success"}'),
        TurnEnded(turn_id="t", outcome="failed", message="the server\nwent away"),
    )
    assert text.startswith("# A `title`\\x1b\n")
    assert "## You\n\nWhat\\x1b[2J is there?\n" in text
    assert "## Assistant (openai/gpt)\n" in text
    assert "private" not in text
    assert "(reasoning, 7 characters)" in text
    assert text.index("### list_directory: success") < text.index("### delete_file: success")
    assert "denied by terminal: keep it" in text
    assert '```json\n{\n  "status": "success"\n}\n```' in text
    assert "```\nnot json\n```" in text
    assert text.endswith("*failed: the server went away*\n")


def test_a_call_that_still_runs_is_pending() -> None:
    assert "### write_file: pending\n" in rendered(proposed("a", "write_file"))


def asked(call_id: str, name: str) -> ApprovalAsked:
    return ApprovalAsked(
        approval_id="approval_1",
        turn_id="t",
        call_id=call_id,
        name=name,
        tier=Tier.WORKSPACE,
        reason="overwrites a.txt",
        arguments='{"path":"a.txt"}',
        digest="d",
    )


def test_changed_arguments_stand_beside_those_that_were_asked_for() -> None:
    changed = '{"path":"b.txt"}'
    ran = CallFinished(
        turn_id="t",
        call_id="a",
        name="write_file",
        status=CallStatus.SUCCESS,
        result="{}",
        arguments=changed,
    )
    answer = ApprovalAnswered(
        approval_id="approval_1",
        call_id="a",
        decision="allow",
        answered_by="terminal",
        arguments=changed,
    )
    events = proposed("a", "write_file", '{"path":"a.txt"}'), asked("a", "write_file"), answer, ran
    text = rendered(*events)
    assert "question approval_1 (tier workspace): overwrites a.txt\n\nallowed by terminal\n" in text
    before, _, after = text.partition("changed to:")
    assert "a.txt" in before.split("```json")[1]
    assert "b.txt" in after
    assert "changed to" not in rendered(events[0], ran)


def test_what_happens_between_calls_does_not_tear_them_apart() -> None:
    text = rendered(
        proposed("a", "http_request"),
        SessionTainted(source="http_request"),
        finished("a", "http_request"),
    )
    assert "http_request: pending" not in text
    assert text.endswith(
        "*http_request may hold words of others: from now on less runs without a question*\n"
    )


def test_a_deferred_call_comes_to_its_end_in_a_turn_of_its_own() -> None:
    deferred = CallDeferred(
        turn_id="t",
        call_id="a",
        name="write_file",
        approval_id="approval_1",
        result='{"status":"pending_approval"}',
    )
    answer = ApprovalAnswered(
        approval_id="approval_1", call_id="a", decision="allow", answered_by="application"
    )
    text = rendered(
        proposed("a", "write_file"),
        asked("a", "write_file"),
        deferred,
        TurnEnded(turn_id="t", outcome="answered"),
        answer,
        InputAccepted(
            input_id="i",
            text="It is written.",
            source=InputSource.DEFERRED,
            call_id="a",
            approval_id="approval_1",
        ),
        finished("a", "write_file", '{"status":"success"}'),
        TurnEnded(turn_id="u", outcome="answered"),
    )
    first, _, late = text.partition("*write_file: allowed by application*")
    assert "### write_file: deferred\n" in first
    assert "pending_approval" in first
    assert "## Late result of call a\n\nIt is written.\n" in late
    assert "### write_file: success, 0 ms, late\n" in late


@given(st.text(st.sampled_from("`~\n ax\r"), max_size=60))
def test_no_result_can_break_out_of_its_fence(content: str) -> None:
    text = rendered(proposed("a", "read_file"), finished("a", "read_file", content))
    lines = text.splitlines()
    opened = [n for n, line in enumerate(lines) if re.match(r"`{3,}", line)]
    # Behind the fences of the arguments, one opens the result, and the last line closes it.
    fence = lines[-1]
    assert re.fullmatch(r"`{3,}", fence)
    start = opened[2]
    assert lines[start] in {fence, fence + "json"}
    assert not any(line.strip().startswith(fence) for line in lines[start + 1 : -1])

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.markdown import Markdown
from callboard.runtime.definitions import CallStatus, SessionKind
from callboard.runtime.events import (
    ApprovalAnswered,
    CallFinished,
    CallProposed,
    DurableEvent,
    InputAccepted,
    MessageCompleted,
    Stored,
    TurnEnded,
)
from callboard.runtime.history import Text, Thinking
from callboard.runtime.store import SessionRow

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
    assert "deny by terminal: keep it" in text
    assert '```json\n{\n  "status": "success"\n}\n```' in text
    assert "```\nnot json\n```" in text
    assert text.endswith("*failed: the server went away*\n")


def test_a_call_that_still_runs_is_pending() -> None:
    assert "### write_file: pending\n" in rendered(proposed("a", "write_file"))


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

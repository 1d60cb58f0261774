"""A session as Markdown, built event by event."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ...runtime.definitions import CallStatus, InputSource
from ...runtime.event_types.plan import plan_lines
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallFinished,
    CallProposed,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    PlanSet,
    Stored,
    TurnEnded,
)
from ...runtime.history import Attachment, Refusal, Text, Thinking
from ...runtime.store.rows import SessionRow
from ..record_names import waiting_words
from ..terminal.escaping import safe_json, safe_line, safe_text
from ..terminal.style import counted, minute, seconds
from .event_lines import LineEvent, TroubleEvent, answer_line, event_line, trouble_line

_TICKS = re.compile(r"`+")


class Markdown:
    """Folds the events of one session into text.

    The calls of an answer come in the model's order, each with its result, once all are there.
    """

    def __init__(self, row: SessionRow, below: Sequence[SessionRow] = ()) -> None:
        self._row = row
        self._below = below
        self._calls: dict[str, CallProposed] = {}
        self._finished: dict[str, CallFinished] = {}
        self._asked: dict[str, list[str]] = {}
        self._deferred: dict[str, CallDeferred] = {}
        self._edited: set[str] = set()
        self._behind: list[str] = []

    def head(self) -> str:
        """Return the heading and the facts above the conversation."""
        row = self._row
        lines = [
            f"# {safe_line(row.title) or 'Untitled'}",
            "",
            f"- session: {row.session_id}",
            f"- agent: {safe_line(row.agent)}",
            f"- workspace: {safe_line(row.workspace)}",
            f"- begun: {minute(row.created_at_ms)}",
            *([f"- {waits}"] if (waits := waiting_words(row)) else []),
        ]
        if row.parent_id is not None:
            lines.append(f"- {row.kind} of: {row.parent_id}")
        lines += [
            f"- {each.kind} below: {each.session_id} ({safe_line(each.title)})"
            for each in self._below
        ]
        if row.deleted_at_ms is not None:
            lines.append("- deleted")
        return "\n".join(lines) + "\n"

    def add(self, stored: Stored) -> str:
        """Return what an event adds to the text; it may be nothing yet."""
        match stored.event:
            case InputAccepted() as said:
                return _input(said)
            case MessageCompleted() as message:
                return self._take_calls() + _message(message)
            case CallProposed() as call:
                self._calls[call.call_id] = call
                return ""
            case ApprovalAsked() | ApprovalAnswered() | CallDeferred() | CallFinished() as event:
                return self._of_call(event)
            case event if isinstance(event, TroubleEvent):
                head = f"{self._take_calls()}\n*{safe_line(trouble_line(event))}*\n"
                if isinstance(event, HistoryCompacted):
                    head += f"\n## Summary\n\n{safe_text(event.summary).rstrip()}\n"
                return head
            case TurnEnded(outcome="answered"):
                return self._take_calls()
            case TurnEnded() as ended:
                why = f"{ended.outcome}: {ended.message}" if ended.message else ended.outcome
                return f"{self._take_calls()}\n*{safe_line(why)}*\n"
            case event if isinstance(event, LineEvent):
                items = plan_lines(event.items) if isinstance(event, PlanSet) else []
                lines = "".join(f"- {safe_line(line)}\n" for line in items)
                text = f"\n*{safe_line(event_line(event))}*\n"
                return self._said(f"{text}\n{lines}" if lines else text)
            case _:
                return ""

    def end(self) -> str:
        """Return the calls that are still open."""
        return self._take_calls()

    def _said(self, text: str) -> str:
        """Return a paragraph, or keep it until the open calls are written."""
        if not self._calls:
            return text
        self._behind.append(text)
        return ""

    def _of_call(
        self, event: ApprovalAsked | ApprovalAnswered | CallDeferred | CallFinished
    ) -> str:
        """Take an event of a call; that of a deferred one may come turns after it."""
        call_id = event.call_id
        deferred = self._deferred.get(call_id)
        is_late = call_id not in self._calls and deferred is not None
        match event:
            case CallDeferred():
                self._deferred[call_id] = event
            case CallFinished():
                self._deferred.pop(call_id, None)
                if is_late:
                    return self._said(_finished(event))
                self._finished[call_id] = event
            case ApprovalAsked() | ApprovalAnswered():
                line = (
                    answer_line(event) if isinstance(event, ApprovalAnswered) else event_line(event)
                )
                if deferred is not None and is_late:
                    return self._said(f"\n*{safe_line(f'{deferred.name}: {line}')}*\n")
                self._asked.setdefault(call_id, []).append(line)
                if isinstance(event, ApprovalAnswered) and event.arguments is not None:
                    self._edited.add(call_id)
        return ""

    def _take_calls(self) -> str:
        calls = "".join(map(self._call, self._calls.values()))
        behind = "".join(self._behind)
        self._calls, self._finished, self._asked, self._behind = {}, {}, {}, []
        self._edited = set()
        return calls + behind

    def _call(self, call: CallProposed) -> str:
        """Return a call with what was said about it and what came of it."""
        finished = self._finished.get(call.call_id)
        deferred = self._deferred.get(call.call_id)
        status = CallStatus.PENDING if deferred is None else CallStatus.DEFERRED
        took = ""
        if finished is not None:
            status, took = finished.status, f", {seconds(finished.duration_ms)}"
        pieces = [f"\n### {safe_line(call.name)}: {status}{took}\n"]
        pieces += (f"\n{safe_line(line)}\n" for line in self._asked.get(call.call_id, ()))
        ran = finished.arguments if finished is not None else None
        if ran is not None and call.call_id in self._edited:
            pieces += [_fenced(call.arguments), "\nchanged to:\n"]
        pieces.append(_fenced(call.arguments if ran is None else ran))
        result = finished or deferred
        if result is not None:
            pieces.append(_fenced(result.result))
        if finished is not None:
            pieces.append(_files(finished.attachments))
        return "".join(pieces)


def _input(said: InputAccepted) -> str:
    head = "You"
    if said.source is InputSource.DEFERRED:
        head = f"Late result of call {safe_line(said.call_id)}"
    elif said.source is InputSource.DELEGATE:
        head = f"Answer of {safe_line(said.child_id)}"
    return f"\n## {head}\n\n{safe_text(said.text).rstrip()}\n{_files(said.attachments)}"


def _files(attachments: Sequence[Attachment]) -> str:
    """Return which files came with an input or a result."""
    return "".join(
        f"\n*attached: {safe_line(file.name) or 'without a name'} "
        f"({safe_line(file.media_type)}, {counted(len(file.data), 'byte')})*\n"
        for file in attachments
    )


def _message(message: MessageCompleted) -> str:
    model = safe_line(f"{message.provider}/{message.model}")
    mark = ", cut off" if message.incomplete else ""
    lines = [f"\n## Assistant ({model}{mark})\n"]
    for part in message.parts:
        match part:
            case Text(text=text) | Refusal(text=text):
                lines.append(f"\n{safe_text(text).rstrip()}\n")
            case Thinking(text=text):
                lines.append(f"\n*(reasoning, {len(text)} characters)*\n")
            case _:
                pass
    return "".join(lines)


def _finished(call: CallFinished) -> str:
    """Return a call that ran turns after it was asked for."""
    head = f"\n### {safe_line(call.name)}: {call.status}, {seconds(call.duration_ms)}, late\n"
    given, came = _fenced(call.arguments or "{}"), _fenced(call.result)
    return head + given + came + _files(call.attachments)


def _fenced(content: str) -> str:
    """Return a block that no content can close: its fence is longer than any run of ticks inside."""
    language = ""
    try:
        content = msgspec.json.format(content, indent=2)
        language = "json"
    except msgspec.DecodeError:
        pass  # a model's arguments need not be JSON
    content = safe_json(content) if language else safe_text(content)
    longest = max((len(run) for run in _TICKS.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}{language}\n{content}\n{fence}\n"

"""A session as Markdown, built event by event."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

from ..runtime.definitions import CallStatus
from ..runtime.events import (
    ApprovalAnswered,
    AttemptFailed,
    CallFinished,
    CallProposed,
    HistoryCompacted,
    InputAccepted,
    MessageCompleted,
    ModelSwitched,
    ProviderSetAside,
    Stored,
    TurnEnded,
)
from ..runtime.history import Refusal, Text, Thinking
from ..runtime.store import SessionRow
from .escaping import safe_line, safe_text
from .style import counted, seconds
from .trouble import trouble

_TICKS = re.compile(r"`+")


class Markdown:
    """Folds the events of one session into text.

    The calls of an answer come in the model's order, each with its result, once all are there.
    """

    def __init__(self, row: SessionRow) -> None:
        self._row = row
        self._calls: dict[str, CallProposed] = {}
        self._finished: dict[str, CallFinished] = {}
        self._answers: dict[str, ApprovalAnswered] = {}

    def head(self) -> str:
        """What stands above the conversation."""
        row = self._row
        created = datetime.fromtimestamp(row.created_at_ms / 1000).astimezone()
        lines = [
            f"# {safe_line(row.title) or 'Untitled'}",
            "",
            f"- session: {row.session_id}",
            f"- agent: {safe_line(row.agent)}",
            f"- workspace: {safe_line(row.workspace)}",
            f"- begun: {created:%Y-%m-%d %H:%M}",
        ]
        if row.deleted_at_ms is not None:
            lines.append("- deleted")
        return "\n".join(lines) + "\n"

    def add(self, stored: Stored) -> str:
        """What this event adds to the text; it may be nothing yet."""
        match stored.event:
            case InputAccepted() as said:
                return _input(said)
            case MessageCompleted() as message:
                return self._take_calls() + _message(message)
            case CallProposed() as call:
                self._calls[call.call_id] = call
                return ""
            case ApprovalAnswered() as answer:
                self._answers[answer.call_id] = answer
                return ""
            case CallFinished() as finished:
                self._finished[finished.call_id] = finished
                return ""
            case AttemptFailed() | ModelSwitched() | ProviderSetAside() as event:
                return f"{self._take_calls()}\n*{safe_line(trouble(event))}*\n"
            case HistoryCompacted() as event:
                head = f"{self._take_calls()}\n*{safe_line(trouble(event))}*\n"
                return f"{head}\n## Summary\n\n{safe_text(event.summary).rstrip()}\n"
            case TurnEnded() as ended:
                return self._take_calls() + _turn_end(ended)
            case _:
                return ""

    def end(self) -> str:
        """What is still open, when the turn still runs."""
        return self._take_calls()

    def _take_calls(self) -> str:
        text = "".join(
            _call(call, self._finished.get(call_id), self._answers.get(call_id))
            for call_id, call in self._calls.items()
        )
        self._calls, self._finished, self._answers = {}, {}, {}
        return text


def _input(said: InputAccepted) -> str:
    files = "".join(
        f"\n*attached: {safe_line(file.name) or 'without a name'} "
        f"({safe_line(file.media_type)}, {counted(len(file.data), 'byte')})*\n"
        for file in said.attachments
    )
    return f"\n## You\n\n{safe_text(said.text).rstrip()}\n{files}"


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


def _call(
    call: CallProposed, finished: CallFinished | None, answer: ApprovalAnswered | None
) -> str:
    status = finished.status if finished is not None else CallStatus.PENDING
    took = f", {seconds(finished.duration_ms)}" if finished is not None else ""
    pieces = [f"\n### {safe_line(call.name)}: {status}{took}\n"]
    if answer is not None:
        said = f": {answer.reason}" if answer.reason else ""
        pieces.append(f"\n{safe_line(f'{answer.decision} by {answer.answered_by}{said}')}\n")
    ran = finished.arguments if finished is not None else None
    pieces.append(_fenced(ran if ran is not None else call.arguments))
    if finished is not None:
        pieces.append(_fenced(finished.result))
    return "".join(pieces)


def _turn_end(ended: TurnEnded) -> str:
    if ended.outcome == "answered":
        return ""
    said = f": {ended.message}" if ended.message else ""
    return f"\n*{safe_line(ended.outcome + said)}*\n"


def _fenced(content: str) -> str:
    """A block that no content can close: its fence is longer than any run of ticks inside."""
    language = ""
    try:
        content = msgspec.json.format(content, indent=2)
        language = "json"
    except msgspec.DecodeError:
        pass  # a model's arguments may be no JSON at all
    content = safe_text(content)
    longest = max((len(run) for run in _TICKS.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}{language}\n{content}\n{fence}\n"

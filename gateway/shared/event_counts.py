"""Count events since the daemon's start for monitors, and log a line for each.

It hears every event that the journal has committed. No prompt, answer, argument or result is logged.
"""

from __future__ import annotations

from collections import Counter

from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    DurableEvent,
    MessageCompleted,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from ...runtime.redaction import redacting_logger

logger = redacting_logger(__name__)

_HAPPENED = (SessionCreated, TurnStarted, TurnEnded, CallFinished, ApprovalAsked, ApprovalAnswered)
"""Events that are logged as `info`; the others as `debug`."""


class EventCounts:
    """Counts since the start.

    Attributes:
        turns: That ended, by outcome.
        calls: That ended, by state.
        tokens: Of models, by `input` and `output`.
        events: On record.
    """

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.events = 0

    def take(self, stored: tuple[Stored, ...]) -> None:
        """Count and log committed events; never wait, never fail."""
        for each in stored:
            self.events += 1
            self._count(each.event)
            log = logger.info if isinstance(each.event, _HAPPENED) else logger.debug
            log("%s #%d %s", each.session_id, each.seq, log_text(each.event))

    def _count(self, event: DurableEvent) -> None:
        match event:
            case TurnEnded():
                self.turns[event.outcome] += 1
            case CallFinished():
                self.calls[event.status] += 1
            case MessageCompleted() if event.usage is not None:
                self.tokens["input"] += event.usage.input_tokens or 0
                self.tokens["output"] += event.usage.output_tokens or 0


def log_text(event: DurableEvent) -> str:
    """An event as the log names it."""
    tag = str(event.__struct_config__.tag)
    match event:
        case SessionCreated():
            return f"{tag} agent={event.agent}"
        case TurnStarted():
            return f"{tag} {event.turn_id} {event.provider}/{event.model}"
        case TurnEnded():
            return f"{tag} {event.turn_id} {event.outcome} {event.error_type or ''}".rstrip()
        case CallFinished():
            return f"{tag} {event.call_id} {event.status} in {event.duration_ms} ms"
        case ApprovalAsked():
            return f"{tag} {event.approval_id}"
        case ApprovalAnswered():
            return f"{tag} {event.approval_id} {event.decision}"
    return tag

"""What `--verbose` adds to a run or a chat: each request to a model, and why each call ran, asked or did not."""

from __future__ import annotations

from ...config.prices import PriceTable
from ...runtime.definitions import CallStatus
from ...runtime.event_types.calls import CallFinished, CallProposed
from ...runtime.event_types.permissions import ApprovalAnswered, ApprovalAsked
from ...runtime.events import AttemptFailed, MessageCompleted
from ...runtime.history import Call
from ..terminal.style import cost_text, counted, seconds
from .transcript import TurnEvent


class VerboseLines:
    """Makes the lines of `--verbose` from the events of a session, in their order."""

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._requests = 0
        self._asked: dict[str, str] = {}

    def line(self, event: TurnEvent) -> str | None:
        """Return the line for an event, if it has one; it holds foreign text."""
        match event:
            case MessageCompleted():
                self._requests += 1
                return f"request {self._requests}: {self._request(event)}"
            case AttemptFailed():
                self._requests += 1
                return f"request {self._requests}: {event.provider}/{event.model} failed"
            case CallProposed():
                self._asked.pop(event.call_id, None)
            case ApprovalAsked():
                self._asked[event.call_id] = "asked about"
                return f"policy: {event.name} ({event.tier}) asks a person: {event.reason}"
            case ApprovalAnswered():
                by = "a remembered answer" if event.grant_id else event.answered_by
                self._asked[event.call_id] = f"{event.decision} by {by}"
            case CallFinished():
                said = self._asked.pop(event.call_id, "")
                if not said and event.status is CallStatus.DENIED:
                    said = "denied without a question"
                return f"policy: {event.name}: {said or 'not asked about'}"
            case _:
                pass
        return None

    def _request(self, event: MessageCompleted) -> str:
        said = [f"{event.provider}/{event.model}", seconds(event.duration_ms)]
        if (usage := event.usage) is None:
            said.append("tokens not counted")
        else:
            cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
            read, written = (
                "?" if count is None else f"{count:,}"
                for count in (usage.input_tokens, usage.output_tokens)
            )
            said.append(f"{read} tokens in{cached}, {written} out")
            if (cost := self._prices.cost(event.provider, event.model, usage)) is not None:
                said.append(cost_text(cost, 0, 0))
        calls = sum(isinstance(part, Call) for part in event.parts)
        said.append(f"asks for {counted(calls, 'call')}" if calls else "answers")
        if event.stop_reason:
            said.append(f"ended by {event.stop_reason}")
        return ", ".join(said)

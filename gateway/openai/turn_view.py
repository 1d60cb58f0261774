"""A turn as its events tell it: what is open, what it used, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable

from ...embedding.turn import TurnEvent
from ...runtime.events import (
    ApprovalAnswered,
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProposed,
    ChildAsks,
    HistoryCompacted,
    MessageCompleted,
    QuestionAnswered,
    QuestionAsked,
    TurnEnded,
)
from ...tools.client_tool import BY_CLIENT
from ..door.exchange import COMMENT, ResponseStream
from .usage import TurnUsage


class TurnView:
    """Follows one turn.

    Args:
        client_tools: The names of the tools that the client runs.

    Attributes:
        usage: The tokens so far.
        messages: The complete answers, in order.
        open_calls: Calls without a result, by id.
        waits_for: What a person is asked about, by id.
        asks: The questions about calls among these.
        ended: The end.
    """

    def __init__(self, client_tools: Iterable[str] = ()) -> None:
        self.usage = TurnUsage()
        self.messages: list[MessageCompleted] = []
        self.open_calls: dict[str, CallProposed] = {}
        self.waits_for: dict[str, None] = {}
        self.asks: dict[str, ApprovalAsked] = {}
        self.ended: TurnEnded | None = None
        self._asked_below: list[str] = []
        self._told: dict[str, None] = {}
        self._client_tools = tuple(client_tools)  # few, and mostly none, which takes no room

    def is_clients(self, call: CallProposed | CallFinished) -> bool:
        """Whether the client runs the tool of a call."""
        return call.name in self._client_tools

    @property
    def client_calls(self) -> list[CallProposed]:
        """The open calls, when the client has all of them: nothing happens until it brings results."""
        calls = [*self.open_calls.values()]
        return calls if not self.waits_for and all(map(self.is_clients, calls)) else []

    @property
    def asked_alone(self) -> bool:
        """Whether nothing happens until questions about calls, or the client's calls, are answered."""
        asked = {each.call_id for each in self.asks.values()}
        return bool(asked) and all(
            call_id in asked or self.is_clients(call) for call_id, call in self.open_calls.items()
        )

    @property
    def is_complete(self) -> bool:
        """Whether nothing more comes without the client."""
        return self.ended is not None or bool(self.client_calls)

    def waits(self, stream: ResponseStream) -> bytes:
        """Return a comment about each person that the turn waits for, when that is new; they are repeated.

        What sessions below ask is said once: when it is answered, this session is not told.
        """
        below = _comments(self._asked_below)
        self._asked_below.clear()
        if (waits := self.waits_for.copy()) == self._told:
            return below
        self._told = waits
        said = _comments(waits)
        stream.comment = said or COMMENT
        return said + below

    def take(self, event: TurnEvent) -> None:
        """Take the next event into account."""
        match event:
            case MessageCompleted():
                self.usage.take(event)
                self.messages.append(event)
            case HistoryCompacted() | AttemptFailed() | AttemptCharged():
                self.usage.take(event)
            case CallProposed():
                self.open_calls[event.call_id] = event
            case CallFinished() | CallDeferred():
                self.open_calls.pop(event.call_id, None)
            case ApprovalAsked(approval_id=name) | QuestionAsked(question_id=name):
                self.waits_for[name] = None
                if isinstance(event, ApprovalAsked):
                    self.asks[name] = event
            case ApprovalAnswered(approval_id=name) | QuestionAnswered(question_id=name):
                self.waits_for.pop(name, None)
                self.asks.pop(name, None)
            case ChildAsks(question_id=name):
                self._asked_below.append(name)
            case TurnEnded():
                self.ended = event
            case _:
                pass


def _comments(questions: Iterable[str]) -> bytes:
    return "".join(f": waits for a person {each}\n\n" for each in questions).encode()


class AnswerParts:
    """Tells the answers of one turn apart: each ends where the turn waits for its client.

    Args:
        via: The protocol of the client.

    Attributes:
        number: Of the present answer.
    """

    def __init__(self, via: str) -> None:
        self.number = 0
        self._via = via
        self._awaited: frozenset[str] = frozenset()

    def begins(self, view: TurnView, event: TurnEvent) -> bool:
        """Return whether an event, which the view has not taken yet, is the first of the next answer."""
        match event:
            case CallFinished(call_id=name, display=display) if display == BY_CLIENT:
                pass
            case ApprovalAnswered(approval_id=name, answered_by=who) if (
                who.endswith(f" via {self._via}") and name in view.asks
            ):
                pass
            case _:
                return False
        if name in self._awaited:  # brought with another one
            return False
        self._awaited = frozenset({*view.asks, *view.open_calls})
        self.number += 1
        return True

"""Calls that wait for a person while their turn goes on: what the model is told, and when.

call ──▶ its question is on record, and the model hears "pending": the call's one result
answer ─▶ on record with an input, which has a turn of its own
turn ──▶ runs the call, if it may; what came of it is the input's text; then the model goes on
"""

from __future__ import annotations

import msgspec

from ...runtime.definitions import CallStatus, SessionKind
from ...runtime.events import CallDeferred, CallFinished, CallProposed, InputAccepted
from ...runtime.history import Input
from ...runtime.messages import ApprovalAnswer, CallPlace, Decision

MAX_DEFERRED = 256
"""Questions of one session that wait so: as many as one answer may have calls. No person reads more."""

PENDING_TEXT = (
    "Not run yet: a person is asked about this call, and nobody waits for the answer. Go on without "
    "it, and don't ask for the same again. What comes of it is told later, as an input that names "
    "this approval_id."
)


def defers(place: CallPlace, decision: Decision) -> bool:
    """Whether a turn goes on while a person is asked; who delegated waits for the whole answer."""
    return (place.agent.defer or decision.defer) and place.session_kind is SessionKind.MAIN


def pending_result(approval_id: str) -> str:
    """What the model gets in the place of the call's result, as JSON text."""
    result = {"status": "pending_approval", "approval_id": approval_id, "message": PENDING_TEXT}
    return msgspec.json.encode(result).decode()


def answered_text(name: str, approval_id: str, answer: ApprovalAnswer) -> str:
    """What stands on record as the input that an answer becomes; the model hears more."""
    said = f": {answer.reason}" if answer.reason else ""
    what = {
        "allow": f"{answer.answered_by} allowed the call of {name}{said}",
        "deny": f"{answer.answered_by} denied the call of {name}{said}",
    }.get(answer.decision, f"nobody answered in time about the call of {name}")
    return f"{approval_id}: {what}"


def late_text(event: CallFinished, approval_id: str) -> str:
    """What the model hears of a deferred call that has its result."""
    outcome = {
        CallStatus.SUCCESS: "was allowed, and has run",
        CallStatus.DENIED: "was not allowed, and did not run",
        CallStatus.CANCELLED: "was cancelled",
        CallStatus.INTERRUPTED: "was interrupted",
    }.get(event.status, "was allowed, and failed")
    arguments = f" with {event.arguments}" if event.arguments else ""
    return (
        f"The call of {event.name} that was pending as {approval_id}{arguments} {outcome}. This is "
        f"its result, and no request of a person:\n{event.result}"
    )


def asked_again_text(event: CallDeferred, before: str) -> str:
    """What the model hears of a deferred call that can't run as it was allowed."""
    return (
        f"The call of {event.name} that was pending as {before} did not run: what it was allowed "
        f"under has changed since. It is asked about anew, and is pending as {event.approval_id}."
    )


class DeferredCalls:
    """The deferred calls of a session, and the inputs that bring their results.

    Attributes:
        calls: Those that have no result, by id.
        inputs: By id, the inputs with answers about them, until their turns are over.
        names: By call, the question by whose id the model knows that it is pending: what a person
            changed may have been asked about by another id since.
    """

    def __init__(self) -> None:
        self.calls: dict[str, CallProposed] = {}
        self.inputs: dict[str, InputAccepted] = {}
        self.names: dict[str, str] = {}

    def defer(self, call: CallProposed, event: CallDeferred) -> None:
        """A call is pending, and the model hears by which id."""
        self.calls[event.call_id] = call
        self.names[event.call_id] = event.approval_id

    def accept(self, event: InputAccepted) -> str:
        """Takes an input into account, if it is about a deferred call; gives its text."""
        if not event.approval_id:
            return event.text
        self.inputs[event.input_id] = event
        known = self.names.get(event.call_id, event.approval_id)
        return event.text if known == event.approval_id else f"{known} is now {event.text}"

    def due(self, input_ids: tuple[str, ...]) -> dict[str, CallProposed]:
        """The calls that a turn for these inputs runs first."""
        named = (self.inputs[each].call_id for each in input_ids if each in self.inputs)
        return {call_id: self.calls[call_id] for call_id in named if call_id in self.calls}

    def forget(self, input_ids: tuple[str, ...]) -> None:
        """These inputs have had their turns, or will have none."""
        for input_id in input_ids:
            self.inputs.pop(input_id, None)

    def told(
        self, event: CallFinished | CallDeferred, input_ids: tuple[str, ...]
    ) -> tuple[int, Input] | None:
        """What the model hears, by which of the turn's inputs; `None` when no input is about it."""
        known = self.names.get(event.call_id, "")
        if isinstance(event, CallFinished):
            self.names.pop(event.call_id, None)
        for at, input_id in enumerate(input_ids):
            accepted = self.inputs.get(input_id)
            if accepted is not None and accepted.call_id == event.call_id:
                before = accepted.approval_id
                if known not in {"", before}:
                    before = f"{known} (and since as {before})"
                if isinstance(event, CallDeferred):
                    return at, Input(asked_again_text(event, before))
                return at, Input(late_text(event, before))
        return None

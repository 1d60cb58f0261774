"""When the last turn of a session may be set aside and run again; see `TurnSetAside`."""

from __future__ import annotations

from ...runtime.definitions import SessionKind
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.events import TurnSetAside
from ...runtime.messages import RerunTurn
from ..conversation.conversation import Conversation

ANSWERED = "answered"
"""The outcome of a turn that leaves nothing to retry."""


def set_aside(conversation: Conversation, message: RerunTurn, *, is_busy: bool) -> TurnSetAside:
    """Return the event that sets the last turn aside.

    Args:
        conversation: The session.
        message: The request.
        is_busy: Whether a turn runs, or inputs wait for theirs.

    Raises:
        ConflictError: The session does something else, or there is nothing to run again.
        NotFoundError: The message is not of the last turn.
    """
    name, last = message.session_id, conversation.last_turn
    if conversation.is_deleted:
        raise ConflictError(f"{name} is deleted, and runs no turns: restore it first")
    if is_busy or conversation.turn_id is not None:
        raise ConflictError(
            f"a turn of {name} runs or waits, so there is no last one to run again: wait for its "
            "end, or cancel it first"
        )
    known = last.messages | {*conversation.turn_inputs, f"error:{last.turn_id}"}
    if message.message_id is not None and (not last.turn_id or message.message_id not in known):
        raise NotFoundError(
            f"{message.message_id} is no message of the last turn of {name}, and only that one is "
            "run again: leave the message out to mean it"
        )
    if conversation.deleted.intersection(conversation.turn_inputs):
        raise ConflictError(
            f"what was asked in the last turn of {name} was deleted: prompt again instead",
            kind="state",
        )
    if conversation.kind is not SessionKind.MAIN:
        raise ConflictError(
            f"{name} was delegated, and its parent has the answer: run the turn of that session again",
            kind="state",
        )
    if (nothing := _nothing(conversation, message)) is not None:
        raise ConflictError(nothing, kind="state")
    if any(call.turn_id == last.turn_id for call in conversation.pending.calls.values()):
        raise ConflictError(
            f"calls of the last turn of {name} wait for an answer, and the model gets their results: "
            "answer them first (`callboard approvals` lists them)",
            kind="state",
        )
    aside = TurnSetAside(
        turn_id=last.turn_id,
        input_ids=conversation.turn_inputs,
        why=message.why,
        request=message.request,
    )
    try:
        last.inputs(aside)  # an event that can't be folded would spoil the record for good
    except ValueError as error:
        raise ConflictError(
            f"the record of the last turn of {name} contradicts itself, so it is not run again: "
            "prompt again instead",
            kind="state",
        ) from error
    return aside


def _nothing(conversation: Conversation, message: RerunTurn) -> str | None:
    """Return why there is nothing to run again, or `None`."""
    name, last = message.session_id, conversation.last_turn
    if not last.turn_id:
        return f"no turn has ended yet in {name}, so there is nothing to run again"
    if not conversation.turn_inputs:
        return f"the last turn of {name} was asked nothing, so there is nothing to run again"
    if message.why == "retry" and last.outcome == ANSWERED:
        return f"the last turn of {name} was answered, so there is nothing to retry: regenerate it instead"
    if message.why == "regenerate" and not last.messages:
        return (
            f"the last turn of {name} has no answer, so there is nothing to regenerate: retry it "
            "instead"
        )
    return None

"""Which questions to people begin with an event."""

from __future__ import annotations

from ...runtime.events import ApprovalAsked, ChildAsks, QuestionAsked, TurnResumed
from ..show.transcript import TurnEvent


def questions_of(event: TurnEvent) -> tuple[str, ...]:
    """The questions that a person is asked from here on."""
    match event:
        case ApprovalAsked(approval_id=approval_id, same_as="", is_deferred=False):
            return (approval_id,)
        case TurnResumed(approval_ids=approval_ids):
            return approval_ids
        case ChildAsks(question_id=question_id) | QuestionAsked(question_id=question_id):
            return (question_id,)
        case _:
            return ()

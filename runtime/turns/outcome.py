"""What came of a turn, for whoever asked: the answer's text, or the error that stands for it."""

from __future__ import annotations

from ..errors import BudgetError, CallboardError, error_of
from ..events import MessageCompleted, TurnEnded
from ..history import Refusal, Text


def text_of_answer(message: MessageCompleted) -> str:
    """The words of an answer, without what the model thought and called."""
    return "".join(part.text for part in message.parts if isinstance(part, Text | Refusal))


def error_of_turn(ended: TurnEnded) -> CallboardError:
    """The error for a turn that was not answered."""
    text = ended.message or f"the turn ended: {ended.outcome}"
    kind = BudgetError.type if ended.outcome == "budget" else "conflict"
    return error_of(ended.error_type or kind, text)

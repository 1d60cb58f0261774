"""What people say in a session, as rows: for whoever looks at it and did not type it."""

from __future__ import annotations

from ...runtime.definitions import InputSource
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    TurnStarted,
)
from ..terminal.escaping import safe_line, safe_text
from ..terminal.style import Style, counted, data_size

MAX_PROMPT_ROWS = 20
"""Of a prompt: whoever pasted more has it; the whole is on record."""
MODEL_HEARS = "the model hears that now"


def cancelled(reason: str) -> str:
    """Return what is said below an input that will have no turn."""
    return f"this input is cancelled: {reason}"


def input_text(said: InputAccepted, style: Style) -> str:
    """Return the rows of an input, with its files and, if that was another protocol, who sent it."""
    sign = "▸" if style.signs else ">"
    first, *others = safe_text(said.text).split("\n")
    rows = [f"{sign} {first}", *(f"  {line}" for line in others)]
    shown = [style.paint(row, "bold") for row in rows[:MAX_PROMPT_ROWS]]
    notes = []
    if left := len(rows[MAX_PROMPT_ROWS:]):
        notes.append(f"  … {counted(left, 'more line')}")
    notes += [
        f"  attached: {safe_line(file.name)} ({data_size(len(file.data))})"
        for file in said.attachments
    ]
    if said.via:
        notes.append(f"  sent by {safe_line(said.via)}")
    return "\n".join(["", *shown, *(style.paint(note, "dim") for note in notes), ""])


class Inputs:
    """Keeps the inputs of a session until a turn takes them, as many as the session lets wait.

    Args:
        style: What can be shown.
    """

    def __init__(self, style: Style) -> None:
        self._style = style
        self._waiting: dict[str, InputAccepted] = {}

    def take(self, event: DurableEvent) -> list[tuple[str, str]]:
        """Return the rows of each input that is due with this event, with what is said below them."""
        match event:
            case InputAccepted(source=InputSource.PERSON):
                self._waiting[event.input_id] = event
            case InputDelivered(input_id=input_id):
                return self._due(input_id, MODEL_HEARS)
            case InputCancelled(input_id=input_id, reason=reason):
                return self._due(input_id, cancelled(reason))
            case TurnStarted(input_ids=input_ids):
                return [each for input_id in input_ids for each in self._due(input_id)]
            case _:
                pass
        return []

    def _due(self, input_id: str, note: str = "") -> list[tuple[str, str]]:
        said = self._waiting.pop(input_id, None)
        return [] if said is None else [(input_text(said, self._style), note)]

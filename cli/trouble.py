"""What went wrong with a model, and what was done about it, in one line each."""

from __future__ import annotations

from typing import assert_never

from ..runtime.events import AttemptFailed, HistoryCompacted, ModelSwitched, ProviderSetAside
from .style import counted, seconds

Trouble = AttemptFailed | ModelSwitched | ProviderSetAside | HistoryCompacted

_ADVICE = (
    " Try again a little later.",
    " Try again.",
    " Check the key of this provider.",
    " The call was stopped; try again, or take another model.",
)
"""What just happens needs no advice."""


def trouble(event: Trouble) -> str:
    """The line for an event; it holds foreign text."""
    match event:
        case AttemptFailed():
            message = _without_advice(event.message)
            wait = seconds(round(event.wait_seconds * 1000))
            return f"{event.provider}: {message} Again in {wait} (attempt {event.attempt + 1})."
        case ModelSwitched():
            return f"switched to {event.provider}/{event.model}: {_without_advice(event.reason)}"
        case ProviderSetAside():
            wait = seconds(round(event.seconds * 1000))
            return f"{event.provider} is set aside for {wait}: {_without_advice(event.reason)}"
        case HistoryCompacted():
            rounds = counted(event.rounds, "round")
            return (
                f"the history was too long for {event.provider}/{event.model}: "
                f"a summary stands for its first {rounds}"
            )
        case _:
            assert_never(event)


def _without_advice(message: str) -> str:
    for advice in _ADVICE:
        # Remarks may follow it: what else was tried, which model could not be asked.
        message = message.replace(advice, "")
    return message

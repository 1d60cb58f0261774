"""What went wrong with a model, and what was done about it, in one line each."""

from __future__ import annotations

from typing import assert_never

from ..runtime.events import AttemptFailed, HistoryCompacted, ModelSwitched, ProviderSetAside
from .style import counted, seconds

Trouble = AttemptFailed | ModelSwitched | ProviderSetAside | HistoryCompacted


def trouble(event: Trouble) -> str:
    """The line for an event; it holds foreign text."""
    match event:
        case AttemptFailed():
            wait = seconds(round(event.wait_seconds * 1000))
            return (
                f"{event.provider}: {event.message} Again in {wait} (attempt {event.attempt + 1})."
            )
        case ModelSwitched():
            return f"switched to {event.provider}/{event.model}: {event.reason}"
        case ProviderSetAside():
            wait = seconds(round(event.seconds * 1000))
            return f"{event.provider} is set aside for {wait}: {event.reason}"
        case HistoryCompacted():
            rounds = counted(event.rounds, "round")
            return (
                f"the history was too long for {event.provider}/{event.model}: "
                f"a summary stands for its first {rounds}"
            )
        case _:
            assert_never(event)

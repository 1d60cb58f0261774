"""The two ways to follow a run: as a transcript for people, or as events for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from ...config.prices import PriceTable
from ...config.settings import Settings
from ...runtime.events import Stored
from ...runtime.store.rows import CallRow
from ..terminal.complaint import complain
from ..terminal.json_lines import EventLine, json_line, stored_line
from ..terminal.style import style_of
from .transcript import Transcript, TurnEvent


class JsonView:
    """One event a line; notices go to the other stream."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._session_id = ""

    def begin(
        self, session_id: str, model: str, reason: str, folder: str, begun: Sequence[Stored]
    ) -> None:
        """Print how the session began, when it is new."""
        self._session_id = session_id
        for stored in begun:
            self._write(stored_line(stored))

    def show(self, event: TurnEvent, seq: int | None, at_ms: int) -> None:
        """Print the event."""
        line = EventLine(
            session_id=self._session_id,
            seq=seq,
            at_ms=at_ms if seq is not None else None,
            event=event,
        )
        self._write(json_line(line))

    def notice(self, text: str) -> None:
        """Say it on stderr."""
        complain(text)

    def know(self, calls: Iterable[CallRow]) -> None:
        """Do nothing: programs have the record."""

    def interrupt(self) -> None:
        """Do nothing: JSON lines are always whole."""

    def answered_here(self, approval_id: str) -> None:
        """Do nothing: programs have the event, which says who answered."""


RunView = Transcript | JsonView


def view_of(write: Callable[[str], object], settings: Settings, *, json: bool) -> RunView:
    """Return what shows a run on stdout; `write` takes its text."""
    if json:
        return JsonView(write)
    return Transcript(write, style_of(sys.stdout), prices=PriceTable(settings.prices))

"""The ways to follow a run: a transcript for people, beside the answer or with it, or events for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ...config.prices import PriceTable
from ...config.settings import Settings
from ...runtime.events import MessageCompleted, MessageDiscarded, Stored
from ...runtime.history import Call, Text
from ...runtime.store.rows import CallRow
from ...runtime.stream import RefusalDelta, TextDelta
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

    def end(self, ended: msgspec.Struct) -> None:
        """Print the last line."""
        self._write(json_line(EventLine(session_id=self._session_id, event=ended)))

    def notice(self, text: str) -> None:
        """Say it on stderr."""
        complain(text)

    def know(self, calls: Iterable[CallRow]) -> None:
        """Do nothing: programs have the record."""

    def interrupt(self) -> None:
        """Do nothing: JSON lines are always whole."""

    def answered_here(self, approval_id: str) -> None:
        """Do nothing: programs have the event, which says who answered."""


class SideTranscript(Transcript):
    """A transcript beside an answer that goes elsewhere: it has only what the model says between calls."""

    def show(self, event: TurnEvent, seq: int | None = None, at_ms: int = 0) -> None:
        """Print what a person wants to see of an event."""
        match event:
            case TextDelta() | RefusalDelta() | MessageDiscarded():
                return
            case MessageCompleted(parts=parts) if any(isinstance(each, Call) for each in parts):
                super().show(TextDelta("".join(p.text for p in parts if isinstance(p, Text))))
            case _:
                pass
        super().show(event, seq, at_ms)


class QuietView(Transcript):
    """Prints callboard's own notices alone."""

    def begin(
        self, session_id: str, model: str, reason: str, folder: str, begun: Sequence[Stored]
    ) -> None:
        """Print nothing."""

    def show(self, event: TurnEvent, seq: int | None = None, at_ms: int = 0) -> None:
        """Print nothing."""


RunView = Transcript | JsonView


def view_of(write: Callable[[str], object], settings: Settings, *, json: bool) -> RunView:
    """Return what shows a session on stdout; `write` takes its text."""
    if json:
        return JsonView(write)
    return Transcript(write, style_of(sys.stdout), prices=PriceTable(settings.prices))


def side_view(write: Callable[[str], object], settings: Settings, *, quiet: bool) -> RunView:
    """Return what shows a run on stderr, while stdout has the answer alone."""
    kind = QuietView if quiet else SideTranscript
    return kind(write, style_of(sys.stderr), prices=PriceTable(settings.prices))

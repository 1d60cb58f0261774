"""The two ways to follow a run: as a transcript for people, or as events for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...config.prices import PriceTable
from ...runtime.events import Stored
from ..terminal.complaint import complain
from ..terminal.json_lines import EventLine, json_line, stored_line
from ..terminal.style import Style
from .transcript import Transcript, TurnEvent


class View(Protocol):
    """What a run tells, in order."""

    def begin(self, session_id: str, model: str, reason: str, begun: Sequence[Stored]) -> None:
        """The session and the model are known; `begun` is what a new session has on record."""
        ...

    def show(self, event: TurnEvent, seq: int | None, at_ms: int) -> None:
        """An event of the turn; `seq` is `None` for one that is not on record."""
        ...

    def notice(self, text: str) -> None:
        """A word of callboard's own."""
        ...

    def know(self, names: Mapping[str, str]) -> None:
        """The tools of the calls that a session has left open, by call."""
        ...

    def interrupt(self) -> None:
        """Something else is printed next on the terminal."""
        ...

    def answered_here(self, approval_id: str) -> None:
        """Whoever sits here gives the answer to this question."""
        ...


class TextView:
    """The transcript."""

    def __init__(self, write: Callable[[str], None], style: Style, prices: PriceTable) -> None:
        self._transcript = Transcript(write, style, prices=prices)

    def begin(self, session_id: str, model: str, reason: str, begun: Sequence[Stored]) -> None:
        """Prints the first line."""
        self._transcript.session_id = session_id
        self._transcript.header(model, reason)

    def show(self, event: TurnEvent, seq: int | None, at_ms: int) -> None:
        """Prints what a person wants to see of it."""
        self._transcript.show(event)

    def notice(self, text: str) -> None:
        """Prints it on a line of its own."""
        self._transcript.notice(text)

    def know(self, names: Mapping[str, str]) -> None:
        """Takes note: their progress comes without a name."""
        self._transcript.know(names)

    def interrupt(self) -> None:
        """Ends the line and the text that stand open."""
        self._transcript.interrupt()

    def answered_here(self, approval_id: str) -> None:
        """Takes note: a denial is then the person's own."""
        self._transcript.answered_here(approval_id)


class JsonView:
    """One event a line; notices go to the other stream."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._session_id = ""

    def begin(self, session_id: str, model: str, reason: str, begun: Sequence[Stored]) -> None:
        """Prints how the session began, when it is new."""
        self._session_id = session_id
        for stored in begun:
            self._write(stored_line(stored))

    def show(self, event: TurnEvent, seq: int | None, at_ms: int) -> None:
        """Prints the event."""
        line = EventLine(
            session_id=self._session_id,
            seq=seq,
            at_ms=at_ms if seq is not None else None,
            event=event,
        )
        self._write(json_line(line))

    def notice(self, text: str) -> None:
        """Says it on stderr."""
        complain(text)

    def know(self, names: Mapping[str, str]) -> None:
        """Programs have the record."""

    def interrupt(self) -> None:
        """Lines are whole as they are."""

    def answered_here(self, approval_id: str) -> None:
        """Programs have the event, which says who."""

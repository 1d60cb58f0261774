"""The ways to follow a run: a transcript for people, beside the answer or with it, or events for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

import msgspec

from ...config.prices import PriceTable
from ...config.settings import Settings
from ...runtime.events import DurableEvent, MessageCompleted, MessageDiscarded, Stored
from ...runtime.history import Call, Text
from ...runtime.store.rows import CallRow
from ...runtime.stream import RefusalDelta, TextDelta
from ..terminal.complaint import complain
from ..terminal.folding import size_of
from ..terminal.json_lines import EventLine, json_line, stored_line
from ..terminal.output import Output
from ..terminal.style import is_dumb, style_of
from .transcript import Transcript, TurnEvent

if TYPE_CHECKING:
    from ..terminal.markdown_live import MarkdownRows


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

    remark = notice

    def advise(self, what: str, command: str) -> None:
        """Say it on stderr."""
        complain(f"{what}: {command}")

    def know(self, calls: Iterable[CallRow]) -> None:
        """Do nothing: programs have the record."""

    def interrupt(self) -> None:
        """Do nothing: JSON lines are always whole."""

    def answered_here(self, approval_id: str) -> None:
        """Do nothing: programs have the event, which says who answered."""

    def said_here(self, input_id: str) -> None:
        """Do nothing: programs have the events."""

    def hear(self, event: DurableEvent) -> None:
        """Do nothing: what belongs to a turn comes with it."""


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
    """Prints callboard's own notices alone, without what only says how it goes."""

    def remark(self, text: str) -> None:
        """Print nothing."""

    def begin(
        self, session_id: str, model: str, reason: str, folder: str, begun: Sequence[Stored]
    ) -> None:
        """Print nothing."""

    def show(self, event: TurnEvent, seq: int | None = None, at_ms: int = 0) -> None:
        """Print nothing."""


RunView = Transcript | JsonView


def view_of(
    output: Output | None, settings: Settings, *, json: bool, shows_inputs: bool = False
) -> RunView:
    """Return what shows a session on stdout; what comes piece by piece has an `output`."""
    if json:
        return JsonView(sys.stdout.write if output is None else output.write)
    return _view(Transcript, output, sys.stdout, settings, shows_inputs)


def side_view(output: Output, settings: Settings, *, quiet: bool) -> RunView:
    """Return what shows a run on stderr, by way of `output`, while stdout has the answer alone."""
    kind = QuietView if quiet else SideTranscript
    return _view(kind, output, sys.stderr, settings, shows_inputs=True)


def _view(
    kind: type[Transcript],
    output: Output | None,
    stream: TextIO,
    settings: Settings,
    shows_inputs: bool,
) -> Transcript:
    """Return a transcript, which lays out the model's Markdown at a terminal."""
    style, prices = style_of(stream), PriceTable(settings.prices)
    write = stream.write if output is None else output.write
    if (rows := rows_at(stream, write)) is None:
        return kind(write, style, prices=prices, shows_inputs=shows_inputs)
    feed = rows.feed
    if output is not None:
        from ..terminal.rows_below import RowsBelow

        output.show_below(RowsBelow(lambda: rows.open_rows, partial(size_of, output.descriptor)))

        def feed(text: str) -> None:
            rows.feed(text)
            output.refresh()

    columns = partial(_columns, stream)
    return kind(
        rows.write,
        style,
        prices=prices,
        write_text=feed,
        write_whole=rows.write_whole,
        columns=columns,
        shows_inputs=shows_inputs,
    )


def rows_at(
    stream: TextIO, write: Callable[[str], object], *, is_alone: bool = False
) -> MarkdownRows | None:
    """Return what lays out a model's Markdown where a person reads it at a terminal; `None` elsewhere."""
    if not stream.isatty() or is_dumb():
        return None
    from ..terminal.markdown_live import MarkdownRows  # here: a pipe gets the source

    return MarkdownRows(write, partial(_columns, stream), style_of(stream), is_alone=is_alone)


def _columns(stream: TextIO) -> int:
    return size_of(stream.fileno()).columns

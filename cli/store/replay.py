"""`callboard replay`: runs a session and all below it again, from the record or a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import Parameter

from ...actors.conversation.conversation import Conversation
from ...actors.upkeep.replay import Pages, Replay, Tape
from ...config.files import load_settings
from ...config.settings import Settings
from ...runtime.backup.session_file import read_sessions
from ...runtime.definitions import InputSource
from ...runtime.errors import ValidationError
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    LiveEvent,
    SessionCreated,
    Stored,
    StreamBatch,
)
from ...runtime.store.interface import StoreReader
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Data, Json, data_path
from ..record_names import find_session
from ..show.sessions import PAGE_EVENTS, open_record
from ..show.view import RunView, view_of
from ..terminal.escaping import safe_line, shortened
from ..terminal.json_lines import json_line
from ..terminal.style import counted
from .sessions import read_file

MAX_INPUT_CHARS = 200
"""The input before a turn is cut here; `callboard show` has all of it."""

_REPORTED = ("session_id", "turns", "answers", "calls", "is_same", "difference")
"""What `--json` prints of the result, after the events of a session."""


What = Annotated[
    str,
    Parameter(
        name="SESSION",
        help="A session: its id, the beginning of it, or last; or a file that was exported.",
    ),
]


def replay(what: What, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Run a session again from its record, and say whether the same comes out.

    Nothing is asked, no tool runs and nothing connects: what models said and what became of calls
    is on record. Exits with 1 when something else came out, or the last turn has no end yet.
    """
    return trio.run(_replay, what, data_path(data), load_settings(config), json)


async def _replay(what: str, data: Path, settings: Settings, json: bool) -> int:
    if await trio.Path(what).is_file():
        content = await trio.to_thread.run_sync(read_file, Path(what))
        sessions = await trio.to_thread.run_sync(_checked, content)
        same = [
            await _print_replay(name, partial(_file_page, events), settings, json)
            for name, events in sessions.items()
        ]
        return ANSWERED if all(same) else FAILED
    async with open_record(data) as reader:
        row = await find_session(reader, what)
        names = await reader.session_tree([row.session_id])
        same = [
            await _print_replay(name, partial(_record_page, reader, name), settings, json)
            for name in names
        ]
    return ANSWERED if all(same) else FAILED


async def _print_replay(session_id: str, pages: Pages, settings: Settings, json: bool) -> bool:
    """Replay one session and print it; return whether the same came out."""
    view = view_of(None, settings, json=json)
    printer = _Printer(view, session_id, quotes=not json)
    done = await Replay(session_id, Tape(pages), settings.limits, printer.hear).run()
    if json:
        fields = {name: getattr(done, name) for name in _REPORTED}
        line = json_line({"type": "replayed", **fields})
    elif done.is_same:
        turns, answers = counted(done.turns, "turn"), counted(done.answers, "answer")
        calls = counted(done.calls, "call")
        line = f"replayed {done.session_id}: {turns}, {answers}, {calls}, the same as on record\n"
    else:
        line = f"replayed {done.session_id}: not the same. {safe_line(done.difference)}\n"
    sys.stdout.write(line)
    return done.is_same


class _Printer:
    """Prints the events of one replay."""

    def __init__(self, view: RunView, session_id: str, *, quotes: bool) -> None:
        self._view = view
        self._session_id = session_id
        self._quotes = quotes

    def hear(self, update: DurableEvent | LiveEvent, seq: int | None, at_ms: int) -> None:
        """Print one event, or the pieces of a batch."""
        view = self._view
        if isinstance(update, StreamBatch):
            for piece in update.events:
                view.show(piece, None, 0)
            return
        if isinstance(update, SessionCreated):
            begun = [Stored(self._session_id, seq or 0, at_ms, update)]
            model = update.model or f"that of agent {update.agent}"
            view.begin(self._session_id, model, "from the record", update.workspace, begun)
            return
        view.show(update, seq, at_ms)
        if (
            self._quotes
            and isinstance(update, InputAccepted)
            and update.source is InputSource.PERSON
        ):
            view.notice(f"> {shortened(safe_line(update.text), MAX_INPUT_CHARS)}")


async def _record_page(reader: StoreReader, session_id: str, after_seq: int) -> Sequence[Stored]:
    return await reader.events(session_id, after_seq=after_seq, limit=PAGE_EVENTS)


async def _file_page(events: Sequence[Stored], after_seq: int) -> Sequence[Stored]:
    await trio.lowlevel.checkpoint()
    return events[after_seq : after_seq + PAGE_EVENTS]  # the `seq` of an event is its place


def _checked(content: bytes) -> Mapping[str, Sequence[Stored]]:
    """Return the sessions of a file; check their records, since anybody may have written it."""
    sessions = read_sessions(content.splitlines())
    for session_id, events in sessions.items():
        conversation = Conversation()
        for stored in events:
            try:
                conversation.fold(stored)
            except (KeyError, IndexError, ValueError) as error:
                raise ValidationError(
                    f"The record of {session_id} contradicts itself at event {stored.seq}."
                ) from error
    return sessions

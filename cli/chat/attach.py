"""`callboard attach`: a second look at a session of the daemon, at another terminal.

the daemon ──► events ──► view ──► output ──► the terminal
                 questions ──► the terminal's channel ──► answers, unless others were faster
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import trio
from cyclopts import Parameter

from ...client.client import Client, connect_here
from ...config.daemon_file import find_daemon
from ...config.files import load_settings
from ...config.settings import Settings
from ...runtime.errors import CallboardError, NotFoundError
from ...runtime.events import InputAccepted, Stored, TurnEnded
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import SessionRow
from ..ask.daemon_questions import DaemonQuestions
from ..ask.pending_questions import opened_by
from ..ask.read_ahead import ReadAhead
from ..ask.terminal_channel import TerminalChannel, channel_at
from ..daemon.away import watch_connection
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Config, Data, Json, Verbose, data_path, offered
from ..record_names import find_session
from ..run.pending import open_calls
from ..show.live_pieces import LivePieces
from ..show.sessions import open_record
from ..show.view import RunView, view_of
from ..terminal.complaint import complain
from ..terminal.output import Output, asking_place

if TYPE_CHECKING:
    from ..show.details import VerboseLines

PAGE_EVENTS = 200
"""Events that are read at once when looking for the beginning of a turn."""

SessionName = Annotated[
    str,
    Parameter(
        completer=offered("sessions"), help="The session: its id, the beginning of it, or last."
    ),
]
UntilIdle = Annotated[
    bool, Parameter(help="End when no turn of the session runs or waits.", negative=())
]


def attach(
    session: SessionName,
    /,
    *,
    until_idle: UntilIdle = False,
    json: Json = False,
    verbose: Verbose = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Show what happens in a session of the daemon, from the beginning of the turn that runs.

    It asks questions here too; the first answer counts. Ctrl-C leaves, and the session
    goes on.
    """
    settings, folder = load_settings(config), data_path(data)
    if find_daemon(folder) is None:
        raise NotFoundError(
            f"no daemon runs on {folder}, so nothing goes on there: `callboard serve` starts one, and "
            "`callboard show` prints what is on record."
        )
    details = None
    if verbose:
        from ...config.prices import PriceTable
        from ..show.details import VerboseLines

        details = VerboseLines(PriceTable(settings.prices))
    return trio.run(_attach, folder, settings, session, until_idle, json, details)


async def _attach(
    data: Path,
    settings: Settings,
    name: str,
    until_idle: bool,
    json: bool,
    details: VerboseLines | None,
) -> int:
    output = Output(1)
    view = view_of(output, settings, json=json, shows_inputs=True)
    asking = asking_place(output, is_json=json)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            channel = None
            if asking is not None:
                channel = channel_at(asking, output, view, data, nursery)
            attached = _Attached(view, output, channel, until_idle, details)
            for screen in {output, asking.screen if asking else output}:
                nursery.start_soon(screen.run, name="output")
            nursery.start_soon(attached.watch_signals, signals, name="signals")
            nursery.start_soon(attached.watch_output, name="output lost")
            code = await attached.run(data, name)
            nursery.cancel_scope.cancel(reason="left")
    return code


class _Attached:
    """One look at one session, until it is left."""

    def __init__(
        self,
        view: RunView,
        output: Output,
        channel: TerminalChannel | None,
        until_idle: bool,
        details: VerboseLines | None,
    ) -> None:
        self._view = view
        self._output = output
        self._channel = channel
        self._until_idle = until_idle
        self._details = details
        self._scope = trio.CancelScope()

    async def run(self, data: Path, name: str) -> int:
        """Show the session; print errors after the output that came before them."""
        code = ANSWERED
        with self._scope:
            try:
                await self._look(data, name)
            except CallboardError as failure:
                self._view.interrupt()
                await self._output.drain()
                complain(str(failure))
                code = FAILED
        self._view.interrupt()
        if self._scope.cancelled_caught and os.isatty(self._output.descriptor):
            self._output.write("\n")  # behind the ^C
        with trio.move_on_after(1, shield=True):
            await self._output.drain()
        return code

    async def watch_signals(self, signals: AsyncIterator[int]) -> None:
        """Leave at Ctrl-C; the session goes on."""
        async for _ in signals:
            if self._channel is not None:
                self._channel.leave()
            self._scope.cancel(reason="left")
            return

    async def watch_output(self) -> None:
        """Leave when nobody reads the output any more."""
        await self._output.wait_lost()
        self._scope.cancel(reason="nobody reads the output")

    async def _look(self, data: Path, name: str) -> None:
        raised: CallboardError | None = None
        async with open_record(data) as reader, connect_here(data) as client:
            row = await find_session(reader, name)
            async with trio.open_nursery() as nursery:
                questions = DaemonQuestions(client, self._channel, nursery, self._view.notice)
                gives_up = None if self._channel is not None else partial(_left_waiting, row)
                watch = partial(watch_connection, gives_up=gives_up)
                nursery.start_soon(watch, client, self._view.notice, name="connection")
                try:
                    await self._follow(client, reader, row, questions)
                except CallboardError as error:
                    raised = error
                nursery.cancel_scope.cancel(reason="left")
        if raised is not None:
            raise raised

    async def _follow(
        self, client: Client, reader: StoreReader, row: SessionRow, questions: DaemonQuestions
    ) -> None:
        if self._channel is not None:
            self._channel.questions = client
        after_seq = await _begin_of_turn(reader, row)
        self._view.know(await open_calls(reader, row.session_id))
        status = await client.status()
        model, reason = row.model or status.model, "in the daemon"
        self._view.begin(row.session_id, model, reason, row.workspace, [])
        pieces = LivePieces()
        if self._until_idle and await _is_idle(reader, row):
            self._view.notice(f"nothing is running in {row.session_id}")
            return
        self._view.notice(f"attached to {row.session_id}; Ctrl-C leaves it, and it goes on")
        async with client.events(
            row.session_id, after_seq=after_seq, epoch=client.welcome.epoch
        ) as events:
            reading = ReadAhead(events, questions.see, self._channel)
            while True:
                event = await reading.next()
                stored = event if isinstance(event, Stored) else None
                seq, at_ms = (None, 0) if stored is None else (stored.seq, stored.at_ms)
                for piece in pieces.take(event):
                    self._view.show(piece, seq, at_ms)
                    if self._details is not None and (said := self._details.line(piece)):
                        self._view.notice(said)
                if stored is not None and self._channel is not None:
                    for question in opened_by(stored.event):
                        self._channel.reach(question.question_id)
                await self._output.wait_room()
                is_end = stored is not None and isinstance(stored.event, TurnEnded)
                if is_end and self._until_idle and await _is_idle(reader, row):
                    return


async def _begin_of_turn(reader: StoreReader, row: SessionRow) -> int:
    """Return the `seq` after which the open turn begins, or the last one when none is open."""
    if not any(turn.session_id == row.session_id for turn in await reader.open_turns()):
        return row.head_seq
    inputs = {each.input_id for each in await reader.open_inputs(row.session_id)}
    before, found = row.head_seq, row.head_seq
    while before > 0 and inputs:
        after = max(before - PAGE_EVENTS, 0)
        for stored in await reader.events(row.session_id, after_seq=after, limit=before - after):
            if isinstance(stored.event, InputAccepted) and stored.event.input_id in inputs:
                inputs.discard(stored.event.input_id)
                found = min(found, stored.seq - 1)
        before = after
    return found


async def _is_idle(reader: StoreReader, row: SessionRow) -> bool:
    return not await reader.open_inputs(row.session_id)


def _left_waiting(row: SessionRow) -> str:
    return f"`callboard attach {row.session_id}` follows it again when a daemon runs"

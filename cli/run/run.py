"""`callboard run`: one prompt, its turn, and an exit code.

signals, a lost output ──► stop: cancels the turn, which then ends in order
session.prompt ──► events ──► view ──► output ──► the terminal
                   questions ──► the terminal's channel
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import trio

from ...config.settings import Settings
from ...providers.recording import RECORDINGS, recording_path
from ...runtime.disk.data_lock import DataInUse
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    ValidationError,
)
from ...runtime.events import Event, InputAccepted, Stored, TurnEnded, TurnStarted
from ...runtime.redaction import redact
from ...tools.registry import unknown_in_rules, unknown_tools
from ..ask.gone_agent import agree_to_general
from ..ask.pending_questions import opened_by
from ..ask.terminal_channel import channel_at
from ..exit_codes import FAILED
from ..record_names import folder_here
from ..sharing.holder import LOOK_SECONDS, running, turn_of
from ..show.event_lines import trouble_line
from ..show.view import JsonView, rows_at, side_view, view_of
from ..terminal.escaping import safe_json, safe_text
from ..terminal.keyboard import Keyboard
from ..terminal.output import Output, asking_place
from ..terminal.style import counted
from .answer import RunAnswer, complain_of, whole_line, worst, write_answer
from .attachments import remarks
from .choice import ADVICE, RunOptions, RunTarget, choose, to_go_on
from .pending import (
    UnansweredCalls,
    agent_taken_over,
    check_answered,
    cut_off,
    held,
    open_calls,
    open_questions,
    put_here,
    running_below,
    unanswered,
)
from .stdin import is_piped
from .stopping import GRACE_SECONDS, EarlyEnd, stopping_signals

if TYPE_CHECKING:  # whichever the run works with is imported when it opens
    from ...config.daemon_file import RunningDaemon
    from ...embedding.runtime import Session
    from ..sharing.door import Door
    from ..show.details import VerboseLines
    from .remote import RemoteSession
    from .shell import Shell
    from .stopping import RunPlace, RunTurn

    RunSession: TypeAlias = Session | RemoteSession


STOP_SECONDS = 30.0
"""The time for a daemon that stops to be gone, behind that of its turns."""
TURN_LOOKS = 20
"""How often it is looked whether the sessions are free before the person is told why nothing happens."""


def start(options: RunOptions, data: Path | None, *, verbose: bool) -> int:
    """Read the configuration, and run a prompt or a call to its end; return the exit code."""
    from ...config.files import load_settings
    from ...runtime.disk.core_dumps import forbid_core_dumps
    from ..log_file import start_logging, wants_log_on_terminal
    from ..parameters import data_path

    folder_here()
    forbid_core_dumps()
    settings = load_settings(options.config)
    folder = data_path(data)
    shell = None
    if (daemon := running(folder)) is None or daemon.command != "serve":
        from .shell import fork_run  # a `callboard serve` has the turns of all

        shell = fork_run()
    start_logging(folder, verbose=verbose or wants_log_on_terminal())
    try:
        return trio.run(_run, options, settings, folder, shell)
    finally:
        if shell is not None:
            shell.close()


async def _run(options: RunOptions, settings: Settings, data: Path, shell: Shell | None) -> int:
    with trio.open_signal_receiver(*stopping_signals()) as signals:
        async with trio.open_nursery() as nursery:
            job = _Job(options, settings, data, nursery, shell)
            if shell is not None:
                nursery.start_soon(job.stopping.watch_shell, shell, name="the shell")
            for screen in job.screens:
                nursery.start_soon(screen.run, name="output")
            nursery.start_soon(job.stopping.watch_signals, signals, name="signals")
            nursery.start_soon(job.watch_output, name="output lost")
            code = await job.run()
            nursery.cancel_scope.cancel(reason="the run is over")
    return code


class _Job:
    """One run: its output, its turn once there is one, and why it stops early if it does."""

    def __init__(
        self,
        options: RunOptions,
        settings: Settings,
        data: Path,
        nursery: trio.Nursery,
        shell: Shell | None,
    ) -> None:
        self._shell = shell
        self._options = options
        self._settings = settings
        self._data = data
        self._recordings = data / RECORDINGS if options.is_recorded else None
        flags, self._stdout = options.flags, Output(1)
        self._output = self._stdout
        is_shown = os.isatty(1) and not flags.quiet and not options.wants_json
        self._is_read = (
            os.isatty(2) and not flags.quiet and not options.wants_json and not options.calls
        )
        if flags.json or is_shown:
            self._view = view_of(self._output, settings, json=flags.json, shows_inputs=True)
        else:
            self._output = Output(2)
            self._view = side_view(self._output, settings, quiet=flags.quiet)
        asking = asking_place(self._output, is_json=options.flags.json, is_piped=is_piped())
        self._asking = asking
        self._channel = None
        if asking is not None:
            self._channel = channel_at(asking, self._output, self._view, data, nursery)
        self.screens = {self._stdout, self._output, asking.screen if asking else self._output}
        self._answer = RunAnswer(has_form=options.answer_schema is not None)
        self._details: VerboseLines | None = None
        if options.is_verbose:
            from ...config.prices import PriceTable  # here: few runs say so much
            from ..show.details import VerboseLines

            self._details = VerboseLines(PriceTable(settings.prices))
        self._is_answer_given = False
        terminals = () if asking is None else (asking.descriptor,)
        self.stopping = EarlyEnd(shell, self._channel, self._output, self._view.notice, terminals)
        self._result: tuple[int, str] | None = None
        self._session_id = ""
        self._seen = self._heard = 0
        self._deferred = UnansweredCalls()
        self._refused_at = inf

    async def run(self) -> int:
        """Run the prompt; report errors after the output that came before them."""
        code, error = FAILED, ""
        with self.stopping.scope:
            try:
                await self._converse()
                code, error = self._result or (code, error)
            except CallboardError as failure:
                error = self._explained(failure)
            self._view.interrupt()
            self._tell_rest()
            await self._output.drain()
            code, error = self._give_answer(code, error)
            await self._stdout.drain()
        if self.stopping.code is not None:
            code, error = self._give_answer(self.stopping.code, error)
            with trio.move_on_after(GRACE_SECONDS):
                await self._stdout.drain()
                await self._output.drain()
        if (lost := self._stdout.error) is not None:
            code = code or FAILED
            has_left = isinstance(lost, BrokenPipeError)  # the reader of the output
            error = "" if has_left else f"the output can't be written: {lost}"
        complain_of(code, error)
        return code

    def _explained(self, failure: CallboardError) -> str:
        if isinstance(failure, DataInUse) and self._options.flags.resume:
            return held(self._data, failure.holder)
        is_unfit = isinstance(failure, ValidationError) and failure.field == "workspace"
        is_known = "--workspace" in str(failure)
        return (
            f"{failure} --workspace DIR says which." if is_unfit and not is_known else str(failure)
        )

    def _give_answer(self, code: int, error: str) -> tuple[int, str]:
        """Give the answer where it is wanted, once, behind all else; return what came of the run."""
        code = code if self.stopping.code is None else self.stopping.code
        if self._is_answer_given:
            return code, error
        self._is_answer_given = True
        text, file = self._answer.text, self._options.flags.output
        if text is not None and file is not None:
            try:
                write_answer(text, file, self._session_id)
            except CallboardError as failure:
                code, error = FAILED, str(failure)
        elif text is not None and self._output is not self._stdout:
            self._write_answer(text)
        if isinstance(self._view, JsonView):
            self._view.end(self._answer.ended(code, redact(error)))
        return code, error

    def _write_answer(self, text: str) -> None:
        rows = None
        if not self._options.wants_json:
            rows = rows_at(sys.stdout, self._stdout.write, is_alone=True)
        if rows is None:
            safe = safe_json if self._options.wants_json else safe_text
            self._stdout.write(whole_line(safe(text)))
        else:
            rows.feed(safe_text(text))
            rows.write("")

    def _tell_rest(self) -> None:
        """Say, once, what is left to do and what was recorded."""
        if self._is_answer_given:
            return
        for line in self._deferred.lines():
            self._view.notice(line)
        if self._recordings is None or not self._session_id:
            return
        path = recording_path(self._recordings, self._session_id)
        self._view.notice(
            f"recorded in {path}"
            if path.exists()
            else "nothing was recorded: no provider was asked over the network"
        )

    # ── the turn ─────────────────────────────────────────────────────────────────────────────────

    async def _converse(self) -> None:
        """Do what the run is for; `_result` is the exit code then, and what to complain about."""
        choice = await self._choose()
        if choice.remark:
            self._view.notice(choice.remark)
        if choice.gone:
            await agree_to_general(self._confirm, choice.gone)
        await self._ask_about_skills(choice)
        try:
            async with self._place(choice) as runtime:
                self.stopping.place = runtime
                with self.stopping.own:
                    await self._work(runtime, choice)
        finally:
            self.stopping.be_alone()

    async def _work(self, runtime: RunPlace, choice: RunTarget) -> None:
        """Play the turns of the run in its place."""
        options = self._options
        if self._channel is not None:
            self._channel.questions = runtime
        elif not options.has_input and choice.session is not None:
            await check_answered(runtime.store, choice.session.session_id)
        session = await self._session(runtime, choice)
        left = await self._play_left(runtime, session) if choice.session is not None else []
        if self.stopping.code is not None:
            self._result = worst(left)
            return
        if not options.has_input:
            self._result = await self._end_left(runtime, session, left)
            return
        ended = await self._play(self._turn_of(runtime, session), is_own=True)
        is_own_end = self.stopping.code is not None
        if (
            ended is not None
            and self._is_read
            and not is_own_end
            and (advice := ADVICE.get(ended.outcome))
        ):
            what, rest = advice
            self._view.advise(what, to_go_on(self._session_id, options.flags, rest))
        # What others cancelled is over for this run, too: often it was the end of the daemon, which would be waited for.
        is_cancelled = ended is not None and ended.outcome == "cancelled"
        left = [] if is_cancelled else await self._play_left(runtime, session)
        self._result = self._answer.verdict(*worst([ended, *left]))

    def _turn_of(self, runtime: RunPlace, session: RunSession) -> RunTurn:
        """Return the turn that the run is for."""
        options = self._options
        budget, _ = options.flags.budgets
        if options.calls:
            from ...runtime.turns.called_tool import CalledTools  # most runs have a prompt

            self._answer.called = CalledTools(session.session_id)
            return runtime.call(session.session_id, options.calls, budget)
        if options.flags.again is not None:
            return session.retry() if options.flags.again == "retry" else session.regenerate()
        return session.prompt(
            options.prompt or "",
            options.attachments,
            answer=options.answer_schema,
            budget=budget,
            is_untrusted=options.is_piped,
        )

    @asynccontextmanager
    async def _place(self, choice: RunTarget) -> AsyncGenerator[RunPlace]:
        """Open where the run works: the daemon that has the sessions, else a runtime of its own."""
        data, waited = self._data, 0
        while True:
            if (daemon := running(data)) is not None:
                async with AsyncExitStack() as stack:
                    if (place := await self._remote_place(stack, daemon, choice)) is not None:
                        yield place
                        return
                continue
            with turn_of(data) as is_ours:
                if is_ours and running(data) is None:
                    async with self._own_place(choice) as own:
                        yield own
                    return
            if (waited := waited + 1) == TURN_LOOKS:
                self._view.remark("another command has the sessions for itself; this one waits")
            await trio.sleep(LOOK_SECONDS)

    async def _remote_place(
        self, stack: AsyncExitStack, daemon: RunningDaemon, choice: RunTarget
    ) -> RunPlace | None:
        """Open the daemon that has the sessions; `None` where it took no connection: it stops, has ended, or is full."""
        from .remote import open_remote_place  # mostly no daemon runs

        remote = open_remote_place(
            daemon,
            self._data,
            self._settings,
            self._options,
            choice,
            self._view,
            self._channel,
            self._confirm,
            self._stay,
        )
        try:
            return await stack.enter_async_context(remote)
        except NotFoundError:
            if running(self._data) is not None:
                raise
            return None  # it was not there any more; without it what is missing is said again
        except (NetworkError, OverloadedError) as error:
            is_away = isinstance(error, OverloadedError) or error.stage == "connect"
            now, seconds = trio.current_time(), daemon.drain_seconds + STOP_SECONDS
            if not is_away or now >= self._refused_at + seconds:
                raise
            if self._refused_at == inf:
                self._refused_at = now
                self._view.remark("the daemon takes nobody in, as when it stops; this run waits")
        await trio.sleep(LOOK_SECONDS)
        return None

    def _own_place(self, choice: RunTarget) -> AbstractAsyncContextManager[RunPlace]:
        from .local import open_local_place  # a run in the daemon does not need it

        return open_local_place(
            self._data, self._settings, self._options, choice, self._channel, self._stay
        )

    async def _stay(self, door: Door, failure: CallboardError | None) -> None:
        """Give the answer when turns of others run in this process, and the shell its prompt; stay as long as they run."""
        stopping = self.stopping
        if not (sessions := await door.others_at_work()):
            stopping.be_alone()
            return
        stopping.stay()
        self._tell_rest()
        if self._shell is None:
            if self._result is not None:
                self._result = self._give_answer(*self._result)
            await door.wait_others(self._view.remark)
            return
        self._view.remark(
            f"turns of other commands go on in the background, in process {os.getpid()}: {sessions}"
        )
        code, error = self._result or (FAILED, "" if failure is None else self._explained(failure))
        with stopping.saying:
            await self._output.drain()
            code, error = self._give_answer(code, error)
            await self._stdout.drain()
        code, error = self._give_answer(code, error)
        complain_of(code, error)
        await stopping.serve_left(door, code)

    async def _confirm(self, question: str) -> bool:
        if self._asking is None:
            return False
        return await Keyboard(*self._asking).choice(question) in {"y", "yes"}

    async def _play_left(self, runtime: RunPlace, session: RunSession) -> list[TurnEnded | None]:
        """Play what was left in the session (a suspended turn, inputs that wait) until nothing is."""
        ended: list[TurnEnded | None] = []
        while self.stopping.code is None:
            turn = await self._next_left(runtime, session)
            missed = await self._show_missed(runtime, session)
            ended += missed
            if missed and turn is not None:
                continue  # it may be one of them, and is not shown twice
            if turn is None:
                break
            over: ConflictError | None = None
            try:
                ended.append(await self._play(turn))
            except ConflictError as error:  # it was over before it was entered
                over = error
            if over is not None:
                later = await self._show_missed(runtime, session)
                if not missed and not later:
                    raise over
                ended += later
        return ended

    async def _show_missed(self, runtime: RunPlace, session: RunSession) -> list[TurnEnded | None]:
        """Show, from the record, turns that were over before this run could listen to them."""
        from ..show.live_pieces import LivePieces  # few runs miss any

        ended: list[TurnEnded | None] = []
        turn: list[Stored] = []
        for stored in await runtime.store.events(session.session_id, after_seq=self._seen):
            if stored.seq > self._heard:
                self._heard = stored.seq
                self._view.hear(stored.event)
            if isinstance(stored.event, TurnStarted):
                turn = [stored]
            elif turn:
                turn.append(stored)
            if turn and isinstance(stored.event, TurnEnded):
                pieces = LivePieces()  # the record has texts whole
                for each in turn:
                    for piece in pieces.take(each):
                        is_stored = piece is each.event
                        self._view.show(piece, each.seq if is_stored else None, each.at_ms)
                for each in turn:
                    self._answer.see(each.event)
                ended.append(stored.event)
                self._seen, turn = stored.seq, []
        return ended

    async def _next_left(self, runtime: RunPlace, session: RunSession) -> RunTurn | None:
        turn = await session.resume()
        while turn is None and await self._wait_below(runtime, session):
            turn = await session.resume()
        return turn or await session.resume()  # an answer may have come before it was waited for

    async def _wait_below(self, runtime: RunPlace, session: RunSession) -> bool:
        """Wait for the answer of a detached session; return `False` when none runs.

        Leaving the runtime would cancel it.
        """
        async with session.follow() as events:
            count = await running_below(runtime.store, session.session_id)
            if not count:
                return False
            sessions = counted(count, "delegated session")
            what = "ends them" if runtime.ends_below else "leaves them at work"
            self._view.remark(f"waiting for {sessions} (Ctrl-C {what})")
            async for event in events:
                if isinstance(event.event if isinstance(event, Stored) else event, InputAccepted):
                    break
        return True

    async def _end_left(
        self, runtime: RunPlace, session: RunSession, ended: list[TurnEnded | None]
    ) -> tuple[int, str]:
        """Ask the questions that no turn waits for, play what follows, and print what is left at last."""
        session_id, channel, has_asked = session.session_id, self._channel, False
        while self.stopping.code is None and (
            waiting := await open_questions(runtime.store, session_id)
        ):
            if channel is None:
                return FAILED, unanswered(session_id, waiting)
            has_asked = True
            for row in waiting:
                with suppress(ConflictError):  # on record already, or others were first
                    request = await runtime.approval(row.approval_id)
                    channel.reach(row.approval_id)
                    answer = await channel.approve(put_here(request))
                    await runtime.answer(row.approval_id, answer)
            ended += await self._play_left(runtime, session)
        if not ended and not has_asked:
            advice = await cut_off(runtime.store, session_id)
            self._view.notice(f"nothing waits in {session_id}{advice}")
        return worst(ended)

    async def _play(self, turn: RunTurn, *, is_own: bool = False) -> TurnEnded | None:
        """Show the events as they come; a slow reader of the output slows the turn, not us."""
        channel = self._channel
        self.stopping.turn = (
            turn  # from here on: what is sent may begin a turn before its answer comes
        )
        async with turn:
            if is_own:
                self._view.said_here(turn.input_id)
            async for event in turn:
                if channel is not None:
                    await channel.wait_quiet()
                is_stored = isinstance(event, Event)
                self._view.show(event, turn.seq if is_stored else None, turn.at_ms)
                if self._details is not None and (line := self._details.line(event)):
                    self._view.notice(line)
                self._answer.see(event)
                self._deferred.see(event)
                if channel is not None:
                    for question in opened_by(event):
                        channel.reach(question.question_id)
                await self._output.wait_room()
        self._seen = max(self._seen, turn.seq)
        return turn.ended

    async def _choose(self) -> RunTarget:
        if not self._options.flags.resume:
            return await choose(self._options, self._settings, None)
        from ..show.sessions import open_record  # here: a new session needs no look back

        async with open_record(self._data) as reader:
            return await choose(self._options, self._settings, reader)

    async def _ask_about_skills(self, choice: RunTarget) -> None:
        from ..ask.skills import SkillQuestion

        question = SkillQuestion(self._data, Path(self._folder(choice)))
        if waiting := await question.look():
            agent = self._settings.agent(choice.agent)
            keyboard = Keyboard(*self._asking) if self._asking is not None else None
            await question.put(waiting, agent, keyboard, self._view.notice)

    def _folder(self, choice: RunTarget) -> str:
        if choice.session is not None:
            return choice.session.workspace
        return folder_here(self._options.flags.workspace)

    async def _session(self, runtime: RunPlace, choice: RunTarget) -> RunSession:
        view = self._view
        _, budget = self._options.flags.budgets
        if choice.session is not None:
            session = await runtime.get_session(choice.session.session_id)
            if choice.agent != choice.session.agent:  # its own is gone, and a person agreed
                await session.set_agent(choice.agent)
            if budget is not None:
                await session.set_budget(budget)
            begun = []
            view.know(await open_calls(runtime.store, session.session_id))
            row = await runtime.store.session(session.session_id)
            self._seen = row.head_seq if row is not None else 0
        else:
            session = await runtime.create_session(agent=choice.agent, budget=budget)
            begun = await runtime.store.events(session.session_id)
        self._session_id = self.stopping.session_id = session.session_id
        reason = "not asked" if self._options.calls else choice.reason or runtime.model_reason
        view.begin(session.session_id, runtime.model, reason, self._folder(choice), begun)
        if other := await agent_taken_over(runtime.store, self._session_id, self._seen):
            view.notice(trouble_line(other))
        if not self._options.flags.json:
            for line in await self._unknown_tools(runtime, choice.agent):
                view.notice(line)
        if self._options.is_piped and not self._options.flags.quiet:
            size = self._options.piped_bytes
            beside = f"stdin goes with the prompt: {counted(size, 'byte')}"
            what = beside if size else "stdin is the prompt"
            how = "questions are asked at the terminal" if self._asking else "nobody is asked"
            view.notice(f"{what}; {how}")
        for remark in remarks(self._options.attachments):
            view.notice(remark)
        return session

    async def _unknown_tools(self, runtime: RunPlace, agent: str) -> list[str]:
        """Return a sentence for each tool that the agent, or a rule, names and that does not exist."""
        names = self._settings.agent(agent).tools
        if not names and not self._settings.rules:
            return []  # mostly: the daemon need not be asked
        known = await runtime.tool_names()
        return [*unknown_tools(agent, names, known), *unknown_in_rules(self._settings, known)]

    async def watch_output(self) -> None:
        """Cancel the run when nobody reads its output any more."""
        await self._stdout.wait_lost()
        await self.stopping.stop("nobody reads the output", FAILED)

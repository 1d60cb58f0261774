"""`callboard chat`: a conversation at a terminal, by way of a daemon.

a daemon that runs, or one of the command's own ──► client ──► talk
signals, a lost terminal                         ──► cancel the turn, or leave
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
from cyclopts import Parameter

from ...client.client import Client, connect_here
from ...config.files import config_folder, load_settings
from ...providers.catalog.table import mask_environment_keys
from ...providers.provider import LENT_SIGN
from ...runtime.disk.core_dumps import forbid_core_dumps
from ...runtime.errors import CallboardError, ConflictError
from ...runtime.store.rows import SessionRow
from ...runtime.text import without_surrogates
from ...runtime.wire.providers import SelectedModel
from ...tools.registry import unknown_in_rules
from ..daemon.away import LOOK_SECONDS, watch_connection
from ..exit_codes import ANSWERED, FAILED, INTERRUPTED
from ..hints import command_line, runnable
from ..log_file import start_logging
from ..parameters import Config, Data, Verbose, data_path, offered
from ..record_names import folder_here
from ..run.attachments import read_attachments
from ..run.choice import check_fits, present_agent
from ..run.flags import TurnFlags
from ..sharing.holder import Holder, holding, running
from ..sharing.lending import Lender, read_rules, wish_of_command
from ..sharing.own_runtime import OwnRuntime
from ..terminal.complaint import complain, wrong_usage
from ..terminal.escaping import safe_text
from ..terminal.folding import columns_of, folded
from ..terminal.output import Output
from .place import ChatOptions, fit_folder
from .slash_commands import COMMANDS, find_session, run_command
from .surface import Surface, open_surface
from .talk import Talk

if TYPE_CHECKING:
    from ..sharing.background import Background

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DRAIN_SECONDS = 2.0
"""Time to print the last lines: the reader may be stopped."""
AWAY = "the daemon is away; what you send waits for it (Ctrl-C to stop waiting, /quit to leave)"
LEAVE_SECONDS = 5.0
"""Time for the turn to end, and for the chat's daemon: a turn that is cancelled may have programs to end."""
LAST_EVENTS_SECONDS = 1.0
"""Time for the end of a turn to be shown, once it is on record."""

SessionOption = Annotated[
    str | None,
    Parameter(
        alias="-s",
        completer=offered("sessions"),
        help="Go on with this session: its id, the beginning of it, of its title, or last.",
    ),
]
ResumeOption = Annotated[
    bool,
    Parameter(
        name=("--continue", "-c"), help="Go on with the last session of this folder.", negative=()
    ),
]
Prompt = Annotated[str | None, Parameter(help="What to send at once.")]
How = Annotated[TurnFlags | None, Parameter(name="*")]


def chat(
    prompt: Prompt = None,
    /,
    *,
    flags: How = None,
    session: SessionOption = None,
    resume: ResumeOption = False,
    verbose: Verbose = False,
    config: Config = None,
    data: Data = None,
) -> int:
    """Talk with a model at the terminal; /help lists what can be typed.

    The daemon holds the conversation, which goes on when you leave; where none runs, this
    command is one as long as it lasts. Without a terminal, each line of the input is a prompt,
    and the exit code is as of run.
    """
    flags = flags or TurnFlags()
    if mistake := flags.mistake():
        return wrong_usage(mistake, "chat")
    forbid_core_dumps()
    settings = load_settings(config)
    folder = data_path(data)
    start_logging(folder, verbose=False)
    place = Path(folder_here(flags.workspace))
    session = session or ("last" if resume else None)
    if session is None and place.is_dir():
        fit = fit_folder(place, (folder, config_folder(), *map(Path, settings.files)))
        if fit is None:
            return ANSWERED
        place = fit
    options = ChatOptions(
        flags=flags,
        workspace=place,
        agent=flags.agent or "general",
        model=flags.model,
        session=session,
        resumes_by="--continue" if resume else "--session",
        config=config,
        turn=flags.turn_options(flags.model if session is not None else None),
        budget=flags.budgets[0],
        session_budget=flags.budgets[1],
        prompt=prompt and without_surrogates(prompt),
        attachments=read_attachments(flags.attach),
        base_url=flags.base_url,
        dialect=flags.dialect,
    )
    mask_environment_keys(settings, os.environ)
    own = OwnRuntime(
        data=folder,
        settings=settings,
        command="chat",
        workspace=place,
        model=flags.model,
        base_url=flags.base_url,
        config=config,
    )
    background = None
    if running(folder) is None:
        from ..sharing.forked_daemon import fork_daemon  # mostly, where one runs, it stays

        background = fork_daemon(own)
    return trio.run(_chat, options, own, background, verbose)


async def _chat(
    options: ChatOptions, own: OwnRuntime, background: Background | None, is_verbose: bool
) -> int:
    output = Output(1)
    with trio.open_signal_receiver(*HANDLED) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.run, name="output")
            commands = {f"/{name}": each.summary for name, each in COMMANDS.items()}
            surface = open_surface(output, own.settings, own.data, commands, is_verbose=is_verbose)
            job = _Chat(options, own, background, surface)
            nursery.start_soon(job.watch_signals, signals, name="signals")
            nursery.start_soon(job.watch_output, name="output lost")
            error = await job.run()
            with trio.move_on_after(DRAIN_SECONDS, shield=True):
                await output.drain()
            nursery.cancel_scope.cancel(reason="the chat is over")
    if error is not None:
        complain(str(error))
        return FAILED
    return job.code


async def end_turn(talk: Talk) -> None:
    """End the turn of a chat that is left. A daemon that does not say that it has gets no more time: it ends with it."""
    with trio.move_on_after(LEAVE_SECONDS), suppress(CallboardError):
        await talk.end_left()


class _Chat:
    """One run of the command."""

    def __init__(
        self, options: ChatOptions, own: OwnRuntime, background: Background | None, surface: Surface
    ) -> None:
        self._options = options
        self._own = own
        self._background = background
        self._surface = surface
        self._output = surface.output
        self.talk = Talk(self._surface, options, run_command)
        self._scope = trio.CancelScope()
        self._code: int | None = None
        self._holder: Holder | None = None
        self._lent: str | None = None

    @property
    def code(self) -> int:
        """The exit code: that of the turns where nobody sits, else 0."""
        if self._code is not None:
            return self._code
        if self._surface.can_ask:
            return ANSWERED
        return next((code for code in self.talk.codes if code != ANSWERED), ANSWERED)

    async def run(self) -> CallboardError | None:
        """Run the chat; return the error that ended it, if one did."""
        try:
            with self._scope, self._surface.screen.taken():
                async with holding(self._own, self.talk.notice, self._background) as self._holder:
                    await self._talk()
                    self._say_goodbye(self._holder)
        except CallboardError as error:
            return error
        finally:
            with trio.move_on_after(LEAVE_SECONDS, shield=True) as patience:
                await self._leave_background()
            if patience.cancelled_caught:
                self._say(
                    "the process of this chat has not ended yet: `callboard status` shows it, `callboard stop --now` ends it"
                )
        return None

    async def _talk(self) -> None:
        """Talk by way of the daemon, or of its successors, until the person leaves."""
        holder = self._holder
        assert holder is not None
        raised: CallboardError | None = None
        daemons = connect_here(self._own.data, holder.rules.check)
        async with daemons as client, trio.open_nursery() as nursery:
            gives_up = None if self._surface.can_ask else self._left_waiting
            watch = partial(watch_connection, gives_up=gives_up)
            nursery.start_soon(watch, client, self.talk.notice, AWAY, name="connection")
            nursery.start_soon(self._watch, client, holder, name="the daemon's end")
            try:
                await self._bring_model(client, holder)
                for line in unknown_in_rules(self._own.settings):
                    self.talk.notice(line)
                await self.talk.run(client, self._begin, holder)
                await self._stay(holder)
            except CallboardError as error:
                raised = error
            nursery.cancel_scope.cancel(reason="left")
        if raised is not None:
            raise raised

    async def _stay(self, holder: Holder) -> None:
        """End this chat's own turn, unless it waits for a person; stay while turns of other commands run in this process, and say so."""
        if holder.is_ours:
            await self._end_own()
            await holder.wait_others(self._say)

    async def _end_own(self) -> None:
        if not self.talk.is_at_rest and self.talk.questions.next() is None:
            await end_turn(self.talk)

    def _say(self, line: str) -> None:
        """Write a line when the screen of the chat is gone."""
        self._output.write(f"{folded(runnable(line), columns_of(1))}\n")

    async def _leave_background(self) -> None:
        """Leave the chat's daemon, which ends unless others use it; say so."""
        if self._background is None:
            return
        if (sessions := await self._background.leave()) is not None:
            what = (
                f"turns of others go on ({', '.join(sessions)})"
                if sessions
                else "others are connected"
            )
            self._say(
                f"{what}: the process of this chat goes on in the background, and ends with them "
                "(`callboard status` shows it, `callboard stop` ends it)"
            )

    async def _bring_model(self, client: Client, holder: Holder) -> None:
        """Have this chat's own model in a daemon that is a command, where that has another by that name.

        Raises:
            ConflictError: The daemon is not a command, and `--base-url` names a place; or its rules can't be
                read again.
            CallboardError: There is no such model.
        """
        options = self._options
        if not holder.is_shared:
            if options.base_url is not None:
                raise ConflictError(
                    "--base-url is not for a chat with a daemon that runs: name the place first, "
                    "`callboard providers add NAME --base-url URL`, and then --model NAME/MODEL."
                )
            return
        if not holder.is_ours:
            await read_rules(client)
        wish = wish_of_command(self._own.settings, options.model, options.base_url, options.dialect)
        lender = Lender(client, wish, self._take_model, self.talk.notice)
        if not holder.is_ours or options.base_url is not None:
            await lender.lend()

    def _take_model(self, lent: SelectedModel) -> None:
        """Have prompts use a model that the daemon was lent, unless the person has chosen another since."""
        turn = self.talk.turn
        is_chosen = turn.model not in {self._options.turn.model, self._lent}
        if is_chosen or (self._lent is None and LENT_SIGN not in lent.model):
            return
        self._lent = lent.model
        self.talk.change(turn=msgspec.structs.replace(turn, model=lent.model), model=None)

    async def _begin(self, client: Client) -> SessionRow | None:
        if self._options.session is None:
            return None
        folder, flags = folder_here(self._options.workspace), self._options.flags
        row = await find_session(client, self._options.session, folder)
        agent = present_agent(self._own.settings, row.agent)
        check_fits(row, agent, flags, self._options.session, self._options.resumes_by)
        if (budget := self._options.session_budget) is not None:
            await client.set_budget(row.session_id, budget)
        return row

    async def _watch(self, client: Client, holder: Holder) -> None:
        """Print that the daemon stops; when it is this command, end as it does."""
        is_stopping = is_away = False
        while True:
            await trio.sleep(LOOK_SECONDS)
            background = holder.background
            if holder.door is not None and holder.door.is_wanted_to_end:
                await self._end(holder.door.seconds, holder.door.drain)
                return
            is_ending = client.stops_in is not None and holder.is_ours
            if background is not None and (is_ending or background.was_stopped):
                await self._end(client.stops_in or 0.0, background.wait_ended)
                return
            if client.stops_in is not None and not is_stopping:
                self.talk.notice(f"the daemon stops: turns have {client.stops_in:g} s to end")
            is_stopping = client.stops_in is not None
            if (away := client.store_unavailable) is not None and not is_away:
                self.talk.notice(f"sessions stand still: {away.reason}")
            elif away is None and is_away:
                self.talk.notice("the database answers again: sessions go on")
            is_away = away is not None

    async def _end(self, seconds: float, drain: Callable[[], Awaitable[None]]) -> None:
        """End with this chat's daemon, since another command wants that."""
        if not self.talk.is_at_rest:
            self.talk.notice(f"`callboard stop` ends this chat: its turn has {seconds:g} s")
        await drain()
        with trio.move_on_after(LAST_EVENTS_SECONDS):
            await self.talk.wait_rest()
        if not self._surface.can_ask:
            self._code = INTERRUPTED  # prompts that nobody has read are not answered
        self.talk.notice("`callboard stop` ended this chat")
        self.talk.leave()

    def _say_goodbye(self, holder: Holder) -> None:
        view = self.talk.view
        typed = "\n".join(filter(None, [*self.talk.unsent, self._surface.screen.typed]))
        if typed.strip():  # it was ended in the midst of a prompt, or before that had its turn
            self._output.write(f"This was typed, and not sent:\n{safe_text(typed)}\n")
        if view is None or not self._surface.can_ask:
            return
        how = "is on record" if holder.is_ours or view.is_idle else "goes on in the daemon"
        self._output.write(
            f"The session {how}. To come back to it:\n"
            f"  {command_line(f'callboard chat --session {view.session_id}')}\n"
        )

    # ── the ways to stop early ───────────────────────────────────────────────────────────────────

    async def watch_signals(self, signals: AsyncIterator[int]) -> None:
        """Leave Ctrl-C to the talk; end the chat in order at other signals."""
        async for number in signals:
            door = self._holder.door if self._holder is not None else None
            if number == signal.SIGINT and self._surface.can_ask and not self.talk.is_over:
                self.talk.interrupt()
            elif number == signal.SIGTERM and door is not None and door.ask_to_end():
                pass  # `_watch` does the rest
            else:
                self._code = INTERRUPTED
                if door is not None and not self.talk.is_over:  # its runtime ends with the scope
                    await self._end_own()
                self._scope.cancel(reason=signal.Signals(number).name)

    async def watch_output(self) -> None:
        """Leave when nobody reads the output any more."""
        await self._output.wait_lost()
        self._scope.cancel(reason="nobody reads the output")

    def _left_waiting(self) -> str:
        view = self.talk.view
        command = "chat" if view is None else f"chat --session {view.session_id}"
        return f"`callboard {command}` goes on when a daemon runs"

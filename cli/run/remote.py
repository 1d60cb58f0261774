"""`callboard run` in the daemon: its sessions and turns, with the methods of those of a runtime."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
import trio

from ...client.address import OWN_SECONDS
from ...client.client import Client, connect_here, link_of
from ...client.subscriptions import RemoteEvents
from ...config.daemon_file import RunningDaemon
from ...config.settings import Settings
from ...runtime.budget import Budget
from ...runtime.errors import CallboardError, ConflictError, NetworkError, NotFoundError
from ...runtime.events import (
    DurableEvent,
    InputAccepted,
    InputCancelled,
    Stored,
    TurnEnded,
    TurnStarted,
)
from ...runtime.history import Attachment
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import SessionRow
from ...runtime.turn_options import GivenCall, TurnOptions
from ...runtime.turns.called_tool import text_of_calls
from ...runtime.wire.fields import Nothing
from ...runtime.wire.providers import SelectedModel
from ...runtime.wire.sessions import MAX_LEFT, Cancel, Cancelled, GiveOptions, SetBudget, Ticket
from ..ask.daemon_questions import DaemonQuestions
from ..ask.read_ahead import ReadAhead
from ..ask.terminal_channel import TerminalChannel
from ..daemon.away import watch_connection
from ..daemon.roots import create_session
from ..sharing.holder import Holder, holding
from ..sharing.lending import Lender, read_rules, wish_of_command
from ..sharing.own_runtime import OwnRuntime
from ..sharing.rules import OwnRules
from ..show.live_pieces import LivePieces
from ..show.sessions import open_record
from ..show.transcript import TurnEvent
from ..show.view import RunView
from .choice import RunOptions, RunTarget, shown

if TYPE_CHECKING:  # only a process that has the sessions has it
    from ..sharing.door import Door


SERVE_SECONDS = 1.0
"""The time for a `callboard serve` to take the connection: one that stops takes none, and nobody takes its place."""


def check_options(options: RunOptions) -> None:
    """Raise `ConflictError` for an option that a run in a `callboard serve` can't have."""
    for name, is_given, instead in (
        (
            "--base-url",
            options.flags.base_url is not None,
            "name the place first, `callboard providers add NAME --base-url URL`, and then "
            "--model NAME/MODEL",
        ),
        (
            "callboard record",
            options.is_recorded,
            "a daemon's network is everybody's, and a recording holds one run: record "
            "with a data folder of its own, --data DIR",
        ),
    ):
        if is_given:
            raise ConflictError(
                f"{name} is not for a run in the daemon: {instead}. Leave it out, or use another data "
                "folder with --data."
            )
    if not options.has_input and turn_options(options, None) is not None:
        raise ConflictError(
            "--model, --policy, --fallback, --thinking, --temperature, --max-tokens, --tools and --timeout "
            "are for the turn of a prompt; what was left goes on in the daemon as it was begun. Give a prompt, "
            "or leave them out."
        )


def turn_options(options: RunOptions, session: SessionRow | None) -> TurnOptions | None:
    """Return the options of the prompt's turn that replace those of its agent, or `None`."""
    flags = options.flags
    # A new session is begun with its model, and keeps it.
    is_other = session is not None and session.model is None
    found = flags.turn_options(flags.model if is_other or options.prompt is None else None)
    return None if found == TurnOptions() else found


@asynccontextmanager
async def open_remote_place(
    daemon: RunningDaemon,
    data: Path,
    settings: Settings,
    options: RunOptions,
    choice: RunTarget,
    view: RunView,
    channel: TerminalChannel | None,
    confirm: Callable[[str], Awaitable[bool]],
    stay: Callable[[Door, CallboardError | None], Awaitable[None]],
) -> AsyncGenerator[RemotePlace]:
    """Give the daemon as the place of a run, around the block: the one that was found, or what takes its place.

    Questions go to the channel, or a line of the view says what waits; `confirm` asks for a yes.

    A daemon that is a command of this user has no options of its own for other commands: the run brings its model
    along, and its options. When that command is gone, this one, or another, becomes the daemon; `stay` is called
    at the end where this one did, with the block's error, if it had one.

    Raises:
        ConflictError: An option is about the runtime itself, which is that of a `callboard serve`, or the daemon
            goes by the rules of another configuration.
    """
    is_shared = daemon.command != "serve"
    if not is_shared:
        check_options(options)
    own = OwnRuntime(
        data=data,
        settings=settings,
        command="run",
        workspace=folder_of(options),
        model=options.flags.model,
        base_url=options.flags.base_url,
        config=options.config,
    )
    holder: Holder | None = None
    async with AsyncExitStack() as stack:
        if is_shared:
            holder = await stack.enter_async_context(holding(own, view.notice))
            stack.push_async_exit(partial(_stay, holder, stay))
        rules = OwnRules(options.config, daemon)
        reader = await stack.enter_async_context(open_record(data))
        seconds = OWN_SECONDS if is_shared else SERVE_SECONDS
        connecting = connect_here(data, rules.check, first_seconds=seconds)
        client = await stack.enter_async_context(connecting)
        if is_shared:
            await read_rules(client)
            model, wanted = SelectedModel("", ""), None
        elif choice.model is not None:
            wanted = turn_options(options, choice.session)
            model = SelectedModel(choice.model, choice.reason or "because --model says so")
        else:
            wanted = turn_options(options, choice.session)
            model = await client.request("model/default", Nothing(), SelectedModel)
        nursery = await stack.enter_async_context(open_service_nursery("the run is over"))
        questions = DaemonQuestions(client, channel, nursery, view.notice)
        place = RemotePlace(client, reader, questions, options, model, confirm, wanted)
        place.tasks, place.notice = nursery, view.notice
        place.channel = channel
        place.holder = holder
        watch = partial(watch_connection, gives_up=None if place.has_people else place.left_waiting)
        nursery.start_soon(watch, client, view.notice, name="connection")
        if is_shared:
            flags = options.flags
            wish = wish_of_command(
                settings,
                choice.model,
                flags.base_url,
                flags.dialect,
                is_recorded=options.is_recorded,
            )
            take = partial(place.take_lent, choice.reason)
            place.lender = Lender(client, wish, take, view.notice)
            await place.lender.lend()
        yield place


async def _stay(
    holder: Holder,
    stay: Callable[[Door, CallboardError | None], Awaitable[None]],
    _: object,
    failure: BaseException | None,
    __: object,
) -> None:
    is_over = failure is None or isinstance(failure, CallboardError)
    if holder.door is not None and is_over:
        await stay(holder.door, failure if isinstance(failure, CallboardError) else None)


def folder_of(options: RunOptions) -> Path:
    """Return the folder in which a run begins sessions."""
    return (options.flags.workspace or Path.cwd()).expanduser().resolve()


class RemotePlace:
    """The daemon, with the methods of `Runtime` that a run uses.

    Attributes:
        tasks: What goes on while the place is open, also behind what was cancelled.
        notice: Says what people should know.
    """

    tasks: trio.Nursery
    notice: Callable[[str], None]

    def __init__(
        self,
        client: Client,
        reader: StoreReader,
        questions: DaemonQuestions,
        options: RunOptions,
        model: SelectedModel,
        confirm: Callable[[str], Awaitable[bool]],
        wanted: TurnOptions | None,
    ) -> None:
        self.client = client
        self.store = reader
        self.questions = questions
        self.model = model.model
        self.model_reason = model.reason
        self.wanted = wanted
        self.approval = client.approval
        self.answer = client.answer
        self.holder: Holder | None = None
        self.lender: Lender | None = None
        self.channel: TerminalChannel | None = None
        self.session_id = ""
        self._options = options
        self._confirm = confirm

    @property
    def door(self) -> Door | None:
        """That of this process, if it took over."""
        return self.holder.door if self.holder is not None else None

    @property
    def has_others(self) -> bool:
        """Whether this process has the sessions, and another command uses it."""
        door = self.door
        if door is None or door.gateway is None:
            return False
        return len(door.gateway.daemon.connections) > 1  # one is the run's own

    @property
    def ends_below(self) -> bool:
        """Whether sessions that nobody waits for end with the run."""
        return self.door is not None

    @property
    def has_people(self) -> bool:
        """Whether somebody sits at the terminal of the command."""
        return self.channel is not None

    async def end_below(self, session_id: str, reason: str) -> None:
        """End what runs below a session, if that is in this process; elsewhere it goes on."""
        if (door := self.door) is not None:
            from ..sharing.door import end_below  # few runs take over

            await end_below(door.runtime, session_id, reason)

    def left_waiting(self) -> str:
        """Say what becomes of the turn when this command waits for the daemon no longer."""
        if not self.session_id:
            return "nothing was sent"
        return (
            f"`callboard run --session {self.session_id}`, without a prompt, says what became of it, and waits for what "
            "still runs"
        )

    def take_lent(self, reason: str | None, lent: SelectedModel) -> None:
        """Have turns use a model that the daemon was lent, for a reason of the command's own or of the model's."""
        self.wanted = self._options.flags.turn_options(lent.model)
        self.model, self.model_reason = shown(lent.model), reason or lent.reason

    async def create_session(self, *, agent: str, budget: Budget | None) -> RemoteSession:
        """Begin a session in the folder of the command; ask first when that is below no root."""
        flags = self._options.flags
        row = await create_session(
            self.client,
            folder_of(self._options),
            self._confirm,
            agent=agent,
            model=flags.model if self.lender is None and not self._options.calls else None,
            budget=budget,
            is_shared=self.lender is not None,
        )
        return await self._given(row)

    async def tool_names(self) -> list[str]:
        """Return the names of the daemon's tools, those of plugins and servers among them."""
        return [tool.name for tool in (await self.client.tools()).tools]

    async def get_session(self, session_id: str) -> RemoteSession:
        """Return a session on record; raise `NotFoundError`."""
        return await self._given(await self.client.session(session_id))

    def call(
        self, session_id: str, calls: tuple[GivenCall, ...], budget: Budget | None
    ) -> RemoteTurn:
        """Return a turn that makes these calls, which are sent when it is entered.

        A question is denied where nobody sits, as without a daemon: whoever waits for the outcome is a program.
        """
        options = self.wanted or TurnOptions()
        if not self.has_people:
            options = msgspec.structs.replace(options, unattended="deny")
        send = partial(
            self.client.prompt,
            session_id,
            text_of_calls(calls),
            budget=budget,
            options=msgspec.structs.replace(options, calls=calls),
        )
        return RemoteTurn(self, session_id, send=send)

    async def _given(self, row: SessionRow) -> RemoteSession:
        """Give the inputs of the run its options, and those that were left there its people."""
        if self.lender is not None:
            left = await self.store.open_inputs(row.session_id)
            given = GiveOptions(
                session_id=row.session_id,
                options=self.wanted or TurnOptions(),
                has_people=self.has_people,
                left=tuple(each.input_id for each in left[:MAX_LEFT]),
                is_for_left=not self._options.has_input,
            )
            await self.lender.give(given)
        self.session_id = row.session_id
        return RemoteSession(self, row.session_id)


class RemoteSession:
    """A session in the daemon, with the methods of `Session` that a run uses."""

    def __init__(self, place: RemotePlace, session_id: str) -> None:
        self.session_id = session_id
        self._place = place

    def prompt(
        self,
        text: str,
        attachments: Iterable[Attachment] = (),
        *,
        answer: dict[str, Any] | None = None,
        budget: Budget | None = None,
        is_untrusted: bool = False,
    ) -> RemoteTurn:
        """Return a turn for this input, which is sent when the turn is entered."""
        client, options = self._place.client, self._place.wanted
        if answer is not None:
            text = msgspec.json.encode(answer).decode()
            options = msgspec.structs.replace(options or TurnOptions(), answer_schema=text)
        send = partial(
            client.prompt,
            self.session_id,
            text,
            attachments,
            budget=budget,
            options=options,
            is_untrusted=is_untrusted,
        )
        return RemoteTurn(self._place, self.session_id, send=send)

    def retry(self) -> RemoteTurn:
        """Return the last turn to run again, which begins when it is entered; see `Session.retry`."""
        send = partial(self._place.client.retry, self.session_id)
        return RemoteTurn(self._place, self.session_id, send=send)

    def regenerate(self) -> RemoteTurn:
        """Return the last turn to run again for another answer; see `Session.regenerate`."""
        send = partial(self._place.client.regenerate, self.session_id)
        return RemoteTurn(self._place, self.session_id, send=send)

    async def resume(self) -> RemoteTurn | None:
        """Return the open turn, or that of an input that waits; following it lets it go on."""
        reader = self._place.store
        row = await reader.session(self.session_id)
        head_seq = row.head_seq if row is not None else 0
        follow = partial(RemoteTurn, self._place, self.session_id, after_seq=head_seq)
        inputs = await reader.open_inputs(self.session_id)
        for turn in await reader.open_turns():
            if turn.session_id == self.session_id:
                # By its input, so that a cancel never means the turn that came next.
                mine = (row.input_id for row in inputs if row.turn_id == turn.turn_id)
                return follow(turn_id=turn.turn_id, input_id=next(mine, ""))
        return follow(input_id=inputs[0].input_id) if inputs else None

    def follow(self) -> RemoteEvents:
        """Follow what happens from here on; see `Session.follow`."""
        return self._place.client.events(self.session_id)

    async def set_agent(self, agent: str) -> None:
        """See `Session.set_agent`."""
        await self._place.client.set_agent([self.session_id], agent)

    async def set_budget(self, budget: Budget | None) -> None:
        """See `Session.set_budget`."""
        params = SetBudget(session_id=self.session_id, budget=budget)
        await self._place.client.request("session/set_budget", params, Nothing)


LEAVE_SECONDS = 15.0
"""How long leaving one's own turn waits until it is gone, even when cancelled."""
AWAY_SECONDS = 2.0
"""How long a cancel waits for a daemon that is away: who ends a command waits for nothing."""


class RemoteTurn:
    """One turn of a session in the daemon; made by `RemoteSession`. See `Turn`.

    Args:
        place: The daemon.
        session_id: Whose turn it is.
        send: Sends the prompt, when the turn is entered; without, an open turn is followed, or that
            of an input that waits.
        after_seq: The `seq` after which events are followed.

    Attributes:
        seq: The `seq` of the last event on record that was seen.
        at_ms: When that event was stored, in Unix milliseconds.
        ended: How it ended, once it has.
        input_id: The input's id, once that is known.
    """

    def __init__(
        self,
        place: RemotePlace,
        session_id: str,
        *,
        send: Callable[[], Awaitable[Ticket]] | None = None,
        after_seq: int | None = None,
        turn_id: str = "",
        input_id: str = "",
    ) -> None:
        self._place = place
        self._client = place.client
        self._questions = place.questions
        self._channel = place.channel
        self._session_id = session_id
        self._send = send
        self._after_seq = after_seq
        self._turn_id = turn_id
        self.input_id = input_id
        self._events: RemoteEvents | None = None
        self._reading: ReadAhead | None = None
        self._waiting: deque[TurnEvent] = deque()
        self._pieces = LivePieces()
        self._is_out_of_reach = False
        self._sent = trio.Event()
        self.seq = 0
        self.at_ms = 0
        self.ended: TurnEnded | None = None

    async def __aenter__(self) -> Self:
        # Subscribed first, so that the answer is seen from its first word.
        events = self._client.events(
            self._session_id, after_seq=self._after_seq, epoch=self._client.welcome.epoch
        )
        self._events = await events.__aenter__()
        self._reading = ReadAhead(self._events, self._questions.see, self._channel)
        if self._send is not None:
            try:
                ticket = await self._ticket(self._send)
            except BaseException:
                with trio.move_on_after(LEAVE_SECONDS, shield=True):
                    await events.__aexit__(None, None, None)
                raise
            if (lender := self._place.lender) is not None:
                lender.own(self._session_id, ticket.input_id)
        return self

    async def _ticket(self, send: Callable[[], Awaitable[Ticket]]) -> Ticket:
        """Send the prompt; where that is broken off, the turn that it begins is cancelled, or is said to go on."""
        sent, asking = self._sent, trio.CancelScope(shield=True)
        said: list[Ticket | CallboardError] = []

        async def ask() -> None:
            try:
                with asking:  # it ends below in any case
                    ticket = await send()
                    self.input_id = ticket.input_id
                    said.append(ticket)
            except CallboardError as error:
                said.append(error)
            finally:
                sent.set()

        self._place.tasks.start_soon(ask, name="prompt")
        try:
            await sent.wait()
        except trio.Cancelled:
            with trio.move_on_after(LEAVE_SECONDS, shield=True):  # noqa: ASYNC912  `cancel` may fail at once
                try:
                    await self.cancel("the command left the turn")
                except NetworkError as error:
                    self._place.notice(str(error))
                except CallboardError:
                    pass  # it was not taken
            raise
        finally:
            asking.cancel(reason="the command left the turn")
        [answer] = said
        if isinstance(answer, CallboardError):
            raise answer
        return answer

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        is_own = self._send is not None  # a turn of others goes on
        if self.ended is None and is_own and not self._is_out_of_reach:
            with trio.move_on_after(LEAVE_SECONDS, shield=True), suppress(CallboardError):
                await self.cancel("the command left the turn")
        if self._events is not None:
            await self._events.__aexit__(kind, error, traceback)  # noqa: ASYNC102  as the client does

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Return the next event; wait for it, and end after `TurnEnded`."""
        assert self._reading is not None
        while not self._waiting:
            if self.ended is not None:
                raise StopAsyncIteration
            event = await self._reading.next()
            if isinstance(event, Stored):
                if not self._is_of_turn(event.event):
                    self._pieces.take(event)
                    continue
                self.seq, self.at_ms = event.seq, event.at_ms
                match event.event:
                    case TurnEnded(turn_id=turn_id) as ended if turn_id == self._turn_id:
                        self.ended = ended
                    case InputCancelled(input_id=input_id, reason=why) if input_id == self.input_id:
                        self.ended = TurnEnded(turn_id="", outcome="cancelled", message=why)
                    case _:
                        pass
                self._waiting.extend(self._pieces.take(event))
            elif self._turn_id:
                self._waiting.extend(self._pieces.take(event))
        return self._waiting.popleft()

    async def cancel(self, reason: str) -> None:
        """Cancel it; return when everything of it is gone.

        Raises:
            NetworkError: The daemon is away, or went away meanwhile.
        """
        if self._is_out_of_reach:  # said already
            return
        if self._send is not None:
            with trio.move_on_after(AWAY_SECONDS):
                await self._sent.wait()
            if not self._sent.is_set():
                self._is_out_of_reach = True
                raise NetworkError(
                    f"the daemon has not answered, and the turn may begin yet; {self._place.left_waiting()}"
                )
            if not self.input_id:
                return  # it was not taken
        cancel = Cancel(session_id=self._session_id, reason=reason, input_id=self.input_id or None)
        try:
            with trio.move_on_after(AWAY_SECONDS):
                await link_of(self._client).wait_connected("session/cancel")
            if not self._client.is_connected:
                raise NetworkError("the daemon is away")
            with suppress(NotFoundError):
                await self._client.request("session/cancel", cancel, Cancelled)
        except NetworkError as error:
            self._is_out_of_reach = True
            raise NetworkError(
                f"the daemon is away, and the turn may go on; {self._place.left_waiting()}"
            ) from error

    def _is_of_turn(self, event: DurableEvent) -> bool:
        """Return whether it belongs to this turn: while the input waits, another one may run."""
        match event:
            case InputAccepted() | InputCancelled():
                return bool(self._turn_id) or event.input_id == self.input_id
            case TurnStarted():
                if self.input_id in event.input_ids:
                    self._turn_id = event.turn_id
        return bool(self._turn_id)

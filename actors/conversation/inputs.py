"""The inputs of a session: the queue of those that wait, and what they bring for their turns.

An input may bring options for its turn (another model, other tools). It may also bring the answer to
a deferred call: one that a person is asked about while the turn goes on.

call   → its question is on record, and the model reads "pending": the call's one result
answer → on record with an input, which has a turn of its own
turn   → runs the call, if allowed; what came of it is the input's text; then the model goes on

The classes here are folds of the session's events, the same live and on load; but for `GivenOptions`, which is in memory:
what commands give to their inputs here, and to what comes of these.

command ──► its inputs ──► their turns ──► sessions below, late results and answers

Inputs of anybody else in the same session have nothing of it, whichever way they came. On record stand the preset and the
tools, so that nothing goes on under laxer ones in another process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from ...runtime.channel import Channel
from ...runtime.definitions import Agent, CallStatus, InputMode, InputSource, Preset
from ...runtime.errors import OverloadedError, PermissionRefused
from ...runtime.events import (
    CallDeferred,
    CallFinished,
    CallProposed,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    Stored,
    TurnEnded,
    TurnSetAside,
    TurnStarted,
)
from ...runtime.history import Input
from ...runtime.identity import TraceContext, checked_trace, new_id
from ...runtime.messages import SubmitInput
from ...runtime.store.interface import StoreReader
from ...runtime.taint.marked_files import MarkedFiles
from ...runtime.taint.marks import SessionMarks, marked
from ...runtime.text import excerpt
from ...runtime.turn_options import NO_CLIENT, ClientContext, TurnOptions

MAX_SOURCE_CHARACTERS = 100
"""Of an attachment's name, where it is said what tainted a session."""

MAX_COMMANDS = 1000
"""Commands whose options hold at once: one for each session in which a command works, or worked lately."""
MAX_LATE = 1000
"""Questions left in a session that a command takes up: more than a person answers."""
MAX_INPUTS = 10_000
"""Inputs of commands that are remembered, a few for each command and each session below. What came of the oldest goes on as it
stands on record."""

_NONE = TurnOptions()

_OF_INPUTS = frozenset({InputAccepted, InputCancelled, InputDelivered, TurnStarted, TurnEnded})


def queued(modes: Mapping[str, InputMode]) -> dict[str, InputMode]:
    """Return the modes of inputs after a turn's end: those that would have steered it now wait."""
    return {
        input_id: InputMode.QUEUE if mode is InputMode.STEER else mode
        for input_id, mode in modes.items()
    }


def accepted(
    input_id: str, message: SubmitInput, agent: Agent | None, given: TurnOptions | None = None
) -> InputAccepted:
    """Return the event of an input to a session with this agent.

    Of the options that its command gives only here, the preset and the tools go on record: when its turn goes on later,
    in another process, or is run again, it has no more.
    """
    widens, options = message.widens, message.options
    if given is not None:
        is_laxer = agent is None or given.widens(agent)
        # Without the right to it on record, a laxer preset would stand in the way of what the command gives here.
        policy = None if widens == "" and is_laxer else given.policy
        kept = TurnOptions(policy=policy, tools=given.tools)
        options = None if (merged := (options or _NONE).over(kept)) == _NONE else merged
    if widens is None:
        steers = message.mode is InputMode.STEER
        is_wider = agent is not None and (steers if options is None else options.widens(agent))
        widens = agent.name if agent is not None and is_wider else ""
    return InputAccepted(
        input_id=input_id,
        text=message.text,
        attachments=message.attachments,
        budget=message.budget,
        mode=message.mode,
        request=message.request,
        options=options,
        widens=widens,
        via=message.via,
        client=message.client,
        trace=checked_trace(message.trace),
    )


class InputQueue(list[str]):  # ruff: ignore[subclass-builtin]  nothing of it is overridden
    """The ids of inputs that wait for their turns, in the order of those turns.

    Those that interrupt stand ahead of the others, each kind in the order in which they came. The
    session adds the inputs of its clients; those that others stored come by `fold`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._modes: dict[str, InputMode] = {}

    def add(self, input_id: str, mode: InputMode = InputMode.QUEUE) -> None:
        """Add an input behind those of its kind."""
        self._modes[input_id] = mode
        if mode is InputMode.INTERRUPT:
            self.insert(self._count_first(), input_id)
        else:
            self.append(input_id)

    def take_steering(self, may_steer: Callable[[str], bool]) -> list[str]:
        """Remove and return the inputs that are to steer the running turn, and may."""
        wanted = [each for each in self if self._modes.get(each) is InputMode.STEER]
        steering = [each for each in wanted if may_steer(each)]
        for input_id in steering:
            self.remove(input_id)
        return steering

    def put_back(self, input_ids: Iterable[str]) -> None:
        """Put inputs back, ahead of those of their kind: they came before."""
        for input_id in reversed(list(input_ids)):
            is_first = self._modes.get(input_id) is InputMode.INTERRUPT
            self.insert(0 if is_first else self._count_first(), input_id)

    def fold(self, stored: Stored) -> None:
        """Take the next event into account."""
        event = stored.event
        if type(event) not in _OF_INPUTS:  # nearly all are of calls
            return
        if isinstance(event, InputAccepted) and event.source is not InputSource.PERSON:
            self.add(event.input_id)
        elif isinstance(event, InputCancelled):
            self._modes.pop(event.input_id, None)
            if event.input_id in self:
                self.remove(event.input_id)
        elif isinstance(event, TurnEnded):
            self._modes = queued(self._modes)
        elif isinstance(event, (TurnStarted, InputDelivered)):
            begun = event.input_ids if isinstance(event, TurnStarted) else (event.input_id,)
            for input_id in begun:
                self._modes.pop(input_id, None)

    def _count_first(self) -> int:
        """Return how many inputs interrupt; they stand first."""
        modes = (self._modes.get(each) for each in self)
        return sum(mode is InputMode.INTERRUPT for mode in modes)


# ── options ──────────────────────────────────────────────────────────────────────────────────────


class InputOptions(NamedTuple):
    """Options of a turn, and the agent that they may widen: whoever gave them was allowed to.

    `client` is what the program that sent the input gives beside them, for this turn alone. `began_under` is the preset
    of the turn that a late answer belongs to: what is asked about its calls is not less because another process has it.
    """

    options: TurnOptions
    widens: str = ""
    client: ClientContext = NO_CLIENT
    began_under: Preset | None = None

    @property
    def narrow(self) -> InputOptions:
        """The same without the right to let more run than the agent does, and without the client's tools.

        Nobody would run these when somebody else has the turn run again.
        """
        return InputOptions(self.options, client=ClientContext(self.client.instructions))

    @property
    def inherited(self) -> InputOptions:
        """The same for a late result of the turn."""
        return InputOptions(self.options.inherited)

    def over(self, others: InputOptions) -> InputOptions:
        """Return the same with the others' where these say nothing."""
        widens = others.widens if self.options.policy is None else self.widens
        began_under = self.began_under or others.began_under
        return InputOptions(self.options.over(others.options), widens, self.client, began_under)

    def applied(self, agent: Agent) -> Agent:
        """Return the agent with the options; it may be another than the one they may widen."""
        return self.options.applied(agent, may_widen=self.widens == agent.name != "")


def options_of(event: InputAccepted) -> InputOptions | None:
    """Return the options that an input brings for its turn; a late result keeps the preset of what it comes from."""
    if event.child_id and event.options is not None:
        wanted = msgspec.structs.replace(event.options, policy=None)
        return InputOptions(wanted, began_under=event.options.policy)
    if event.options is None and event.client is None:
        return None
    return InputOptions(event.options or TurnOptions(), event.widens, event.client or NO_CLIENT)


class SessionOptions:
    """The options of the latest turn, and of inputs that wait.

    Attributes:
        turn: The options of the latest turn.
        trace: Where the sender of its input stands in a trace.
        origin: The first input of the latest turn.
    """

    def __init__(self) -> None:
        self.turn: InputOptions | None = None
        self.trace: TraceContext | None = None
        self._policy: Preset | None = None
        self._traces: dict[str, TraceContext] = {}
        self._of_inputs: dict[str, InputOptions] = {}
        self._of_calls: dict[str, tuple[InputOptions | None, str]] = {}
        self._origins: dict[str, tuple[str, ...]] = {}
        self._begun: tuple[str, ...] = ()
        self.origin = ""
        self._wideners: set[str] = set()

    @property
    def again(self) -> InputOptions | None:
        """The options of the latest turn when it runs again; somebody else may have asked for it."""
        return None if self.turn is None else self.turn.narrow

    def of(self, input_id: str) -> InputOptions | None:
        """Return the options of the turn that an input will have."""
        return self._of_inputs.get(input_id)

    def origins_of(self, input_id: str, *, runs_again: bool = False) -> tuple[str, ...]:
        """Return what the turn of an input comes of: the input, and for a late result the call, or session below, that it is
        of, and the input of the turn that began that. One that somebody has run again comes of the input alone.
        """
        return (input_id,) if runs_again else (input_id, *self._origins.get(input_id, ()))

    def may_steer(self, input_id: str) -> bool:
        """Whether an input may join the latest turn; a widened turn takes only a widener's."""
        return self.turn is None or not self.turn.widens or input_id in self._wideners

    def check_steering(self, event: InputAccepted, turn_id: str | None) -> None:
        """Raise `PermissionRefused` for an input that must not steer the open turn."""
        if event.mode is not InputMode.STEER or turn_id is None or event.widens:
            return
        if not self.may_steer(event.input_id):
            raise PermissionRefused(
                f"{turn_id} runs more without asking than its agent does, as an administrator "
                "allowed for what that one asked: only an administrator steers it. Queue the "
                "input, or let it interrupt the turn."
            )

    def fold(self, event: DurableEvent) -> None:
        """Take the next event into account; most say nothing about options."""
        match event:
            case InputAccepted():
                self._accept(event)
            case InputDelivered() | InputCancelled():
                self._take(event.input_id)
                self._origins.pop(event.input_id, None)
            case TurnStarted():
                self._begin(event)
            case TurnSetAside():
                self._set_aside(event)
            case CallDeferred():
                self._of_calls[event.call_id] = (self._of_late_answer(), self.origin)

    def _accept(self, event: InputAccepted) -> None:
        # The turn of a late answer goes on with what an earlier turn began, so it has the options of that turn.
        late, origin = self._of_calls.pop(event.call_id, (None, ""))
        if event.call_id:
            self._origins[event.input_id] = (event.child_id or event.call_id, origin)
        if (brought := options_of(event) or late) is not None:
            self._of_inputs[event.input_id] = brought
        if event.widens:
            self._wideners.add(event.input_id)
        if event.trace is not None:
            self._traces[event.input_id] = event.trace

    def _begin(self, event: TurnStarted) -> None:
        traces = [self._traces.get(name) for name in event.input_ids]
        self.trace = next(filter(None, traces), None)
        for name in set(self._begun).difference(event.input_ids):
            self._origins.pop(name, None)
        self._begun = event.input_ids
        self.origin = next(iter(event.input_ids), "")
        found = [self._take(name) for name in event.input_ids]
        self.turn, self._policy = next(filter(None, found), None), event.policy

    def _set_aside(self, event: TurnSetAside) -> None:
        for name in event.input_ids:  # whoever has it run again may be another
            self._origins.pop(name, None)
        if self.trace is not None and event.input_ids:
            self._traces[event.input_ids[0]] = self.trace
        if self.again is not None and event.input_ids:
            self._of_inputs[event.input_ids[0]] = self.again

    def _of_late_answer(self) -> InputOptions | None:
        options = None if self.turn is None else self.turn.inherited
        if self._policy is None:
            return options
        return (options or InputOptions(TurnOptions()))._replace(began_under=self._policy)

    def _take(self, input_id: str) -> InputOptions | None:
        self._wideners.discard(input_id)
        self._traces.pop(input_id, None)
        return self._of_inputs.pop(input_id, None)


# ── what commands give ───────────────────────────────────────────────────────────────────────────


class Given(msgspec.Struct, frozen=True, eq=False):
    """What one command gives: options, and the channel of its people; with `None`, nobody is asked.

    Without `may_widen` nothing is asked less than without the options: they are for what others began.
    """

    options: TurnOptions = _NONE
    channel: Channel | None = None
    may_widen: bool = True

    @property
    def is_policy_given(self) -> bool:
        """Whether the preset is the command's, and no turn keeps the one that it began under."""
        return self.may_widen and self.options.policy is not None


class GivenOptions:
    """The commands that give options, and which inputs are theirs."""

    def __init__(self) -> None:
        self._given: dict[str, Given] = {}
        self._working: dict[str, str] = {}
        self._inputs: dict[tuple[str, str], str] = {}

    @property
    def working(self) -> set[str]:
        """The sessions in which commands work."""
        return set(self._working)

    def begin(self, session_id: str, given: Given) -> str:
        """Note that a command works in a session; return the name by which its inputs are its own.

        Raises:
            OverloadedError: There are too many commands.
        """
        command = self.add(given)
        self._working[session_id] = command
        return command

    def add(self, given: Given) -> str:
        """Note what a command gives; return the name for it. Raises `OverloadedError`."""
        if len(self._given) >= MAX_COMMANDS:
            at_work = set(self._working.values())
            idle = next((each for each in self._given if each not in at_work), None)
            if idle is None:
                raise OverloadedError(f"{MAX_COMMANDS} sessions have options of commands already")
            self.forget(idle)
        command = new_id("command")
        self._given[command] = given
        return command

    def end_work(self, session_id: str, command: str) -> None:
        """Note that a command is gone from its session; its inputs, and what comes of them, keep what it gave."""
        if self._working.get(session_id) == command:
            del self._working[session_id]

    def forget(self, command: str) -> None:
        """Drop what a command gave: nothing of it goes on here."""
        self._given.pop(command, None)
        self._inputs = {key: name for key, name in self._inputs.items() if name != command}

    def claim(self, session_id: str, input_ids: Iterable[str], command: str) -> None:
        """Note whose inputs these are; without a command, they are nobody's.

        The late result of a session below is known by the id of that, that of a call by the call's.
        """
        for input_id in input_ids:
            self._inputs.pop((session_id, input_id), None)
            if command in self._given:
                self._inputs[session_id, input_id] = command
        while len(self._inputs) > MAX_INPUTS:
            del self._inputs[next(iter(self._inputs))]

    async def take_up(
        self, store: StoreReader, session_id: str, input_ids: Collection[str], command: str
    ) -> None:
        """Make what was left in a session a command's: inputs, questions that wait, and turns below it that do.

        None while a turn runs there, and none that is a command's already.
        """
        turns = await store.open_turns()
        if any(each.session_id == session_id and not each.is_suspended for each in turns):
            return
        left = [row.input_id for row in await store.open_inputs(session_id)]
        self._claim_free(session_id, [each for each in left if each in input_ids], command)
        waiting = await store.approvals(session_id=session_id, state="waiting", limit=MAX_LATE)
        self._claim_free(session_id, [row.call_id for row in waiting], command)
        below = await store.children(session_id, is_detached=True)
        self._claim_free(session_id, [row.session_id for row in below], command)
        for turn in turns:
            above, parent_id = list[str](), turn.parent_id
            while parent_id is not None and parent_id not in above:
                above.append(parent_id)
                row = await store.session(parent_id)
                parent_id = None if row is None else row.parent_id
            if turn.is_suspended and session_id in above:
                inputs = [row.input_id for row in await store.open_inputs(turn.session_id)]
                self._claim_free(turn.session_id, inputs, command)
                self._claim_free(above[0], [turn.session_id], command)

    def _claim_free(self, session_id: str, input_ids: Iterable[str], command: str) -> None:
        free = [each for each in input_ids if not self.of_input(session_id, each)]
        self.claim(session_id, free, command)

    def take(
        self, input_id: str, message: SubmitInput, parent_id: str | None
    ) -> TurnOptions | None:
        """Note whose input this is, and return the options that it has by that."""
        if (given := self.by(message.command)) is None:
            return None
        self.claim(message.session_id, (input_id,), message.command)
        if parent_id is None:
            return given.options
        self.claim(parent_id, (message.session_id,), message.command)
        return given.options.inherited

    def of_input(self, session_id: str, input_id: str) -> str:
        """Return the command of an input, empty if it is nobody's."""
        return self._inputs.get((session_id, input_id), "") if self._inputs else ""

    def of_turn(self, session_id: str, comes_of: tuple[str, ...]) -> str:
        """Return the command of a turn that comes of one of these, empty if it is nobody's; its own input is that one's, too."""
        found = (self.of_input(session_id, each) for each in comes_of)
        if command := next(filter(self.by, found), ""):
            self.claim(session_id, comes_of[:1], command)
        return command

    def by(self, command: str) -> Given | None:
        """Return what a command gave, if it is one."""
        return self._given.get(command) if command else None

    def people(self, command: str, others: Channel | None) -> Channel | None:
        """Return the channel of the people who answer in turns of a command; those of others where it is none."""
        given = self.by(command)
        return others if given is None else given.channel

    def at_work(self, session_id: str) -> str:
        """Return the command that works in a session, empty if none does."""
        return self._working.get(session_id, "")


# ── answers to deferred calls ────────────────────────────────────────────────────────────────────


class PendingCalls:
    """The deferred calls of a session, and the inputs that bring their answers.

    Attributes:
        calls: The calls that have no result, by id.
        inputs: The inputs with answers about them, by id, until their turns are over.
        names: By call, the question by whose id the model knows that it is pending. A person who
            changed the arguments may have been asked again under another id since.
    """

    def __init__(self) -> None:
        self.calls: dict[str, CallProposed] = {}
        self.inputs: dict[str, InputAccepted] = {}
        self.names: dict[str, str] = {}

    def defer(self, call: CallProposed, event: CallDeferred) -> None:
        """Note that a call is pending, and under which id the model knows it."""
        self.calls[event.call_id] = call
        self.names[event.call_id] = event.approval_id

    def accept(self, event: InputAccepted) -> str:
        """Take an input into account if it is about a deferred call; return its text."""
        if not event.approval_id:
            return event.text
        self.inputs[event.input_id] = event
        known = self.names.get(event.call_id, event.approval_id)
        return event.text if known == event.approval_id else f"{known} is now {event.text}"

    def due(self, input_ids: tuple[str, ...]) -> dict[str, CallProposed]:
        """Return the calls that a turn for these inputs runs first."""
        named = (self.inputs[each].call_id for each in input_ids if each in self.inputs)
        return {call_id: self.calls[call_id] for call_id in named if call_id in self.calls}

    def forget(self, input_ids: tuple[str, ...]) -> None:
        """Drop inputs that have had their turns, or will have none."""
        for input_id in input_ids:
            self.inputs.pop(input_id, None)

    def late_input(
        self, event: CallFinished | CallDeferred, input_ids: tuple[str, ...]
    ) -> tuple[int, Input] | None:
        """Return what the model reads of a late result, and in place of which of the turn's inputs.

        `None` when no input of the turn is about the call.
        """
        known = self.names.get(event.call_id, "")
        if isinstance(event, CallFinished):
            self.names.pop(event.call_id, None)
        for at, input_id in enumerate(input_ids):
            accepted = self.inputs.get(input_id)
            if accepted is not None and accepted.call_id == event.call_id:
                before = accepted.approval_id
                if known not in {"", before}:
                    before = f"{known} (and since as {before})"
                if isinstance(event, CallDeferred):
                    return at, Input(asked_again_text(event, before))
                return at, Input(late_text(event, before), event.attachments)
        return None


def late_text(event: CallFinished, approval_id: str) -> str:
    """Return what the model reads of a deferred call that has its result."""
    outcome = {
        CallStatus.SUCCESS: "was allowed, and has run",
        CallStatus.DENIED: "was not allowed, and did not run",
        CallStatus.CANCELLED: "was cancelled",
        CallStatus.INTERRUPTED: "was interrupted",
    }.get(event.status, "was allowed, and failed")
    arguments = f" with {event.arguments}" if event.arguments else ""
    return (
        f"The call of {event.name} that was pending as {approval_id}{arguments} {outcome}. This is "
        f"its result, and no request of a person:\n{event.result}"
    )


def asked_again_text(event: CallDeferred, before: str) -> str:
    """Return what the model reads of a deferred call that can't run as it was allowed."""
    return (
        f"The call of {event.name} that was pending as {before} did not run: what it was allowed "
        f"under has changed since. It is asked about again, and is pending as {event.approval_id}."
    )


def marks_of_input(
    marks: SessionMarks, accepted: InputAccepted, files: MarkedFiles, *, is_untrusted: bool
) -> tuple[DurableEvent, ...]:
    """Return the event due when an input brings what strangers may have written."""
    if accepted.attachments and "attachments" not in files.origins.words:
        named = next((each.name for each in accepted.attachments if each.name), "")
        source = f"attachment {excerpt(named, MAX_SOURCE_CHARACTERS)}".strip()
    elif is_untrusted and "stdin" not in files.origins.words:
        source = "stdin"
    else:
        return ()
    return marked(marks, SessionMarks(is_tainted=True), source)

"""Replay: a session run again from its record. No model is asked, no tool runs, nothing connects.

Whatever came from outside (inputs, the models' answers, the results of calls) is taken from the record at
its place. What the runtime makes of that is computed again by the same `Turn`, `ModelCaller` and
`Conversation`, and compared with the record.

The record is read once, forward, by a `Tape`. Two tasks serve the turn from it: one answers in place of
the model, the other in place of the dispatcher. Events that come from neither are taken over between two
model calls, where a turn looks for new inputs. Compared is the essence of answers, calls, results and
turn ends; new ids, times and token counts differ by nature.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import assert_never

import msgspec
import trio

from ...config.prices import PriceTable
from ...config.settings import Limits
from ...providers.dialects import dialect_named
from ...providers.provider import Endpoint, ModelTarget
from ...runtime.definitions import Agent
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.events import (
    AnswerRejected,
    CallFinished,
    CallProposed,
    DurableEvent,
    InputAccepted,
    LiveEvent,
    MessageCompleted,
    SessionBudgetSet,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from ...runtime.history import Call, Opaque, Part, Refusal, Text, Thinking
from ...runtime.kernel.delivery import Hold
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import Ancestor, DispatcherMessage, RunCalls
from ...runtime.store.memory_store import open_memory_store
from ...runtime.store.recovery import CUT_OFF
from ...runtime.store.rows import OpenTurn
from ...runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ...tools.schema.validation import WrongArguments
from ..budget.budgets import BudgetBook
from ..conversation.conversation import Conversation
from ..model.choice import ModelChoice, ProviderHealth
from ..model.stream import MAILBOX_CAPACITY, StartModelCall, StreamOutlet
from ..turn.setup import TurnSetup
from ..turn.turn import Turn


def target_of(provider: str, model: str, dialect: str) -> ModelTarget:
    """Return the target that an answer was recorded of; it leads nowhere."""
    name, _, place = dialect.partition("@")
    try:
        spoken = dialect_named(name)
    except NotFoundError:  # a model in the process
        return ModelTarget(provider=provider, model=model)
    endpoint = Endpoint(name=provider, dialect=spoken, base_url=f"http://{place}")
    return ModelTarget(provider=provider, model=model, endpoint=endpoint)


def whole_answer(said: MessageCompleted) -> list[AnyStreamEvent]:
    """Return an answer as the stream of its model, with its end."""
    usage = [said.usage] if said.usage is not None else []
    return [*pieces(said), *usage, Done(_stop(said.stop_reason))]


def pieces(said: MessageCompleted) -> list[AnyStreamEvent]:
    """Return an answer as the stream of its model, without an end."""
    return [each for index, part in enumerate(said.parts) for each in _said(index, part)]


def _said(index: int, part: Part) -> Iterator[AnyStreamEvent]:
    match part:
        case Text(text):
            yield TextDelta(text)
        case Refusal(text):
            yield RefusalDelta(text)
        case Thinking(text, signature):
            if text:
                yield ThinkingDelta(text)
            if signature is not None:
                yield ThinkingEnd(signature)
        case Opaque(dialect, kind, data):
            yield OpaquePart(dialect, kind, data)
        case Call(call_id, name, arguments):
            yield ToolCallStart(index, call_id, name)
            yield ToolCallDelta(index, arguments)
            yield ToolCallEnd(index)
        case _:
            assert_never(part)


def _stop(reason: str) -> StopReason:
    try:
        return StopReason(reason)
    except ValueError:  # a later callboard's
        return StopReason.END


Show = Callable[[DurableEvent | LiveEvent, int | None, int], None]
"""Takes each event, its `seq` if it would be on record, and when it was stored."""

STOPPED = ("cancelled", "budget")
"""Outcomes of turns that somebody or a budget stopped; the replay stops them at the same place."""


_NOTHING_FURTHER = StreamError(
    error_type="provider", message="The record has no further answer in this turn."
)


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a replay.

    Attributes:
        turns, answers, calls: How many were run again, up to the first difference.
        difference: The first difference from the record; empty when there is none.
    """

    session_id: str
    turns: int
    answers: int
    calls: int
    difference: str = ""

    @property
    def is_same(self) -> bool:
        """Whether everything came out as it is on record."""
        return not self.difference


class Replay:
    """Runs one session again, as the host of its turns."""

    def __init__(self, session_id: str, tape: Tape, limits: Limits, show: Show) -> None:
        self.session_id = session_id
        self.conversation = Conversation()
        self.lineage: tuple[Ancestor, ...] = ()
        self.hold = Hold()
        self._tape = tape
        self._limits = limits
        self._show = show
        self._store = open_memory_store()
        self._budgets = BudgetBook(self._store, PriceTable(), {})
        self._models: Mailbox[StartModelCall] = Mailbox("recorded answers", MAILBOX_CAPACITY)
        self._calls: Mailbox[DispatcherMessage] = Mailbox("recorded results", MAILBOX_CAPACITY)
        self._choice = ModelChoice(ModelTarget(provider="", model=""), (), ProviderHealth())
        self._checks = RecordedChecks()
        self._turn: Turn | None = None
        self._heard = trio.Event()
        self._turn_ids: dict[str, str] = {}
        self._came: list[Essence] = []
        self._recorded: list[Essence] = []
        self._turns, self._answer_count, self._call_count = 0, 0, 0
        self._at_ms = 0

    async def run(self) -> Replayed:
        """Run to the end of the record, or of the first turn that differs.

        Raises:
            ConflictError: A turn has no end on record.
        """
        difference = ""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._serve_answers, name="recorded answers")
                nursery.start_soon(self._serve_results, name="recorded results")
                unended = await self._wind_through()
                nursery.cancel_scope.cancel(reason="the replay is over")
            if unended:
                raise ConflictError(
                    f"{unended} of {self.session_id} has no end on record: it runs, waits for "
                    "somebody, or was cut off with its process. What came before it is the same; "
                    "come back when it has ended (`callboard run --continue` ends what was left)."
                )
            difference = self._difference()
        finally:
            with trio.CancelScope(shield=True):
                await self._store.aclose()
        return Replayed(
            session_id=self.session_id,
            turns=self._turns,
            answers=self._answer_count,
            calls=self._call_count,
            difference=difference,
        )

    async def _wind_through(self) -> str:
        """Run turn after turn; return the id of the one without an end, if there is one."""
        while (stored := await self._tape.look()) is not None:
            if not isinstance(stored.event, TurnStarted):
                self._take_over()
                continue
            if not await self._run_turn(stored.event):
                return stored.event.turn_id
            if self._difference():
                break
        return ""

    # ── a turn ───────────────────────────────────────────────────────────────────────────────────

    async def _run_turn(self, started: TurnStarted) -> bool:
        """Run a turn, unless it has no end on record; return whether it has."""
        if await self._tape.end_of_turn() is None:
            return False
        self._came, self._recorded = [], []
        self._tape.take()
        target = target_of(started.provider, started.model, started.provider)
        self._choice = ModelChoice(target, (), ProviderHealth())
        turn = self._turn = self._new_turn(next(iter(started.input_ids), ""))
        self._turn_ids[started.turn_id] = turn.turn_id
        self._turns += 1
        given = {"input_ids": started.input_ids, "gone": started.gone}
        self._add(msgspec.structs.replace(turn.started(), **given))
        await turn.run()
        self._turn = None
        await self._pass_turn()
        return True

    def _new_turn(self, input_id: str) -> Turn:
        brought = self.conversation.options.of(input_id)
        return Turn(
            self,
            input_id,
            TurnSetup(
                agent=Agent(name=self.conversation.agent or "general"),
                choice=self._choice,
                model_stream=self._models,
                dispatcher=self._calls,
                budgets=self._budgets,
                health=ProviderHealth(),
                limits=self._limits,
                answer_schema=None if brought is None else brought.options.answer_schema,
                answer_type=self._checks,
            ),
        )

    async def _pass_turn(self) -> None:
        """Pass what the record has left of the turn, with its end."""
        while (stored := await self._tape.look()) is not None:
            if not hasattr(stored.event, "turn_id"):
                self._take_over()  # came meanwhile: an input, a title
                continue
            self._note(self._tape.take().event, self._recorded)
            if isinstance(stored.event, TurnEnded):
                return

    def _difference(self) -> str:
        for came, recorded in zip(self._came, self._recorded, strict=False):
            if came != recorded:
                return f"turn {self._turns}: {in_words(recorded)} is on record, and {in_words(came)} came"
        if len(self._came) == len(self._recorded):
            return ""
        more, fewer = sorted((self._came, self._recorded), key=len, reverse=True)
        where = (
            "came, and is not on record" if more is self._came else "is on record, and did not come"
        )
        return f"turn {self._turns}: {in_words(more[len(fewer)])} {where}"

    # ── what a turn needs of its session ─────────────────────────────────────────────────────────

    async def append(self, *events: DurableEvent) -> None:
        """Fold events that the turn has made; they are stored nowhere.

        The results of an answer that was not taken, and why it was not, come from the record.
        """
        await trio.lowlevel.checkpoint()
        is_rejected = any(isinstance(event, AnswerRejected) for event in events)
        if not is_rejected or isinstance(events[-1], TurnEnded):
            for event in events:
                self._add(event)
            return
        for event in events:
            if isinstance(event, MessageCompleted | CallProposed):
                self._add(event)
        await self._pass_answer()

    async def append_end(self, *events: DurableEvent) -> None:
        """Append the end of a turn, as `append` does; where it was ended from outside ahead of that, as it was."""
        stored, own = await self._tape.look(), events[-1]
        if (
            stored is not None
            and isinstance(own, TurnEnded)
            and isinstance(stored.event, TurnEnded)
            and (stored.event.outcome == "cancelled" or stored.event.message == CUT_OFF)
        ):
            end = msgspec.structs.replace(stored.event, turn_id=own.turn_id)
            events = *events[:-1], end
        await self.append(*events)

    async def left_open(self) -> OpenTurn | None:
        """Nothing is left open here."""
        await trio.lowlevel.checkpoint()
        return None

    async def deliver_steering(self, turn_id: str) -> None:
        """Take over what the record has before the next answer, and stop the turn if it was stopped."""
        stored = await self._wind()
        match stored.event if stored is not None else None:
            case MessageCompleted() as said:
                self._choice.target = target_of(said.provider, said.model, said.dialect)
            case TurnEnded() as ended if ended.outcome in STOPPED:
                self._break_off(ended)

    async def recover(self) -> bool:
        """Return `False`: nothing is stored."""
        return False

    def fold_committed(self) -> None:
        """Do nothing: events are folded at once."""

    def publish(self, update: LiveEvent) -> None:
        """Show a live event."""
        self._show(update, None, 0)
        self._heard.set()

    def _break_off(self, ended: TurnEnded) -> None:
        """Stop the turn, as somebody or a budget did."""
        assert self._turn is not None
        # Cancelled without a reason means that the budget was spent.
        self._turn.cancel("" if ended.outcome == "budget" else ended.message or "it was cancelled")

    # ── the record in the place of models and tools ──────────────────────────────────────────────

    async def _serve_answers(self) -> None:
        with self._models.open() as asked:
            async for call in asked:
                with call.outlet as outlet, call.scope:
                    await self._speak(outlet)

    async def _speak(self, outlet: StreamOutlet) -> None:
        stored = await self._tape.look()
        match stored.event if stored is not None else None:
            case MessageCompleted(incomplete=True) as said:
                await self._speak_in_part(said, outlet)
            case MessageCompleted() as said:
                self._checks.rejected = await self._tape.rejection()
                await outlet.send(whole_answer(said))
            case TurnEnded(outcome="failed") as ended:
                await outlet.send([StreamError(error_type=ended.error_type, message=ended.message)])
            case _:
                await outlet.send([_NOTHING_FURTHER])

    async def _speak_in_part(self, said: MessageCompleted, outlet: StreamOutlet) -> None:
        self._heard = trio.Event()
        await outlet.send(pieces(said))
        await self._heard.wait()  # what was said comes before the end
        ended = await self._tape.end_of_turn()
        if ended is None or ended.outcome not in STOPPED:
            await outlet.send([_NOTHING_FURTHER])
            return
        self._break_off(ended)
        await trio.sleep_forever()

    async def _serve_results(self) -> None:
        with self._calls.open() as asked:
            async for request in asked:
                with request.outlet, request.scope:
                    await self._finish(request)

    async def _finish(self, request: RunCalls) -> None:
        """Take over the results of the calls, if they are those on record."""
        proposed = [each for each in request.preamble if isinstance(each, CallProposed)]
        for event in request.preamble:
            if not isinstance(event, CallFinished):
                self._add(event)
        call_ids = [each.call_id for each in proposed or request.calls]
        if await self._pass_answer() == call_ids:
            await self._wind()

    async def _pass_answer(self) -> list[str]:
        """Pass the answer on record and its calls; return the ids of the calls."""
        call_ids: list[str] = []
        wanted: type[MessageCompleted | CallProposed] = MessageCompleted
        while (stored := await self._tape.look()) is not None and isinstance(stored.event, wanted):
            self._note(self._tape.take().event, self._recorded)
            wanted = CallProposed
            if isinstance(stored.event, CallProposed):
                call_ids.append(stored.event.call_id)
        return call_ids

    async def _wind(self) -> Stored | None:
        """Take over everything up to the next answer or the end of the turn; return that."""
        while (stored := await self._tape.look()) is not None:
            if isinstance(stored.event, MessageCompleted | TurnEnded | TurnStarted):
                break
            self._take_over()
        return stored

    def _take_over(self) -> None:
        stored = self._tape.take()
        self._at_ms = stored.at_ms
        self._note(stored.event, self._recorded)
        if (event := self._as_here(stored.event)) is not None:
            self._add(event)

    def _as_here(self, event: DurableEvent) -> DurableEvent | None:
        """Return the event with the id of the turn that runs here, and without budgets.

        A budget that stops a turn is replayed from the record's end.
        """
        replace = msgspec.structs.replace
        if isinstance(event, SessionBudgetSet):
            return None
        if isinstance(event, SessionCreated | InputAccepted):
            return replace(event, budget=None)
        turn_id = getattr(event, "turn_id", None)
        return (
            event
            if turn_id is None
            else replace(event, turn_id=self._turn_ids.get(turn_id, turn_id))
        )

    def _add(self, event: DurableEvent) -> None:
        seq = self.conversation.head_seq + 1
        self.conversation.fold(Stored(self.session_id, seq, self._at_ms, event))
        self._answer_count += isinstance(event, MessageCompleted)
        self._call_count += isinstance(event, CallProposed)
        self._note(event, self._came)
        self._show(event, seq, self._at_ms)

    @staticmethod
    def _note(event: DurableEvent, where: list[Essence]) -> None:
        if (kept := essence(event)) is not None:
            where.append(kept)


class RecordedChecks:
    """Says of each answer that has to have a form what the record says.

    Attributes:
        rejected: What is wrong with the answer that is next.
    """

    def __init__(self) -> None:
        self.rejected: AnswerRejected | None = None

    def read(self, text: str) -> tuple[None, str]:
        """Return nothing; raise `WrongArguments` for an answer that was not taken."""
        if self.rejected is not None:
            raise WrongArguments(self.rejected.problem)
        return None, ""


Pages = Callable[[int], Awaitable[Sequence[Stored]]]
"""Returns the page of events after a `seq`; an empty one at the end."""
MAX_SHOWN = 120
"""Characters of each text in the line that says what differs."""


class Tape:
    """Events in their order, read ahead as far as somebody has looked."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._ahead: deque[Stored] = deque()
        self._seq = 0
        self._is_whole = False

    async def look(self) -> Stored | None:
        """Return the next event without taking it; `None` at the end."""
        if not self._ahead:
            await self._load()
        return self._ahead[0] if self._ahead else None

    def take(self) -> Stored:
        """Take the next event, which `look` has loaded."""
        return self._ahead.popleft()

    async def rejection(self) -> AnswerRejected | None:
        """Return why the answer that is next was not taken; `None` when it was."""
        at = 1
        while True:
            for stored in list(self._ahead)[at:]:
                if isinstance(stored.event, AnswerRejected):
                    return stored.event
                if isinstance(stored.event, MessageCompleted | TurnEnded):
                    return None
            at = len(self._ahead)
            if not await self._load():
                return None

    async def end_of_turn(self) -> TurnEnded | None:
        """Return the end of the turn that is next, or runs; `None` when it has none on record."""
        page: Sequence[Stored] = tuple(self._ahead)
        while True:
            for stored in page:
                if isinstance(stored.event, TurnEnded):
                    return stored.event
            if not (page := await self._load()):
                return None

    async def _load(self) -> Sequence[Stored]:
        if self._is_whole:
            return ()
        page = await self._pages(self._seq)
        if page:
            self._seq = page[-1].seq
            self._ahead.extend(page)
        else:
            self._is_whole = True
        return page


Essence = tuple[str, ...]
"""The parts of an event that must come out again; the first says what it is."""


def essence(event: DurableEvent) -> Essence | None:
    """Return what must come out again of an answer, call, result or turn end; else `None`."""
    match event:
        case MessageCompleted():
            parts = msgspec.json.encode(event.parts).decode(errors="replace")
            how = "incomplete" if event.incomplete else event.stop_reason
            return ("an answer", f"{event.provider}/{event.model}", how, parts)
        case CallProposed():
            return ("a call", event.name, event.call_id, event.arguments)
        case CallFinished():
            return ("a result", event.name, event.call_id, event.status.value, event.result)
        case TurnEnded():
            return ("the end", event.outcome, event.error_type)
        case _:
            return None


def in_words(kept: Essence) -> str:
    """Describe an essence for a person."""
    what, *more = kept
    said = ", ".join(
        shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…" for shown in more if shown
    )
    return f"{what} ({said})"

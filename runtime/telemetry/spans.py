"""Makes spans from the events of sessions.

A pure fold: events go in, in the order of each record, and finished spans come out. A turn is an `invoke_agent`; below
it stand its model calls, its tool calls and its questions to people. Their times are those of the events. What events
don't say (an agent's settings, where a provider is) comes from `Facts`.

It runs in a worker thread, and keeps no text of a person, a model or a tool unless it makes `content`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from ..definitions import CallStatus
from ..errors import (
    AuthError,
    ContextOverflow,
    DeadlineError,
    NetworkError,
    OverloadedError,
    ProviderError,
    QuotaError,
)
from ..events import (
    AgentSwitched,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    HistoryCompacted,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    ModelSwitched,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from ..identity import TraceContext
from ..stream import Usage
from ..turn_options import TurnOptions
from . import names
from .context import Tracing, TurnTrace
from .metrics import Metrics
from .span import Attributes, ContentMaker, Facts, Span, Template, failure_of
from .templates import Templates

MAX_SESSIONS = 2048
"""Whose state is kept; then that of the one with the oldest event goes, and is looked up again."""
MAX_OPEN = 1024
"""Inputs that wait, calls and questions that are kept of one session; those beyond it have no span."""
MAX_ID = 128
"""Characters of an id that a provider has made."""
_OF_MODELS = frozenset(
    each.type
    for each in (
        *(NetworkError, AuthError, DeadlineError, ProviderError),
        *(ContextOverflow, QuotaError, OverloadedError),
    )
)
"""With what a turn fails when a model could not be asked."""
_FINISHED = {reason: (finished,) for reason, finished in names.FINISHED.items()}
_OTHER = (names.OTHER,)


class _Call(msgspec.Struct, gc=False):
    arguments: str = ""
    started_ms: int = 0
    tier: str = ""
    is_asked: bool = False


_NO_CALL = _Call()


class _Turn:
    """A turn that has not ended.

    `asked_ms` is since when a model is asked, 0 while none is; `used` are its tokens.
    """

    __slots__ = (
        *("asked_ms", "charged", "has_compacted", "model", "provider"),
        *("started_ms", "templates", "trace", "turn_id", "used"),
    )

    def __init__(self, turn_id: str, at_ms: int, trace: TurnTrace, templates: Templates) -> None:
        self.turn_id = turn_id
        self.trace = trace
        self.templates = templates
        self.started_ms = self.asked_ms = at_ms
        self.provider = self.model = ""
        self.charged: AttemptCharged | None = None
        self.used: dict[str, int] = {}
        self.has_compacted = False


_Given = tuple[TraceContext | None, TurnOptions | None]
"""What came with an input: where its sender stands, and options of its turn."""


class _Session:
    """What is open in a session."""

    __slots__ = ("agent", "calls", "inputs", "latest", "questions", "session_id", "turns")

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.agent = ""
        self.inputs: dict[str, _Given] = {}
        self.latest: _Given = (None, None)
        self.turns: dict[str, _Turn] = {}
        self.calls: dict[str, _Call] = {}
        self.questions: dict[str, tuple[ApprovalAsked, int, TurnTrace]] = {}


class SpanBuilder:
    """Folds events into spans.

    Args:
        facts: What events don't say.
        tracing: Where turns stand.
        metrics: Counts all spans, those that are not kept too.
        content: Makes attributes of what was said; `None` makes none.
    """

    def __init__(
        self,
        facts: Facts,
        tracing: Tracing,
        metrics: Metrics | None = None,
        content: ContentMaker | None = None,
    ) -> None:
        self._facts = facts
        self._tracing = tracing
        self._metrics = metrics or Metrics()
        self._content = content
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._spans: list[Span] = []
        self._measured: list[Template] = []
        self._is_silent = False

    def fold(self, events: Iterable[Stored]) -> Exception | None:
        """Fold the next events of sessions; return what went wrong last, which costs spans and no turn."""
        fault = None
        content, folds = self._content, _FOLDS
        session = _Session("")
        for stored in events:
            try:
                if stored.session_id != session.session_id:
                    session = self._session_of(stored)
                event = stored.event
                if (fold := folds.get(event.__class__)) is not None:
                    fold(self, session, event, stored.at_ms, stored.seq)
                if content is not None:
                    content.fold(session.session_id, event)
            except Exception as error:
                fault = error
        if not self._is_silent:
            for template in self._measured:
                template.count()
            self._measured.clear()
        return fault

    def take(self) -> list[Span]:
        """Return the spans that have ended since the last time."""
        spans, self._spans = self._spans, []
        return spans

    def _session_of(self, stored: Stored) -> _Session:
        """Return the state of an event's session; that of one that is new here is as of before the event."""
        if (known := self._sessions.get(stored.session_id)) is not None:
            self._sessions.move_to_end(stored.session_id)
            return known
        session = self._sessions[stored.session_id] = _Session(stored.session_id)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        if not isinstance(stored.event, SessionCreated):
            session.agent = self._facts.agent_of(stored.session_id)
            if not isinstance(stored.event, InputAccepted):
                # Of a turn that began in another process, whose spans that one has sent.
                self._is_silent = True
                try:
                    self.fold(self._facts.record(stored.session_id, stored.seq))
                finally:
                    self._is_silent = False
        return session

    def _emit(
        self,
        template: Template,
        own_id: str,
        start_ms: int,
        end_ms: int,
        own: Attributes,
        message: str = "",
        measured: tuple[float | None, ...] = (),
    ) -> None:
        """Make a span; `measured` is for the series of its template behind that of durations."""
        if start_ms < template.since_ms:
            start_ms = template.since_ms
        if start_ms > end_ms:
            start_ms = end_ms
        if not (its := template.measured):
            self._measured.append(template)
        its.append(((end_ms - start_ms) / 1000,) + measured)  # ruff: ignore[collection-literal-concatenation]  half the work of a star
        trace = template.trace
        if trace.is_sampled:
            said = self._content.of_message(message) if message and self._content else ""
            self._spans.append(Span(template, trace.id_of(own_id), start_ms, end_ms, own, said))

    # ── sessions, inputs, turns ──────────────────────────────────────────────────────────────────

    def _created(self, session: _Session, event: SessionCreated, *_: int) -> None:
        session.agent = event.agent

    def _switched_agent(self, session: _Session, event: AgentSwitched, *_: int) -> None:
        session.agent = event.agent

    def _accepted(self, session: _Session, event: InputAccepted, *_: int) -> None:
        if len(session.inputs) < MAX_OPEN:
            session.inputs[event.input_id] = (event.trace, event.options)

    def _cancelled(self, session: _Session, event: InputCancelled, *_: int) -> None:
        session.inputs.pop(event.input_id, None)

    def _set_aside(self, session: _Session, event: TurnSetAside, *_: int) -> None:
        """The inputs of a turn get another one, which stands where the first one did."""
        if event.input_ids:
            session.inputs[event.input_ids[0]] = session.latest

    def _delivered(self, session: _Session, event: InputDelivered, *_: int) -> None:
        session.inputs.pop(event.input_id, None)

    def _started(self, session: _Session, event: TurnStarted, at_ms: int, seq: int) -> None:
        given = [session.inputs.pop(each, (None, None)) for each in event.input_ids]
        trace = next((trace for trace, _ in given if trace is not None), None)
        options = next((options for _, options in given if options is not None), None)
        place = self._tracing.of_turn(trace, session.session_id, event.turn_id)
        templates = Templates(self._facts, self._metrics, place, event.turn_id, at_ms, options)
        turn = _Turn(event.turn_id, at_ms, place, templates)
        session.latest = (trace, options)
        turn.provider, turn.model = event.provider, event.model
        session.turns[event.turn_id] = turn

    def _resumed(self, session: _Session, event: TurnResumed, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is not None:
            turn.asked_ms = 0 if session.calls else at_ms

    def _suspended(self, session: _Session, event: TurnSuspended, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is not None:
            turn.asked_ms = 0

    def _ended(self, session: _Session, event: TurnEnded, at_ms: int, seq: int) -> None:
        turn = session.turns.pop(event.turn_id, None)
        if turn is None:
            return
        is_failure = event.outcome == "failed" and event.error_type in _OF_MODELS
        if turn.charged is not None or (turn.asked_ms and is_failure):
            why = event.error_type if is_failure else str(event.outcome)
            self._failed_call(session, turn, why, at_ms, seq, event.message)
        if not session.turns:
            session.calls.clear()
            deferred = {k: q for k, q in session.questions.items() if q[0].is_deferred}
            session.questions = deferred
        if self._is_silent:
            return
        error = "" if event.outcome == "answered" else event.error_type or event.outcome
        template = turn.templates.of_turn(
            session.agent, turn.turn_id, str(event.outcome), error, has_compacted=turn.has_compacted
        )
        end_ms = max(at_ms, turn.started_ms)
        self._emit(template, turn.turn_id, turn.started_ms, end_ms, {**turn.used}, event.message)

    # ── model calls ──────────────────────────────────────────────────────────────────────────────

    def _completed(self, session: _Session, event: MessageCompleted, at_ms: int, seq: int) -> None:
        turn = session.turns.get(event.turn_id)
        if turn is None or event.is_copy:
            return
        asked_ms, turn.asked_ms = turn.asked_ms, 0
        if not event.model:  # a program gave its calls
            return
        turn.charged = None
        own: Attributes = {}
        read = written = first = None
        if (usage := event.usage) is not None:
            _count(usage, turn, own)
            read, written = usage.input_tokens, usage.output_tokens
        if self._is_silent:
            return
        error = "incomplete" if event.incomplete else ""
        template = turn.templates.of_model(session.agent, event.provider, event.model, error)
        if event.stop_reason:
            own[names.FINISH_REASONS] = _FINISHED.get(event.stop_reason, _OTHER)
        if event.first_ms:
            own[names.FIRST_CHUNK] = first = event.first_ms / 1000
        if self._content is not None:
            agent = self._facts.agent(session.agent)
            own |= self._content.of_answer(session.session_id, event, agent)
        start_ms = at_ms - event.duration_ms if event.duration_ms else asked_ms or at_ms
        self._emit(template, event.message_id, start_ms, at_ms, own, "", (read, written, first))

    def _attempt(self, session: _Session, event: AttemptFailed, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is None:
            return
        asked_ms = turn.asked_ms or at_ms
        turn.asked_ms = at_ms + round(event.wait_seconds * 1000)
        own = _counted(event.usage, turn)
        if self._is_silent:
            return
        own[names.ATTEMPT] = event.attempt
        error = event.error_type or names.OTHER
        template = turn.templates.of_model(session.agent, event.provider, event.model, error)
        self._emit(template, _numbered(session, seq), asked_ms, at_ms, own, event.message)

    def _charged(self, session: _Session, event: AttemptCharged, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is None:
            return
        if not event.call_id:
            turn.charged = event
            return
        own = _counted(event.usage, turn)
        if not self._is_silent:
            template = turn.templates.of_model(session.agent, event.provider, event.model, "")
            asked_ms = at_ms - event.duration_ms
            self._emit(template, _numbered(session, seq), asked_ms, at_ms, own)

    def _switched(self, session: _Session, event: ModelSwitched, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is None:
            return
        if event.error_type or turn.charged is not None:
            self._failed_call(session, turn, event.error_type, at_ms, seq, event.reason)
        turn.provider, turn.model = event.provider, event.model
        turn.asked_ms = at_ms

    def _compacted(self, session: _Session, event: HistoryCompacted, at_ms: int, seq: int) -> None:
        turn = session.turns.get(event.turn_id)
        if turn is None or event.is_copy:
            return
        turn.has_compacted = True
        asked_ms, turn.asked_ms = turn.asked_ms or at_ms, at_ms
        if event.usage is not None:  # a summary was written
            own = _counted(event.usage, turn)
            own[names.COMPACTED] = True
            if not self._is_silent:
                template = turn.templates.of_model(session.agent, event.provider, event.model, "")
                self._emit(template, _numbered(session, seq), asked_ms, at_ms, own)

    def _failed_call(
        self, session: _Session, turn: _Turn, why: str, at_ms: int, seq: int, message: str
    ) -> None:
        """Make the span of a call of a model that failed for good, or was broken off."""
        usage = None if turn.charged is None else turn.charged.usage
        own = _counted(usage, turn)
        turn.charged = None
        if self._is_silent:
            return
        template = turn.templates.of_model(
            session.agent, turn.provider, turn.model, why or names.OTHER
        )
        own_id = f"{_numbered(session, seq)}/model"
        self._emit(template, own_id, turn.asked_ms or at_ms, at_ms, own, message)

    # ── tool calls ───────────────────────────────────────────────────────────────────────────────

    def _proposed(self, session: _Session, event: CallProposed, *_: int) -> None:
        if len(session.calls) < MAX_OPEN:
            kept = event.arguments if self._content is not None else ""
            session.calls[event.call_id] = _Call(kept)

    def _call_started(self, session: _Session, event: CallStarted, at_ms: int, seq: int) -> None:
        if (call := session.calls.get(event.call_id)) is not None:
            call.started_ms = at_ms

    def _deferred(self, session: _Session, event: CallDeferred, at_ms: int, seq: int) -> None:
        session.calls.pop(event.call_id, None)
        turn = session.turns.get(event.turn_id)
        if turn is not None and not session.calls:
            turn.asked_ms = at_ms

    def _finished(self, session: _Session, event: CallFinished, at_ms: int, seq: int) -> None:
        call_id, calls = event.call_id, session.calls
        call = calls.pop(call_id, _NO_CALL) if calls else _NO_CALL
        turn = session.turns.get(event.turn_id)
        if turn is None:
            return
        if not calls:
            turn.asked_ms = at_ms
        if self._is_silent:
            return
        status = event.status
        error = "" if status is CallStatus.SUCCESS else failure_of(event)
        template = turn.templates.of_tool(
            session.agent, event.name, status, call.tier, error, event.server
        )
        own: Attributes = {names.TOOL_CALL: call_id[:MAX_ID]}
        if self._content is not None:
            own |= self._content.of_call(call.arguments, event)
        has_run = True
        if not (start_ms := call.started_ms):
            has_run = not (call.is_asked or status is CallStatus.DENIED)
            start_ms = at_ms - event.duration_ms if has_run else at_ms
        more: tuple[float, ...] = ()
        if has_run and len(template.series) > 1:
            more = (max(0, at_ms - max(start_ms, template.since_ms)) / 1000,)
        self._emit(template, call_id, start_ms, at_ms, own, "", more)

    # ── questions to people ──────────────────────────────────────────────────────────────────────

    def _asked(self, session: _Session, event: ApprovalAsked, at_ms: int, seq: int) -> None:
        call = session.calls.get(event.call_id)
        if call is None and len(session.calls) < MAX_OPEN:
            call = session.calls[event.call_id] = _Call()
        if call is not None:
            call.is_asked, call.tier = True, str(event.tier)
        turn = session.turns.get(event.turn_id)
        if turn is not None and len(session.questions) < MAX_OPEN:
            lean = (
                event if self._content else msgspec.structs.replace(event, arguments="", preview="")
            )
            session.questions[event.approval_id] = (lean, at_ms, turn.trace)

    def _answered(self, session: _Session, event: ApprovalAnswered, at_ms: int, seq: int) -> None:
        if event.decision == "allow" and (call := session.calls.get(event.call_id)) is not None:
            call.is_asked = False  # its result says how long it ran
        found = session.questions.pop(event.approval_id, None)
        if found is None:
            return
        if self._is_silent:
            return
        asked, asked_ms, trace = found
        name = asked.name  # a question is about a call whose tool was there
        attributes: Attributes = {
            names.TOOL: name,
            names.TOOL_CALL: asked.call_id[:MAX_ID],
            names.TIER: str(asked.tier),
            names.DECISION: str(event.decision),
            names.CONVERSATION: session.session_id,
            names.SESSION: session.session_id,
        }
        if event.remember:
            attributes[names.SCOPE] = event.remember
        template = Template(
            name=names.APPROVAL,
            trace=trace,
            parent_id=trace.span_id(asked.turn_id),
            attributes=attributes,
            series=(self._metrics.of(names.APPROVAL_DURATION, name, str(event.decision)),),
        )
        self._emit(template, event.approval_id, asked_ms, max(at_ms, asked_ms), {})


_FOLDS: dict[type, Callable[..., None]] = {
    SessionCreated: SpanBuilder._created,
    AgentSwitched: SpanBuilder._switched_agent,
    InputAccepted: SpanBuilder._accepted,
    InputCancelled: SpanBuilder._cancelled,
    InputDelivered: SpanBuilder._delivered,
    TurnSetAside: SpanBuilder._set_aside,
    TurnStarted: SpanBuilder._started,
    TurnResumed: SpanBuilder._resumed,
    TurnSuspended: SpanBuilder._suspended,
    TurnEnded: SpanBuilder._ended,
    MessageCompleted: SpanBuilder._completed,
    AttemptFailed: SpanBuilder._attempt,
    AttemptCharged: SpanBuilder._charged,
    ModelSwitched: SpanBuilder._switched,
    HistoryCompacted: SpanBuilder._compacted,
    CallProposed: SpanBuilder._proposed,
    CallStarted: SpanBuilder._call_started,
    CallDeferred: SpanBuilder._deferred,
    CallFinished: SpanBuilder._finished,
    ApprovalAsked: SpanBuilder._asked,
    ApprovalAnswered: SpanBuilder._answered,
}
HEARD = frozenset(_FOLDS)
"""The events that anything is made of."""
HEARD_OF_SPANS = HEARD - {CallProposed, CallStarted}
"""The same without content: a result says how long its call has run."""


def _counted(usage: Usage | None, turn: _Turn) -> Attributes:
    """Return the attributes of what a call used, and add it to what its turn did."""
    found: Attributes = {}
    if usage is not None:
        _count(usage, turn, found)
    return found


def _count(usage: Usage, turn: _Turn, found: Attributes) -> None:
    """Add what a call used to its attributes, and to what its turn did."""
    # Not a loop over names: each answer comes through here.
    used = turn.used
    if (count := usage.input_tokens) is not None:
        found[names.INPUT_TOKENS] = count
        used[names.INPUT_TOKENS] = used.get(names.INPUT_TOKENS, 0) + count
    if (count := usage.output_tokens) is not None:
        found[names.OUTPUT_TOKENS] = count
        used[names.OUTPUT_TOKENS] = used.get(names.OUTPUT_TOKENS, 0) + count
    if (count := usage.cached_tokens) is not None:
        found[names.CACHE_READ] = count
        used[names.CACHE_READ] = used.get(names.CACHE_READ, 0) + count
    if (count := usage.cache_write_tokens) is not None:
        found[names.CACHE_WRITE] = count
        used[names.CACHE_WRITE] = used.get(names.CACHE_WRITE, 0) + count
    if (count := usage.reasoning_tokens) is not None:
        found[names.REASONING_TOKENS] = count
        used[names.REASONING_TOKENS] = used.get(names.REASONING_TOKENS, 0) + count


def _numbered(session: _Session, seq: int) -> str:
    """Return an id for the span of an event that has none."""
    return f"{session.session_id}/{seq}"

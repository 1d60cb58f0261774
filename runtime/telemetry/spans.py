"""Makes spans from the events of sessions.

A pure fold: events go in, in the order of each record, and finished spans come out. A turn is an `invoke_agent`; below
it stand its model calls, its tool calls and its questions to people. Their times are those of the events. What events
don't say (an agent's settings, where a provider is) comes from `Facts`.

It runs in a worker thread, and keeps no text of a person, a model or a tool unless it makes `content`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

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
from .span import Attributes, ContentMaker, Facts, Measure, Span, failure_of

MAX_SESSIONS = 2048
"""Whose state is kept; then that of the one with the oldest event goes, and is looked up again."""
MAX_OPEN = 1024
"""Inputs that wait, calls and questions that are kept of one session; those beyond it have no span."""
MAX_ID = 128
"""Characters of an id that a provider has made."""
MAX_DESCRIPTION = 256
"""Characters of a tool's description, which each of its spans repeats."""

MAX_BASES = 16
"""Models of one turn whose attributes are kept."""

_OF_MODELS = frozenset(
    each.type
    for each in (
        *(NetworkError, AuthError, DeadlineError, ProviderError),
        *(ContextOverflow, QuotaError, OverloadedError),
    )
)
"""With what a turn fails when a model could not be asked."""
_MCP = "mcp "
"""Begins the source of a tool that a server has."""


class _Call(msgspec.Struct, gc=False):
    arguments: str = ""
    started_ms: int = 0
    answered_ms: int = 0
    tier: str = ""
    was_asked: bool = False


class _Turn:
    """A turn that has not ended.

    `asked_ms` is since when a model is asked, 0 while none is; `bases` are the attributes that all calls of a model
    have in it.
    """

    __slots__ = (
        *("asked_ms", "bases", "charged", "has_compacted", "model", "options", "provider"),
        *("span_id", "started_ms", "trace", "turn_id", "used"),
    )

    def __init__(self, turn_id: str, at_ms: int, trace: TurnTrace) -> None:
        self.turn_id = turn_id
        self.trace = trace
        self.span_id = trace.span_id(turn_id)
        self.bases: dict[tuple[str, str], Attributes] = {}
        self.started_ms = self.asked_ms = at_ms
        self.provider = self.model = ""
        self.options: TurnOptions | None = None
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
        measure: Gets each value that a metric is made of, of all spans, kept or not.
        content: Makes attributes of what was said; `None` makes none.
    """

    def __init__(
        self,
        facts: Facts,
        tracing: Tracing,
        measure: Measure = lambda metric, value, labels: None,
        content: ContentMaker | None = None,
    ) -> None:
        self._facts = facts
        self._tracing = tracing
        self._measure = measure
        self._content = content
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._spans: list[Span] = []
        self._is_silent = False

    def take(self, stored: Stored) -> list[Span]:
        """Fold the next event of a session; return the spans that it ends."""
        session = self._sessions.get(stored.session_id)
        if session is None:
            session = self._known(stored)
        else:
            self._sessions.move_to_end(stored.session_id)
        self._fold(session, stored)
        spans, self._spans = self._spans, []
        return spans

    def _known(self, stored: Stored) -> _Session:
        """Return the state of a session that is new here, as of before an event."""
        session = self._sessions[stored.session_id] = _Session(stored.session_id)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        if not isinstance(stored.event, SessionCreated):
            session.agent = self._facts.agent_of(stored.session_id)
            if not isinstance(stored.event, InputAccepted):
                # Of a turn that began in another process, whose spans that one has sent.
                self._is_silent = True
                try:
                    for earlier in self._facts.record(stored.session_id, stored.seq):
                        self._fold(session, earlier)
                finally:
                    self._is_silent = False
                    self._spans.clear()
        return session

    def _fold(self, session: _Session, stored: Stored) -> None:
        event, at_ms = stored.event, stored.at_ms
        if (fold := _FOLDS.get(type(event))) is not None:
            fold(self, session, event, at_ms, stored.seq)
        if self._content is not None:
            self._content.fold(session.session_id, event)

    def _emit(self, span: Span, metric: str, *labels: str) -> None:
        if self._is_silent:
            return
        span.message = "" if self._content is None else self._content.of_message(span.message)
        if span.is_error:
            labels = (*labels, str(span.attributes.get(names.ERROR, "")))
        self._measure(metric, (span.end_ms - span.start_ms) / 1000, labels)
        if span.trace.is_sampled:
            self._spans.append(span)

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
        turn = _Turn(
            event.turn_id, at_ms, self._tracing.of_turn(trace, session.session_id, event.turn_id)
        )
        turn.options = next((options for _, options in given if options is not None), None)
        session.latest = (trace, turn.options)
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
        attributes: Attributes = {
            names.OPERATION: names.INVOKE_AGENT,
            names.AGENT: session.agent,
            names.CONVERSATION: session.session_id,
            names.SESSION: session.session_id,
            names.TURN: event.turn_id,
            names.OUTCOME: event.outcome,
            **turn.used,
        }
        if turn.has_compacted:
            attributes[names.COMPACTED] = True
        if event.outcome != "answered":
            attributes[names.ERROR] = event.error_type or event.outcome
        self._emit(
            Span(
                name=f"{names.INVOKE_AGENT} {session.agent}".rstrip(),
                trace=turn.trace,
                span_id=turn.span_id,
                parent_id=turn.trace.parent_id,
                start_ms=turn.started_ms,
                end_ms=at_ms,
                attributes=attributes,
                is_error=event.outcome != "answered",
                message=event.message,
            ),
            names.AGENT_DURATION,
            *(session.agent, str(event.outcome)),
        )

    # ── model calls ──────────────────────────────────────────────────────────────────────────────

    def _completed(self, session: _Session, event: MessageCompleted, at_ms: int, seq: int) -> None:
        turn = session.turns.get(event.turn_id)
        if turn is None or event.is_copy:
            return
        if not event.model:  # a program gave its calls
            turn.asked_ms = 0
            return
        attributes = self._of_model(session, turn, event.provider, event.model)
        attributes |= _counted(event.usage, turn)
        if event.stop_reason:
            reason = names.FINISHED.get(event.stop_reason, names.OTHER)
            attributes[names.FINISH_REASONS] = (reason,)
        if event.first_ms:
            attributes[names.FIRST_CHUNK] = event.first_ms / 1000
        if event.incomplete:
            attributes[names.ERROR] = "incomplete"
        if self._content is not None and not self._is_silent:
            agent = self._facts.agent(session.agent)
            attributes |= self._content.of_answer(session.session_id, event, agent)
        start_ms = at_ms - event.duration_ms if event.duration_ms else turn.asked_ms or at_ms
        self._chat(turn, event.message_id, attributes, start_ms, at_ms, "")
        if not self._is_silent:
            self._measure_tokens(event, attributes)
        turn.asked_ms = 0
        turn.charged = None

    def _attempt(self, session: _Session, event: AttemptFailed, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is None:
            return
        attributes = self._of_model(session, turn, event.provider, event.model)
        attributes |= _counted(event.usage, turn)
        attributes[names.ERROR] = event.error_type
        attributes[names.ATTEMPT] = event.attempt
        own_id = f"{session.session_id}/{seq}"
        self._chat(turn, own_id, attributes, turn.asked_ms or at_ms, at_ms, event.message)
        turn.asked_ms = at_ms + round(event.wait_seconds * 1000)

    def _charged(self, session: _Session, event: AttemptCharged, at_ms: int, seq: int) -> None:
        if (turn := session.turns.get(event.turn_id)) is not None:
            turn.charged = event

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
        if event.usage is not None:  # a summary was written
            attributes = self._of_model(session, turn, event.provider, event.model)
            attributes |= _counted(event.usage, turn)
            attributes[names.COMPACTED] = True
            own_id = f"{session.session_id}/{seq}"
            self._chat(turn, own_id, attributes, turn.asked_ms or at_ms, at_ms, "")
        turn.asked_ms = at_ms

    def _failed_call(
        self, session: _Session, turn: _Turn, why: str, at_ms: int, seq: int, message: str
    ) -> None:
        """Make the span of a call of a model that failed for good, or was broken off."""
        attributes = self._of_model(session, turn, turn.provider, turn.model)
        if turn.charged is not None:
            attributes |= _counted(turn.charged.usage, turn)
        attributes[names.ERROR] = why or names.OTHER
        own_id = f"{session.session_id}/{seq}/model"
        self._chat(turn, own_id, attributes, turn.asked_ms or at_ms, at_ms, message)
        turn.charged = None

    def _of_model(self, session: _Session, turn: _Turn, provider: str, model: str) -> Attributes:
        known = turn.bases.get((provider, model))
        if known is not None and not self._is_silent:
            return known.copy()
        found: Attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.PROVIDERS.get(provider, provider),
            names.REQUEST_MODEL: model,
            names.CONVERSATION: session.session_id,
            names.SESSION: session.session_id,
            names.STREAM: True,
        }
        if self._is_silent:
            return found
        agent = self._facts.agent(session.agent)
        for source in (agent, turn.options):
            if source is None:
                continue
            if source.max_output_tokens is not None:
                found[names.MAX_TOKENS] = source.max_output_tokens
            if source.temperature is not None:
                found[names.TEMPERATURE] = source.temperature
            if source.thinking is not None:
                found[names.REASONING_LEVEL] = str(source.thinking)
        its = self._facts.provider(provider)
        if its.address:
            found[names.SERVER_ADDRESS] = its.address
        if its.port:
            found[names.SERVER_PORT] = its.port
        if len(turn.bases) < MAX_BASES:
            turn.bases[provider, model] = found.copy()
        return found

    def _chat(
        self,
        turn: _Turn,
        own_id: str,
        attributes: Attributes,
        start_ms: int,
        end_ms: int,
        message: str,
    ) -> None:
        is_error = names.ERROR in attributes
        model = str(attributes[names.REQUEST_MODEL])
        span = Span(
            name=f"{names.CHAT} {model}",
            kind="client",
            trace=turn.trace,
            span_id=turn.trace.span_id(own_id),
            parent_id=turn.span_id,
            start_ms=min(max(start_ms, turn.started_ms), end_ms),
            end_ms=end_ms,
            attributes=attributes,
            is_error=is_error,
            message=message,
        )
        self._emit(span, names.OPERATION_DURATION, *_model_labels(attributes))

    def _measure_tokens(self, event: MessageCompleted, attributes: Attributes) -> None:
        labels = _model_labels(attributes)
        for name, kind in ((names.INPUT_TOKENS, "input"), (names.OUTPUT_TOKENS, "output")):
            if isinstance(count := attributes.get(name), int):
                self._measure(names.TOKEN_USAGE, count, (*labels, kind))
        if event.first_ms:
            self._measure(names.FIRST_CHUNK_DURATION, event.first_ms / 1000, labels)

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
        self._asks_again(session, event.turn_id, at_ms)

    def _finished(self, session: _Session, event: CallFinished, at_ms: int, seq: int) -> None:
        call = session.calls.pop(event.call_id, None) or _Call()
        turn = session.turns.get(event.turn_id)
        if turn is None:
            return
        self._asks_again(session, event.turn_id, at_ms)
        if self._is_silent:
            return
        tool = self._facts.tool(event.name)
        # A name that no tool has is the model's own words.
        name = names.OTHER if tool is None else event.name
        is_foreign = tool is not None and tool.source.startswith(_MCP)
        attributes: Attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL: name,
            names.TOOL_TYPE: names.EXTENSION if is_foreign else names.FUNCTION,
            names.TOOL_CALL: event.call_id[:MAX_ID],
            names.AGENT: session.agent,
            names.CONVERSATION: session.session_id,
            names.SESSION: session.session_id,
            names.STATUS: str(event.status),
        }
        if tool is not None:
            attributes[names.TOOL_DESCRIPTION] = tool.description[:MAX_DESCRIPTION]
            attributes[names.TIER] = call.tier or str(tool.tier)
        if is_foreign:
            attributes[names.MCP_METHOD] = names.CALL_TOOL
        if event.status is not CallStatus.SUCCESS:
            attributes[names.ERROR] = failure_of(event)
        if self._content is not None:
            attributes |= self._content.of_call(call.arguments, event)
        has_run = bool(call.started_ms) or not (call.was_asked or event.status is CallStatus.DENIED)
        start_ms = call.started_ms or (at_ms - event.duration_ms if has_run else at_ms)
        span = Span(
            name=f"{names.EXECUTE_TOOL} {name}",
            trace=turn.trace,
            span_id=turn.trace.span_id(event.call_id),
            parent_id=turn.span_id,
            start_ms=min(max(start_ms, turn.started_ms), at_ms),
            end_ms=at_ms,
            attributes=attributes,
            is_error=event.status is not CallStatus.SUCCESS,
        )
        self._emit(span, names.TOOL_DURATION, name, session.agent)
        if is_foreign and has_run:
            seconds = (at_ms - span.start_ms) / 1000
            self._measure(names.MCP_DURATION, seconds, (name, names.CALL_TOOL))

    def _asks_again(self, session: _Session, turn_id: str, at_ms: int) -> None:
        turn = session.turns.get(turn_id)
        if turn is not None and not session.calls:
            turn.asked_ms = at_ms

    # ── questions to people ──────────────────────────────────────────────────────────────────────

    def _asked(self, session: _Session, event: ApprovalAsked, at_ms: int, seq: int) -> None:
        if (call := session.calls.get(event.call_id)) is not None:
            call.was_asked, call.tier = True, str(event.tier)
        turn = session.turns.get(event.turn_id)
        if turn is not None and len(session.questions) < MAX_OPEN:
            lean = (
                event if self._content else msgspec.structs.replace(event, arguments="", preview="")
            )
            session.questions[event.approval_id] = (lean, at_ms, turn.trace)

    def _answered(self, session: _Session, event: ApprovalAnswered, at_ms: int, seq: int) -> None:
        found = session.questions.pop(event.approval_id, None)
        if found is None:
            return
        asked, asked_ms, trace = found
        known = self._is_silent or self._facts.tool(asked.name) is not None
        name = asked.name if known else names.OTHER
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
        span = Span(
            name=names.APPROVAL,
            trace=trace,
            span_id=trace.span_id(event.approval_id),
            parent_id=trace.span_id(asked.turn_id),
            start_ms=asked_ms,
            end_ms=max(at_ms, asked_ms),
            attributes=attributes,
        )
        self._emit(span, names.APPROVAL_DURATION, name, str(event.decision))


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


def _counted(usage: Usage | None, turn: _Turn) -> dict[str, int]:
    """Return the attributes of what a call used, and add it to what its turn did."""
    if usage is None:
        return {}
    counted = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ: usage.cached_tokens,
        names.CACHE_WRITE: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
    }
    found = {name: count for name, count in counted.items() if count is not None}
    for name, count in found.items():
        turn.used[name] = turn.used.get(name, 0) + count
    return found


def _model_labels(attributes: Attributes) -> tuple[str, str, str]:
    return (names.CHAT, str(attributes[names.PROVIDER]), str(attributes[names.REQUEST_MODEL]))

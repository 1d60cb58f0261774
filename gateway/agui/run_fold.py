"""The events of a turn as those of AG-UI, the same as they happen and from the record.

What the client has already is not told again: the ids of messages follow from the input and their number, so it
says which those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from ...client.subscriptions import AnswerOf
from ...runtime.definitions import CallStatus
from ...runtime.events import (
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    ChildAsks,
    HistoryCompacted,
    LiveEvent,
    MessageCompleted,
    MessageDiscarded,
    PlanSet,
    QuestionAsked,
    Stored,
    StreamBatch,
    TurnEnded,
)
from ...runtime.history import Refusal, Text, Thinking
from ...runtime.stream import RefusalDelta, TextDelta, ThinkingDelta
from ...runtime.text import excerpt
from ..openai.responses.fold import MAX_OUTPUT_CHARS
from ..openai.turn_view import TurnView
from ..openai.usage import TurnUsage
from ..used_below import DELEGATE, is_delegation
from .events import (
    VERSION,
    AgUiEvent,
    CancelledRun,
    Interrupt,
    Interrupted,
    ReasoningContent,
    ReasoningEnd,
    ReasoningMessageEnd,
    ReasoningMessageStart,
    ReasoningStart,
    RunError,
    RunFinished,
    RunStarted,
    StateSnapshot,
    SubagentError,
    SubagentFinished,
    SubagentStarted,
    Succeeded,
    Suspended,
    TextContent,
    TextEnd,
    TextStart,
    TokensUsed,
    ToolArgs,
    ToolCallResult,
    ToolEnd,
    ToolStart,
)
from .run_input import NOTHING, KnownIds, result_id

MAX_TASK_CHARS = 1000
"""Of a subagent's task, as people read it; the call has all of it."""
FINE = frozenset({"answered", "refused"})
"""Outcomes of turns whose runs have succeeded: what was refused was said, and says so itself."""
WITHDRAWN = " [withdrawn]"
"""Behind text that was sent and is not part of the answer: its model call failed and is made again."""
NOTHING_KNOWN = KnownIds(NOTHING, NOTHING, NOTHING)


class DelegatedTask(msgspec.Struct):
    """The arguments of a call that delegates, as far as they are told."""

    task: str = ""
    kind: str = "worker"


_DELEGATED_TASK = msgspec.json.Decoder(DelegatedTask)


class RunFold:
    """Makes the events of one run.

    Args:
        thread_id, run_id: As the client has them.
        session_id, input_id: The input whose turn is told.
        client_tools: The names of the tools that the client runs.
        known: What the client has already.
        state: The client's state: the plan is put into it.

    Attributes:
        session_id: Of the turn.
        view: Follows the turn.
        asked: All that people were asked in the turn, by id.
        delegated: Calls that delegated and have ended since `count_below` was last called.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        session_id: str,
        input_id: str,
        client_tools: Iterable[str],
        known: KnownIds = NOTHING_KNOWN,
        state: Mapping[str, msgspec.Raw] = MappingProxyType({}),
    ) -> None:
        self.view = TurnView(client_tools)
        self.asked: dict[str, ApprovalAsked | QuestionAsked | ChildAsks] = {}
        self.delegated: list[str] = []
        self._thread_id, self._run_id = thread_id, run_id
        self.session_id, self._input_id = session_id, input_id
        self._known = known
        self._state = dict(state)
        self._answer = AnswerOf(input_id)
        self._events: list[AgUiEvent] = []
        self._messages = self._attempts = self._thoughts = 0
        self._text_id = self._thought_id = self._parent_id = ""
        self._has_told = False
        self._stream_id = self._missed = ""
        self._text_bytes = self._said = 0
        self._subagents: dict[str, str] = {}
        self._usage: dict[tuple[str, str], TurnUsage] = {}

    @property
    def ended(self) -> TurnEnded | None:
        """How the turn ended, once it has."""
        return self._answer.ended

    @property
    def is_blocked(self) -> bool:
        """Whether nothing happens until people or the client answer."""
        waiting = self.view.waits_for
        asked = {
            each.call_id
            for name, each in self.asked.items()
            if name in waiting and not isinstance(each, ChildAsks)
        }
        has_child = any(isinstance(each, ChildAsks) for each in self.asked.values())
        theirs = {each.call_id for each in self.client_calls}
        return all(
            call_id in asked or call_id in theirs or (has_child and call.name == DELEGATE)
            for call_id, call in self.view.open_calls.items()
        )

    @property
    def waits_for(self) -> list[str]:
        """What people were asked; that below this session may be answered already."""
        waiting = self.view.waits_for
        return [
            name
            for name, each in self.asked.items()
            if name in waiting or isinstance(each, ChildAsks)
        ]

    @property
    def client_calls(self) -> list[CallProposed]:
        """The calls that the client has to make, without those whose results it has brought."""
        return [
            each
            for each in self.view.open_calls.values()
            if self.view.is_clients(each) and each.call_id not in self._known.results
        ]

    def call_of(self, question: str) -> str | None:
        """Return the call that a question is about, if it is one of this session."""
        asked = self.asked.get(question)
        return None if asked is None or isinstance(asked, ChildAsks) else asked.call_id

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> list[AgUiEvent]:
        """Return the first event."""
        return [
            RunStarted(thread_id=self._thread_id, run_id=self._run_id, protocol_version=VERSION)
        ]

    def take(self, heard: Stored | LiveEvent) -> None:
        """Take what happened next into account."""
        if isinstance(heard, Stored):
            self._answer.see(heard)
            if self._answer.turn_id is not None:  # else it is what others do in this session
                self.view.take(heard.event)
                self._take(heard.event)
        elif self._answer.turn_id is None or self.ended is not None:
            pass
        elif isinstance(heard, StreamBatch):
            self._stream(heard)
        elif isinstance(heard, MessageDiscarded):
            self._withdraw()

    def told(self) -> list[AgUiEvent]:
        """Return what is to be told since the last time."""
        events, self._events = self._events, []
        return events

    def finish(self) -> list[AgUiEvent]:
        """Return the last events of a run whose turn has ended."""
        ended = self.ended
        assert ended is not None
        self._close(is_over=True)
        if ended.outcome in FINE:
            self._finished(Succeeded())
        elif ended.outcome == "cancelled":
            self._finished(CancelledRun())
        else:
            message = ended.message or f"the turn ended: {ended.outcome}"
            return self.fail(ended.error_type or ended.outcome, message)
        return self.told()

    def wait(self, interrupts: tuple[Interrupt, ...] = ()) -> list[AgUiEvent]:
        """Return the last events of a run whose turn waits for the client."""
        self._close(is_over=False)
        if interrupts:
            self._finished(Interrupted(interrupts))
        else:
            calls = tuple(each.call_id for each in self.client_calls)
            self._finished(Succeeded(pending_tool_call_ids=calls))
        return self.told()

    def fail(self, code: str, message: str) -> list[AgUiEvent]:
        """Return the last events of a run that can't go on."""
        self._close(is_over=True)
        self._tell(RunError(message=message, code=code, usage=self._used))
        return self.told()

    def _finished(self, outcome: Succeeded | CancelledRun | Interrupted) -> None:
        self._tell(
            RunFinished(
                thread_id=self._thread_id, run_id=self._run_id, outcome=outcome, usage=self._used
            )
        )

    def _close(self, *, is_over: bool) -> None:
        """Close all that is open, as the last event of a run wants it."""
        self._end_message()
        for call_id in self._subagents:
            outcome = None if is_over else Suspended()
            self._tell(SubagentFinished(subagent_run_id=call_id, outcome=outcome))
        self._subagents = {}

    @property
    def subagent(self) -> str | None:
        """The only subagent that is at work, if there is one."""
        return next(iter(self._subagents)) if len(self._subagents) == 1 else None

    @property
    def _used(self) -> tuple[TokensUsed, ...]:
        return tuple(
            TokensUsed(
                provider=provider,
                model=model,
                input_tokens=used.input,
                output_tokens=used.output,
                total_tokens=used.input + used.output,
                reasoning_tokens=used.reasoning,
                cached_input_tokens=used.cached,
                cache_write_input_tokens=used.cache_writes,
            )
            for (provider, model), used in self._usage.items()
        )

    def _tell(self, event: AgUiEvent) -> None:
        self._events.append(event)

    # ── what the model says ──────────────────────────────────────────────────────────────────────

    @property
    def _message_id(self) -> str:
        again = f"-{self._attempts}" if self._attempts else ""
        return f"{self._input_id}-{self._messages}{again}"

    def _stream(self, batch: StreamBatch) -> None:
        if batch.stream_id != self._stream_id:
            self._stream_id, self._text_bytes, self._said = batch.stream_id, 0, 0
        if batch.offset != self._text_bytes:
            # Of an answer that was not heard from its beginning on, or of which a piece was missed, the rest is
            # told when it is complete.
            self._missed = batch.stream_id
        if batch.stream_id == self._missed:
            return
        for event in batch.events:
            match event:
                case TextDelta(text=text):
                    self._text_bytes += len(text.encode("utf-8", "replace"))
                    self._said += len(text)
                    self._say(text)
                case RefusalDelta(text=text):
                    self._said += len(text)
                    self._say(text)
                case ThinkingDelta(text=text):
                    self._think(text)
                case _:
                    pass

    def _say(self, text: str) -> None:
        if not text or self._message_id in self._known.messages:
            return
        self._end_thought()
        self._has_told = True
        if not self._text_id:
            self._text_id = self._message_id
            self._tell(TextStart(message_id=self._text_id, role="assistant"))
        last = self._events[-1] if self._events else None
        if isinstance(last, TextContent):  # each event costs the client 0.1 ms
            self._events.pop()
            text = last.delta + text
        self._tell(TextContent(message_id=self._text_id, delta=text))

    def _think(self, text: str) -> None:
        thought = f"{self._message_id}-thought-{self._thoughts}"
        if not text or thought in self._known.messages:
            return
        self._has_told = True
        if not self._thought_id:
            self._thought_id = thought
            self._tell(ReasoningStart(message_id=thought))
            self._tell(ReasoningMessageStart(message_id=thought, role="reasoning"))
        last = self._events[-1]
        if isinstance(last, ReasoningContent):
            self._events.pop()
            text = last.delta + text
        self._tell(ReasoningContent(message_id=self._thought_id, delta=text))

    def _end_thought(self) -> None:
        if self._thought_id:
            self._tell(ReasoningMessageEnd(message_id=self._thought_id))
            self._tell(ReasoningEnd(message_id=self._thought_id))
            self._thought_id, self._thoughts = "", self._thoughts + 1

    def _end_message(self) -> None:
        self._end_thought()
        if self._text_id:
            self._tell(TextEnd(message_id=self._text_id))
            self._text_id = ""

    def _withdraw(self) -> None:
        """What was streamed of a message is not part of the answer, and another one comes."""
        if self._text_id:
            self._say(WITHDRAWN)
        self._end_message()
        if self._has_told:
            self._attempts, self._has_told, self._thoughts = self._attempts + 1, False, 0

    def _complete(self, event: MessageCompleted) -> None:
        """Tell what is left of a message, by its parts if nothing was streamed of it, and close it."""
        if not self._has_told:
            for part in event.parts:
                match part:
                    case Text(text=text) | Refusal(text=text):
                        self._say(text)
                    case Thinking(text=text):
                        self._think(text)
                    case _:
                        pass
        else:  # pieces may have been missed by who reads slowly
            whole = "".join(part.text for part in event.parts if isinstance(part, Text | Refusal))
            self._say(whole[self._said :])
        self._end_message()
        self._count(event)
        self._parent_id = self._message_id
        self._messages += 1
        self._attempts = self._thoughts = 0
        self._has_told = False

    def _count(
        self, event: MessageCompleted | HistoryCompacted | AttemptFailed | AttemptCharged
    ) -> None:
        """Count a model call, unless it was of a run before; what callboard says itself has no model."""
        if not event.model or event.usage is None:
            return
        if self._message_id not in self._known.messages:
            self._usage.setdefault((event.provider, event.model), TurnUsage()).take(event)

    def count_below(self, used: Iterable[AttemptCharged]) -> None:
        """Count what the sessions used to which the calls in `delegated` were made."""
        self.delegated.clear()
        for each in used:
            self._usage.setdefault((each.provider, each.model), TurnUsage()).take(each)

    # ── what is done ─────────────────────────────────────────────────────────────────────────────

    def _take(self, event: object) -> None:
        match event:
            case MessageCompleted():
                self._complete(event)
            case HistoryCompacted() | AttemptFailed() | AttemptCharged():
                self._count(event)
            case CallProposed():
                self._propose(event)
            case CallStarted(call_id=call_id):
                self._start(call_id)
            case CallFinished(result=result, call_id=call_id):
                if is_delegation(event) and call_id not in self._known.results:
                    self.delegated.append(call_id)
                if not self.view.is_clients(event):
                    self._result(call_id, result)
                self._end_subagent(event)
            case CallDeferred(result=result, call_id=call_id):
                self._result(call_id, result)
            case PlanSet(items=items):
                plan = msgspec.Raw(msgspec.json.encode(items))
                self._state["plan"] = plan
                self._tell(StateSnapshot(snapshot=dict(self._state)))
            case ApprovalAsked(approval_id=name) if not event.is_deferred:
                self.asked[name] = event
            case QuestionAsked(question_id=name) | ChildAsks(question_id=name):
                self.asked[name] = event
            case _:
                pass

    def _propose(self, call: CallProposed) -> None:
        if call.call_id in self._known.calls:
            return
        self._tell(
            ToolStart(
                tool_call_id=call.call_id,
                tool_call_name=call.name,
                parent_message_id=self._parent_id or self._message_id,
            )
        )
        if call.arguments:
            self._tell(ToolArgs(tool_call_id=call.call_id, delta=call.arguments))
        self._tell(ToolEnd(tool_call_id=call.call_id))

    def _result(self, call_id: str, result: str) -> None:
        if call_id in self._known.results:
            return
        self._tell(
            ToolCallResult(
                message_id=result_id(call_id),
                tool_call_id=call_id,
                content=cut(result, MAX_OUTPUT_CHARS),
                role="tool",
            )
        )

    def _start(self, call_id: str) -> None:
        call = self.view.open_calls.get(call_id)
        if call is None or call.name != DELEGATE or call_id in self._known.results:
            return
        try:
            given = _DELEGATED_TASK.decode(call.arguments)
        except msgspec.MsgspecError:
            given = DelegatedTask()
        self._subagents[call_id] = given.kind
        self._tell(
            SubagentStarted(
                subagent_run_id=call_id,
                name=given.kind,
                description=excerpt(given.task, MAX_TASK_CHARS),
                parent_tool_call_id=call_id,
            )
        )

    def _end_subagent(self, call: CallFinished) -> None:
        if self._subagents.pop(call.call_id, None) is None:
            return
        if call.status is CallStatus.SUCCESS:
            self._tell(SubagentFinished(subagent_run_id=call.call_id))
        else:
            self._tell(
                SubagentError(
                    subagent_run_id=call.call_id,
                    message=call.display or f"the task ended: {call.status}",
                    code=str(call.status),
                )
            )


def cut(text: str, limit: int) -> str:
    """Return a text, or its beginning with a sign that there is more."""
    return text if len(text) <= limit else f"{text[:limit]}…"

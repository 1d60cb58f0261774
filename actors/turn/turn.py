"""One turn, top to bottom: from an input to the final answer.

while the model asks for tools:
    get an answer from the model    → `ModelCaller`: batches up its channel, folded and published
    store its answer, run its calls → one commit, then all calls side by side
end the turn                        → when every task of it is gone

The record of a turn is always whole: each answer is stored with the calls that it proposes, each
call gets exactly one result, and the last event is `TurnEnded` (or `TurnSuspended`, when calls wait
for people and the process ends). A cancellation may strike at any await. So the end is computed from
what the conversation shows on record, after everything that the batch had sent to the journal, and
stored under a shield.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import trio
from msgspec.structs import replace

from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.definitions import CallStatus, ErrorType
from ...runtime.errors import (
    BudgetError,
    CallboardError,
    DeadlineError,
    InternalError,
    ProviderError,
    StorageError,
)
from ...runtime.events import (
    CallFinished,
    CallProposed,
    DurableEvent,
    LiveEvent,
    MessageCompleted,
    TurnEnded,
    TurnOutcome,
    TurnResumed,
    TurnStarted,
    TurnSuspended,
)
from ...runtime.history import Call, Part, text_of
from ...runtime.identity import new_id, now_ms
from ...runtime.messages import BrokenOff, CallPlace, RunCalls
from ...runtime.store.recovery import closing_events
from ...runtime.store.rows import ApprovalRow, OpenTurn
from ...runtime.stream import StopReason, StreamError
from ...tools.processes.unreaped import unreaped
from ..calls.outcome import cancelled_call, unfinished
from ..model.answer import AnswerBuilder, TokenCount
from .model_caller import ModelCaller, wait_gone
from .setup import TurnHost, TurnSetup, told
from .without_answer import (
    compacts,
    given_calls,
    message_of_calls,
    message_of_summary,
    wish_of,
)

if TYPE_CHECKING:
    from .structured import AnswerForm

_STORE_FAILED = StreamError(
    error_type=StorageError.type,
    message="The store failed while tools ran; see the log. Make room on its disk, then go on.",
)
_DISPATCHER_FAILED = StreamError(
    error_type=InternalError.type, message="The tool dispatcher failed; see the log."
)
_OUTCOMES: dict[StopReason, TurnOutcome] = {
    StopReason.END: "answered",
    StopReason.TOOL_CALLS: "answered",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.REFUSED: "refused",
}
_UNKNOWN_OUTCOME = "It was interrupted; its outcome is unknown. Check before you retry."
_NOT_BEGUN = (
    "It was interrupted before it began to change anything: it had not started, or only read. It "
    "can be asked for again."
)


class Turn:
    """One turn of a session.

    Args:
        host: The session.
        input_id: The input that it answers.
        setup: What it runs with.
        suspended: The turn on record, when this one resumes it.

    Attributes:
        turn_id: Its own id.
        input_id: The input that it answers.
    """

    def __init__(
        self, host: TurnHost, input_id: str, setup: TurnSetup, suspended: OpenTurn | None = None
    ) -> None:
        self.turn_id = suspended.turn_id if suspended is not None else new_id("turn")
        self.input_id = input_id
        self._host = host
        self._setup = setup
        self._suspended = suspended
        self._budget = setup.budgets.turn(host.session_id, self.turn_id, setup.agent)
        self._caller = ModelCaller(host, self.turn_id, setup, self._budget)
        self._scope = trio.CancelScope()
        self._reason = ""
        self._system = setup.agent.prompt
        self._repeats: Counter[tuple[str, str, str]] = Counter()
        self._started_at = self._asked_at = trio.current_time()
        self._answers = suspended.approvals if suspended is not None else ()
        self._asked = self._recorded() if suspended is not None else None
        self._suspends = False
        self._is_lost = False
        self._form: AnswerForm | None = None
        self._unreaped: list[str] = []
        self._since: dict[str, BrokenOff] = {}

    def started(self) -> TurnStarted:
        """Return the event that begins the turn; stored before `run`."""
        return TurnStarted(
            turn_id=self.turn_id,
            input_ids=(self.input_id,),
            provider=self._caller.target.provider,
            model=self._caller.target.model,
            policy=self._setup.agent.policy,
            gone=self._setup.gone,
        )

    @property
    def is_resumed(self) -> bool:
        """Whether it was suspended, and goes on."""
        return self._suspended is not None

    def resumed(self) -> TurnResumed:
        """Return the event with which a suspended turn goes on; stored before `run`."""
        assert self._suspended is not None
        left = self._suspended
        waiting = [a.approval_id for a in left.approvals if a.state == "waiting"]
        waiting += [q.asked.question_id for q in left.questions if q.answered is None]
        return TurnResumed(turn_id=self.turn_id, approval_ids=tuple(waiting), gone=self._setup.gone)

    def run_first(self, answers: tuple[ApprovalRow, ...]) -> None:
        """Make it run first the deferred calls that these questions were about."""
        if answers:
            self._answers, self._asked = answers, self._recorded()

    def cancel(self, reason: str, *, suspends: bool = False) -> None:
        """Cancel it, now or as soon as it runs; the first reason is the one on record.

        With `suspends`, calls that wait for people stay open, and the turn can be resumed.
        """
        self._suspends = self._suspends or (suspends and not self._scope.cancel_called)
        self._reason = self._reason or reason
        self._scope.cancel(reason=reason)

    def lose(self) -> None:
        """End it at once: the store can't keep what it went ahead with."""
        self._is_lost = True
        self._scope.cancel(reason="the store failed")

    async def run(self) -> None:
        """Run the turn to its end and store that end; raises `StorageError` when it can't."""
        last: list[DurableEvent] = []
        try:
            with self._scope:
                await self._open_budget()
                last = await self._converse()
        except StorageError:
            raise
        except BudgetError as error:
            last = [self._ended("budget", message=str(error))]
        except CallboardError as error:
            last = [self._ended("failed", error_type=error.type, message=str(error))]
        finally:
            self._budget.close()
        if self._scope.cancelled_caught:
            # A suspended turn keeps what it delegated: each of those sessions is stopped by itself.
            if not self._suspends and self._setup.end_children is not None:
                await self._setup.end_children(self.turn_id, self._stopped().message)
            last = [self._stopped()]
        # Shielded: the record of the end must not be lost to the cancellation that caused it.
        with trio.CancelScope(shield=True):
            if await self._host.recover():
                last = self._without_what_was_lost(last)
            suspension: list[DurableEvent] = []
            if self._suspends and self._scope.cancelled_caught:
                suspension = self._suspension(await self._host.left_open())
            await self._host.append_end(*suspension or [*await self._left_open(), *last])

    def _without_what_was_lost(self, last: list[DurableEvent]) -> list[DurableEvent]:
        """Drop the answer to results that are not on record, but not what it took; return the end."""
        caller, known = self._caller, self._host.conversation.last_turn.messages
        for said in (*last, self._asked):
            if isinstance(said, MessageCompleted) and said.message_id not in known:
                caller.unrecorded.append(caller.charged(TokenCount(said.usage, said.estimate)))
        answer, caller.broken_off, self._asked = caller.broken_off, None, None
        if answer is not None and not answer.taken.is_nothing:
            caller.unrecorded.append(caller.charged(answer.taken))
        return [self._stopped()]

    async def _open_budget(self) -> None:
        budgets, scope = self._host.conversation.budgets, self._scope
        if await self._budget.open(budgets, is_resumed=self.is_resumed, bound=scope) <= 0:
            scope.cancel(reason="no time is left")  # before a deadline that is over is seen
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _converse(self) -> list[DurableEvent]:
        """Alternate between model and tools until there is an end; return the last events."""
        read = self._setup.workspace_prompt
        if read is not None and (said := await read()):
            self._system = told(self._setup.agent.prompt, said)
        if (schema := self._setup.answer_schema) is not None:
            from .structured import AnswerForm  # here: most turns have none

            self._form = AnswerForm(schema, self._setup.answer_type, self._setup.tools)
        if self._asked is not None and (ended := await self._go_on(self._asked)):
            return [ended]
        if (last := await self._without_answer()) is not None:
            return last
        while True:
            # An input may be cancelled while it waits: then no model is asked.
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._host.deliver_steering(self.turn_id)
            answer = await self._caller.answer(self._request)
            if answer.error is not None:
                return [self._failed(answer.error)]
            assert answer.done is not None
            message = self._message(answer)
            calls = tuple(part for part in message.parts if isinstance(part, Call))
            proposed = self._proposed(message, calls)
            stop = answer.done.stop_reason
            is_cut = stop in (StopReason.MAX_TOKENS, StopReason.REFUSED)
            if self._form is not None and not is_cut:
                if last := await self._formed(self._form, message, calls, proposed):
                    return last
            elif not calls or is_cut:
                why = "the answer was cut off"
                cut_off = [cancelled_call(self.turn_id, call, why) for call in calls]
                return [message, *proposed, *cut_off, self._cut_or_ended(message, stop)]
            elif ended := await self._run_calls(message, calls, proposed):
                return [ended]

    async def _without_answer(self) -> list[DurableEvent] | None:
        """Make the calls that a program gave, or sum up; return the last events, if the turn is one of these."""
        conversation = self._host.conversation
        if calls := given_calls(conversation, self.input_id):
            if self._asked is not None:  # they are on record
                return [self._ended("answered")]
            message = message_of_calls(self.turn_id, calls)
            ended = await self._run_calls(message, calls, self._proposed(message, calls))
            return [ended or self._ended("answered")]
        if not compacts(conversation):
            return None
        rounds = await self._caller.sum_up(wish_of(conversation))
        if isinstance(rounds, StreamError):
            return [self._failed(rounds)]
        return [message_of_summary(self.turn_id, rounds), self._ended("answered")]

    async def _formed(
        self,
        form: AnswerForm,
        message: MessageCompleted,
        calls: tuple[Call, ...],
        proposed: tuple[CallProposed, ...],
    ) -> list[DurableEvent] | None:
        """Run the calls of an answer, or take it; return the last events, if the turn ends by it."""
        given = form.given(calls)
        if others := tuple(call for call in calls if call not in given):
            refused = form.beside_others(message, given)
            ended = await self._run_calls(message, others, (*proposed, *refused))
            return [ended] if ended is not None else None
        judged = form.judged(message, text_of(message.parts), given)
        events: list[DurableEvent] = [message, *proposed, *judged.finished]
        if judged.rejected is None:
            where = f"call:{given[0].call_id}" if given else message.message_id
            ended = self._ended("answered")
            return [*events, replace(ended, answer=judged.answer, message_id=where)]
        events.append(judged.rejected)
        if why := form.given_up(judged.rejected, self._host.conversation.rejected_answers):
            return [*events, self._ended("failed", error_type=ProviderError.type, message=why)]
        self._asked = message
        await self._host.append(*events)
        return None

    def _cut_or_ended(self, message: MessageCompleted, stop: StopReason) -> TurnEnded:
        if self._form is None:
            return self._ended(_OUTCOMES[stop])
        why = self._form.why_none(message)
        return self._ended(_OUTCOMES[stop], error_type=ProviderError.type, message=why)

    def _recorded(self) -> MessageCompleted:
        """Return a stand-in for an answer on record, of which only the id is needed."""
        message_id = self._host.conversation.message_id
        return MessageCompleted(
            turn_id=self.turn_id, message_id=message_id, parts=(), provider="", model=""
        )

    async def _go_on(self, asked: MessageCompleted) -> TurnEnded | None:
        """Run the calls that are open already, under the questions they had."""
        open_calls = self._host.conversation.open_calls.values()
        calls = tuple(Call(each.call_id, each.name, each.arguments) for each in open_calls)
        return await self._run_calls(asked, calls, None, self._answers) if calls else None

    def _request(self, target: ModelTarget) -> ModelRequest:
        agent = self._setup.agent
        request = ModelRequest(
            model=target.model,
            provider=target.signer,
            system=self._system,
            rounds=self._host.conversation.rounds,
            tools=self._setup.tools,
            max_output_tokens=agent.max_output_tokens,
            temperature=agent.temperature,
            thinking=agent.thinking,
        )
        request = self._setup.with_call(request, self._host.conversation)
        if self._form is None:
            return request
        return self._form.asked_for(request, target, self._host.conversation.rejected_answers)

    # ── the tools ────────────────────────────────────────────────────────────────────────────────

    async def _run_calls(
        self,
        message: MessageCompleted,
        calls: tuple[Call, ...],
        proposed: tuple[DurableEvent, ...] | None,
        approvals: tuple[ApprovalRow, ...] = (),
    ) -> TurnEnded | None:
        """Hand the calls to the dispatcher and wait until all of them are gone.

        Without `proposed` the answer is on record already. Return the turn's end, if this is it.
        """
        host = self._host
        conversation = host.conversation
        self._asked, self._asked_at, self._since = message, trio.current_time(), {}
        resumes = proposed is None
        scope = trio.CancelScope()
        outlet, gone = trio.open_memory_channel[None](0)
        shows = True

        def show(line: LiveEvent) -> None:
            if shows:  # a thread that nothing can stop may speak for as long as it likes
                host.publish(line)

        request = RunCalls(
            place=self._place,
            calls=calls,
            preamble=(message, *proposed) if proposed is not None else (),
            show=show,
            outlet=outlet,
            scope=scope,
            # A call's last question decides; those before it were revised or void.
            approvals=tuple({a.call_id: a for a in approvals}.values()),
            marks=conversation.marks,
            begun=frozenset(conversation.started_calls) if resumes else frozenset(),
            quota=self._budget,
            since=self._since,
            attempts_left=conversation.attempts_for(resumes=resumes),
            lend_model=self._caller.lend,
        )
        with gone:
            await self._setup.dispatcher.tell(request)
            try:
                async for _ in gone:
                    pass
            except BaseException:
                scope.cancel(reason="the turn ended")
                if not await wait_gone(gone):  # noqa: ASYNC102  bounded inside
                    self._unreaped.append("tool calls")
                raise
            finally:
                shows = False
                host.fold_committed()
                self._budget.give_back(self._has_run)
        if not self._is_settled(message):
            # The dispatcher ends the batch itself when the store fails.
            return self._failed(_STORE_FAILED if scope.cancel_called else _DISPATCHER_FAILED)
        if self._budget.is_spent:
            return self._ended("budget", message=self._budget.is_spent)
        most = self._setup.limits.max_repeats
        for call in calls:
            result = conversation.result(call.call_id)
            if result is not None:
                key = (call.name, call.arguments, result.content)
                self._repeats[key] += 1
                if self._repeats[key] >= most:
                    text = f"{call.name} was called {most} times with the same result."
                    return self._ended("loop_guard", message=text)
        return None

    @property
    def _place(self) -> CallPlace:
        conversation = self._host.conversation
        return CallPlace(
            session_id=self._host.session_id,
            turn_id=self.turn_id,
            agent=self._setup.agent,
            session_kind=conversation.kind,
            workspace=conversation.workspace,
            channel=self._setup.channel,
            lineage=self._setup.lineage,
            task=conversation.task,
            options=self._setup.options_below(conversation.options.turn),
            client_tools=self._setup.client_tools,
            command=self._setup.command,
            trace=self._setup.trace_of(self._host, self.turn_id),
        )

    def _has_run(self, call_id: str) -> bool:
        """Whether a finished call ran; one that only reads may have no start on record."""
        conversation = self._host.conversation
        result = conversation.result(call_id)
        is_success = result is not None and not result.is_error
        return is_success or call_id in conversation.started_calls

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    def _message(
        self, answer: AnswerBuilder, kept: tuple[Part, ...] | None = None
    ) -> MessageCompleted:
        """Return the event of an answer; of one that was broken off, with the `kept` parts."""
        target = self._caller.target
        done = answer.done if kept is None else None
        duration, first = self._caller.times_of(answer) if done is not None else (0, 0)
        return MessageCompleted(
            turn_id=self.turn_id,
            message_id=new_id("message"),
            parts=kept if kept is not None else answer.parts(self._host.conversation.call_ids),
            provider=target.provider,
            model=target.model,
            dialect=target.recorded_dialect,
            stop_reason=done.stop_reason if done is not None else "",
            incomplete=done is None,
            usage=answer.taken.usage,
            estimate=answer.taken.estimate,
            duration_ms=duration,
            first_ms=first,
        )

    def _proposed(
        self, message: MessageCompleted, calls: tuple[Call, ...]
    ) -> tuple[CallProposed, ...]:
        """Return the events of an answer's calls, which go into the same commit."""
        return tuple(
            CallProposed(
                turn_id=self.turn_id,
                message_id=message.message_id,
                call_id=call.call_id,
                index=index,
                name=call.name,
                arguments=call.arguments,
            )
            for index, call in enumerate(calls)
        )

    def _is_settled(self, message: MessageCompleted) -> bool:
        """Whether the answer and a result for each of its calls are on record."""
        conversation = self._host.conversation
        return conversation.message_id == message.message_id and not conversation.open_calls

    async def _left_open(self) -> list[DurableEvent]:
        """Return what the record lacks: a broken-off text, an answer, results of its calls.

        Only a turn that was cancelled, or whose dispatcher died, leaves any.
        """
        caller, asked = self._caller, self._asked
        is_settled = not self._is_lost and (asked is None or self._is_settled(asked))
        if caller.broken_off is None and is_settled and not caller.unrecorded:
            return []
        # What the batch had sent to the journal before it ended is stored ahead of this empty append.
        await self._host.append()
        missing: list[DurableEvent] = list(caller.unrecorded)
        if (answer := caller.broken_off) is not None:
            if parts := answer.parts_without_calls():
                missing.append(self._message(answer, parts))
            elif not answer.taken.is_nothing:
                missing.append(caller.charged(answer.taken))
        return [*missing, *self._results(asked)]

    def _results(self, asked: MessageCompleted | None) -> list[DurableEvent]:
        """Return the last answer, if it is not stored, and a result for each call without one."""
        conversation = self._host.conversation
        missing: list[DurableEvent] = []
        open_calls = list(conversation.open_calls.values())
        if asked is not None and conversation.message_id != asked.message_id:
            calls = tuple(part for part in asked.parts if isinstance(part, Call))
            open_calls = list(self._proposed(asked, calls))
            missing += [asked, *open_calls]
        killed = unreaped().take_killed(self.turn_id)
        is_cancelled = self._scope.cancelled_caught and not self._is_lost
        why = self._stopped().message if is_cancelled else ""
        for proposed in open_calls:
            call = Call(proposed.call_id, proposed.name, proposed.arguments)
            if is_cancelled:
                count = killed.get(call.call_id)
                was = self._since.get(call.call_id, BrokenOff(self._asked_at))
                missing.append(cancelled_call(self.turn_id, call, why, was, killed=count))
                continue
            has_started = call.call_id in conversation.started_calls  # and its dispatcher died
            text = _UNKNOWN_OUTCOME if has_started else _NOT_BEGUN
            status = CallStatus.INTERRUPTED
            was = BrokenOff(self._asked_at)
            missing.append(unfinished(self.turn_id, call, ErrorType.INTERRUPTED, text, status, was))
        return missing

    def _suspension(self, left: OpenTurn | None) -> list[DurableEvent]:
        """Return what suspends the turn where calls wait for people; nothing where none do."""
        closing = closing_events(left, now_ms()) if left is not None else ()
        if not any(isinstance(event, TurnSuspended) for event in closing):
            return []
        killed = unreaped().take_killed(self.turn_id)
        return [
            cancelled_call(
                self.turn_id,
                Call(event.call_id, event.name, ""),
                self._reason,
                self._since.get(event.call_id, BrokenOff(self._asked_at)),
                killed=killed.get(event.call_id),
            )
            if isinstance(event, CallFinished)
            else event
            for event in closing
        ]

    def _stopped(self) -> TurnEnded:
        """Return the end of a turn that somebody cancelled, whose time was over, or the store failed."""
        if self._reason:
            return self._ended("cancelled", message=self._reason)
        if self._is_lost:
            return self._failed(_STORE_FAILED)
        seconds = self._setup.timeout_seconds
        if seconds is not None and self._budget.is_own_time_over(seconds):
            text = f"The turn took longer than the {seconds:g} s that it has (timeout_seconds)."
            return self._ended("budget", error_type=DeadlineError.type, message=text)
        return self._ended("budget", message=self._budget.out_of_time())

    def _failed(self, error: StreamError) -> TurnEnded:
        return self._ended("failed", error_type=error.error_type, message=error.message)

    def _ended(self, outcome: TurnOutcome, *, error_type: str = "", message: str = "") -> TurnEnded:
        return TurnEnded(
            turn_id=self.turn_id,
            outcome=outcome,
            error_type=error_type,
            message=message,
            unreaped=(*self._caller.unreaped, *self._unreaped, *unreaped().of(self.turn_id)),
            duration_ms=round((trio.current_time() - self._started_at) * 1000),
        )

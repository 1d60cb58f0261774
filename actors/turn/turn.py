"""One turn, top to bottom: from an input to the final answer.

while the model asks for tools:
    get an answer from the model    → `ModelCaller`: batches up its channel, folded and published
    store its answer, run its calls → one commit, then all calls side by side
end the turn                        → when every task of it is gone
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import trio

from ...config.settings import Limits
from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.definitions import Agent, ToolDefinition
from ...runtime.errors import BudgetError, CallboardError, InternalError, StorageError
from ...runtime.events import (
    CallProgress,
    CallProposed,
    DurableEvent,
    LiveEvent,
    MessageCompleted,
    TurnEnded,
    TurnOutcome,
    TurnResumed,
    TurnStarted,
)
from ...runtime.history import Call, Result
from ...runtime.identity import new_id
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import Ancestor, CallPlace, DispatcherMessage, RunCalls
from ...runtime.store.rows import ApprovalRow, OpenTurn
from ...runtime.stream import StopReason, StreamError
from ...tools.processes.unreaped import unreaped
from ..budget.budgets import BudgetBook, TurnBudget
from ..model.wait_gone import wait_gone
from .model_caller import ModelCaller
from .record import RecordHost, TurnRecord


class LoopGuard:
    """Counts the calls of one turn.

    Args:
        most: How often the same may come.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._repeats: Counter[tuple[str, str, str]] = Counter()

    def repeated(
        self, calls: Iterable[Call], result_of: Callable[[str], Result | None]
    ) -> str | None:
        """Counts these calls; says what happened when one of them came too often."""
        for call in calls:
            result = result_of(call.call_id)
            if result is not None:
                key = (call.name, call.arguments, result.content)
                self._repeats[key] += 1
                if self._repeats[key] >= self._most:
                    return f"{call.name} was called {self._most} times with the same result."
        return None


MAX_WAITING_PROGRESS = 64
"""Progress lines of running tools that wait for the session; more are dropped, results never."""


class TurnHost(RecordHost, Protocol):
    """What a turn needs of its session."""

    session_id: str
    lineage: tuple[Ancestor, ...]

    async def append(self, *events: DurableEvent) -> object:
        """Stores events and folds what was committed; raises `StorageError`."""
        ...

    async def left_open(self) -> OpenTurn | None:
        """The turn that has no end on record, behind all that was to be stored so far."""
        ...

    async def deliver_steering(self, turn_id: str) -> None:
        """Makes inputs that steer the turn part of it, on record; raises `StorageError`."""
        ...

    def fold_committed(self) -> None:
        """Folds what the dispatcher and the broker had committed; never blocks."""
        ...

    def publish(self, update: LiveEvent) -> None:
        """Tells everybody who listens."""
        ...


class Turn:
    """One turn of a session.

    Attributes:
        turn_id: Its own id.
        input_id: The input that it answers.
    """

    def __init__(
        self,
        host: TurnHost,
        input_id: str,
        *,
        agent: Agent,
        caller: Callable[[str, TurnBudget], ModelCaller],
        budgets: BudgetBook,
        tools: tuple[ToolDefinition, ...],
        skills: Callable[[], Awaitable[str]] | None,
        channel: str | None,
        end_children: Callable[[str, str], Awaitable[None]],
        dispatcher: Mailbox[DispatcherMessage],
        limits: Limits,
        suspended: OpenTurn | None = None,
    ) -> None:
        self.turn_id = suspended.turn_id if suspended is not None else new_id("turn")
        self._suspended = suspended
        self._budget = budgets.turn(host.session_id, self.turn_id, agent)
        self._caller = caller(self.turn_id, self._budget)
        self.input_id = input_id
        self._record = TurnRecord(host, self.turn_id)
        self._scope = trio.CancelScope()
        self._reason = ""
        self._host = host
        self._agent = agent
        self._tools = tools
        self._skills = skills
        self._system = agent.prompt
        self._channel = channel
        self._end_children = end_children
        self._dispatcher = dispatcher
        self._loop_guard = LoopGuard(limits.max_repeats)
        self._started_at = trio.current_time()
        self._answers = suspended.approvals if suspended is not None else ()
        self._asked = self._recorded() if suspended is not None else None
        self._suspends = False
        self._asked_at = self._started_at
        self._unreaped: list[str] = []

    def started(self) -> TurnStarted:
        """The event that begins it, stored before `run`."""
        return TurnStarted(
            turn_id=self.turn_id,
            input_ids=(self.input_id,),
            provider=self._caller.target.provider,
            model=self._caller.target.model,
        )

    @property
    def is_resumed(self) -> bool:
        """Whether it was suspended, and goes on."""
        return self._suspended is not None

    def resumed(self) -> TurnResumed:
        """The event with which it goes on, stored before `run`."""
        assert self._suspended is not None
        waiting = [a.approval_id for a in self._suspended.approvals if a.state == "waiting"]
        return TurnResumed(turn_id=self.turn_id, approval_ids=tuple(waiting))

    def run_first(self, answers: tuple[ApprovalRow, ...]) -> None:
        """Has it run the deferred calls first that these questions were about."""
        if answers:
            self._answers, self._asked = answers, self._recorded()

    def cancel(self, reason: str, *, suspends: bool = False) -> None:
        """Cancels it, now or as soon as it runs; the first reason is the one on record.

        With `suspends`, calls that wait for people stay open: with those it goes on when resumed.
        """
        self._suspends = self._suspends or (suspends and not self._scope.cancel_called)
        self._reason = self._reason or reason
        self._scope.cancel(reason=reason)

    async def run(self) -> None:
        """Runs the turn to its end, and stores that end; raises `StorageError` when it can't.

        Whatever happens inside, the last thing is `TurnEnded`, behind a result for every call; or
        `TurnSuspended`, behind one for every call that waits for nobody.
        """
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
            if not self._suspends:  # then each session below is stopped by itself
                await self._end_children(self.turn_id, self._stopped().message)
            last = [self._stopped()]
        # Shielded: the record of the end must not be lost to the cancellation that caused it.
        with trio.CancelScope(shield=True):
            suspension: list[DurableEvent] = []
            if self._suspends and self._scope.cancelled_caught:
                left = await self._host.left_open()
                suspension = self._record.suspension(left, self._reason, self._asked_at)
            await self._host.append_end(*suspension or [*await self._left_open(), *last])

    async def _open_budget(self) -> None:
        budgets = self._host.conversation.budgets
        scope = self._scope
        if await self._budget.open(budgets, is_resumed=self.is_resumed, bound=scope) <= 0:
            scope.cancel(reason="no time is left")  # before a deadline that is over is seen
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _converse(self) -> list[DurableEvent]:
        """Alternates model and tools until there is an end; gives the turn's last events."""
        if self._skills is not None and (told := await self._skills()):
            self._system = f"{self._agent.prompt}\n\n{told}".lstrip()
        if self._asked is not None and (ended := await self._go_on(self._asked)):
            return [ended]
        while True:
            # An input may be cancelled while it waits: then no model is asked.
            await trio.lowlevel.checkpoint_if_cancelled()
            await self._host.deliver_steering(self.turn_id)
            answer = await self._caller.answer(self._request)
            if answer.error is not None:
                return [self._failed(answer.error)]
            assert answer.done is not None
            message = self._record.message(answer, self._caller)
            calls = tuple(part for part in message.parts if isinstance(part, Call))
            stop = answer.done.stop_reason
            if not calls or stop in (StopReason.MAX_TOKENS, StopReason.REFUSED):
                proposed = self._record.proposed(message, calls)
                cut_off = [self._record.cancelled(call, "the answer was cut off") for call in calls]
                return [message, *proposed, *cut_off, self._ended(_OUTCOMES[stop])]
            if ended := await self._run_calls(
                message, calls, self._record.proposed(message, calls)
            ):
                return [ended]

    def _recorded(self) -> MessageCompleted:
        """Stands for an answer that is on record already, of which nothing but its id is asked."""
        message_id = self._host.conversation.message_id
        return MessageCompleted(
            turn_id=self.turn_id, message_id=message_id, parts=(), provider="", model=""
        )

    async def _go_on(self, asked: MessageCompleted) -> TurnEnded | None:
        """Runs the calls that are open already, under the questions they had."""
        conversation = self._host.conversation
        open_calls = conversation.open_calls.values()
        calls = tuple(Call(each.call_id, each.name, each.arguments) for each in open_calls)
        return await self._run_calls(asked, calls, None, self._answers) if calls else None

    # ── the model ────────────────────────────────────────────────────────────────────────────────

    def _request(self, target: ModelTarget) -> ModelRequest:
        agent = self._agent
        return ModelRequest(
            model=target.model,
            provider=target.signer,
            system=self._system,
            rounds=self._host.conversation.rounds,
            tools=self._tools,
            max_output_tokens=agent.max_output_tokens,
            temperature=agent.temperature,
            thinking=agent.thinking,
        )

    # ── the tools ────────────────────────────────────────────────────────────────────────────────

    async def _run_calls(
        self,
        message: MessageCompleted,
        calls: tuple[Call, ...],
        proposed: tuple[CallProposed, ...] | None,
        approvals: tuple[ApprovalRow, ...] = (),
    ) -> TurnEnded | None:
        """Hands the calls to the dispatcher and waits until all of them are gone.

        Without `proposed` the answer is on record already. Gives the turn's end, if this is it.
        """
        host = self._host
        self._asked, self._asked_at = message, trio.current_time()
        scope = trio.CancelScope()
        outlet, progress = trio.open_memory_channel[CallProgress](MAX_WAITING_PROGRESS)
        request = RunCalls(
            place=self._place,
            calls=calls,
            preamble=(message, *proposed) if proposed is not None else (),
            outlet=outlet,
            scope=scope,
            # The last one of a call decides; those before it were revised or void.
            approvals=tuple({a.call_id: a for a in approvals}.values()),
            marks=host.conversation.marks,
            begun=frozenset(host.conversation.started_calls) if proposed is None else frozenset(),
            quota=self._budget,
            attempts_left=host.conversation.retries.left_to(goes_on=proposed is None),
        )
        with progress:
            await self._dispatcher.tell(request)
            try:
                await self._publish(progress)
            except BaseException:
                scope.cancel(reason="the turn ended")
                if not await wait_gone(progress):  # noqa: ASYNC102  bounded inside
                    self._unreaped.append("tool calls")
                raise
            finally:
                host.fold_committed()
                self._budget.give_back(self._has_run)
        return self._end_behind(message, calls, scope)

    async def _publish(self, progress: trio.MemoryReceiveChannel[CallProgress]) -> None:
        """Tells the listeners what running calls say, until the batch is gone."""
        async for line in progress:
            self._host.publish(line)
            # All that waits, at once: a result comes by another way and would overtake it.
            for _ in range(progress.statistics().current_buffer_used):
                self._host.publish(progress.receive_nowait())

    def _end_behind(
        self, message: MessageCompleted, calls: tuple[Call, ...], scope: trio.CancelScope
    ) -> TurnEnded | None:
        """The end of the turn when these calls bring it about."""
        if not self._is_settled(message):
            # The dispatcher ends the batch itself when the store fails.
            return self._failed(_STORE_FAILED if scope.cancel_called else _DISPATCHER_FAILED)
        if self._budget.is_spent:
            return self._ended("budget", message=self._budget.is_spent)
        if text := self._loop_guard.repeated(calls, self._host.conversation.result):
            return self._ended("loop_guard", message=text)
        return None

    @property
    def _place(self) -> CallPlace:
        conversation = self._host.conversation
        return CallPlace(
            session_id=self._host.session_id,
            turn_id=self.turn_id,
            agent=self._agent,
            session_kind=conversation.kind,
            workspace=conversation.workspace,
            channel=self._channel,
            lineage=self._host.lineage,
            task=conversation.task,
            options=given.options if (given := conversation.options.turn) else None,
        )

    def _has_run(self, call_id: str) -> bool:
        """Whether a call that was over ran; one that only reads may have no start on record."""
        conversation = self._host.conversation
        result = conversation.result(call_id)
        is_success = result is not None and not result.is_error
        return is_success or call_id in conversation.started_calls

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _is_settled(self, message: MessageCompleted) -> bool:
        """Whether the answer and a result for each of its calls are on the record."""
        conversation = self._host.conversation
        return conversation.message_id == message.message_id and not conversation.open_calls

    async def _left_open(self) -> list[DurableEvent]:
        """What is missing on the record: a broken-off text, an answer, results of its calls.

        Only a turn that was cancelled, or whose dispatcher died, leaves any.
        """
        broken_off, asked = self._caller.broken_off, self._asked
        is_settled = asked is None or self._is_settled(asked)
        if broken_off is None and is_settled and not self._caller.unrecorded:
            return []
        # What the batch had told the journal before it ended is stored ahead of this empty append.
        await self._host.append()
        why = self._stopped().message if self._scope.cancelled_caught else None
        kept = self._record.kept_text(broken_off, self._caller)
        return [*kept, *self._record.missing(asked, why, self._asked_at)]

    def _stopped(self) -> TurnEnded:
        """The end of a turn that somebody cancelled, or that took too long for its budget."""
        if self._reason:
            return self._ended("cancelled", message=self._reason)
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

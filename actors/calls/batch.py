"""The calls of one answer: decided about together, then run side by side, each under its own scope."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Protocol

import msgspec
import trio

from ...config.settings import Limits
from ...runtime.definitions import Effect, ErrorType, ToolFailure, Verdict
from ...runtime.errors import ActorStopped, CallboardError, ConflictError
from ...runtime.events import (
    CallFinished,
    CallProgress,
    CallStarted,
    DurableEvent,
)
from ...runtime.history import Call
from ...runtime.kernel.locks import ResourceLocks
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    AppendEvents,
    AskPerson,
    BrokerMessage,
    CheckPermissions,
    Decision,
    JournalMessage,
    PermissionQuestion,
    Resolution,
    RunCalls,
    SessionMarks,
)
from ...runtime.redaction import mask, redacting_logger
from ...runtime.store.tables.permissions import REFUSED
from ...runtime.text import without_surrogates
from ...runtime.turns.activity import Activity
from .admission import Admission, Permit
from .call import (
    CANCELLED_ALONE,
    Outcome,
    ReadyCall,
    denial,
    denial_by_answer,
    denied,
    execute,
    failed,
    with_arguments,
)
from .deferral import defers
from .marks import joined
from .preparation import CallPreparation
from .preview import preview_of
from .reach import as_allowed, due_marks, files_marked, hosts_of, read_by, watch
from .retries import Attempts, tell_parent

logger = redacting_logger(__name__)

BROKER_GONE = Decision(
    verdict=Verdict.DENY, reason="the permission broker failed; nothing was asked"
)


class BatchHost(Protocol):
    """What a batch needs of the dispatcher."""

    journal: Mailbox[JournalMessage]
    broker: Mailbox[BrokerMessage]
    preparation: CallPreparation
    limits: Limits
    activity: Activity
    slots: trio.CapacityLimiter

    def locks(self, workspace: str) -> ResourceLocks:
        """The keys of a workspace, which its batches share."""
        ...


class CallBatch:
    """The calls of one answer."""

    def __init__(self, dispatcher: BatchHost, request: RunCalls) -> None:
        self._dispatcher = dispatcher
        self._request = request
        self._place = request.place
        self._known = {approval.call_id: approval for approval in request.approvals}
        self._marks = request.marks
        self._attempts = Attempts(request.place.turn_id, request.attempts_left)
        slots = trio.CapacityLimiter(dispatcher.limits.max_calls_per_session)
        locks = dispatcher.locks(request.place.workspace)
        self._admission = Admission(locks, (slots, dispatcher.slots))
        self._proposed_at = trio.current_time()

    async def run(self) -> None:
        """Runs them all, until they are gone."""
        with self._request.scope, ExitStack() as permits:
            ready, finished = self._prepare()
            starting: list[tuple[ReadyCall, Permit]] = []
            waiting: list[tuple[ReadyCall, Decision, Permit | None]] = []
            for call, decision in zip(ready, await self._check(ready), strict=True):
                if decision.verdict is Verdict.DENY:
                    finished.append(self._finished(call.call, denied(decision, call.tier), call))
                elif call.call.call_id in self._request.begun:  # it was allowed, and has started
                    starting.append((call, permits.enter_context(self._enqueue(call))))
                elif over_budget := self._over_budget(call):
                    finished.append(over_budget)
                elif decision.verdict is Verdict.ASK or self._is_asked(call, decision):
                    waiting.append((call, _asking(decision), None))
                elif permit := self._admission.admit_nowait(call.resources, waits=call.tool.waits):
                    starting.append((call, permits.enter_context(permit)))
                else:
                    # Its place is taken here: calls on one key run in the model's order.
                    queued = self._enqueue(call)
                    waiting.append((call, decision, permits.enter_context(queued)))
            begun = self._request.begun
            started = [self._started(c) for c, _ in starting if c.call.call_id not in begun]
            if not await self._record(*self._request.preamble, *started, *finished):
                return
            await self._run_all(starting, waiting)

    async def _run_all(
        self,
        starting: list[tuple[ReadyCall, Permit]],
        waiting: list[tuple[ReadyCall, Decision, Permit | None]],
    ) -> None:
        if len(starting) == 1 and not waiting:
            # Most answers ask for one tool: alone it needs no task of its own.
            await self._execute(*starting[0])
            return
        async with trio.open_nursery() as nursery:
            for call, permit in starting:
                nursery.start_soon(self._execute, call, permit, name=f"call {call.name}")
            for call, decision, place in waiting:
                nursery.start_soon(self._run_later, call, decision, place, name=f"call {call.name}")

    # ── before the effect ────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> tuple[list[ReadyCall], list[CallFinished]]:
        """Looks up and validates; what fails here already has its result."""
        ready: list[ReadyCall] = []
        finished: list[CallFinished] = []
        most = self._dispatcher.limits.max_calls_per_response
        for index, call in enumerate(self._request.calls):
            try:
                if index >= most:
                    raise ToolFailure(
                        ErrorType.EXECUTION_ERROR,
                        f"Not run: one answer may ask for {most} calls, and this "
                        f"was number {index + 1}. Ask again in the next answer.",
                    )
                self._attempts.check(call.name)
                known = self._known.get(call.call_id)
                ready.append(self._ready(call, known.arguments if known else call.arguments))
            except ToolFailure as failure:
                definition = self._dispatcher.preparation.definition(call.name)
                outcome = self._attempts.judged(call.name, failed(failure), definition)
                finished.append(self._finished(call, outcome))
        return ready, finished

    def _over_budget(self, ready: ReadyCall) -> CallFinished | None:
        """The result of a call that the budget has no room for."""
        quota = self._request.quota
        why = quota.take(ready.call.call_id) if quota is not None else None
        if why is None:
            return None
        return self._finished(
            ready.call, failed(ToolFailure(ErrorType.EXECUTION_ERROR, why)), ready
        )

    def _enqueue(self, ready: ReadyCall) -> Permit:
        return self._admission.enqueue(ready.resources, waits=ready.tool.waits)

    def _is_asked(self, ready: ReadyCall, decision: Decision) -> bool:
        """Whether the question of an earlier process still decides: a person's no always does."""
        known = self._known.get(ready.call.call_id)
        if known is None:
            return False
        return known.state in REFUSED or known.policy_version == decision.policy_version

    def _ready(self, call: Call, arguments: str) -> ReadyCall:
        outlet = self._request.outlet

        def on_progress(text: str) -> None:
            # Progress is live only: who can't keep up misses some, and gets the whole result.
            with suppress(trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
                outlet.send_nowait(CallProgress(call.call_id, without_surrogates(mask(text))))

        return self._dispatcher.preparation.ready(self._place, call, arguments, on_progress)

    async def _check(self, calls: Sequence[ReadyCall]) -> tuple[Decision, ...]:
        return await self._decide(*(call.question for call in calls)) if calls else ()

    async def _decide(
        self, *questions: PermissionQuestion, marks: SessionMarks | None = None
    ) -> tuple[Decision, ...]:
        marks = self._marks if marks is None else marks
        check = CheckPermissions(place=self._place, questions=questions, marks=marks)
        try:
            return await self._dispatcher.broker.ask(check)
        except ActorStopped:
            return (BROKER_GONE,) * len(questions)

    async def _judge(self, question: PermissionQuestion, known: frozenset[str]) -> str | None:
        """Why a call that runs must not do this; nobody is asked."""
        marks = msgspec.structs.replace(self._marks, hosts=self._marks.hosts | known)
        (decision,) = await self._decide(question, marks=marks)
        return None if decision.verdict is Verdict.ALLOW else decision.reason

    # ── waiting, and the effect ──────────────────────────────────────────────────────────────────

    async def _run_later(self, ready: ReadyCall, decision: Decision, permit: Permit | None) -> None:
        """A call that has to wait: for a person, for a key, or for a slot.

        What was decided before it waited for a key or a slot is decided again behind that: a grant
        may be revoked by then.
        """
        while decision.verdict is not Verdict.DENY:
            if decision.verdict is Verdict.ASK:
                await self._run_asked(ready, decision)
                return
            with permit or self._enqueue(ready) as permit:
                await self._admission.admit(permit)
                (decision,) = await self._check((ready,))
                if decision.verdict is Verdict.ALLOW:
                    reads = ready.effect is Effect.READ
                    if reads or await self._record(self._started(ready)):
                        await self._execute(ready, permit)
                    return
            permit = None  # who waits for a person holds none
        await self._record(self._finished(ready.call, denied(decision, ready.tier), ready))

    async def _run_asked(self, ready: ReadyCall, decision: Decision) -> None:
        """A call that a person is asked about runs as they allowed it, or has its result."""
        try:
            ready, resolution = await self._ask_person(ready, decision)
            if resolution.answer.decision == "deferred":
                return  # what the model gets meanwhile is on record
            if resolution.answer.decision != "allow":
                raise resolution.failure or denial_by_answer(resolution.answer, ready.tier)
            version = decision.policy_version
            with self._enqueue(ready) as permit:
                await self._admission.admit(permit)
                await self._run_allowed(ready, resolution, version, permit)
        except ToolFailure as failure:
            await self._record(self._finished(ready.call, failed(failure), ready))

    async def _run_allowed(
        self, ready: ReadyCall, resolution: Resolution, version: str, permit: Permit
    ) -> None:
        # Made anew from the text that was allowed: whatever happened to objects meanwhile, what
        # runs is what this digest says, and the store admits no other.
        final = as_allowed(self._ready(ready.call, resolution.arguments), ready)
        started = CallStarted(
            turn_id=self._place.turn_id,
            call_id=ready.call.call_id,
            approval_id=resolution.approval_id,
            digest=final.digest(self._place, version),
        )
        try:
            await self._append(started)
        except ConflictError as refused:
            raise denial(str(refused), ready.tier) from None
        except CallboardError as error:
            self._give_up(error)
        else:
            await self._execute(final, permit, is_changed=final.is_changed)

    async def _ask_person(
        self, ready: ReadyCall, decision: Decision
    ) -> tuple[ReadyCall, Resolution]:
        """Asks until there is an answer about the arguments that will run."""
        while True:
            resolution = await self._resolution(ready, decision)
            decided, tier = resolution.answer.decision, ready.tier
            is_other = resolution.arguments != ready.arguments.canonical
            if is_other and decided in {"allow", "revised"}:
                ready = self._ready(ready.call, resolution.arguments)
            if decided != "revised":
                return ready, resolution
            # Of a higher tier than what was asked about: that is another question.
            self._known.pop(ready.call.call_id, None)
            reason = f"a person changed the arguments, which made it {ready.tier} instead of {tier}"
            decision = msgspec.structs.replace(decision, reason=reason)

    async def _resolution(self, ready: ReadyCall, decision: Decision) -> Resolution:
        digest = ready.digest(self._place, decision.policy_version)
        known = self._known.get(ready.call.call_id)
        # Who was shown one before the process ended is shown that again.
        is_asked = known is not None and known.digest == digest
        preview = known.preview if known and is_asked else await preview_of(ready)
        ready.context.shown_preview = preview
        scope = trio.CancelScope()
        try:
            return await self._dispatcher.broker.ask(
                AskPerson(
                    place=self._place,
                    call=ready.call,
                    question=ready.question,
                    reason=decision.reason,
                    digest=digest,
                    policy_version=decision.policy_version,
                    marks=self._marks,
                    known=known,
                    preview=preview,
                    defers=defers(self._place, decision),
                    scope=scope,
                )
            )
        except CallboardError as error:
            raise denial(f"denied by callboard: {error}", ready.tier) from None
        finally:
            scope.cancel(reason="the answer is no longer needed")

    async def _execute(self, ready: ReadyCall, permit: Permit, *, is_changed: bool = False) -> None:
        started_at = trio.current_time()
        place = self._place
        activity = self._dispatcher.activity.call(
            place.session_id, place.turn_id, ready.call.call_id, ready.name
        )
        outcome = CANCELLED_ALONE
        with permit, activity:
            outcome = await self._outcome(ready)
        if is_changed:
            most = self._dispatcher.limits.max_result_bytes
            outcome = with_arguments(outcome, ready.arguments.canonical, most)
        else:  # what a person made of the arguments is no attempt of the model
            outcome = self._attempts.judged(ready.name, outcome, ready.tool.definition)
        finished = self._finished(ready.call, outcome, ready, started_at)
        # No checkpoint between the tool's return and the journal's mailbox: a cancel that comes
        # now can't turn what has happened into "cancelled".
        read = read_by(ready)
        marks = due_marks(ready, self._marks, read)
        self._marks = joined(self._marks, read)
        await self._record(*marks, *files_marked(ready), finished)

    async def _outcome(self, ready: ReadyCall) -> Outcome:
        watch(ready, self._judge, lambda: self._marks.is_tainted)
        try:
            return await execute(ready, self._dispatcher.limits)
        except BaseException:  # cancelled, be it within a group: nothing else comes out of it
            # It has no result, and yet what it wrote is there.
            if marks := files_marked(ready):
                with trio.CancelScope(shield=True), suppress(CallboardError):
                    await self._append(*marks)
            raise

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    def _started(self, ready: ReadyCall) -> CallStarted:
        return CallStarted(turn_id=self._place.turn_id, call_id=ready.call.call_id)

    def _finished(
        self,
        call: Call,
        outcome: Outcome,
        ready: ReadyCall | None = None,
        started_at: float | None = None,
    ) -> CallFinished:
        since = self._proposed_at if started_at is None else started_at
        return CallFinished(
            turn_id=self._place.turn_id,
            call_id=call.call_id,
            name=call.name,
            status=outcome.status,
            result=outcome.content,
            arguments=ready.arguments.canonical if ready is not None else None,
            display=outcome.display,
            artifacts=outcome.artifacts,
            full_output=outcome.full_output,
            duration_ms=round((trio.current_time() - since) * 1000),
            hosts=hosts_of(ready),
            attempts_left=outcome.attempts_left,
        )

    async def _record(self, *events: DurableEvent) -> bool:
        """Stores events; when that fails the batch is over, since nothing more may happen."""
        given_up = self._attempts.take_given_up()
        try:
            await self._append(*events, *given_up)
        except CallboardError as error:
            self._give_up(error)
            return False
        await tell_parent(self._dispatcher.journal, self._place, given_up)
        return True

    async def _append(self, *events: DurableEvent) -> None:
        await self._dispatcher.journal.ask(
            AppendEvents(session_id=self._place.session_id, events=events)
        )

    def _give_up(self, error: CallboardError) -> None:
        logger.error("calls of %s end: %s", self._place.turn_id, error)
        self._request.scope.cancel(reason="the journal failed")


def _asking(decision: Decision) -> Decision:
    """A call that a person was asked about keeps its question, whatever the policy says now."""
    return msgspec.structs.replace(decision, verdict=Verdict.ASK)

"""The tool dispatcher: one task a batch, which is the calls of one answer.

A batch asks the broker about all of its calls at once. What may run at once starts in the same
commit that stores the answer; each other call waits in a task of its own, for a person, for lock
keys or for a slot. After a wait for keys or slots the broker decides again: a grant may have been
revoked meanwhile. Every way to a start ends in `_execute`, and nothing runs there that the policy in force at that
moment denies: when rules have come since the batch was decided about, it is decided again.

`CallStarted` is stored before the effect of every call that does more than read, so that after a
crash it is known what may have happened. The session may go on ahead of their results. When the journal can't store, the batch ends at once:
nothing may happen that is not on record. A cancelled batch leaves its calls open; the turn closes
them when every task of the batch is gone, which it learns by the end of the outlet.

A slot is held only while a tool executes. A call that waits for a person or for a key holds none,
and neither does one that does nothing but wait (`ask_user`, `delegate`), so that children can't
starve behind their parents.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import trio

from ...config.policy.policy import PolicyBook
from ...config.settings import Limits
from ...runtime.definitions import Effect, ErrorType, SessionKind, ToolFailure, Verdict
from ...runtime.errors import ActorStopped, CallboardError, ConflictError
from ...runtime.events import CallFinished, CallProgress, CallStarted, DurableEvent
from ...runtime.history import Call
from ...runtime.kernel.locks import Slots, WorkspaceLocks
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    AppendEvents,
    AskPerson,
    BrokenOff,
    BrokerMessage,
    CheckPermissions,
    Decision,
    DispatcherMessage,
    JournalMessage,
    PermissionQuestion,
    Resolution,
    RunCalls,
)
from ...runtime.redaction import mask, redacting_logger
from ...runtime.store.tables.permissions import REFUSED
from ...runtime.taint.marks import SessionMarks, joined
from ...runtime.text import without_surrogates
from ...runtime.turns.activity import Activity
from .call import CallPreparation, ReadyCall, execute, told
from .outcome import (
    CallOutcome,
    CallRetries,
    denial,
    denial_by_answer,
    failed,
    tell_parent,
    with_arguments,
    with_note,
)
from .permits import GivenPermits, Permit, Permits
from .reach import (
    as_allowed,
    can_reach,
    due_marks,
    files_marked,
    hosts_of,
    named_by,
    read_by,
    watch,
)

if TYPE_CHECKING:
    from ...runtime.kernel.lease_gate import LeaseGate
    from .question_line import QuestionLine

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 256
"""Batches that wait; a session has one at a time."""
BROKER_GONE = Decision(
    verdict=Verdict.DENY, reason="the permission broker failed; nothing was asked"
)


class ToolDispatcher:
    """Runs batches of calls.

    Receives: `RunCalls`.
    Sends: `CheckPermissions` and `AskPerson` to the broker, `AppendEvents` to the journal.
    Owns: the running calls and the slots. The resource keys are shared with undoing.
    Ends: when cancelled; a batch ends earlier when its scope is cancelled.
    """

    def __init__(
        self,
        mailbox: Mailbox[DispatcherMessage],
        journal: Mailbox[JournalMessage],
        broker: Mailbox[BrokerMessage],
        preparation: CallPreparation,
        limits: Limits,
        activity: Activity | None = None,
        locks: WorkspaceLocks | None = None,
        policies: PolicyBook | None = None,
        gate: LeaseGate | None = None,
    ) -> None:
        self._mailbox = mailbox
        self.gate = gate
        self.journal = journal
        self.broker = broker
        self.preparation = preparation
        self.limits = limits
        self.activity = Activity() if activity is None else activity
        self.slots = Slots(limits.max_calls_per_runtime)
        self.locks = WorkspaceLocks() if locks is None else locks
        self.policies = PolicyBook() if policies is None else policies

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""

        def begin(request: RunCalls) -> bool:
            name = f"calls of {request.place.turn_id}"
            nursery.start_soon(self._run_batch, request, name=name)
            return True

        async with trio.open_nursery() as nursery:
            with self._mailbox.open(begin) as messages:
                task_status.started()
                async for request in messages:
                    begin(request)

    async def _run_batch(self, request: RunCalls) -> None:
        self.slots.resize(self.limits.max_calls_per_runtime)  # the setting may have changed
        # The outlet ends whatever happens here: the turn waits for that.
        with request.outlet:
            await CallBatch(self, request).run()


class CallBatch:
    """The calls of one answer: decided together, then run side by side."""

    def __init__(self, dispatcher: ToolDispatcher, request: RunCalls) -> None:
        self._dispatcher = dispatcher
        self._request = request
        self._place = request.place
        self._known = {approval.call_id: approval for approval in request.approvals}
        self._marks = request.marks
        self._revision = dispatcher.policies.revision
        self._retries = CallRetries(request.place.turn_id, request.attempts_left)
        slots = Slots(dispatcher.limits.max_calls_per_session)
        locks = dispatcher.locks.of(request.place.workspace)
        self._permits = Permits(locks, (slots, dispatcher.slots))
        self._proposed_at = trio.current_time()
        self._executing = 0
        self._results: list[DurableEvent] = []
        self._line: QuestionLine | None = None
        self._behind: dict[str, trio.Event] = {}
        self._followed: dict[str, trio.Event] = {}

    async def run(self) -> None:
        """Run all calls; return when they are gone."""
        with self._request.scope, GivenPermits() as permits:
            await self._dispatcher.preparation.wait_tested(self._request.calls)
            ready, finished = self._prepare()
            starting: list[tuple[ReadyCall, Permit]] = []
            waiting: list[tuple[ReadyCall, Decision, Permit | None]] = []
            decisions = await self._decide(*(call.question for call in ready)) if ready else ()
            for call, decision in zip(ready, decisions, strict=True):
                if decision.verdict is Verdict.DENY:
                    finished.append(self._denied(call, decision))
                elif call.call.call_id in self._request.begun:  # it was allowed, and has started
                    starting.append((call, permits.noted(self._enqueue(call))))
                elif over_budget := self._over_budget(call):
                    finished.append(over_budget)
                elif decision.verdict is Verdict.ASK or self._is_asked(call, decision):
                    # A call that a person was asked about keeps its question, whatever the policy
                    # says now.
                    asking = msgspec.structs.replace(decision, verdict=Verdict.ASK)
                    waiting.append((call, asking, None))
                elif permit := self._permits.admit_nowait(call.resources, waits=call.tool.waits):
                    starting.append((call, permits.noted(permit)))
                else:
                    # It takes its place here: calls on one key run in the model's order.
                    queued = self._enqueue(call)
                    waiting.append((call, decision, permits.noted(queued)))
            begun = self._request.begun
            started = [self._started(c) for c, _ in starting if c.call.call_id not in begun]
            # Waited for also where all calls only read: a tool may read the record, and finds there
            # what the session went ahead with, which is stored with this at the latest.
            if not await self._record(*self._request.preamble, *started, *finished):
                return
            if len(starting) == 1 and not waiting:
                # Most answers ask for one tool: alone it needs no task of its own.
                await self._execute(*starting[0])
                return
            self._note_same_hosts(waiting)
            asked = [
                c.call.call_id
                for c, said, _ in waiting
                if said.verdict is Verdict.ASK and c.call.call_id not in self._behind
            ]
            if len(asked) > 1:
                # Here: most answers ask about one call at most.
                from .question_line import QuestionLine

                self._line = QuestionLine(self._dispatcher.broker, asked)
            async with trio.open_nursery() as nursery:
                for call, permit in starting:
                    nursery.start_soon(self._execute, call, permit, name=f"call {call.name}")
                for call, decision, place in waiting:
                    nursery.start_soon(
                        self._run_later, call, decision, place, name=f"call {call.name}"
                    )

    def _note_same_hosts(self, waiting: list[tuple[ReadyCall, Decision, Permit | None]]) -> None:
        """Let calls about a host follow the first one about it: it is asked about once a session."""
        firsts: dict[frozenset[str], trio.Event] = {}
        for ready, decision, _ in waiting:
            if decision.is_about_host and (hosts := named_by(ready)):
                call_id = ready.call.call_id
                if hosts in firsts:
                    self._behind[call_id] = firsts[hosts]
                else:
                    firsts[hosts] = self._followed[call_id] = trio.Event()

    # ── before the effect ────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> tuple[list[ReadyCall], list[CallFinished]]:
        """Look up and validate all calls; one that fails here has its result already."""
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
                self._retries.check(call.name)
                known = self._known.get(call.call_id)
                ready.append(self._ready(call, known.arguments if known else call.arguments))
            except ToolFailure as failure:
                known_tool = self._dispatcher.preparation.definition
                definition = known_tool(self._place.session_id, call.name)
                outcome = self._retries.judged(call.name, failed(failure), definition)
                finished.append(self._finished(call, outcome))
        return ready, finished

    def _over_budget(self, ready: ReadyCall) -> CallFinished | None:
        """Return the result of a call that the budget has no room for."""
        quota = self._request.quota
        why = quota.take(ready.call.call_id) if quota is not None else None
        if why is None:
            return None
        failure = ToolFailure(ErrorType.EXECUTION_ERROR, why)
        return self._finished(ready.call, failed(failure), ready)

    def _enqueue(self, ready: ReadyCall) -> Permit:
        return self._permits.enqueue(ready.resources, waits=ready.tool.waits)

    def _is_asked(self, ready: ReadyCall, decision: Decision) -> bool:
        """Whether the question of an earlier process still decides.

        A person's answer always does, so that a policy that would not have asked runs nothing that
        they did not see: what an answer no longer covers is asked about again. A question that
        nobody answered gives way to another policy.
        """
        known = self._known.get(ready.call.call_id)
        if known is None:
            return False
        is_answered = known.state in REFUSED or known.state == "allowed"
        return is_answered or known.policy_version == decision.policy_version

    def _ready(self, call: Call, arguments: str) -> ReadyCall:
        show = self._request.show

        def on_progress(text: str) -> None:
            # Progress is live only: a slow listener misses some, and gets the whole result.
            line = without_surrogates(mask(text.removesuffix("\n")))
            show(CallProgress(call.call_id, line))

        prepare = self._dispatcher.preparation.ready
        ready = prepare(self._place, call, arguments, on_progress, show)
        if ready.tool.may_ask_model and self._request.lend_model is not None:
            ready.context.model = self._request.lend_model()
        return ready

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
        """Return why a running call must not do this, or `None`; asks nobody."""
        marks = msgspec.structs.replace(self._marks, hosts=self._marks.hosts | known)
        (decision,) = await self._decide(question, marks=marks)
        return None if decision.verdict is Verdict.ALLOW else decision.reason

    # ── waiting, and the effect ──────────────────────────────────────────────────────────────────

    async def _run_later(self, ready: ReadyCall, decision: Decision, permit: Permit | None) -> None:
        """Run a call that has to wait: for another call, for a person, for a key, or for a slot."""
        if (first := self._behind.get(ready.call.call_id)) is not None:
            await first.wait()
            (decision,) = await self._decide(ready.question)
        try:
            await self._run_when_due(ready, decision, permit)
        finally:
            if (followed := self._followed.get(ready.call.call_id)) is not None:
                followed.set()

    async def _run_when_due(
        self, ready: ReadyCall, decision: Decision, permit: Permit | None
    ) -> None:
        while decision.verdict is not Verdict.DENY:
            if decision.verdict is Verdict.ASK:
                await self._run_asked(ready, decision)
                return
            with permit or self._enqueue(ready) as permit:
                await self._permits.admit(permit)
                (decision,) = await self._decide(ready.question)
                if decision.verdict is Verdict.ALLOW:
                    started = () if ready.effect is Effect.READ else (self._started(ready),)
                    if await self._record(*started):
                        await self._execute(ready, permit)
                    return
            permit = None  # a call that waits for a person holds no permit
        await self._record(self._denied(ready, decision))

    async def _run_asked(self, ready: ReadyCall, decision: Decision) -> None:
        """Ask a person about a call, and run it as they allowed it."""
        try:
            ready, resolution = await self._ask_person(ready, decision)
            if resolution.answer.decision == "deferred":
                return  # the result that the model gets meanwhile is on record
            if resolution.answer.decision != "allow":
                raise resolution.failure or denial_by_answer(
                    resolution.answer, ready.tier, decision.reason
                )
            version = decision.policy_version
            with self._enqueue(ready) as permit:
                await self._permits.admit(permit)
                await self._run_allowed(ready, resolution, version, permit)
        except ToolFailure as failure:
            await self._record(self._finished(ready.call, failed(failure), ready))

    async def _run_allowed(
        self, ready: ReadyCall, resolution: Resolution, version: str, permit: Permit
    ) -> None:
        # Prepared again from the text that was allowed: the head of `call` says why.
        final = as_allowed(self._ready(ready.call, resolution.arguments), ready)
        if (decision := await self._denied_by_now(final)) is not None:
            raise denial(decision.reason, final.tier)
        started = CallStarted(
            turn_id=self._place.turn_id,
            call_id=ready.call.call_id,
            approval_id=resolution.approval_id,
            digest=final.digest(self._place, version),
        )
        # Apart, since a start may be refused.
        await self._record_results(at_once=True)
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
        """Ask until there is an answer about the arguments that will run."""
        while True:
            resolution = await self._resolution(ready, decision)
            decided, tier = resolution.answer.decision, ready.tier
            is_other = resolution.arguments != ready.arguments.canonical
            if is_other and decided in {"allow", "revised"}:
                ready = self._ready(ready.call, resolution.arguments)
            if decided != "revised":
                return ready, resolution
            # The changed call has a higher tier than the one asked about: ask about that.
            self._known.pop(ready.call.call_id, None)
            reason = f"a person changed the arguments, which made it {ready.tier} instead of {tier}"
            decision = msgspec.structs.replace(decision, reason=reason)

    async def _resolution(self, ready: ReadyCall, decision: Decision) -> Resolution:
        place = self._place
        digest = ready.digest(place, decision.policy_version)
        known = self._known.get(ready.call.call_id)
        # A question of an earlier process keeps the preview that its people have seen.
        is_asked = known is not None and known.digest == digest
        preview = known.preview if known and is_asked else await ready.preview()
        ready.context.shown_preview = preview
        wants_defer = place.agent.defer or decision.defer
        scope = trio.CancelScope()
        try:
            return await (self._line or self._dispatcher.broker).ask(
                AskPerson(
                    place=place,
                    call=ready.call,
                    question=ready.question,
                    reason=decision.reason,
                    digest=digest,
                    policy_version=decision.policy_version,
                    marks=self._marks,
                    known=known,
                    preview=preview,
                    # A session that delegated waits for the whole answer, so only a main one defers.
                    defers=wants_defer and place.session_kind is SessionKind.MAIN,
                    scope=scope,
                )
            )
        except CallboardError as error:
            raise denial(f"denied by callboard: {error}", ready.tier) from None
        finally:
            scope.cancel(reason="the answer is no longer needed")

    async def _denied_by_now(self, ready: ReadyCall) -> Decision | None:
        """Return the denial by rules that came after this batch was decided about, or `None`."""
        policies, judged = self._dispatcher.policies, self._revision
        while judged != policies.revision:  # until no rule came while the broker decided
            judged = policies.revision
            (decision,) = await self._decide(ready.question)
            if decision.verdict is Verdict.DENY:
                return decision
        return None

    async def _execute(self, ready: ReadyCall, permit: Permit, *, is_changed: bool = False) -> None:
        decision = None
        if self._revision != self._dispatcher.policies.revision:
            decision = await self._denied_by_now(ready)
        if decision is not None:
            with permit:
                await self._record(self._denied(ready, decision))
            return
        place, limits, name = self._place, self._dispatcher.limits, ready.call.name
        running = self._dispatcher.activity.call(
            place.session_id, place.turn_id, ready.call.call_id, name
        )
        reaches = can_reach(ready)
        self._executing += 1
        with permit, running:
            if reaches:
                watch(ready, self._judge, lambda: self._marks.is_tainted)
            gate = self._dispatcher.gate
            try:
                if gate is None:
                    outcome = await execute(ready, limits, running)
                else:
                    from .effect_gate import run_behind  # here: most runtimes are alone

                    outcome = await run_behind(
                        gate, ready, lambda: execute(ready, limits, running), place.workspace
                    )
            except BaseException:  # only cancellation comes out of it, alone or in a group
                if self._request.since is not None:
                    self._request.since[ready.call.call_id] = BrokenOff(running.since, told(ready))
                # The call has no result, and yet the files that it wrote are there.
                if written := files_marked(ready):
                    with trio.CancelScope(shield=True), suppress(CallboardError):
                        await self._append(*written)
                raise
            finally:
                self._executing -= 1
        if is_changed:
            outcome = with_arguments(outcome, ready.arguments.canonical, limits.max_result_bytes)
        else:  # a person's changes don't count as an attempt of the model
            outcome = self._retries.judged(name, outcome, ready.tool.definition)
            if note := ready.arguments.note:
                outcome = with_note(outcome, note)
        finished = self._finished(ready.call, outcome, ready, running.since)
        # Nothing between the tool's return and the journal's mailbox can be cancelled: a
        # cancellation that comes now can't turn what has happened into "cancelled".
        if not reaches:
            self._results.append(finished)
            # Whoever waits for its keys must find the result on record. Without keys, whose result was
            # the first one waits for those of other calls.
            if ready.resources or not self._executing or len(self._results) == 1:
                await self._record_results(at_once=bool(ready.resources))
            return
        read = read_by(ready)
        marks = (*due_marks(ready, self._marks, read), *files_marked(ready))
        self._marks = joined(self._marks, read)
        await self._record(*marks, finished, ahead=not marks)

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    def _started(self, ready: ReadyCall) -> CallStarted:
        return CallStarted(turn_id=self._place.turn_id, call_id=ready.call.call_id)

    def _denied(self, ready: ReadyCall, decision: Decision) -> CallFinished:
        return self._finished(ready.call, failed(denial(decision.reason, ready.tier)), ready)

    def _finished(
        self,
        call: Call,
        outcome: CallOutcome,
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
            attachments=outcome.attachments,
            server=None if ready is None else ready.context.server,
        )

    async def _record_results(self, *, at_once: bool) -> None:
        """Store the results that wait, with those of calls that end in the same step of the run."""
        if self._executing and not at_once:
            await trio.lowlevel.cancel_shielded_checkpoint()
        await self._record(ahead=True)

    async def _record(self, *events: DurableEvent, ahead: bool = False) -> bool:
        """Store events; when that fails the batch is over, since nothing more may happen.

        With `ahead`, the session may go on before that: no effect is to follow from these events.
        """
        given_up = self._retries.take_given_up()
        if not (events or given_up or self._results):
            return True
        try:
            await self._append(*events, *given_up, ahead=ahead and not given_up)
        except CallboardError as error:
            self._give_up(error)
            return False
        if given_up:
            await tell_parent(self._dispatcher.journal, self._place, given_up)
        return True

    async def _append(self, *events: DurableEvent, ahead: bool = False) -> None:
        results, self._results = self._results, []
        await self._dispatcher.journal.ask(
            AppendEvents(session_id=self._place.session_id, events=(*results, *events), ahead=ahead)
        )

    def _give_up(self, error: CallboardError) -> None:
        logger.error("calls of %s end: %s", self._place.turn_id, error)
        self._request.scope.cancel(reason="the journal failed")

"""The tool dispatcher: runs the calls of an answer side by side, each under its own scope."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Protocol
from weakref import WeakValueDictionary

import trio

from ..config.settings import Limits
from ..runtime.definitions import Capability, Effect, ErrorType, SessionKind, ToolFailure
from ..runtime.errors import ActorStopped, CallboardError
from ..runtime.events import CallFinished, CallProgress, CallStarted, DurableEvent
from ..runtime.handles import ArtifactReader, Network, ReadableFiles, WritableFiles
from ..runtime.history import Call
from ..runtime.mailbox import Mailbox
from ..runtime.messages import (
    AppendEvents,
    ApprovalAnswer,
    AskPerson,
    BrokerMessage,
    CheckPermissions,
    Decision,
    DispatcherMessage,
    JournalMessage,
    RunCalls,
)
from ..runtime.redaction import mask, redacting_logger
from ..runtime.resource_locks import ResourceLocks
from ..tools.registry import ToolRegistry
from ..tools.tool import ToolContext
from .admission import Admission, Permit
from .tool_call import (
    Outcome,
    ReadyCall,
    decided_by,
    denied,
    execute,
    failed,
    find_tool,
    make_ready,
)

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 256
"""Batches that wait; a session has one at a time."""
BROKER_GONE = Decision(verdict="deny", reason="the permission broker failed; nothing was asked")


class ToolHandles(Protocol):
    """Where the dispatcher gets what tools act through; it hands out what the kind allows."""

    @property
    def network(self) -> Network | None:
        """The way out; all kinds of sessions have it, and tiers say who may use what."""
        ...

    def files_read(self, workspace: str) -> ReadableFiles:
        """The workspace without a way to write; raises `ToolFailure` when it can't be opened."""
        ...

    def files_write(self, workspace: str) -> WritableFiles:
        """The whole workspace; raises `ToolFailure` when it can't be opened."""
        ...

    def artifacts(self, session_id: str) -> ArtifactReader:
        """The outputs of the session's calls that were too large for the model."""
        ...


class ToolDispatcher:
    """Runs batches of calls.

    Receives: `RunCalls`.
    Sends: `CheckPermissions` and `AskPerson` to the broker, `AppendEvents` to the journal.
    Owns: the running calls, the limits, the resource keys.
    Ends: when cancelled; a batch ends earlier when its scope is cancelled.
    """

    def __init__(
        self,
        mailbox: Mailbox[DispatcherMessage],
        journal: Mailbox[JournalMessage],
        broker: Mailbox[BrokerMessage],
        registry: ToolRegistry,
        handles: ToolHandles,
        limits: Limits,
    ) -> None:
        self._mailbox = mailbox
        self.journal = journal
        self.broker = broker
        self.registry = registry
        self.handles = handles
        self.limits = limits
        self.slots = trio.CapacityLimiter(limits.max_calls_per_runtime)
        # By workspace, as long as a batch has them.
        self._locks: WeakValueDictionary[str, ResourceLocks] = WeakValueDictionary()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        with self._mailbox.open() as messages:
            async with trio.open_nursery() as nursery:
                task_status.started()
                async for request in messages:
                    nursery.start_soon(self._run_batch, request, name=f"calls of {request.turn_id}")

    async def _run_batch(self, request: RunCalls) -> None:
        # The outlet ends whatever happens here: the turn waits for that.
        with request.outlet:
            await _Batch(self, request).run()

    def locks(self, workspace: str) -> ResourceLocks:
        """The keys of a workspace, which its batches share."""
        return self._locks.setdefault(workspace, ResourceLocks())


class _Batch:
    """The calls of one answer."""

    def __init__(self, dispatcher: ToolDispatcher, request: RunCalls) -> None:
        self._dispatcher = dispatcher
        self._request = request
        slots = trio.CapacityLimiter(dispatcher.limits.max_calls_per_session)
        self._admission = Admission(dispatcher.locks(request.workspace), (slots, dispatcher.slots))
        self._proposed_at = trio.current_time()

    async def run(self) -> None:
        """Runs them all, until they are gone."""
        with self._request.scope, ExitStack() as permits:
            ready, finished = self._prepare()
            starting: list[tuple[ReadyCall, Permit]] = []
            waiting: list[tuple[ReadyCall, Decision, Permit | None]] = []
            for call, decision in zip(ready, await self._check(ready), strict=True):
                if decision.verdict == "deny":
                    finished.append(self._finished(call.call, denied(decision, call.tier), call))
                elif decision.verdict == "ask":
                    waiting.append((call, decision, None))
                elif permit := self._admission.admit_nowait(call.resources):
                    starting.append((call, permits.enter_context(permit)))
                else:
                    # Its place is taken here: calls on one key run in the model's order.
                    queued = permits.enter_context(self._admission.enqueue(call.resources))
                    waiting.append((call, decision, queued))
            started = [self._started(call) for call, _ in starting]
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
                ready.append(self._ready(call, call.arguments))
            except ToolFailure as failure:
                finished.append(self._finished(call, failed(failure)))
        return ready, finished

    def _ready(self, call: Call, arguments: str) -> ReadyCall:
        request = self._request
        tool = find_tool(self._dispatcher.registry, call.name, request.agent, request.session_kind)
        most = self._dispatcher.limits.max_arguments_bytes
        if len(arguments) > most or len(arguments.encode(errors="replace")) > most:
            text = f"{call.name}: the arguments are larger than {most} bytes; send less at once."
            raise ToolFailure(ErrorType.VALIDATION_ERROR, text)
        return make_ready(tool, call, arguments, self._context(call, tool.definition.needs))

    def _context(self, call: Call, needs: tuple[Capability, ...]) -> ToolContext:
        """The handles that the tool needs and the session kind allows; others are not opened."""
        request, handles = self._request, self._dispatcher.handles
        writes = Capability.FILES_WRITE in needs
        may_write = request.session_kind is not SessionKind.WORKER

        def on_progress(text: str) -> None:
            # Progress is live only: who can't keep up misses some, and gets the whole result.
            with suppress(trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
                request.outlet.send_nowait(CallProgress(call.call_id, mask(text)))

        return ToolContext(
            session_id=request.session_id,
            turn_id=request.turn_id,
            call_id=call.call_id,
            session_kind=request.session_kind,
            agent=request.agent,
            files_read=handles.files_read(request.workspace)
            if writes or Capability.FILES_READ in needs
            else None,
            files_write=handles.files_write(request.workspace) if writes and may_write else None,
            network=handles.network if Capability.NETWORK in needs else None,
            artifacts=handles.artifacts(request.session_id),
            on_progress=on_progress,
        )

    async def _check(self, calls: Sequence[ReadyCall]) -> tuple[Decision, ...]:
        if not calls:
            return ()
        request = self._request
        try:
            return await self._dispatcher.broker.ask(
                CheckPermissions(
                    session_id=request.session_id,
                    agent=request.agent,
                    questions=tuple(call.question for call in calls),
                )
            )
        except ActorStopped:
            return (BROKER_GONE,) * len(calls)

    # ── waiting, and the effect ──────────────────────────────────────────────────────────────────

    async def _run_later(self, ready: ReadyCall, decision: Decision, permit: Permit | None) -> None:
        """A call that has to wait: for a person, for a key, or for a slot."""
        if decision.verdict == "ask":
            try:
                ready, decision = await self._ask_person(ready, decision)
            except ToolFailure as failure:
                await self._record(self._finished(ready.call, failed(failure), ready))
                return
            if decision.verdict != "allow":
                await self._record(self._finished(ready.call, denied(decision, ready.tier), ready))
                return
        with permit or self._admission.enqueue(ready.resources) as permit:
            await self._admission.admit(permit)
            reads = ready.effect is Effect.READ
            if reads or await self._record(self._started(ready)):
                await self._execute(ready, permit)

    async def _ask_person(self, ready: ReadyCall, decision: Decision) -> tuple[ReadyCall, Decision]:
        """Asks until there is an answer about the arguments that will run."""
        while True:
            answer = await self._wait_answer(ready, decision)
            decided = decided_by(answer)
            if decided.verdict != "allow" or answer.arguments is None:
                return ready, decided
            changed = self._ready(ready.call, answer.arguments)
            (decision,) = await self._check((changed,))
            if decision.verdict == "deny":
                return changed, decision
            if changed.tier.rank <= ready.tier.rank:
                return changed, decided
            ready = changed

    async def _wait_answer(self, ready: ReadyCall, decision: Decision) -> ApprovalAnswer:
        request = self._request
        scope = trio.CancelScope()
        try:
            return await self._dispatcher.broker.ask(
                AskPerson(
                    session_id=request.session_id,
                    turn_id=request.turn_id,
                    question=ready.question,
                    reason=decision.reason,
                    digest=ready.digest(request.workspace, request.agent.policy),
                    scope=scope,
                )
            )
        except CallboardError as error:
            return ApprovalAnswer(decision="deny", reason=str(error), answered_by="callboard")
        finally:
            scope.cancel(reason="the answer is no longer needed")

    async def _execute(self, ready: ReadyCall, permit: Permit) -> None:
        started_at = trio.current_time()
        with permit:
            outcome = await execute(ready, self._dispatcher.limits)
        # No checkpoint between the tool's return and the journal's mailbox: a cancel that comes
        # now can't turn what has happened into "cancelled".
        await self._record(self._finished(ready.call, outcome, ready, started_at))

    # ── the record ───────────────────────────────────────────────────────────────────────────────

    def _started(self, ready: ReadyCall) -> CallStarted:
        return CallStarted(turn_id=self._request.turn_id, call_id=ready.call.call_id)

    def _finished(
        self,
        call: Call,
        outcome: Outcome,
        ready: ReadyCall | None = None,
        started_at: float | None = None,
    ) -> CallFinished:
        since = self._proposed_at if started_at is None else started_at
        return CallFinished(
            turn_id=self._request.turn_id,
            call_id=call.call_id,
            name=call.name,
            status=outcome.status,
            result=outcome.content,
            arguments=ready.arguments.canonical if ready is not None else None,
            display=outcome.display,
            artifacts=outcome.artifacts,
            full_output=outcome.full_output,
            duration_ms=round((trio.current_time() - since) * 1000),
        )

    async def _record(self, *events: DurableEvent) -> bool:
        """Stores events; when that fails the batch is over, since nothing more may happen."""
        request = self._request
        try:
            await self._dispatcher.journal.ask(
                AppendEvents(session_id=request.session_id, events=events)
            )
        except CallboardError as error:
            logger.error("calls of %s end: %s", request.turn_id, error)
            request.scope.cancel(reason="the journal failed")
            return False
        return True

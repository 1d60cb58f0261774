"""The tool dispatcher: runs the calls of an answer side by side, each under its own scope."""

from __future__ import annotations

import trio

from ...config.settings import Limits
from ...runtime.kernel.locks import ResourceLocks, WorkspaceLocks
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    BrokerMessage,
    DispatcherMessage,
    JournalMessage,
    RunCalls,
)
from ...runtime.turns.activity import Activity
from .batch import CallBatch
from .preparation import CallPreparation

MAILBOX_CAPACITY = 256
"""Batches that wait; a session has one at a time."""


class ToolDispatcher:
    """Runs batches of calls.

    Receives: `RunCalls`.
    Sends: `CheckPermissions` and `AskPerson` to the broker, `AppendEvents` to the journal.
    Owns: the running calls and the limits; the resource keys it shares with whoever undoes.
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
    ) -> None:
        self._mailbox = mailbox
        self.journal = journal
        self.broker = broker
        self.preparation = preparation
        self.limits = limits
        self.activity = Activity() if activity is None else activity
        self.slots = trio.CapacityLimiter(limits.max_calls_per_runtime)
        self._locks = WorkspaceLocks() if locks is None else locks

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled."""
        with self._mailbox.open() as messages:
            async with trio.open_nursery() as nursery:
                task_status.started()
                async for request in messages:
                    nursery.start_soon(
                        self._run_batch, request, name=f"calls of {request.place.turn_id}"
                    )

    async def _run_batch(self, request: RunCalls) -> None:
        self.slots.total_tokens = self.limits.max_calls_per_runtime  # it may have been changed
        # The outlet ends whatever happens here: the turn waits for that.
        with request.outlet:
            await CallBatch(self, request).run()

    def locks(self, workspace: str) -> ResourceLocks:
        """The keys of a workspace, which its batches share."""
        return self._locks.of(workspace)

"""The journal: the one writer of the store.

Appends that wait are committed together: under load one transaction, and one fsync, stores hundreds of
them. An append is acknowledged after COMMIT, when its events are in the inbox of their session; a put
into an inbox can neither fail nor wait. So nothing is acknowledged that is not stored, and nothing is
stored that its live session does not get.

A full disk is waited out: the append fails, the session says so, and the next may succeed. An append
that the store refuses (an answer to a question that is no longer open) fails alone. Any other failure
of the disk crashes the journal, and with it, when it does not pass, the runtime.

A store that need not wait, as the one in memory, is written to in the step of whoever appends, while the
journal has nothing else to do.
"""

from __future__ import annotations

import trio

from ..runtime.errors import CallboardError, DiskBroken, StorageFull, ValidationError
from ..runtime.kernel.delivery import EventInboxes
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.messages import AppendEvents, ImportRecords, JournalMessage, PurgeRecords
from ..runtime.redaction import redacting_logger
from ..runtime.store.interface import Store
from ..runtime.store.rows import Append, CommitResult

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 1024
"""Appends that wait: two for each of the 512 calls that may run at once."""
MAX_GROUP = 512
"""Appends in one transaction; a larger one saves little, and delays the first."""


class Journal:
    """Stores the events of all sessions.

    Receives: `AppendEvents`, `PurgeRecords`, `ImportRecords`.
    Sends: committed events into the inboxes of live sessions, before it acknowledges them.
    Owns: the store's write side.
    Ends: when cancelled, after the commit in progress; crashes when the disk fails.
    """

    def __init__(
        self, mailbox: Mailbox[JournalMessage], store: Store, inboxes: EventInboxes
    ) -> None:
        self._mailbox = mailbox
        self._store = store
        self._inboxes = inboxes

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        with self._mailbox.open(self._append_now) as messages:
            task_status.started()
            async for first in messages:
                group: list[JournalMessage] = [first]
                try:
                    while len(group) < MAX_GROUP:
                        group.append(messages.receive_nowait())
                except trio.WouldBlock:
                    pass
                await self._serve(group)

    def _append_now(self, message: JournalMessage) -> bool:
        """Store events if nothing has to wait for that; return whether they are stored."""
        if type(message) is not AppendEvents:
            return False
        try:
            outcomes = self._store.commit_nowait([Append(message.session_id, message.events)])
        except CallboardError as error:
            self._fail([message], error)
            return True
        if outcomes is None:
            return False
        self._acknowledge(message, outcomes[0])
        return True

    async def _serve(self, group: list[JournalMessage]) -> None:
        appends = [each for each in group if isinstance(each, AppendEvents)]
        others = [each for each in group if not isinstance(each, AppendEvents)]
        try:
            if appends:
                await self._commit(appends)
            while others:
                await self._purge_or_import(others.pop(0))
        except BaseException:
            for request in others:
                request.reply.abandon()
            raise

    async def _purge_or_import(self, request: PurgeRecords | ImportRecords) -> None:
        with request.reply:
            try:
                if isinstance(request, PurgeRecords):
                    events = await self._store.purge(request.session_ids)
                else:
                    events = await self._store.bring_in(request.events)
                for stored in events:
                    self._inboxes.put(stored.session_id, (stored,))
            except CallboardError as error:
                request.reply.fail(error)
                if isinstance(error, DiskBroken):
                    raise
                return
            request.reply.send(None)

    async def _commit(self, group: list[AppendEvents]) -> None:
        try:
            outcomes = await self._store.commit(
                [Append(request.session_id, request.events) for request in group]
            )
        except CallboardError as error:
            self._fail(group, error)
            return
        except BaseException:
            for request in group:
                request.reply.abandon()
            raise
        for request, outcome in zip(group, outcomes, strict=True):
            self._acknowledge(request, outcome)

    def _fail(self, group: list[AppendEvents], error: CallboardError) -> None:
        """Tell those who asked that nothing was stored; raise what the journal does not survive."""
        logger.error("nothing of %d appends was stored: %s", len(group), error)
        for request in group:
            request.reply.fail(error)
        # Space may come back, and a refused event says nothing about the disk. Behind a failing disk
        # or a corrupt file the runtime ends, if it does not pass.
        if not isinstance(error, StorageFull | ValidationError):
            raise error

    def _acknowledge(self, request: AppendEvents, outcome: CommitResult) -> None:
        """Give what was stored to its session, then to who asked for it."""
        if isinstance(outcome, CallboardError):
            request.reply.fail(outcome)
        else:
            self._inboxes.put(request.session_id, outcome)
            request.reply.send(outcome)

"""The journal: the one writer of the store.

Appends that wait are committed together: under load one transaction, and one fsync, stores hundreds of
them. An append is acknowledged after COMMIT, when its events are in the inbox of their session; a put
into an inbox can neither fail nor wait. So nothing is acknowledged that is not stored, and nothing is
stored that its live session does not get.

A full disk is waited out: the append fails, the session says so, and the next may succeed. An append
that the store refuses (an answer to a question that is no longer open) fails alone. Any other failure
of the disk crashes the journal, and with it, when it does not pass, the runtime.

While the journal has nothing else to do, a commit begins in the step of whoever appends, and is
acknowledged as soon as it has ended: in memory at once, on a disk when its thread is back. What comes
meanwhile waits for that, and is the next group.
"""

from __future__ import annotations

from functools import partial

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
        self._is_busy = False
        self._idle = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        with self._mailbox.open(self._append_now) as messages:
            task_status.started()
            try:
                async for first in messages:
                    await self._wait_idle(first)
                    group: list[JournalMessage] = [first]
                    try:
                        while len(group) < MAX_GROUP:
                            group.append(messages.receive_nowait())
                    except trio.WouldBlock:
                        pass
                    await self._serve(group)
            finally:
                await self._wait_idle()  # noqa: ASYNC102  shielded, and bounded by the disk

    def _append_now(self, message: JournalMessage) -> bool:
        """Begin to store events; return `False` while others are being stored."""
        if type(message) is not AppendEvents or self._is_busy:
            return False
        self._is_busy = True
        append = Append(message.session_id, message.events)
        has_begun = False
        try:
            has_begun = self._store.commit_soon([append], partial(self._end, message))
        finally:
            self._is_busy = self._is_busy and has_begun
        return has_begun

    def _end(self, request: AppendEvents, ended: list[CommitResult] | BaseException) -> None:
        """Acknowledge what was stored; crash with what the journal does not survive."""
        self._is_busy = False
        self._idle.set()
        try:
            if isinstance(ended, CallboardError):
                self._fail([request], ended)
            elif isinstance(ended, BaseException):
                raise ended
            else:
                self._acknowledge(request, ended[0])
        except Exception as fault:  # the journal's crash, and not that of who calls it back
            request.reply.abandon()
            self._mailbox.crash(fault)

    async def _wait_idle(self, first: JournalMessage | None = None) -> None:
        """Wait for the end of the commit that is under way; shielded, since it will be stored.

        When that crashes the journal, `first` is not begun but abandoned.
        """
        if self._is_busy:
            self._idle = trio.Event()
            with trio.CancelScope(shield=True):
                await self._idle.wait()
            if first is not None:
                try:
                    await trio.lowlevel.checkpoint_if_cancelled()
                except BaseException:
                    first.abandon()
                    raise

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

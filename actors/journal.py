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

A session may go on *ahead* of its own commit: it folds the events and shows nobody what follows from
them. Nobody waits for such an append, so it waits for company: it is committed with the next one
that somebody does wait for, or soon by itself. If it can't be stored, its session goes back to what is
on record, and nothing that it sent meanwhile is stored.
"""

from __future__ import annotations

from functools import partial
from math import inf

import msgspec
import trio

from ..runtime.errors import (
    CallboardError,
    DiskBroken,
    InternalError,
    StorageFull,
    ValidationError,
)
from ..runtime.kernel.delivery import EventInbox, EventInboxes
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.messages import AppendEvents, ImportRecords, JournalMessage, PurgeRecords
from ..runtime.redaction import redacting_logger
from ..runtime.store.codec import encode_event
from ..runtime.store.interface import Store
from ..runtime.store.rows import Append, CommitResult

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 1024
"""Appends that wait: two for each of the 512 calls that may run at once."""
MAX_GROUP = 512
"""Appends in one transaction; a larger one saves little, and delays the first."""
AHEAD_SECONDS = 0.008
"""How long what a session went ahead with waits for company: nobody sees a delay of half a frame, and
the next record of a fast round of model and tool comes within it. PostgreSQL's `commit_delay` is the
precedent, and there even those wait who are waited for."""


class _Entry(msgspec.Struct, frozen=True):
    """An append and who asked for it; `ahead` is the inbox of the session that has gone ahead."""

    request: AppendEvents
    append: Append
    ahead: EventInbox | None = None


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
        self._ahead: list[_Entry] = []
        self._due = inf
        self._patience = trio.CancelScope()
        self._waited_for: frozenset[str] = frozenset()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        with self._mailbox.open(self._append_now) as messages:
            task_status.started()
            try:
                while True:
                    group: list[JournalMessage] = []
                    with trio.CancelScope(deadline=self._due) as self._patience:
                        group.append(await messages.receive())
                    await self._wait_idle(group)
                    if not group and self._begin([]):
                        continue  # what waited long enough; others may go ahead meanwhile
                    try:
                        while len(group) < MAX_GROUP:
                            group.append(messages.receive_nowait())
                    except trio.WouldBlock:
                        pass
                    await self._serve(group)
            finally:
                await self._wait_idle()  # noqa: ASYNC102  shielded, and bounded by the disk
                await self._commit([])  # noqa: ASYNC102  the same

    def _append_now(self, message: JournalMessage) -> bool:
        """Begin to store events; return `False` while others are being stored."""
        if type(message) is not AppendEvents:
            return False
        if message.ahead and self._store.is_slow and self._goes_ahead(message):
            return True
        return not self._is_busy and self._begin([message])

    def _begin(self, group: list[AppendEvents]) -> bool:
        """Begin to store what sessions went ahead with and a group; return whether that could be."""
        ahead = self._take_ahead() if self._ahead else []
        entries = [*ahead, *self._entries(group)]
        if not entries:
            return True
        self._is_busy = True
        self._waited_for = frozenset(request.session_id for request in group)
        has_begun = False
        try:
            appends = [entry.append for entry in entries]
            has_begun = self._store.commit_soon(appends, partial(self._end, entries))
        finally:
            if not has_begun:
                self._is_busy = False
                self._ahead = [*ahead, *self._ahead]
        return has_begun

    def _goes_ahead(self, request: AppendEvents) -> bool:
        """Let a session go on before its events are stored; return `False` when it can't.

        It folds events in the order of the record: not while others of its own are on their way.
        """
        inbox = self._inboxes.get(request.session_id)
        is_behind = self._is_busy and request.session_id in self._waited_for
        if inbox is None or is_behind or len(self._ahead) >= MAX_GROUP:
            return False
        try:
            encoded = tuple(encode_event(event) for event in request.events)
        except ValidationError:
            return False  # the store says so again, to who asks
        events = tuple(event for event, _ in encoded)
        if not inbox.go_ahead(events):
            return False
        self._ahead.append(_Entry(request, Append(request.session_id, events, encoded), inbox))
        if self._due == inf:
            self._due = self._patience.deadline = trio.current_time() + AHEAD_SECONDS
        request.reply.send(())
        return True

    def _take_ahead(self) -> list[_Entry]:
        self._due = self._patience.deadline = inf
        ahead, self._ahead = self._ahead, []
        return ahead

    def _entries(self, group: list[AppendEvents]) -> list[_Entry]:
        """Return what may be stored; refuse what follows from events that were lost."""
        entries: list[_Entry] = []
        for request in group:
            inbox = self._inboxes.get(request.session_id)
            if inbox is not None and inbox.lost is not None:
                request.reply.fail(inbox.lost)
            else:
                entries.append(_Entry(request, Append(request.session_id, request.events)))
        return entries

    def _end(self, entries: list[_Entry], ended: list[CommitResult] | BaseException) -> None:
        """Acknowledge what was stored; crash with what the journal does not survive."""
        self._is_busy = False
        self._idle.set()
        try:
            if isinstance(ended, CallboardError):
                self._fail(entries, ended)
            elif isinstance(ended, BaseException):
                raise ended
            else:
                self._acknowledge(entries, ended)
        except Exception as fault:  # the journal's crash, and not that of who calls it back
            self._abandon([*entries, *self._take_ahead()])
            self._mailbox.crash(fault)

    async def _wait_idle(self, first: list[JournalMessage] | None = None) -> None:
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
                    for request in first:
                        request.abandon()
                    raise

    async def _serve(self, group: list[JournalMessage]) -> None:
        appends = [each for each in group if isinstance(each, AppendEvents)]
        others = [each for each in group if not isinstance(each, AppendEvents)]
        try:
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
        """Store what sessions went ahead with, then a group."""
        entries = [*self._take_ahead(), *self._entries(group)]
        if not entries:
            return
        try:
            outcomes = await self._store.commit([entry.append for entry in entries])
        except CallboardError as error:
            self._fail(entries, error)
            return
        except BaseException:
            self._abandon(entries)
            raise
        self._acknowledge(entries, outcomes)

    def _fail(self, entries: list[_Entry], error: CallboardError) -> None:
        """Tell those who asked that nothing was stored; raise what the journal does not survive."""
        logger.error("nothing of %d appends was stored: %s", len(entries), error)
        for entry in entries:
            self._refuse(entry, error)
        # Space may come back, and a refused event says nothing about the disk. Behind a failing disk
        # or a corrupt file the runtime ends, if it does not pass.
        if not isinstance(error, StorageFull | ValidationError):
            raise error

    def _abandon(self, entries: list[_Entry]) -> None:
        for entry in entries:
            entry.request.reply.abandon()
            if entry.ahead is not None:
                entry.ahead.lose(InternalError("the journal failed; see the log"))

    def _refuse(self, entry: _Entry, error: CallboardError) -> None:
        if entry.ahead is None:
            entry.request.reply.fail(error)
            return
        # Whatever the session went ahead with after this goes too, and with the last of it the time when it is due: once
        # that is over, nobody's message would be received any more.
        left = [other for other in self._ahead if other.ahead is not entry.ahead]
        if not left:
            self._take_ahead()
        self._ahead = left
        entry.ahead.lose(error)

    def _acknowledge(self, entries: list[_Entry], outcomes: list[CommitResult]) -> None:
        """Give what was stored to its session, then to who asked for it."""
        for entry, outcome in zip(entries, outcomes, strict=True):
            request = entry.request
            if isinstance(outcome, CallboardError):
                self._refuse(entry, outcome)
                continue
            self._inboxes.put(request.session_id, outcome)
            if entry.ahead is None:
                request.reply.send(outcome)
            elif len(outcome) < len(request.events):
                self._refuse(entry, InternalError("the record has another result of a call"))

"""The permission desk: questions are answered and grants revoked while nothing runs; so is forgotten.

store                     outermost: closed last
  journal
    broker                no dispatcher and no sessions: an answer waits on record for a runtime
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from ..actors.handles.memories import JournaledMemories
from ..actors.handles.memory_search import IndexedMemories, MemorySearch
from ..actors.journal import MAILBOX_CAPACITY as JOURNAL_CAPACITY
from ..actors.journal import Journal
from ..actors.permissions.broker import MAILBOX_CAPACITY as BROKER_CAPACITY
from ..actors.permissions.broker import PermissionBroker
from ..actors.permissions.record import BrokerServices
from ..actors.session.recovery import close_all_left_open
from ..actors.upkeep.undo import Undoing
from ..runtime.changes.version_log import VersionStore
from ..runtime.kernel.inbox import EventInboxes
from ..runtime.kernel.locks import WorkspaceLocks
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.kernel.supervisor import Supervisor
from ..runtime.memory.index import MemoryIndex
from ..runtime.memory.memories import Memory, MemoryStore
from ..runtime.messages import (
    AnswerApproval,
    ApprovalAnswer,
    ApprovalRequest,
    BrokerMessage,
    JournalMessage,
    RevokeGrant,
    ShowApproval,
)
from ..runtime.store.interface import Store, StoreReader
from ..runtime.taint.marked_files import MarkedFiles


class Desk:
    """Takes answers about what is on record."""

    def __init__(self, broker: Mailbox[BrokerMessage]) -> None:
        self._broker = broker

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """Answers a question that waits; on record on return, and nothing runs by it.

        Raises:
            NotFoundError: There is no such question.
            ConflictError: It has its answer, or has expired.
            ValidationError: The answer can't be taken; the question stays open.
        """
        await self._broker.ask(AnswerApproval(approval_id=approval_id, answer=answer))

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """A question that waits, as it is put to a person by now; see `Runtime.approval`."""
        showing = ShowApproval(approval_id=approval_id, arguments=arguments)
        request: ApprovalRequest = await self._broker.ask(showing)
        return request

    async def revoke(self, grant_id: str, *, revoked_by: str) -> None:
        """Ends a remembered answer.

        Raises:
            NotFoundError: There is no such grant.
            ConflictError: It is revoked already.
        """
        await self._broker.ask(RevokeGrant(grant_id=grant_id, revoked_by=revoked_by))


@asynccontextmanager
async def open_desk(store: Store, services: BrokerServices) -> AsyncGenerator[Desk]:
    """Runs journal and broker around the block; the store stays the caller's.

    What an earlier process left open is closed or suspended first, as a runtime does it. An
    exception of the block comes out as it is.
    """
    broker: Mailbox[BrokerMessage] = Mailbox("permission broker", BROKER_CAPACITY)
    async with _open_journal(store) as (journal, nursery):
        await close_all_left_open(store, journal)
        await Supervisor(nursery).start(
            "permission broker", lambda: PermissionBroker(broker, journal, services), broker
        )
        yield Desk(broker)


@asynccontextmanager
async def open_memories(
    store: Store, index: MemoryIndex | None = None
) -> AsyncGenerator[MemoryStore]:
    """Runs a journal alone around the block, for what is remembered; the store stays the caller's.

    With an index it is filled meanwhile, and closed at the end. An exception of the block comes out
    as it is.
    """
    async with _open_journal(store) as (journal, nursery):
        memories: MemoryStore = JournaledMemories(journal, store)
        if index is not None:
            memories = indexed = IndexedMemories(memories, store, index)
            await nursery.start(indexed.serve, name="index of memories")
        yield memories


@asynccontextmanager
async def open_undoing(
    store: Store, data: Path, forbidden: Sequence[Path]
) -> AsyncGenerator[Undoing]:
    """Runs a journal alone around the block, to undo on; the store stays the caller's.

    What an earlier process left open is closed or suspended first. An exception of the block comes
    out as it is.
    """
    marked_files = MarkedFiles()
    async with _open_journal(store) as (journal, _):
        await close_all_left_open(store, journal)
        marked_files.load(await store.marked_files())
        yield Undoing(
            journal,
            store,
            VersionStore(data),
            forbidden,
            locks=WorkspaceLocks(),
            marked_files=marked_files,
        )


@asynccontextmanager
async def _open_journal(
    store: Store,
) -> AsyncGenerator[tuple[Mailbox[JournalMessage], trio.Nursery]]:
    """A journal around the block, and where others run beside it; ends them all with the block."""
    journal: Mailbox[JournalMessage] = Mailbox("journal", JOURNAL_CAPACITY)
    inboxes = EventInboxes()
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        await Supervisor(nursery).start(
            "journal", lambda: Journal(journal, store, inboxes), journal
        )
        try:
            yield journal, nursery
        except BaseException as error:  # noqa: ASYNC103  raised again below
            raised = error
        finally:
            nursery.cancel_scope.cancel(reason="the desk closed")
    if raised is not None:
        raise raised


async def found_in(
    reader: StoreReader, index: MemoryIndex, agent: str, query: str, *, limit: int
) -> list[Memory]:
    """What an agent's sessions find by words and meaning, without a runtime; closes the index."""
    search = MemorySearch(reader, index)
    try:
        return await search.search(agent, query, limit=limit)
    finally:
        await search.aclose()

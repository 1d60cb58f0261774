"""What people do with whole sessions: rename, fork, delete, restore, purge, search, export, import.

A session and all below it are deleted, restored and purged together. Deleting hides them, ends what
runs, and can be taken back. Purging removes deleted ones for good, with questions, grants, memories,
usage, file versions, and the folder that was made for them.

A purge sets the folder aside under another name, commits, and then removes it. Cut off before the
commit, `_sweep` finds that a session still names the folder and puts it back; cut off after it, no
session does, and the folder is removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress

import msgspec
import trio

from ...runtime.backup.session_file import event_line, head_line, read_sessions
from ...runtime.budget import Budget, checked_budget
from ...runtime.changes.version_log import VersionStore
from ...runtime.definitions import GENERAL_AGENT
from ...runtime.disk.own_folders import OwnFolders
from ...runtime.errors import (
    CallboardError,
    ConflictError,
    NotFoundError,
    StorageError,
    ValidationError,
)
from ...runtime.events import (
    AgentSwitched,
    DurableEvent,
    MessagesDeleted,
    SessionBudgetSet,
    SessionDeleted,
    SessionRestored,
    Stored,
    TitleSet,
)
from ...runtime.identity import RequestKey, now_ms
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    CancelTurn,
    DirectoryMessage,
    ImportRecords,
    JournalMessage,
    PurgeSessions,
    WakeSession,
)
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import Store
from ...runtime.store.lists import Hit, SessionFilter, WordSearch
from ...runtime.store.rows import SessionRow
from ...runtime.text import did_you_mean
from ..conversation.conversation import UnreadableRecord
from ..services import Owners, append_as_owner
from .session_import import imported_events

logger = redacting_logger(__name__)

MAX_TITLE_CHARS = 200
"""Longest title that a person gives; a list shows the first sixty characters."""
MAX_BATCH = 1000
"""Sessions of one request at most: as many as a page of a list has."""
LOOK_SECONDS = 3600.0
"""Pause between two looks for deleted sessions whose time is over, which is counted in days."""
PURGE_SECONDS = 300.0
"""How long the commit of a purge may take, shielded: a thousand large sessions are overwritten in it."""
UNDO_SECONDS = 10.0
"""How long it may take to put back what a failed purge had set aside: a read of the store and some renames."""
DAY_MS = 24 * 3600 * 1000


def checked_title(title: str) -> str:
    """Return a title that is short enough; raise `ValidationError` otherwise."""
    if len(title) > MAX_TITLE_CHARS:
        raise ValidationError(
            f"a title has at most {MAX_TITLE_CHARS} characters; this one has {len(title)}",
            field="title",
        )
    return title


class SessionKeeping:
    """Manages the sessions of one runtime.

    Args:
        journal: Takes events and imports.
        directory: Cancels, wakes and purges sessions.
        store: The record.
        versions: The file versions that calls left.
        folders: The folders that were made for sessions.
        agents: Names of the configured agents.
        end_programs: Ends what a session runs in the background.
        owners: In a cluster, says which sessions are this node's, and claims those of nobody.
    """

    def __init__(
        self,
        journal: Mailbox[JournalMessage],
        directory: Mailbox[DirectoryMessage],
        store: Store,
        versions: VersionStore,
        folders: OwnFolders,
        agents: Collection[str],
        end_programs: Callable[[str], Awaitable[None]],
        owners: Owners | None = None,
    ) -> None:
        self._journal = journal
        self._directory = directory
        self._store = store
        self._versions = versions
        self._folders = folders
        self._agents = agents
        self._end_programs = end_programs
        self._owners = owners
        self._place_of: Callable[[str], str] = str if owners is None else owners.place_of
        self._removing = trio.Lock()

    async def rename(self, session_id: str, title: str) -> None:
        """Set a title, which no model replaces."""
        title = checked_title(" ".join(title.split()))
        if not title:
            raise ValidationError(
                f"a title has 1 to {MAX_TITLE_CHARS} characters; this one has none", field="title"
            )
        await self._append(session_id, TitleSet(title=title))

    async def set_budget(self, session_id: str, budget: Budget | None) -> None:
        """Set the session's own budget, from its next turn on; `None` is no limit."""
        await self._append(session_id, SessionBudgetSet(budget=checked_budget(budget)))

    async def set_agent(self, session_ids: Sequence[str], agent: str, reason: str = "") -> None:
        """Give sessions another agent, from their next turns on; `reason` is as of `AgentSwitched`.

        Of those whose own is gone it is that, without one.
        """
        if agent not in self._agents:
            known = ", ".join(sorted(self._agents))
            close = did_you_mean(agent, self._agents)
            raise NotFoundError(f"there is no agent {agent!r}; there are: {known}.{close}")
        for row in await self._rows(session_ids):
            if row.agent != agent:
                is_gone = row.agent not in self._agents
                why = reason or (f"there is no agent {row.agent!r} now" if is_gone else "")
                await self._append(row.session_id, AgentSwitched(agent=agent, reason=why))

    async def leave_agent(self, agent: str) -> tuple[int, int]:
        """Give General Assistant all sessions of a deleted agent, deleted ones too.

        Return how many, and how many stay: those that other nodes of a cluster have.
        """
        count, kept = 0, set[str]()
        # One that was used meanwhile is on the first page again.
        while moved := await self._leave_agent(agent, kept):
            count += moved
        return count, len(kept)

    async def _leave_agent(self, agent: str, kept: set[str]) -> int:
        moved, reason = 0, f"the agent {agent!r} was deleted"
        wanted = SessionFilter(agent=agent, deleted="also", limit=MAX_BATCH)
        while True:
            page = await self._store.session_page(wanted)
            for row in page.sessions:
                if row.session_id in kept:
                    continue
                try:
                    await self.set_agent([row.session_id], GENERAL_AGENT, reason)
                    moved += 1
                except ConflictError as error:
                    if error.kind not in {"owner", "root"}:
                        raise
                    kept.add(row.session_id)
            if page.next_before is None:
                return moved
            wanted = msgspec.structs.replace(wanted, before=page.next_before)

    async def fork(
        self,
        session_id: str,
        message_id: str | None = None,
        *,
        title: str = "",
        request: RequestKey | None = None,
    ) -> str:
        """Make a session that goes on from a message of another one; return its id. See `forking`.

        Raises:
            NotFoundError: There is no such session or message.
            ConflictError: The session is deleted, or was delegated; or the request was done already.
        """
        from .forking import check_forkable, forked_events  # rare, and a start imports it not

        (row,) = await self._rows([session_id])
        check_forkable(row.kind, session_id, is_deleted=row.deleted_at_ms is not None)
        title = checked_title(title) or row.title
        events = await self._store.events(session_id)

        def make() -> list[Stored]:
            return forked_events(events, message_id, title=title, now_ms=now_ms(), request=request)

        made = await trio.to_thread.run_sync(make)  # a large one takes seconds
        name = made[0].session_id
        await self._journal.ask(ImportRecords(events=tuple(made)))
        if await self._store.session(name) is None:
            raise ConflictError(f"this request was done already: {session_id} is forked")
        return name

    async def delete_messages(self, session_id: str, message_ids: Sequence[str]) -> tuple[str, ...]:
        """Delete messages of a session; return those that were deleted, with the other halves of calls.

        Raises:
            NotFoundError: There is no such session or message; nothing was deleted.
            ConflictError: A turn runs, or waits for a person; nothing was deleted.
        """
        await self._rows([session_id])
        if not 1 <= len(message_ids) <= MAX_BATCH:
            raise ValidationError(f"name 1 to {MAX_BATCH} messages", field="message_ids")
        whole = await self._store.whole_messages(session_id, message_ids)
        await self._append(session_id, MessagesDeleted(message_ids=whole))
        return whole

    async def delete(self, session_ids: Sequence[str]) -> list[str]:
        """Delete sessions and all below them; return the ids that were deleted.

        Their turns are cancelled, and what they run in the background is ended.
        """
        rows = await self._tree(session_ids, lambda row: row.deleted_at_ms is None)
        for row in rows:
            await self._append(row.session_id, SessionDeleted())
        for row in rows:
            with suppress(UnreadableRecord):  # then nothing of it runs
                await self._directory.ask(
                    CancelTurn(
                        session_id=row.session_id,
                        reason="the session was deleted",
                        loads=row.is_active,
                    )
                )
            await self._end_programs(row.session_id)
        return [row.session_id for row in rows]

    async def restore(self, session_ids: Sequence[str]) -> list[str]:
        """Restore deleted sessions; inputs that waited have their turns. Return the ids.

        Raises:
            NotFoundError: One of them does not exist.
            ConflictError: One is below a session that stays deleted; nothing was restored.
        """
        rows = await self._tree(session_ids, lambda row: row.deleted_at_ms is not None)
        restored = {row.session_id for row in rows}
        for row in rows:
            if row.parent_id is None or row.parent_id in restored:
                continue
            above = await self._store.session(row.parent_id)
            if above is not None and above.deleted_at_ms is not None:
                raise ConflictError(
                    f"{row.session_id} is below {above.session_id}, which is deleted: restore that"
                )
        for row in rows:
            await self._append(row.session_id, SessionRestored())
            await self._directory.tell(WakeSession(session_id=row.session_id))
        return [row.session_id for row in rows]

    async def purge(self, session_ids: Sequence[str]) -> list[str]:
        """Remove deleted sessions and all below them for good; return their ids.

        Raises:
            NotFoundError: One of them does not exist.
            ConflictError: One is not deleted; nothing was removed.
        """
        rows = await self._tree(session_ids, lambda row: True)
        for row in rows:
            if row.deleted_at_ms is None:
                raise ConflictError(
                    f"{row.session_id} is not deleted, so it is not purged: delete it first"
                )
        names = tuple(row.session_id for row in rows)
        if names:
            folders = {row.workspace for row in rows if self._folders.holds(row.workspace)}
            async with self._removing:
                await self._forget(names, folders)
        return list(names)

    async def _forget(self, names: tuple[str, ...], folders: Collection[str]) -> None:
        try:
            aside = [each for each in folders if await self._set_aside(each, names)]
            # A commit goes on when its client goes away, so what belongs to it waits for it.
            with trio.move_on_after(PURGE_SECONDS, shield=True) as waited:
                await self._directory.ask(PurgeSessions(session_ids=names))
            if waited.cancelled_caught:
                raise StorageError(f"the purge is not done after {PURGE_SECONDS:g} s: try it again")
        except BaseException:
            with trio.move_on_after(UNDO_SECONDS, shield=True):
                await self._put_back(names, folders)
            raise
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._versions.forget, names)
        if aside:
            await self._sweep()

    async def _put_back(self, names: tuple[str, ...], folders: Collection[str]) -> None:
        """Put folders back when the purge failed; `_sweep` does what can't be done now."""
        try:
            if await self._store.session(names[0]) is not None:  # all are there, or none is
                await trio.to_thread.run_sync(self._folders.put_back, *folders)
            else:
                await trio.to_thread.run_sync(self._versions.forget, names)
        except StorageError as error:
            logger.warning("%s", error)

    async def _set_aside(self, folder: str, names: Collection[str]) -> bool:
        """Set a folder aside unless other sessions work in it; return whether it was."""
        wanted = SessionFilter(workspace=folder, deleted="also", limit=len(names) + 1)
        async with self._folders.using:
            page = await self._store.session_page(wanted)
            if any(row.session_id not in names for row in page.sessions):
                return False
            try:
                await trio.to_thread.run_sync(self._folders.set_aside, folder)
            except StorageError as error:
                logger.warning("%s", error)  # the session is purged nevertheless
                return False
        return True

    async def _sweep(self) -> None:
        """Remove the folders that are set aside, those of earlier processes too.

        A folder that a session names is put back: callboard ended before that session was purged.
        """
        if self._folders.path is None:
            return  # needs no thread, during which a mock clock would jump
        try:
            left = await trio.to_thread.run_sync(self._folders.left)
            places = [self._folders.place_of(each) for each in left]
            named = [each for each in places if await self._is_named(each)]
            await trio.to_thread.run_sync(self._folders.sweep, named)
        except StorageError as error:
            logger.warning("%s", error)

    async def _sweep_versions(self) -> None:
        """Remove the file versions of sessions whose purge was cut off behind its commit."""
        if not self._versions.is_on_disk:
            return  # as above
        try:
            kept = await trio.to_thread.run_sync(self._versions.sessions)
            if gone := set(kept).difference(await self._store.session_tree(kept)):
                await trio.to_thread.run_sync(self._versions.forget, gone)
        except StorageError as error:
            logger.warning("%s", error)

    async def _is_named(self, folder: str) -> bool:
        """Whether any session names the folder; a row may have the path with its links resolved."""
        for path in {folder, str(await trio.Path(folder).resolve())}:
            wanted = SessionFilter(workspace=path, deleted="also", limit=1)
            if (await self._store.session_page(wanted)).sessions:
                return True
        return False

    async def search(self, search: WordSearch) -> list[Hit]:
        """Return the sessions in which words were said, the best first.

        Messages since the last search are indexed first, a step at a time.
        """
        if not 1 <= search.limit <= MAX_BATCH:
            raise ValidationError(f"limit is from 1 to {MAX_BATCH}", field="limit")
        has_more = True
        while has_more:
            has_more = await self._store.index_words()
            await trio.lowlevel.checkpoint()  # others run between two steps in memory, too
        return await self._store.hits(search)

    async def export(self, session_id: str) -> list[bytes]:
        """Return a session and all below it as the lines of a file; see `session_file`.

        What tools kept outside of results, and the files of the workspace, are not in it.
        """
        await self._rows([session_id])
        names = await self._store.session_tree([session_id])
        lines: list[bytes] = []
        for name in names:
            lines += map(event_line, await self._store.shown_events(name))
        return [head_line(names, len(lines), now_ms()), *lines]

    async def import_lines(self, lines: Iterable[bytes], workspace: str) -> str:
        """Store the sessions of a file, all or none; return the new id of the first.

        They get new ids, so that a file can be imported again, and work in `workspace`.
        """

        def check() -> list[Stored]:
            return imported_events(read_sessions(lines), self._place_of(workspace), now_ms())

        events = await trio.to_thread.run_sync(check)  # a large one takes seconds
        await self._journal.ask(ImportRecords(events=tuple(events)))
        return events[0].session_id

    async def purge_expired(self, keep_days: float) -> None:
        """Purge what was deleted so many days ago; a failure is logged."""
        async with self._removing:
            await self._sweep()
            await self._sweep_versions()
        before = now_ms() - round(keep_days * DAY_MS)
        try:
            if purged := await self.purge_deleted(before, MAX_BATCH):
                logger.info("%d deleted sessions were purged", purged)
        except CallboardError as error:
            logger.error("deleted sessions can't be purged: %s", error)

    async def purge_deleted(self, before_ms: int, most: int) -> int:
        """Purge sessions that were deleted before a time, the oldest first; return how many.

        A session is left out when anything below it is not deleted. Stops when `most` is reached.
        """
        purged: set[str] = set()
        for session_id in await self._store.expired_sessions(before_ms):
            if len(purged) >= most:
                break
            if session_id in purged:
                continue
            try:
                purged.update(await self.purge([session_id]))
            except (ConflictError, NotFoundError) as error:  # others are purged nevertheless
                logger.debug("%s", error)
        return len(purged)

    async def _tree(
        self, session_ids: Sequence[str], wanted: Callable[[SessionRow], bool]
    ) -> list[SessionRow]:
        await self._rows(session_ids)
        tree = await self._store.session_tree(session_ids)
        found = [await self._store.session(each) for each in tree]
        return [row for row in found if row is not None and wanted(row)]

    async def _rows(self, session_ids: Sequence[str]) -> list[SessionRow]:
        if not 1 <= len(session_ids) <= MAX_BATCH:
            raise ValidationError(f"name 1 to {MAX_BATCH} sessions", field="session_ids")
        rows = []
        for session_id in session_ids:
            row = await self._store.session(session_id)
            if row is None:
                raise NotFoundError(f"there is no session {session_id}")
            rows.append(row)
        return rows

    async def _append(self, session_id: str, event: DurableEvent) -> None:
        """Store an event; raise `ConflictError` if another node of the cluster has the session."""
        await append_as_owner(self._journal, self._owners, session_id, event)

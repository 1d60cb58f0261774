"""What people do with whole sessions: name, delete, restore, purge, give another agent, search.

A session and all below it are deleted, restored and purged together. Deleting hides, ends what runs,
and can be taken back; purging removes what was deleted for good, with its questions, grants, memories,
usage, the file versions that its calls left, and the folder that was made for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress

import trio

from ...runtime.backup.session_file import event_line, head_line, read_sessions
from ...runtime.changes.version_log import VersionStore
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
    SessionDeleted,
    SessionRestored,
    Stored,
    TitleSet,
)
from ...runtime.identity import now_ms
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    AppendEvents,
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
from ..conversation.conversation import UnreadableRecord
from .session_import import imported_events

logger = redacting_logger(__name__)

MAX_TITLE_CHARS = 200
"""Of a title that a person gives; a list shows the first sixty."""
MAX_BATCH = 1000
"""Sessions of one request: as many as a page of a list has."""
LOOK_SECONDS = 3600.0
"""Between two looks for deleted sessions whose time is over: it is counted in days."""
PURGE_SECONDS = 300.0
"""For the commit of a purge, whoever is cancelled: a thousand large sessions are overwritten in it."""
UNDO_SECONDS = 10.0
"""For what a purge that failed gives back: a read of the store and names on a disk."""
DAY_MS = 24 * 3600 * 1000


def checked_title(title: str) -> str:
    """A title that a session can have, or none; raises `ValidationError`."""
    if len(title) > MAX_TITLE_CHARS:
        raise ValidationError(
            f"a title has at most {MAX_TITLE_CHARS} characters; this one has {len(title)}",
            field="title",
        )
    return title


class SessionKeeping:
    """Does it for one runtime.

    Args:
        journal: Where it goes on record.
        directory: Where the sessions are that are live.
        store: Where all are.
        versions: What their calls left of files.
        folders: Those that were made for them.
        agents: Those that there are, by name.
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
    ) -> None:
        self._journal = journal
        self._directory = directory
        self._store = store
        self._versions = versions
        self._folders = folders
        self._agents = agents
        self._end_programs = end_programs
        self._removing = trio.Lock()

    async def rename(self, session_id: str, title: str) -> None:
        """Gives a title, which no model replaces."""
        title = checked_title(" ".join(title.split()))
        if not title:
            raise ValidationError(
                f"a title has 1 to {MAX_TITLE_CHARS} characters; this one has none", field="title"
            )
        await self._append(session_id, TitleSet(title=title))

    async def set_agent(self, session_ids: Sequence[str], agent: str) -> None:
        """Has another agent's configuration hold from their next turns on."""
        if agent not in self._agents:
            known = ", ".join(sorted(self._agents))
            raise NotFoundError(f"there is no agent {agent!r}; there are: {known}")
        for row in await self._rows(session_ids):
            if row.agent != agent:
                await self._append(row.session_id, AgentSwitched(agent=agent))

    async def delete(self, session_ids: Sequence[str]) -> list[str]:
        """Hides sessions and all below them; gives what was hidden.

        Their turns are cancelled, and what they run in the background is ended.
        """
        rows = await self._tree(session_ids, lambda row: row.deleted_at_ms is None)
        for row in rows:
            await self._append(row.session_id, SessionDeleted())
        for row in rows:
            with suppress(UnreadableRecord):  # nothing of it runs
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
        """Takes a deletion back; inputs that waited have their turns.

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
        """Removes deleted sessions for good, and all below them; gives what was removed.

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
            # A client that goes away stops no commit: what goes with the sessions waits for it.
            with trio.move_on_after(PURGE_SECONDS, shield=True) as waited:
                await self._directory.ask(PurgeSessions(session_ids=names))
            if waited.cancelled_caught:
                raise StorageError(f"the purge is not done after {PURGE_SECONDS:g} s: try it again")
        except BaseException:
            with trio.move_on_after(UNDO_SECONDS, shield=True):
                await self._put_back(names, folders)
            raise
        with trio.CancelScope(shield=True):  # nobody comes back to them; it is done at once
            await trio.to_thread.run_sync(self._versions.forget, names)
        if aside:
            await self._sweep()

    async def _put_back(self, names: tuple[str, ...], folders: Collection[str]) -> None:
        """Leaves sessions that were not purged their folders; `_sweep` does what can't be done now."""
        try:
            if await self._store.session(names[0]) is not None:  # all are there, or none is
                await trio.to_thread.run_sync(self._folders.put_back, *folders)
            else:
                await trio.to_thread.run_sync(self._versions.forget, names)
        except StorageError as error:
            logger.warning("%s", error)

    async def _set_aside(self, folder: str, names: Collection[str]) -> bool:
        """Whether no other session works in the folder that was made for these, nor will."""
        wanted = SessionFilter(workspace=folder, deleted="also", limit=len(names) + 1)
        async with self._folders.using:
            page = await self._store.session_page(wanted)
            if any(row.session_id not in names for row in page.sessions):
                return False
            try:
                await trio.to_thread.run_sync(self._folders.set_aside, folder)
            except StorageError as error:
                logger.warning("%s", error)  # it keeps no session from being forgotten
                return False
        return True

    async def _sweep(self) -> None:
        """Removes the folders of purged sessions, also those that could not be removed before.

        One that a session names goes back: callboard ended before that session was forgotten.
        """
        if self._folders.path is None:
            return  # without a thread: a mock clock would jump meanwhile
        try:
            left = await trio.to_thread.run_sync(self._folders.left)
            places = [self._folders.place_of(each) for each in left]
            named = [each for each in places if await self._is_named(each)]
            await trio.to_thread.run_sync(self._folders.sweep, named)
        except StorageError as error:
            logger.warning("%s", error)

    async def _is_named(self, folder: str) -> bool:
        """Whether any session is to work there; a row may have the path without its links."""
        for path in {folder, str(await trio.Path(folder).resolve())}:
            wanted = SessionFilter(workspace=path, deleted="also", limit=1)
            if (await self._store.session_page(wanted)).sessions:
                return True
        return False

    async def search(self, search: WordSearch) -> list[Hit]:
        """Sessions in which words were said, the best first.

        Messages since the last search are taken into the index first, a step at a time.
        """
        if not 1 <= search.limit <= MAX_BATCH:
            raise ValidationError(f"limit is from 1 to {MAX_BATCH}", field="limit")
        has_more = True
        while has_more:
            has_more = await self._store.index_words()
            await trio.lowlevel.checkpoint()  # others run between two steps in memory, too
        return await self._store.hits(search)

    async def export(self, session_id: str) -> list[bytes]:
        """A session and all below it as the lines of a file; see `session_file`.

        What tools kept outside of results, and the files of the workspace, are not in it.
        """
        await self._rows([session_id])
        names = await self._store.session_tree([session_id])
        lines: list[bytes] = []
        for name in names:
            lines += map(event_line, await self._store.events(name))
        return [head_line(names, len(lines), now_ms()), *lines]

    async def import_lines(self, lines: Iterable[bytes], workspace: str) -> str:
        """Stores the sessions of a file, all or none; gives the id of the first.

        They get ids of their own, so that a file can be imported again, and work in `workspace`.
        """

        def check() -> list[Stored]:
            return imported_events(read_sessions(lines), workspace, now_ms())

        events = await trio.to_thread.run_sync(check)  # a large one takes seconds
        await self._journal.ask(ImportRecords(events=tuple(events)))
        return events[0].session_id

    async def purge_expired(self, keep_days: float) -> None:
        """Purges what was deleted so many days ago; what fails is logged."""
        async with self._removing:
            await self._sweep()
        before = now_ms() - round(keep_days * DAY_MS)
        try:
            if purged := await self.purge_deleted(before, MAX_BATCH):
                logger.info("%d deleted sessions were purged", purged)
        except CallboardError as error:
            logger.error("deleted sessions can't be purged: %s", error)

    async def purge_deleted(self, before_ms: int, most: int) -> int:
        """Purges sessions that were deleted before a time, the first first; gives how many.

        Each with all below it: those of which something is not deleted are left out. It ends with the
        one that reaches `most`.
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
        await self._journal.ask(AppendEvents(session_id=session_id, events=(event,)))

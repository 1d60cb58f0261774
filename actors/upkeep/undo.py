"""Undoing what calls changed in files, because a person said so. No tool and no model reaches this.

An undo holds the lock of the whole workspace, so that no call works there meanwhile, and refuses to
start while a turn of the session runs. Put back files keep their taint marks in step, whatever cuts
the undo off.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from ...runtime.changes.file_versions import KnownChange
from ...runtime.changes.undo_report import ChangedCall, UndoReport
from ...runtime.changes.version_log import VersionStore
from ...runtime.definitions import CallStatus, Resource
from ...runtime.errors import CallboardError, ConflictError, NotFoundError
from ...runtime.events import ChangesUndone, DurableEvent, FilesMarked
from ...runtime.identity import new_id
from ...runtime.kernel.locks import WorkspaceLocks
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AppendEvents, JournalMessage
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import CallRow, SessionRow
from ...runtime.taint.marked_files import MarkedFiles
from ...runtime.taint.tracked_files import FileWatch
from ...tools.processes.threads import run_read, run_write

if TYPE_CHECKING:  # imported where something is undone: few programs do
    from ...tools.undo.plan import UndoPlan
    from ...tools.undo.undo import Undo

MAX_TOLD = 5
"""Paths that a message names; a dry run names them all."""

logger = redacting_logger(__name__)


class Undoing:
    """Undoes changes.

    Args:
        versions: What files were before.
        forbidden: Folders that no workspace may contain.
        locks: Locks of the workspaces, shared with calls.
        marked_files: The files that tainted sessions wrote.
        running: Describes the programs that a session runs in the background.
    """

    def __init__(
        self,
        journal: Mailbox[JournalMessage],
        store: StoreReader,
        versions: VersionStore,
        forbidden: Sequence[Path],
        *,
        locks: WorkspaceLocks,
        marked_files: MarkedFiles,
        running: Callable[[str], tuple[str, ...]] = lambda session_id: (),
    ) -> None:
        self._journal = journal
        self._store = store
        self._versions = versions
        self._forbidden = tuple(forbidden)
        self._locks = locks
        self._marked_files = marked_files
        self._running = running

    async def changes(self, session_id: str) -> list[ChangedCall]:
        """Return the changes on record of a session."""
        from ...tools.undo.undo import changed_calls

        await self._session(session_id)
        return changed_calls(await run_read(self._versions.changes, session_id))

    async def undo(
        self,
        session_id: str,
        call_id: str | None,
        *,
        force: bool = False,
        dry_run: bool = False,
        undone_by: str,
    ) -> UndoReport:
        """See `Session.undo`."""
        from ...tools.undo.undo import Undo

        row = await self._session(session_id)
        await self._check_idle(session_id)
        watch = FileWatch(self._marked_files, row.workspace)
        undo = Undo(row.workspace, self._forbidden, self._versions.log(session_id), session_id)
        if dry_run:
            plan, programs = await self._plan(undo, call_id, force)
            return undo.report(plan, "", programs, self._running(session_id))
        async with self._whole_workspace(row.workspace):
            await self._check_idle(session_id)
            plan, programs = await self._plan(undo, call_id, force)
            undo_id = new_id("undo")
            report = undo.report(plan, undo_id, programs, self._running(session_id))
            if report.left and not force:
                raise _in_the_way(report.left, any(each.is_forceable for each in plan.problems))
            event = ChangesUndone(
                undo_id=undo_id,
                call_ids=report.call_ids,
                paths=len(report.lines),
                left=len(report.left),
                undone_by=undone_by,
                is_forced=force,
            )
            try:
                await self._run(undo, plan, event, watch)
            except ConflictError as error:
                raise _while_running(error, report.running) from error
            return report

    async def _plan(
        self, undo: Undo, call_id: str | None, force: bool
    ) -> tuple[UndoPlan, list[str]]:
        known = await run_read(self._versions.changes, undo.session_id)
        programs = await program_changes(self._store, undo.session_id, call_id, known)
        return await run_read(undo.planned, known, call_id, force, programs), programs

    async def _run(
        self, undo: Undo, plan: UndoPlan, event: ChangesUndone, watch: FileWatch
    ) -> None:
        events: list[DurableEvent] = []
        try:
            await run_write(undo.run, plan, event.undo_id, watch)
            events.append(event)
        finally:
            # Cancelled or failed, files that were put back are there: so are their marks.
            marked, cleared = watch.end()
            if marked or cleared:
                events.insert(0, FilesMarked(call_id=event.undo_id, marked=marked, cleared=cleared))
            with trio.CancelScope(shield=True):
                await self._append(undo.session_id, events)  # noqa: ASYNC102  the journal answers

    async def _append(self, session_id: str, events: list[DurableEvent]) -> None:
        if not events:
            return
        try:
            await self._journal.ask(AppendEvents(session_id=session_id, events=tuple(events)))
        except CallboardError as error:
            logger.error("an undo of %s is not in its journal: %s", session_id, error)
            raise

    async def _session(self, session_id: str) -> SessionRow:
        row = await self._store.session(session_id)
        if row is None:
            raise NotFoundError(f"there is no session {session_id}")
        return row

    async def _check_idle(self, session_id: str) -> None:
        for turn in await self._store.open_turns():
            if turn.session_id == session_id and not turn.is_suspended:
                raise ConflictError(
                    "A turn of this session runs, and may change the same files: wait for its end, "
                    "or cancel it. Nothing was undone."
                )

    @asynccontextmanager
    async def _whole_workspace(self, workspace: str) -> AsyncGenerator[None]:
        locks = self._locks.of(workspace)
        claim = locks.enqueue((Resource(""),))
        try:
            await locks.wait(claim)
            yield
        finally:
            locks.release(claim)


def _while_running(error: ConflictError, running: tuple[str, ...]) -> ConflictError:
    """Add the programs that may have changed the file at which an undo stopped."""
    if not running:
        return error
    return ConflictError(f"{error} Still running: {'; '.join(running[:MAX_TOLD])}. End that first.")


def _in_the_way(left: tuple[str, ...], is_forceable: bool) -> ConflictError:
    more = f"; and {len(left) - MAX_TOLD} more" if len(left) > MAX_TOLD else ""
    what = "; ".join(left[:MAX_TOLD]) + more
    how = (
        "With force (--force) it is put back all the same, and what is there now is kept, so that "
        "this can be undone too."
        if is_forceable
        else "With force (--force) the rest is undone."
    )
    return ConflictError(f"Nothing was undone: {what}. {how}")


MAX_CALLS = 100
"""Latest calls of each tool that are looked at: whoever undoes wants to know of those."""
PROGRAM_TOOLS = ("run_code", "shell", "run_tests", "format_code", "install_package")


async def program_changes(
    store: StoreReader, session_id: str, call_id: str | None, known: Iterable[KnownChange]
) -> list[str]:
    """Return a line for each call whose program changed what can't be undone, or may have.

    Args:
        store: Where the calls are.
        session_id: Whose.
        call_id: Only of this call.
        known: What is on record of the session's changes.
    """
    unkept = {each.change.call_id: each.change.unkept for each in known}
    rows: list[CallRow] = []
    for name in PROGRAM_TOOLS:
        rows += await store.calls(session_id=session_id, name=name, limit=MAX_CALLS)
    rows.sort(key=lambda row: row.proposed_at_ms, reverse=True)
    asked = [row for row in rows if call_id in {None, row.call_id}]
    return [line for row in asked if (line := _line(row, unkept))]


def _line(row: CallRow, unkept: Mapping[str, tuple[str, ...]]) -> str:
    who = f"{row.call_id} ({row.name})"
    if row.call_id in unkept:
        rest = "; ".join(unkept[row.call_id])
        return f"{who}: {rest}" if rest else ""
    if row.status in {CallStatus.CANCELLED, CallStatus.INTERRUPTED} and row.started_at_ms:
        return f"{who}: it was ended, and what it changed is not known"
    result = _result(row.result)
    changed, why = result.get("changed"), result.get("not_undoable")
    because = "; ".join(map(str, why)) if isinstance(why, list) else ""
    if not isinstance(changed, dict):
        return f"{who}: {because}" if because else ""
    if "not_looked_at" in changed:
        return f"{who}: what it changed is not known: {changed['not_looked_at']}"
    kinds = [
        f"{kind} {', '.join(map(str, changed[kind]))}"
        for kind in ("created", "modified", "deleted")
        if isinstance(changed.get(kind), list)
    ]
    more = f" and {changed['more']} more" if "more" in changed else ""
    because = f" ({because})" if because else ""
    return f"{who}: {'; '.join(kinds)}{more}{because}" if kinds else ""


def _result(text: str | None) -> dict[str, Any]:
    """Return the content of a result; of one that was cut, nothing."""
    try:
        whole = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
    inner = whole.get("result")
    return dict(inner) if isinstance(inner, dict) else whole

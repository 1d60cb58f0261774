"""Undoing what calls changed in files, because a person said so. No tool and no model reaches this.

An undo holds the lock of the whole workspace, so that no call works there meanwhile, and refuses to
start while a turn of the session runs, or of one below it: what those to which it delegated changed is
undone with it, in the order of time. Put back files keep their taint marks in step, whatever cuts
the undo off.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
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
    from ...runtime.kernel.lease_gate import Holding  # and this, where there are nodes
    from ...tools.undo.plan import UndoPlan
    from ...tools.undo.undo import Undo
    from ..services import Owners

MAX_TOLD = 5
"""Paths that a message names; a dry run names them all."""

logger = redacting_logger(__name__)


class Undoing:
    """Undoes changes.

    Args:
        versions: What files were before.
        forbidden: Folders that no workspace may contain.
        locks: Locks of the workspaces, shared with calls.
        holding: Holds paths against other nodes; see `LeaseGate`.
        marked_files: The files that tainted sessions wrote.
        owners: Where several nodes share a record: finds the folder of a session as its calls do, or refuses it.
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
        holding: Holding | None = None,
        marked_files: MarkedFiles,
        owners: Owners | None = None,
        running: Callable[[str], tuple[str, ...]] = lambda session_id: (),
    ) -> None:
        self._journal = journal
        self._store = store
        self._versions = versions
        self._forbidden = tuple(forbidden)
        self._locks = locks
        self._holding = holding
        self._marked_files = marked_files
        self._owners = owners
        self._running = running

    async def changes(self, session_id: str) -> list[ChangedCall]:
        """Return the changes on record of a session, and of those below it."""
        from ...tools.undo.undo import changed_calls

        await self._session(session_id)
        names = await self._store.session_tree([session_id])
        return changed_calls(await run_read(self._versions.changes, *names))

    async def clear_unfinished(self, session_ids: Iterable[str]) -> None:
        """Remove what changes of sessions left in their workspaces when a crash cut them off."""
        for session_id in session_ids:
            from ...tools.undo.undo import clear_unfinished  # few starts have any

            try:
                workspace, is_real = await self._folder_of(await self._session(session_id))
                known = await run_read(self._versions.changes, session_id)
                clear = partial(clear_unfinished, is_real=is_real)
                await run_write(clear, workspace, self._forbidden, known)
            except CallboardError as error:
                logger.warning("%s was not looked through: %s", session_id, error)

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

        workspace, is_real = await self._folder_of(await self._session(session_id))
        tree = await self._idle_tree(session_id)
        watch = FileWatch(self._marked_files, workspace)
        has_nodes = self._owners is not None
        undo = Undo(
            workspace, self._forbidden, self._versions.log, is_real=is_real, has_nodes=has_nodes
        )
        if dry_run:
            plan, programs = await self._plan(undo, tree, call_id, force)
            return await run_read(undo.report, plan, "", programs, self._running_in(tree))
        async with self._whole_workspace(workspace):
            tree = await self._idle_tree(session_id)
            plan, programs = await self._plan(undo, tree, call_id, force)
            undo_id = new_id("undo")
            report = undo.report(plan, undo_id, programs, self._running_in(tree))
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
                await self._run(session_id, undo, plan, event, watch)
            except ConflictError as error:
                raise _while_running(error, report.running) from error
            return report

    async def _plan(
        self, undo: Undo, tree: Sequence[str], call_id: str | None, force: bool
    ) -> tuple[UndoPlan, list[str]]:
        known = await run_read(self._versions.changes, *tree)
        delegated = await delegated_by(self._store, tree, call_id)
        programs = await program_changes(self._store, tree, call_id, known, delegated)
        return await run_read(undo.planned, known, call_id, force, programs, delegated), programs

    async def _run(
        self, session_id: str, undo: Undo, plan: UndoPlan, event: ChangesUndone, watch: FileWatch
    ) -> None:
        events: dict[str, list[DurableEvent]] = {session_id: []}
        try:
            await run_write(undo.run, plan, event.undo_id, watch)
            events[session_id].append(event)
            for name, undone in _per_session(plan, event):
                events.setdefault(name, [undone])
        finally:
            # Cancelled or failed, files that were put back are there: so are their marks.
            marked, cleared = watch.end()
            if marked or cleared:
                events[session_id].insert(
                    0, FilesMarked(call_id=event.undo_id, marked=marked, cleared=cleared)
                )
            with trio.CancelScope(shield=True):
                await self._append(events)  # noqa: ASYNC102  the journal answers

    def _running_in(self, tree: Iterable[str]) -> tuple[str, ...]:
        return tuple(line for name in tree for line in self._running(name))

    async def _append(self, events: Mapping[str, Sequence[DurableEvent]]) -> None:
        for session_id, its in events.items():
            if not its:
                continue
            try:
                await self._journal.ask(AppendEvents(session_id=session_id, events=tuple(its)))
            except CallboardError as error:
                logger.error("an undo of %s is not in its journal: %s", session_id, error)
                raise

    async def _session(self, session_id: str) -> SessionRow:
        row = await self._store.session(session_id)
        if row is None:
            raise NotFoundError(f"there is no session {session_id}")
        return row

    async def _folder_of(self, row: SessionRow) -> tuple[str, bool]:
        """Return the folder in which the calls of a session work, and whether it is in a root that no link leads out of.

        Raises `CallboardError` if none may work there, as by now a link leads out of its root.
        """
        if self._owners is None:
            return row.workspace, False
        folder = await self._owners.folder_of(row.session_id, row.workspace)
        return folder, self._owners.is_confined(folder)

    async def _idle_tree(self, session_id: str) -> list[str]:
        """Return the session and all below it, none of which has a turn that runs."""
        tree = await self._store.session_tree([session_id])
        for turn in await self._store.open_turns():
            if turn.session_id in tree and not turn.is_suspended:
                whose = "this session"
                if turn.session_id != session_id:
                    whose = f"{turn.session_id}, to which this session delegated,"
                raise ConflictError(
                    f"A turn of {whose} runs, and may change the same files: wait for its end, "
                    "or cancel it. Nothing was undone."
                )
        return tree

    @asynccontextmanager
    async def _whole_workspace(self, workspace: str) -> AsyncGenerator[None]:
        locks = self._locks.of(workspace)
        claim = locks.enqueue((Resource(""),))
        try:
            await locks.wait(claim)
            if self._holding is None:
                yield
            else:
                async with self._holding(workspace, claim.resources):
                    yield
        finally:
            locks.release(claim)


def _per_session(plan: UndoPlan, event: ChangesUndone) -> Iterator[tuple[str, ChangesUndone]]:
    """Yield what was undone of each session, for its own record."""
    reversals = sorted(plan.reversals, key=lambda each: each.change.session_id)
    for session_id, its in groupby(reversals, lambda each: each.change.session_id):
        done = list(its)
        calls = dict.fromkeys(each.change.call_id for each in done)
        yield (
            session_id,
            msgspec.structs.replace(
                event,
                call_ids=tuple(calls),
                paths=sum(len(each.actions) for each in done),
                left=sum(len(each.left) for each in done),
            ),
        )


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


async def delegated_by(store: StoreReader, tree: Iterable[str], call_id: str | None) -> list[str]:
    """Return the sessions to which a call of one of the sessions delegated, and all below them."""
    if call_id is None:
        return []
    begun = [row.session_id for name in tree for row in await store.children(name, call_id=call_id)]
    return await store.session_tree(begun)


async def program_changes(
    store: StoreReader,
    tree: Iterable[str],
    call_id: str | None,
    known: Iterable[KnownChange],
    delegated: Collection[str] = (),
) -> list[str]:
    """Return a line for each call whose program changed what can't be undone, or may have.

    Args:
        store: Where the calls are.
        tree: Whose.
        call_id: Only of this call.
        known: What is on record of the changes.
        delegated: The sessions to which the call delegated.
    """
    unkept = {each.change.call_id: each.change.unkept for each in known}
    rows: list[CallRow] = []
    for session_id in tree:
        for name in PROGRAM_TOOLS:
            rows += await store.calls(session_id=session_id, name=name, limit=MAX_CALLS)
    rows.sort(key=lambda row: row.proposed_at_ms, reverse=True)
    asked = [row for row in rows if call_id in {None, row.call_id} or row.session_id in delegated]
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

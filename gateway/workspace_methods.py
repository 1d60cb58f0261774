"""`session/undo`, `session/changes` and `root/…`: what happens to files, and where it may."""

from __future__ import annotations

import trio

from ..embedded import host_of
from ..runtime.undo_report import UndoReport
from ..runtime.wire.roles import Role
from ..runtime.wire.sessions import OneSession
from ..runtime.wire.workspaces import Changes, Root, Roots, UndoChanges
from .caller import Caller
from .methods import MethodTable, Nothing
from .workspaces import checked_root

methods = MethodTable()


@methods.add("session/undo", Role.OPERATOR, is_slow=True)
async def undo(caller: Caller, params: UndoChanges) -> UndoReport:
    """Takes back what calls changed in files, the latest change first; or says what it would do."""
    await caller.session(params.session_id)
    return await host_of(caller.runtime).undoing.undo(
        params.session_id,
        params.call_id,
        force=params.force,
        dry_run=params.dry_run,
        undone_by=caller.name,
    )


@methods.add("session/changes", Role.OBSERVER)
async def changes(caller: Caller, params: OneSession) -> Changes:
    """The calls whose changes of files can be undone, and what was."""
    await caller.session(params.session_id)
    return Changes(await host_of(caller.runtime).undoing.changes(params.session_id))


@methods.add("root/list", Role.OPERATOR)
def list_roots(caller: Caller, params: Nothing) -> Roots:
    """The folders below which sessions may work."""
    return Roots(list(caller.daemon.roots))


@methods.add("root/add", Role.ADMIN)
async def add_root(caller: Caller, params: Root) -> Roots:
    """Lets sessions work below one more folder, until the daemon ends."""
    caller.daemon.add_root(await trio.to_thread.run_sync(checked_root, params.path))
    return Roots(list(caller.daemon.roots))

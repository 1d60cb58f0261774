"""The daemon as a whole: backup, configuration, prices, usage, budgets, undo, roots."""

from __future__ import annotations

import time
from pathlib import Path

import trio

from ...config.prices import Prices
from ...config.setting_rows import SettingRow, SettingRows
from ...config.usage_sums import UsageReport, UsageSums, read_usage
from ...embedding.runtime import data_of, host_of
from ...runtime.backup.backup import write_backup
from ...runtime.changes.undo_report import UndoReport
from ...runtime.errors import ConflictError, PermissionRefused, StorageError
from ...runtime.identity import new_id
from ...runtime.kernel.live_lists import ListName
from ...runtime.wire import daemon as wire
from ...runtime.wire.fields import Role
from ...runtime.wire.sessions import GetUsage, OneSession, SetBudget
from ...tools.workspace.roots import check_root
from ..connection.caller import Caller
from ..connection.method_table import MethodTable, Nothing
from ..shared.workspaces import own_folders

FOLDER = "backups"
"""The folder of backups in the data folder: clients name no paths on the daemon's machine."""

methods = MethodTable()


@methods.add("store/backup", Role.ADMIN, is_slow=True)
async def back_up(caller: Caller, params: Nothing) -> wire.BackupMade:
    """Copy the store into a new file of the data folder, while work goes on."""
    data = data_of(caller.runtime)
    if data is None:
        raise ConflictError("this runtime keeps everything in memory: there is nothing to back up")
    path, size = await trio.to_thread.run_sync(_written, data)
    return wire.BackupMade(path=str(path), size_bytes=size)


def _written(data: Path) -> tuple[Path, int]:
    folder = data / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} can't be made: {error.strerror or error}") from error
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{new_id('backup')}.db"
    return path, write_backup(data, path)


@methods.add("config/reload", Role.ADMIN, is_slow=True)
async def reload(caller: Caller, params: Nothing) -> wire.Reloaded:
    """Read the configuration again, whole or not at all, as SIGHUP does."""
    daemon = caller.daemon
    if daemon.configuration is None:
        raise ConflictError(
            "this server belongs to a program, which has its settings: there is no file to read"
        )
    # Several commands may come at once, and each asks.
    return await daemon.configuration.reload(host_of(daemon.runtime), may_be_read=True)


@methods.add("settings/get", Role.ADMIN)
async def get_settings(caller: Caller, params: Nothing) -> SettingRows:
    """Return every setting in force and where it stands, without secrets."""
    return SettingRows(await caller.runtime.settings.list())


@methods.add("settings/set", Role.ADMIN)
async def set_setting(caller: Caller, params: wire.OneSetting) -> SettingRow:
    """Set a setting that bounds or paces work, which holds at once; or take back what was set."""
    return await caller.runtime.settings.set(params.name, params.value)


@methods.add("price/list", Role.OBSERVER)
async def list_prices(caller: Caller, params: Nothing) -> Prices:
    """List prices of models, in US dollars for a million tokens, the operator's own first."""
    return await trio.to_thread.run_sync(host_of(caller.runtime).force.prices.rows)


@methods.add("usage/get", Role.OBSERVER, is_slow=True)
async def get_usage(caller: Caller, params: GetUsage) -> UsageReport:
    """Sum up tokens of model calls, and their cost at present prices."""
    if params.session_id is not None:
        await caller.session(params.session_id)
    elif caller.is_limited:
        raise PermissionRefused("this token is not for all sessions: name one of its own")
    sums = UsageSums(params.by, host_of(caller.runtime).force.prices)
    return await read_usage(
        caller.runtime.store, sums, session_id=params.session_id, since_ms=params.since_ms
    )


@methods.add("session/set_budget", Role.OPERATOR, about="session_id")
async def set_budget(caller: Caller, params: SetBudget) -> Nothing:
    """Set a session's budget, from its next turn on."""
    await caller.session(params.session_id)
    session = await caller.runtime.get_session(params.session_id)
    await session.set_budget(params.budget)
    return Nothing()


@methods.add("session/undo", Role.OPERATOR, is_slow=True, about="session_id")
async def undo(caller: Caller, params: wire.UndoChanges) -> UndoReport:
    """Undo what calls changed in files, the latest change first; or say what would be done."""
    await caller.session(params.session_id)
    return await host_of(caller.runtime).undoing.undo(
        params.session_id,
        params.call_id,
        force=params.force,
        dry_run=params.dry_run,
        undone_by=caller.name,
    )


@methods.add("session/changes", Role.OBSERVER, about="session_id")
async def changes(caller: Caller, params: OneSession) -> wire.Changes:
    """Return the calls whose changes of files can be undone or were."""
    await caller.session(params.session_id)
    return wire.Changes(await host_of(caller.runtime).undoing.changes(params.session_id))


@methods.add("root/list", Role.OPERATOR)
def list_roots(caller: Caller, params: Nothing) -> wire.WorkspaceRoots:
    """Return the folders below which sessions may work."""
    return _roots(caller)


@methods.add("root/add", Role.ADMIN)
async def add_root(caller: Caller, params: wire.WorkspaceRoot) -> wire.WorkspaceRoots:
    """Add a folder below which sessions may work, until the daemon ends."""
    own = own_folders(caller.daemon)
    caller.daemon.add_root(await trio.to_thread.run_sync(check_root, params.path, own))
    host_of(caller.runtime).lists.changed(ListName.ROOTS)
    return _roots(caller)


def _roots(caller: Caller) -> wire.WorkspaceRoots:
    return wire.WorkspaceRoots(list(caller.daemon.roots), list(caller.daemon.given_roots))

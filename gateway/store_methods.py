"""`store/…`: the record as a whole."""

from __future__ import annotations

import time
from pathlib import Path

import trio

from ..model_access import data_of
from ..runtime.backup import write_backup
from ..runtime.errors import ConflictError, StorageError
from ..runtime.identity import new_id
from ..runtime.wire.backup import BackupMade
from ..runtime.wire.roles import Role
from .caller import Caller
from .methods import MethodTable, Nothing

FOLDER = "backups"
"""Where the daemon writes them, in its data folder: a client names no paths on its machine."""

methods = MethodTable()


@methods.add("store/backup", Role.ADMIN, is_slow=True)
async def back_up(caller: Caller, params: Nothing) -> BackupMade:
    """Copies the store into a new file of the data folder, as of one moment, while work goes on."""
    data = data_of(caller.runtime)
    if data is None:
        raise ConflictError("this runtime keeps everything in memory: there is nothing to back up")
    path, size = await trio.to_thread.run_sync(_written, data)
    return BackupMade(path=str(path), size_bytes=size)


def _written(data: Path) -> tuple[Path, int]:
    folder = data / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} can't be made: {error.strerror or error}") from error
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{new_id('backup')}.db"
    return path, write_backup(data, path)

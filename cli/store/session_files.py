"""`callboard session export` and `import`: a session leaves as a file, and comes back as a new one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from ...config.daemon_file import find_daemon
from ...embedding.options import folder_of
from ...embedding.runtime import host_of, open_runtime
from ...runtime.backup.session_file import event_line, head_line
from ...runtime.disk.data_lock import DataInUse
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.identity import now_ms
from ..exit_codes import ANSWERED
from ..record_names import find_session
from ..show.sessions import open_record

MAX_FILE_BYTES = 1024 * 1024 * 1024
"""Of a file that is imported: it is checked in memory."""


async def write_session(data: Path, name: str, file: Path) -> int:
    """Writes a session and all below it; a file that is there is never written over."""
    async with open_record(data) as reader:
        row = await find_session(reader, name)
        names = await reader.session_tree([row.session_id])
        lines: list[bytes] = []
        for session_id in names:
            lines += map(event_line, await reader.events(session_id))
    whole = b"".join([head_line(names, len(lines), now_ms()), *lines])
    try:
        await trio.to_thread.run_sync(_write_new, file, whole)
    except FileExistsError:
        raise ConflictError(f"{file} exists already; choose another name.") from None
    except OSError as error:
        raise ValidationError(f"{file} can't be written: {error.strerror}.") from error
    sys.stdout.write(f"exported: {row.session_id}, {len(lines)} events, to {file}\n")
    return ANSWERED


async def take_session(data: Path, file: Path, workspace: Path) -> int:
    """Stores the sessions of a file, all or none."""
    content = await trio.to_thread.run_sync(read_file, file)
    folder = str(folder_of(workspace=workspace))
    session_id = await _stored(data, content, folder)
    sys.stdout.write(f"imported: {session_id}\n")
    return ANSWERED


async def _stored(data: Path, content: bytes, folder: str) -> str:
    if (daemon := find_daemon(data)) is not None:
        from ..remote.sessions import import_there  # here: mostly no daemon runs

        return await import_there(daemon, content, folder)
    try:
        async with open_runtime(model="rehearsal", data=data, wake=False) as runtime:
            await host_of(runtime).pruning.check()
            return await host_of(runtime).keeping.import_lines(content.splitlines(), folder)
    except DataInUse as error:
        raise ConflictError(
            f"{data} is in use by {error.holder}: stop it and come back. Nothing was imported."
        ) from error


def read_file(file: Path) -> bytes:
    """What a file of sessions holds, which is bounded; raises when it can't be read."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValidationError(f"{file} is larger than {MAX_FILE_BYTES} bytes.")
        return file.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {file}.") from None
    except OSError as error:
        raise ValidationError(f"{file} can't be read: {error.strerror}.") from error


def _write_new(file: Path, content: bytes) -> None:
    """For its owner alone: what was said in a session stands in it."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as opened:
        opened.write(content)

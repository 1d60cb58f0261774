"""`callboard session export` and `import`: a session as a file, and a file as a new session."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import trio

from ...embedding.options import folder_of
from ...runtime.backup.session_file import event_line, head_line
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.identity import now_ms
from ..backend import LocalBackend, open_backend
from ..daemon.roots import root_advice
from ..exit_codes import ANSWERED
from ..record_names import find_session
from ..show.sessions import open_record

MAX_FILE_BYTES = 1024 * 1024 * 1024
"""Size of an imported file at most: it is checked in memory."""


def export_session(data: Path, name: str, file: Path) -> int:
    """Write a session and all below it into a new file."""
    return trio.run(_export, data, name, file)


def import_session(data: Path, file: Path, workspace: Path) -> int:
    """Store the sessions of a file under new ids: all of them, or none."""
    return trio.run(_import, data, file, workspace)


async def _export(data: Path, name: str, file: Path) -> int:
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


async def _import(data: Path, file: Path, workspace: Path) -> int:
    content = await trio.to_thread.run_sync(read_file, file)
    folder = str(folder_of(workspace=workspace))
    async with open_backend(data) as backend:
        try:
            session_id = await backend.import_session(content, workspace=folder)
        except ValidationError as error:
            if error.field != "workspace" or isinstance(backend, LocalBackend):
                raise
            raise ValidationError(
                f"{folder} is below no root of the daemon, and nothing was imported. Choose another "
                f"folder with --workspace; or {root_advice(Path(folder))}",
                field="workspace",
            ) from error
    sys.stdout.write(f"imported: {session_id}\n")
    return ANSWERED


def read_file(file: Path) -> bytes:
    """Return the bytes of a file of sessions; raise a `CallboardError` when it can't be read."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValidationError(f"{file} is larger than {MAX_FILE_BYTES} bytes.")
        return file.read_bytes()
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {file}.") from None
    except OSError as error:
        raise ValidationError(f"{file} can't be read: {error.strerror}.") from error


def _write_new(file: Path, content: bytes) -> None:
    """Write a new file for its owner alone, since it holds what was said in a session."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as opened:
        opened.write(content)

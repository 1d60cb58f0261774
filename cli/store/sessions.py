"""`callboard session`: what people do with sessions that are on record, their messages and calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import trio
from cyclopts import App, Parameter

from ...config.files import load_settings
from ...config.prices import PriceTable, priced
from ...embedding.options import folder_of
from ...runtime.backup.session_file import event_line, head_line
from ...runtime.definitions import CallStatus
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.identity import now_ms
from ...runtime.store.lists import CallFilter, Hit
from ...runtime.store.rows import CallRow, MessageRow
from ..backend import LocalBackend, open_backend
from ..daemon.roots import root_advice
from ..exit_codes import ANSWERED, FAILED
from ..parameters import Data, Json, data_path, offered
from ..record_names import find_session, last_deleted_session
from ..show.sessions import open_record
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line, short_path, shortened
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list
from ..terminal.style import minute

Change = Literal["delete", "restore", "purge"]

_DONE = {"delete": "deleted", "restore": "restored", "purge": "purged"}
_BEFORE = {
    "delete": "that is deleted already; `callboard sessions --deleted` lists what is.",
    "restore": "that is not deleted; `callboard sessions --deleted` lists what is.",
    "purge": "that is gone already.",
}
"""Why nothing was changed."""
MAX_TITLE_CHARS = 40
"""Of a title in a list whose rows say more."""
_MAX_ROWS = 1000
_CUT = frozenset({"incomplete", "max_tokens", "refused"})
"""Why an answer is not whole."""
MAX_MESSAGE_CHARS = 200
"""Of a message in a list."""
MAX_FILE_BYTES = 1024 * 1024 * 1024
"""The largest file that is imported: it is checked in memory."""

SessionName = Annotated[
    str, Parameter(completer=offered("sessions"), help="Its id, the beginning of it, or last.")
]
Words = Annotated[str, Parameter(help="Words that one message holds, all of them.")]
Limit = Annotated[int, Parameter(help="How many.")]
OfSession = Annotated[
    str | None,
    Parameter(name="--session", completer=offered("sessions"), help="Those of this session."),
]
OfTool = Annotated[
    str | None, Parameter(name="--tool", completer=offered("tools"), help="Those of this tool.")
]
OfStatus = Annotated[CallStatus | None, Parameter(name="--status", help="Those that ended so.")]
Workspace = Annotated[
    Path, Parameter(help="The folder that the session works in; the current one by default.")
]

MessageName = Annotated[str, Parameter(help="The id of a message; `session messages` lists them.")]
Title = Annotated[str, Parameter(help="What it is called; by default as the first one.")]
NewTitle = Annotated[str, Parameter(name="TITLE", help="What it is called from now on.")]
AgentName = Annotated[
    str,
    Parameter(name="AGENT", completer=offered("agents"), help="The agent; agents list names all."),
]
NewFile = Annotated[Path, Parameter(name="FILE", help="A file that is not there yet.")]
ExportedFile = Annotated[Path, Parameter(name="FILE", help="What session export wrote.")]
Before = Annotated[
    int | None, Parameter(help="Only messages in front of this position: the page before.")
]

session = App(
    name="session", help="Search, rename, fork, delete and restore sessions; export and import."
)


@session.command
def search(words: Words, /, *, limit: Limit = 20, json: Json = False, data: Data = None) -> int:
    """Find sessions in which words were said, the best first."""

    async def find() -> int:
        async with open_backend(data_path(data)) as backend:
            hits = await backend.search(words, limit=limit)
        if json:
            sys.stdout.writelines(map(json_line, hits))
        else:
            heads = ("session", "said at", "folder", ">hits", "title", "what was said")
            write_list(heads, map(_hit_cells, hits))
        if not hits:
            complain("Nothing was found.")
        return ANSWERED

    return trio.run(find)


@session.command
def rename(name: SessionName, title: NewTitle, /, *, data: Data = None) -> int:
    """Give a session another title."""
    folder = data_path(data)

    async def give() -> int:
        session_id = (await _ids(folder, [name]))[0]
        async with open_backend(folder) as backend:
            await backend.rename(session_id, title)
        sys.stdout.write(f"renamed: {session_id}\n")
        return ANSWERED

    return trio.run(give)


@session.command
def agent(name: SessionName, agent: AgentName, /, *, data: Data = None) -> int:
    """Give a session another agent, from its next turn on."""
    folder = data_path(data)

    async def give() -> int:
        session_id = (await _ids(folder, [name]))[0]
        async with open_backend(folder, settings=load_settings()) as backend:
            await backend.set_agent([session_id], agent)
        sys.stdout.write(f"{session_id} has the agent {safe_line(agent)} from its next turn on\n")
        return ANSWERED

    return trio.run(give)


@session.command
def messages(
    name: SessionName,
    /,
    *,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
    data: Data = None,
) -> int:
    """List the last messages of a session, in order; show prints the whole of it."""
    folder = data_path(data)
    if not 1 <= limit <= _MAX_ROWS:
        raise ValidationError(f"--limit is from 1 to {_MAX_ROWS}")

    async def show() -> int:
        async with open_record(folder) as reader:
            row = await find_session(reader, name)
            rows = await reader.messages(
                row.session_id, before=before, latest_first=True, limit=limit
            )
            rows = priced(rows, PriceTable(load_settings().prices))
        if json:
            sys.stdout.writelines(map(json_line, rows[::-1]))
            return ANSWERED
        write_list((">", "message", "type", "stopped", "what"), map(_message_cells, rows[::-1]))
        if rows and rows[-1].position > 1:
            complain(f"Earlier ones: --before {rows[-1].position}")
        return ANSWERED

    return trio.run(show)


@session.command
def fork(
    name: SessionName,
    message: MessageName | None = None,
    /,
    *,
    title: Title = "",
    data: Data = None,
) -> int:
    """Begin a session that goes on from a message of another: behind an answer, in place of an input."""
    folder = data_path(data)

    async def make() -> int:
        session_id = (await _ids(folder, [name]))[0]
        async with open_backend(folder) as backend:
            row = await backend.fork(session_id, message, title=title)
        sys.stdout.write(f"forked: {row.session_id}\n")
        complain(
            f"Files are as they are: `callboard undo {session_id} --dry-run` says what can be taken "
            f"back. Go on with `callboard run --session {row.session_id} PROMPT`."
        )
        return ANSWERED

    return trio.run(make)


@session.command
def delete_messages(name: SessionName, /, *messages: MessageName, data: Data = None) -> int:
    """Delete messages: the model, lists, search and exports have them no more; calls go with results."""
    folder = data_path(data)
    if not messages:
        raise ValidationError(
            "Name the messages to delete; `callboard session messages` lists them."
        )

    async def take() -> int:
        session_id = (await _ids(folder, [name]))[0]
        async with open_backend(folder) as backend:
            deleted = await backend.delete_messages(session_id, messages)
        for message_id in deleted:
            sys.stdout.write(f"deleted: {message_id}\n")
        return ANSWERED

    return trio.run(take)


@session.command
def delete(*names: SessionName, data: Data = None) -> int:
    """Hide sessions, with all below them, and end what runs there; restore takes it back."""
    return _change(data_path(data), "delete", names)


@session.command
def restore(*names: SessionName, data: Data = None) -> int:
    """Take the deletion of sessions back; last is the one that was deleted last."""
    return _change(data_path(data), "restore", names)


@session.command
def purge(*names: SessionName, data: Data = None) -> int:
    """Remove deleted sessions for good: what was said, memories, approvals, usage, undo."""
    return _change(data_path(data), "purge", names)


def _change(data: Path, change: Change, names: Sequence[str]) -> int:
    if not names:
        raise ValidationError(f"Name the sessions to {change}; `callboard sessions` lists them.")

    async def do() -> int:
        session_ids = await _ids(data, names, of_deleted=change == "restore")
        async with open_backend(data) as backend:
            if change == "delete":
                changed = await backend.delete_sessions(session_ids)
            elif change == "restore":
                changed = await backend.restore_sessions(session_ids)
            else:
                changed = await backend.purge_sessions(session_ids)
        for session_id in changed:
            sys.stdout.write(f"{_DONE[change]}: {session_id}\n")
        if not changed:
            complain(f"Nothing was {_DONE[change]}: {_BEFORE[change]}")
        return ANSWERED if changed else FAILED

    return trio.run(do)


@session.command
def calls(
    *,
    session: OfSession = None,
    tool: OfTool = None,
    status: OfStatus = None,
    limit: Limit = 50,
    json: Json = False,
    data: Data = None,
) -> int:
    """List tool calls on record, the latest first."""
    folder = data_path(data)
    if not 1 <= limit <= _MAX_ROWS:
        raise ValidationError(f"--limit is from 1 to {_MAX_ROWS}")

    async def show() -> int:
        session_id = None if session is None else (await _ids(folder, [session]))[0]
        wanted = CallFilter(session_id=session_id, name=tool, status=status, limit=limit)
        async with open_record(folder) as reader:
            rows = (await reader.call_page(wanted)).calls
        if json:
            sys.stdout.writelines(map(json_line, rows))
        else:
            heads = ("asked for", "status", "tool", ">time", "session", "what it did")
            write_list(heads, map(_call_cells, rows))
        return ANSWERED

    return trio.run(show)


@session.command
def export(name: SessionName, file: NewFile, /, *, data: Data = None) -> int:
    """Write a session, and all below it, into a new file of JSON Lines."""
    return trio.run(_export, data_path(data), name, file)


@session.command(name="import")
def import_(file: ExportedFile, /, *, workspace: Workspace = Path(), data: Data = None) -> int:
    """Read a session from a file that was exported; nothing that was open in it goes on."""
    return trio.run(_import, data_path(data), file, workspace)


async def _export(data: Path, name: str, file: Path) -> int:
    async with open_record(data) as reader:
        row = await find_session(reader, name)
        names = await reader.session_tree([row.session_id])
        lines: list[bytes] = []
        for session_id in names:
            lines += map(event_line, await reader.shown_events(session_id))
    whole = b"".join([head_line(names, len(lines), now_ms()), *lines])
    try:
        await trio.to_thread.run_sync(_write_new, file, whole)
    except FileExistsError:
        raise ConflictError(f"{file} exists already; choose another name.") from None
    except OSError as error:
        raise ValidationError(f"{file} can't be written: {error.strerror}.") from error
    sys.stdout.write(
        f"exported: {row.session_id}, {len(lines)} events, to {safe_line(str(file))}\n"
    )
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


async def _ids(data: Path, names: Sequence[str], *, of_deleted: bool = False) -> list[str]:
    """Return the sessions that are named; `last` is the latest, or of deleted ones the last deleted."""
    async with open_record(data) as reader:
        rows = [
            await (
                last_deleted_session(reader)
                if of_deleted and name == "last"
                else find_session(reader, name)
            )
            for name in names
        ]
    return [row.session_id for row in rows]


def _hit_cells(hit: Hit) -> tuple[str, ...]:
    row = hit.session
    title = shortened(safe_line(row.title), MAX_TITLE_CHARS)
    where, when = short_path(row.workspace), minute(hit.created_at_ms)
    return row.session_id, when, where, str(hit.matches), title, safe_line(hit.snippet)


def _message_cells(row: MessageRow) -> tuple[str, ...]:
    said = "(deleted)" if row.is_deleted else row.content or row.tool_input or ""
    kind = f"{row.type} {safe_line(row.tool_name)}" if row.tool_name else row.type
    stopped = row.stop_reason if row.stop_reason in _CUT else ""
    shown = shortened(safe_line(said), MAX_MESSAGE_CHARS)
    return str(row.position), row.message_id, kind, stopped or "", shown


def _call_cells(row: CallRow) -> tuple[str, ...]:
    when = datetime.fromtimestamp(row.proposed_at_ms / 1000).astimezone()
    took = "" if row.duration_ms is None else f"{row.duration_ms / 1000:.1f} s"
    name, shown = safe_line(row.name), safe_line(row.display)
    return f"{when:%Y-%m-%d %H:%M:%S}", row.status, name, took, row.session_id, shown

"""`callboard session`: finds, renames, deletes, restores and purges sessions, and lists calls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import trio

from ...config.files import load_settings
from ...runtime.definitions import CallStatus
from ...runtime.errors import ValidationError
from ...runtime.store.lists import CallFilter, Hit
from ...runtime.store.rows import CallRow
from ..backend import open_backend
from ..exit_codes import ANSWERED, FAILED
from ..record_names import find_session, last_deleted_session
from ..show.sessions import open_record
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line

Change = Literal["delete", "restore", "purge"]

_DONE = {"delete": "deleted", "restore": "restored", "purge": "purged"}
_BEFORE = {
    "delete": "that is deleted already; `callboard sessions --deleted` lists what is.",
    "restore": "that is not deleted; `callboard sessions --deleted` lists what is.",
    "purge": "that is gone already.",
}
"""Why nothing was changed."""
_MAX_CALLS = 1000


def search_sessions(data: Path, words: str, *, limit: int, json: bool) -> int:
    """List sessions in which words were said, the best first."""

    async def search() -> int:
        async with open_backend(data) as backend:
            hits = await backend.search(words, limit=limit)
        for hit in hits:
            sys.stdout.write(json_line(hit) if json else _hit_line(hit))
        if not hits:
            complain("Nothing is found.")
        return ANSWERED

    return trio.run(search)


def rename_session(data: Path, name: str, title: str) -> int:
    """Give a session another title."""

    async def rename() -> int:
        session_id = (await _ids(data, [name]))[0]
        async with open_backend(data) as backend:
            await backend.rename(session_id, title)
        sys.stdout.write(f"renamed: {session_id}\n")
        return ANSWERED

    return trio.run(rename)


def give_agent(data: Path, name: str, agent: str) -> int:
    """Give a session another agent."""

    async def give() -> int:
        session_id = (await _ids(data, [name]))[0]
        async with open_backend(data, settings=load_settings()) as backend:
            await backend.set_agent([session_id], agent)
        sys.stdout.write(f"{session_id} has the agent {safe_line(agent)} from its next turn on\n")
        return ANSWERED

    return trio.run(give)


def change_sessions(data: Path, change: Change, names: Sequence[str]) -> int:
    """Delete, restore or purge sessions; print which."""
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


def show_calls(
    data: Path,
    session: str | None,
    tool: str | None,
    status: CallStatus | None,
    *,
    limit: int,
    json: bool,
) -> int:
    """List tool calls, the latest first."""
    if not 1 <= limit <= _MAX_CALLS:
        raise ValidationError(f"--limit is from 1 to {_MAX_CALLS}")

    async def show() -> int:
        session_id = None if session is None else (await _ids(data, [session]))[0]
        wanted = CallFilter(session_id=session_id, name=tool, status=status, limit=limit)
        async with open_record(data) as reader:
            rows = (await reader.call_page(wanted)).calls
        for row in rows:
            sys.stdout.write(json_line(row) if json else _call_line(row))
        return ANSWERED

    return trio.run(show)


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


def _hit_line(hit: Hit) -> str:
    row = hit.session
    when = datetime.fromtimestamp(hit.created_at_ms / 1000).astimezone()
    more = f" ({hit.matches} hits)" if hit.matches > 1 else ""
    title = safe_line(row.title)
    return f"{row.session_id}  {when:%Y-%m-%d %H:%M}  {title}{more}\n    {safe_line(hit.snippet)}\n"


def _call_line(row: CallRow) -> str:
    when = datetime.fromtimestamp(row.proposed_at_ms / 1000).astimezone()
    took = "" if row.duration_ms is None else f"  {row.duration_ms / 1000:.1f} s"
    name, shown = safe_line(row.name), safe_line(row.display)
    return f"{when:%Y-%m-%d %H:%M:%S}  {row.status:11}  {name}{took}  {row.session_id}  {shown}\n"

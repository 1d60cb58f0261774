"""Finds the session, question or remembered answer that a shortened id means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.store.interface import StoreReader
from ..runtime.store.lists import SessionFilter
from ..runtime.store.rows import ApprovalRow, GrantRow, SessionRow
from .terminal.escaping import safe_line

MAX_LOOKED_AT = 1000
"""Sessions that a chat looks through."""
MAX_SEARCHED_SESSIONS = 100_000
"""Sessions among which the beginning of an id is looked for."""
MAX_SEARCHED = 10_000
"""Questions among which the beginning of an id is looked for, the latest first."""
MAX_MATCHES = 5
"""Ids that an ambiguous beginning names."""

MAX_DELETED = 1000
"""Deleted sessions among which the last one is looked for."""

_Row = TypeVar("_Row")


def waiting_words(row: SessionRow) -> str:
    """Return for what a session of a cluster waits, as `waits for a node with the root projects`; empty if for nothing."""
    if not row.waiting_for:
        return ""
    from ..runtime.cluster.roots import waits_for  # here: few have a cluster

    return safe_line(waits_for(row.waiting_for))


def folder_here(folder: Path | None = None) -> str:
    """Return a folder, by default the current one, as sessions name the one that they work in.

    Raises:
        NotFoundError: The current folder was deleted.
    """
    try:
        return str((folder or Path.cwd()).expanduser().resolve())
    except FileNotFoundError as error:
        raise NotFoundError(
            "The current folder was deleted: change to one that is there."
        ) from error


def folders_of(folder: str | None) -> SessionFilter:
    """Return the filter for the main sessions that work in a folder, or in any."""
    return SessionFilter(workspace=folder, include_children=False)


async def last_session(reader: StoreReader) -> SessionRow:
    """Return the main session of the current folder with the latest activity.

    Raises:
        NotFoundError: There is none. The message names the latest one of another folder.
    """
    here = folder_here()
    for row in await _latest(reader, here):
        return row
    raise nothing_here(here, await _latest(reader, None))


async def _latest(reader: StoreReader, folder: str | None) -> Sequence[SessionRow]:
    return (await reader.session_page(replace(folders_of(folder), limit=1))).sessions


def nothing_here(folder: str, elsewhere: Sequence[SessionRow]) -> NotFoundError:
    """Return the error for a folder without a session, given the latest sessions of all folders."""
    if not elsewhere:
        return NotFoundError("There is no session yet.")
    return NotFoundError(
        f"No session works in {safe_line(folder)}. The latest of all, {elsewhere[0].session_id}, works "
        f"in {safe_line(elsewhere[0].workspace)}: name it, or change to that folder. "
        "`callboard sessions --all` lists all of them."
    )


async def last_deleted_session(reader: StoreReader) -> SessionRow:
    """Return the main session of the current folder that was deleted last.

    Raises:
        NotFoundError: None is.
    """
    wanted = replace(folders_of(folder_here()), deleted="only", limit=MAX_DELETED)
    rows = (await reader.session_page(wanted)).sessions
    if not rows:
        raise NotFoundError(
            f"No session of {safe_line(folder_here())} is deleted. "
            "`callboard sessions --deleted --all` lists those of all folders."
        )
    return max(rows, key=lambda row: row.deleted_at_ms or 0)


async def find_session(reader: StoreReader, name: str) -> SessionRow:
    """Return the session of this id, or whose id begins so; `last` is the latest of this folder."""
    if name == "last":
        return await last_session(reader)
    if (row := await reader.session(name)) is not None:
        return row
    rows = await reader.sessions(limit=MAX_SEARCHED_SESSIONS, include_deleted=True)
    missing = f"There is no session {name!r}; `callboard sessions` lists them."
    known = {row.session_id: row for row in rows}
    return named(name, known, "session", "sessions", missing, field="session")


async def find_approval(reader: StoreReader, name: str) -> ApprovalRow:
    """Return the question of this id, or the one whose id begins so."""
    if exact := await reader.approvals(approval_id=name, limit=1):
        return exact[0]
    rows = await reader.approvals(limit=MAX_SEARCHED)
    missing = f"There is no question {name!r}; `callboard approvals --all` lists all."
    return named(name, {row.approval_id: row for row in rows}, "approval", "questions", missing)


async def find_grant(reader: StoreReader, name: str) -> GrantRow:
    """Return the remembered answer of this id, or the one whose id begins so, in force or not."""
    rows = {row.grant_id: row for row in await reader.grants(include_ended=True)}
    missing = f"There is no remembered answer {name!r}; `callboard grants --all` lists all."
    return rows.get(name) or named(name, rows, "grant", "remembered answers", missing)


def named(
    name: str,
    rows: Mapping[str, _Row],
    prefix: str,
    nouns: str,
    missing: str,
    field: str | None = None,
) -> _Row:
    """Return the row whose id begins so; raise `NotFoundError` (`missing`) or `ValidationError`."""
    found = {each: row for each, row in rows.items() if begins(each, prefix, name)}
    if not found:
        raise NotFoundError(missing)
    return only(found, name, nouns, field)


def begins(whole: str, prefix: str, name: str) -> bool:
    """Return whether a name is the beginning of an id, with or without the word in front."""
    return bool(name) and whole.startswith((name, f"{prefix}_{name}"))


def only(found: dict[str, _Row], name: str, nouns: str, field: str | None = None) -> _Row:
    """Return the only row that was found; raise `ValidationError` when there are several."""
    if len(found) > 1:
        raise ambiguous(name, list(found), nouns, field)
    return next(iter(found.values()))


def ambiguous(
    name: str, ids: Sequence[str], nouns: str, field: str | None = None
) -> ValidationError:
    """Return the error for the beginning of an id that several ids share."""
    more = f" and {len(ids) - MAX_MATCHES} more" if len(ids) > MAX_MATCHES else ""
    return ValidationError(
        f"{name!r} is the beginning of {len(ids)} {nouns}: {', '.join(ids[:MAX_MATCHES])}{more}. "
        "Write more of it.",
        field=field,
    )

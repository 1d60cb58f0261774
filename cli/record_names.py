"""Finds the session, question or remembered answer that a shortened id means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..runtime.definitions import SessionKind
from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.store.interface import StoreReader
from ..runtime.store.lists import SessionFilter
from ..runtime.store.rows import ApprovalRow, GrantRow, SessionRow

MAX_LOOKED_AT = 1000
"""Sessions of other kinds (workers, branches) that may be younger than the last main one."""
MAX_SEARCHED_SESSIONS = 100_000
"""Sessions among which the beginning of an id is looked for."""
MAX_SEARCHED = 10_000
"""Questions among which the beginning of an id is looked for, the latest first."""
MAX_MATCHES = 5
"""Ids that an ambiguous beginning names."""

MAX_DELETED = 1000
"""Deleted sessions among which the last one is looked for."""

_Row = TypeVar("_Row")


async def last_session(reader: StoreReader) -> SessionRow:
    """Return the main session with the latest activity; raise `NotFoundError` when there is none."""
    for row in await reader.sessions(limit=MAX_LOOKED_AT):
        if row.kind is SessionKind.MAIN:
            return row
    raise NotFoundError("There is no session yet.")


async def last_deleted_session(reader: StoreReader) -> SessionRow:
    """Return the main session that was deleted last; raise `NotFoundError` when none is."""
    wanted = SessionFilter(deleted="only", include_children=False, limit=MAX_DELETED)
    rows = (await reader.session_page(wanted)).sessions
    if not rows:
        raise NotFoundError("No session is deleted.")
    return max(rows, key=lambda row: row.deleted_at_ms or 0)


async def find_session(reader: StoreReader, name: str) -> SessionRow:
    """Return the session of this id, or the one whose id begins so; `last` is the latest."""
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

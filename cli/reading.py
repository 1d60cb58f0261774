"""The commands that read the record: `sessions` and `show`. They take no lock."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import trio

from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.sqlite_store import open_reader
from ..runtime.store import SessionRow, StoreReader
from .choice import last_session
from .complaint import complain
from .escaping import safe_line, shortened
from .exit_codes import ANSWERED
from .json_lines import json_line, stored_line
from .markdown import Markdown
from .style import counted

MAX_SEARCHED = 100_000
"""Sessions among which the beginning of an id is looked for."""
MAX_MATCHES = 5
"""Ids that an ambiguous beginning names."""
MAX_TITLE_CHARS = 60
"""A line of a usual terminal holds it beside the other columns."""
PAGE_EVENTS = 200
"""Events that are read at once: a session of years is not held in memory."""


def show_sessions(data: Path, *, limit: int, json: bool) -> int:
    """Lists sessions, the latest activity first."""
    return trio.run(_show_sessions, data, limit, json)


def show_session(data: Path, name: str, *, json: bool) -> int:
    """Prints one session; `name` is an id, the beginning of one, or `last`."""
    return trio.run(_show_session, data, name, json)


async def _show_sessions(data: Path, limit: int, json: bool) -> int:
    rows: list[SessionRow] = []
    try:
        async with open_record(data) as reader:
            rows = await reader.sessions(limit=limit)
    except NotFoundError as nothing:
        complain(str(nothing))
    for row in rows:
        sys.stdout.write(json_line(row) if json else _session_line(row))
    return ANSWERED


async def _show_session(data: Path, name: str, json: bool) -> int:
    async with open_record(data) as reader:
        row = await find_session(reader, name)
        markdown = Markdown(row)
        if not json:
            sys.stdout.write(markdown.head())
        seq = 0
        while page := await reader.events(row.session_id, after_seq=seq, limit=PAGE_EVENTS):
            seq = page[-1].seq
            for stored in page:
                sys.stdout.write(stored_line(stored) if json else markdown.add(stored))
        if not json:
            sys.stdout.write(markdown.end())
    return ANSWERED


@asynccontextmanager
async def open_record(data: Path) -> AsyncGenerator[StoreReader, None]:
    """A reader of the store in a data folder, for the block; takes no lock."""
    reader = await open_reader(data)
    try:
        yield reader
    finally:
        await reader.aclose()


async def find_session(reader: StoreReader, name: str) -> SessionRow:
    """The session of this id, or the one whose id begins so; `last` is the latest.

    Raises:
        NotFoundError: There is none.
        ValidationError: There are several.
    """
    if name == "last":
        return await last_session(reader)
    if (row := await reader.session(name)) is not None:
        return row
    rows = await reader.sessions(limit=MAX_SEARCHED, include_deleted=True)
    beginnings = (name, f"session_{name}")
    found = [row for row in rows if row.session_id.startswith(beginnings)] if name else []
    if not found:
        raise NotFoundError(f"There is no session {name!r}; `callboard sessions` lists them.")
    if len(found) > 1:
        ids = ", ".join(row.session_id for row in found[:MAX_MATCHES])
        more = f" and {len(found) - MAX_MATCHES} more" if len(found) > MAX_MATCHES else ""
        raise ValidationError(
            f"{name!r} is the beginning of {len(found)} sessions: {ids}{more}. Write more of it.",
            field="session",
        )
    return found[0]


def _session_line(row: SessionRow) -> str:
    when = datetime.fromtimestamp(row.updated_at_ms / 1000).astimezone()
    title = shortened(safe_line(row.title), MAX_TITLE_CHARS)
    count = counted(row.message_count, "message")
    return f"{row.session_id}  {when:%Y-%m-%d %H:%M}  {count:>12}  {title}\n"

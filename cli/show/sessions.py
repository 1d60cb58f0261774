"""`callboard sessions` and `show`: print what is on record. They take no lock."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal

import trio
from cyclopts import Parameter
from msgspec.structs import replace

from ...runtime.errors import NotFoundError
from ...runtime.events import QuestionAsked
from ...runtime.identity import now_ms
from ...runtime.store.interface import StoreReader
from ...runtime.store.lists import SessionFilter
from ...runtime.store.rows import SessionRow
from ...runtime.store.sqlite_store import open_reader
from ..exit_codes import ANSWERED
from ..parameters import Data, Json, data_path, offered
from ..record_names import MAX_DELETED, find_session, folder_here, waiting_words
from ..terminal.complaint import complain, wrong_usage
from ..terminal.escaping import safe_line, short_path, shortened
from ..terminal.json_lines import json_line, stored_line
from ..terminal.listing import write_list
from ..terminal.style import minute
from .markdown import Markdown

MAX_TITLE_CHARS = 60
"""Titles are cut here, so that a line fits a usual terminal."""
MAX_BELOW = 10_000
"""The most sessions below one: far more than limits allow."""
PAGE_EVENTS = 200
"""Events that are read at once: a session of years is not held in memory."""

Limit = Annotated[int, Parameter(help="How many, the latest first.")]
Everywhere = Annotated[
    bool, Parameter(name="--all", help="Those of all folders, not of this one alone.", negative=())
]
Delegated = Annotated[
    bool, Parameter(help="Also those that do a task of another session.", negative=())
]
Deleted = Annotated[
    bool, Parameter(help="Only deleted ones; `session restore` brings them back.", negative=())
]
Via = Annotated[
    Literal["own", "openai", "mcp", "ag-ui", "schedule", "hook"] | None,
    Parameter(help="Only those that this has begun; own is callboard's own clients."),
]
OWN = "own"
"""What of `--via` stands for callboard's own clients, of which the record has no word."""
SessionName = Annotated[
    str, Parameter(completer=offered("sessions"), help="Its id, the beginning of it, or last.")
]


def sessions(
    *,
    json: Json = False,
    limit: Limit = 20,
    everywhere: Everywhere = False,
    delegated: Delegated = False,
    deleted: Deleted = False,
    via: Via = None,
    data: Data = None,
) -> int:
    """List the sessions of this folder, or of all folders."""
    if limit < 1:
        return wrong_usage("--limit is at least 1", "sessions")
    wanted = SessionFilter(
        limit=min(limit, MAX_DELETED) if deleted else limit,
        workspace=None if everywhere else folder_here(),
        include_children=delegated,
        via="" if via == OWN else via,
        deleted="only" if deleted else "no",
    )
    return trio.run(_show_sessions, data_path(data), wanted, json)


def show(session: SessionName, /, *, json: Json = False, data: Data = None) -> int:
    """Print one session as Markdown, or its events as JSON."""
    return trio.run(_show_session, data_path(data), session, json)


async def _show_sessions(data: Path, wanted: SessionFilter, json: bool) -> int:
    rows: list[SessionRow] = []
    try:
        async with open_record(data) as reader:
            rows = await reader.with_waiting((await reader.session_page(wanted)).sessions)
            if not rows and wanted.workspace is not None:
                everywhere = replace(wanted, workspace=None, limit=1)
                if (await reader.session_page(everywhere)).sessions:
                    complain(
                        f"No session that you ask for works in {safe_line(wanted.workspace)}; --all lists those of "
                        "other folders."
                    )
    except NotFoundError as nothing:
        complain(str(nothing))
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        write_list(("session", "last used", ">messages", "folder", "title"), map(_cells, rows))
    return ANSWERED


async def _show_session(data: Path, name: str, json: bool) -> int:
    async with open_record(data) as reader:
        (row,) = await reader.with_waiting([await find_session(reader, name)])
        markdown = Markdown(row, await reader.children(row.session_id))
        if not json:
            sys.stdout.write(markdown.head())
        seq = 0
        while page := await reader.shown_events(row.session_id, after_seq=seq, limit=PAGE_EVENTS):
            seq = page[-1].seq
            for stored in page:
                sys.stdout.write(stored_line(stored) if json else markdown.add(stored))
        if not json:
            sys.stdout.write(markdown.end())
    return ANSWERED


@asynccontextmanager
async def open_record(data: Path) -> AsyncGenerator[StoreReader, None]:
    """Open a reader of the store in a data folder for the block; it takes no lock."""
    make_queries = None
    if (data / "callboard.roots").exists():  # of a node of a cluster
        from ...runtime.cluster.rooted_queries import reads_of
        from ...runtime.cluster.roots import roots_in

        make_queries = reads_of(roots_in(data))
    reader = await open_reader(data, make_queries)
    try:
        yield reader
    finally:
        await reader.aclose()


async def with_those_below(reader: StoreReader, session_id: str) -> list[str]:
    """Return a session and all that were delegated to below it, by id."""
    found, seen = [session_id], 0
    while seen < len(found) < MAX_BELOW:
        found += [row.session_id for row in await reader.children(found[seen])]
        seen += 1
    return found


async def asked_by_models(
    reader: StoreReader, session_id: str | None
) -> list[tuple[str, QuestionAsked]]:
    """Return the questions of `ask_user` that wait in a session and below it, or in all, each with its session."""
    within = None if session_id is None else await with_those_below(reader, session_id)
    return [
        (turn.session_id, each.asked)
        for turn in await reader.open_turns()
        if within is None or turn.session_id in within
        for each in turn.questions
        if each.answered is None and each.asked.expires_at_ms > now_ms()
    ]


def _cells(row: SessionRow) -> tuple[str, ...]:
    title = shortened(safe_line(row.title), MAX_TITLE_CHARS)
    below = f"{row.kind} of {row.parent_id}: " if row.parent_id is not None else ""
    folder = short_path(row.workspace)
    when = minute(row.updated_at_ms)
    if waits := waiting_words(row):
        title = f"({waits}) {title}"
    return row.session_id, when, str(row.message_count), folder, f"{below}{title}"

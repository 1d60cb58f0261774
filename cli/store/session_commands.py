"""The options of `callboard session`; what it does is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ...runtime.definitions import CallStatus
from ..parameters import Data, Json, data_path

SessionName = Annotated[str, Parameter(help="Its id, the beginning of it, or last.")]
Words = Annotated[str, Parameter(help="Words that one message holds, all of them.")]
Limit = Annotated[int, Parameter(help="How many.")]
OfSession = Annotated[str | None, Parameter(name="--session", help="Those of this session.")]
OfTool = Annotated[str | None, Parameter(name="--tool", help="Those of this tool.")]
OfStatus = Annotated[CallStatus | None, Parameter(name="--status", help="Those that ended so.")]
Workspace = Annotated[
    Path, Parameter(help="The folder that the session works in; the current one by default.")
]

session = App(
    name="session", help="Search, rename, delete and restore sessions; export and import."
)


@session.command
def search(words: Words, /, *, limit: Limit = 20, json: Json = False, data: Data = None) -> int:
    """Find sessions in which words were said, the best first."""
    from .sessions import search_sessions

    return search_sessions(data_path(data), words, limit=limit, json=json)


@session.command
def rename(name: SessionName, title: str, /, *, data: Data = None) -> int:
    """Give a session another title."""
    from .sessions import rename_session

    return rename_session(data_path(data), name, title)


@session.command
def agent(name: SessionName, agent: str, /, *, data: Data = None) -> int:
    """Give a session another agent, from its next turn on."""
    from .sessions import give_agent

    return give_agent(data_path(data), name, agent)


@session.command
def delete(*names: SessionName, data: Data = None) -> int:
    """Hide sessions, with all below them, and end what runs there; restore takes it back."""
    from .sessions import change_sessions

    return change_sessions(data_path(data), "delete", names)


@session.command
def restore(*names: SessionName, data: Data = None) -> int:
    """Take the deletion of sessions back; last is the one that was deleted last."""
    from .sessions import change_sessions

    return change_sessions(data_path(data), "restore", names)


@session.command
def purge(*names: SessionName, data: Data = None) -> int:
    """Remove deleted sessions for good: what was said, memories, approvals, usage, undo."""
    from .sessions import change_sessions

    return change_sessions(data_path(data), "purge", names)


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
    from .sessions import show_calls

    return show_calls(data_path(data), session, tool, status, limit=limit, json=json)


@session.command
def export(name: SessionName, file: Path, /, *, data: Data = None) -> int:
    """Write a session, and all below it, into a new file of JSON Lines."""
    from .session_files import export_session

    return export_session(data_path(data), name, file)


@session.command(name="import")
def import_(file: Path, /, *, workspace: Workspace = Path(), data: Data = None) -> int:
    """Read a session from a file that was exported; nothing that was open in it goes on."""
    from .session_files import import_session

    return import_session(data_path(data), file, workspace)

"""The resources that a client of MCP may read: the sessions that its token may see, as Markdown."""

from __future__ import annotations

import re

from ...runtime.errors import NotFoundError, PermissionRefused
from ...runtime.store.lists import SessionPage
from ...runtime.store.rows import MessageRow, SessionRow
from ...runtime.wire.sessions import ListMessages, ListSessions, Messages, OneSession
from .desk import Desk

SCHEME = "callboard://session/"
TEMPLATE = f"{SCHEME}{{session_id}}"
PAGE_ROWS = 100
MAX_TRANSCRIPT_CHARS = 1024 * 1024
"""Of a transcript; the beginning of a longer one is left out."""
MAX_CALL_CHARS = 2000
"""Of the arguments of a call, and of its result."""

_SESSION_ID = re.compile(r"[a-z0-9_]{1,100}")


async def list_sessions(desk: Desk, before: int | None) -> SessionPage:
    """Return a page of sessions, latest activity first."""
    return await desk.request(
        "session/list", ListSessions(limit=PAGE_ROWS, before=before), SessionPage
    )


async def is_readable(desk: Desk, uri: str) -> bool:
    """Return whether there is such a session for this client."""
    try:
        await _row(desk, uri)
    except (NotFoundError, PermissionRefused):
        return False
    return True


async def _row(desk: Desk, uri: str) -> SessionRow:
    session_id = uri.removeprefix(SCHEME)
    if not uri.startswith(SCHEME) or _SESSION_ID.fullmatch(session_id) is None:
        raise NotFoundError("there is no such resource")
    return await desk.request("session/get", OneSession(session_id), SessionRow)


async def transcript(desk: Desk, uri: str) -> str:
    """Return what was said in a session; raise `NotFoundError`."""
    row = await _row(desk, uri)
    session_id = row.session_id
    parts: list[str] = []
    size, before = 0, None
    while size < MAX_TRANSCRIPT_CHARS:
        wanted = ListMessages(session_id, before=before, latest_first=True, limit=PAGE_ROWS)
        page = await desk.request("session/messages", wanted, Messages)
        for message in page.messages:
            before = message.position
            parts.append(_part(message, row.agent))
            size += len(parts[-1])
        if not page.has_more or not page.messages:
            break
    else:
        parts.append("(What was said before is left out.)")
    title = f"# {row.title or session_id}"
    return "\n\n".join([title, *filter(None, reversed(parts))])[: 2 * MAX_TRANSCRIPT_CHARS]


def _part(message: MessageRow, agent: str) -> str:
    if message.is_deleted or message.is_set_aside:
        return ""
    match message.type:
        case "user":
            return f"## Asked\n\n{message.content}"
        case "assistant":
            return f"## {agent}\n\n{message.content}" if message.content.strip() else ""
        case "tool_call":
            return f"- calls `{message.tool_name}` {(message.tool_input or '')[:MAX_CALL_CHARS]}"
        case "tool_result":
            said = (message.tool_output or message.content)[:MAX_CALL_CHARS]
            return f"- `{message.tool_name}`: {message.tool_status or ''} {said}"
        case _:
            return f"*{message.content}*"

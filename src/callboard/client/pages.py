"""Lists that a daemon sends in pages, which may end at a size: read until there are as many rows as wanted."""

from __future__ import annotations

from msgspec.structs import replace

from ..runtime.store.rows import ApprovalRow, MessageRow
from ..runtime.wire.approvals import Approvals, ListApprovals
from ..runtime.wire.sessions import ListMessages, Messages
from .files import Asking


async def read_messages(client: Asking, wanted: ListMessages) -> list[MessageRow]:
    """Return as many messages as wanted, or all that there are."""
    rows: list[MessageRow] = []
    params = wanted
    while True:
        page = await client.request("session/messages", params, Messages)
        rows += page.messages
        left = wanted.limit - len(rows)
        if not page.has_more or left <= 0:
            return rows
        last = rows[-1].position
        if wanted.latest_first:
            params = replace(wanted, before=last, limit=left)
        else:
            params = replace(wanted, after=last, limit=left)


async def read_approvals(client: Asking, wanted: ListApprovals) -> list[ApprovalRow]:
    """Return as many questions as wanted, or all that there are."""
    rows: list[ApprovalRow] = []
    params = wanted
    while True:
        page = await client.request("approval/list", params, Approvals)
        rows += page.approvals
        left = wanted.limit - len(rows)
        if not page.has_more or left <= 0:
            return rows
        params = replace(wanted, before=rows[-1].approval_id, limit=left)

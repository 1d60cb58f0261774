"""What a daemon sends in pages, which end at a size: lists and files, read until there is as much as wanted."""

from __future__ import annotations

from msgspec.structs import replace

from ..runtime.channel import UserQuestion
from ..runtime.definitions import Attachment
from ..runtime.store.rows import ApprovalRow, MessageRow
from ..runtime.wire.approvals import Approvals, ListApprovals, ListQuestions, QuestionList
from ..runtime.wire.sessions import AttachmentPart, GetAttachment, ListMessages, Messages
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
            params = replace(wanted, before=last, limit=left, from_message=None)
        else:
            params = replace(wanted, after=last, limit=left, from_message=None)


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


async def read_questions(client: Asking, wanted: ListQuestions) -> list[UserQuestion]:
    """Return all questions of models that there are."""
    questions: list[UserQuestion] = []
    params = wanted
    while True:
        page = await client.request("question/list", params, QuestionList)
        questions += page.questions
        if page.next_after is None:
            return questions
        params = replace(wanted, after=page.next_after)


async def read_attachment(client: Asking, wanted: GetAttachment) -> Attachment:
    """Return a file that came with a message."""
    data = bytearray()
    while True:
        params = replace(wanted, offset=len(data))
        part = await client.request("session/attachment", params, AttachmentPart)
        data += part.data
        if len(data) >= part.size_bytes or not part.data:
            return Attachment(part.media_type, bytes(data), part.name)

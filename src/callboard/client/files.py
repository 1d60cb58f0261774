"""Sessions as files: fetched from a daemon and sent to it in bounded parts."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from ..runtime.errors import ConflictError, ValidationError
from ..runtime.identity import new_id, now_ms
from ..runtime.wire.sessions import ExportedPage, ExportSession, ImportedSessions, ImportSessions

PART_CHARS = 128 * 1024
"""Characters of a part that is sent."""

Result = TypeVar("Result")


class Asking(Protocol):
    """The part of `Client` that sends requests."""

    async def request(
        self, method: str, params: msgspec.Struct, result: type[Result], *, key: str | None = None
    ) -> Result:
        """See `Client.request`."""
        ...


async def fetch_file(client: Asking, session_id: str) -> bytes:
    """Return a session and its children as a file, without what happens meanwhile."""
    first = await _page(client, session_id, 0, 0)
    lines = 0
    texts: list[str] = []
    for each in first.session_ids:
        page = first if each == session_id else await _page(client, each, 0, 0)
        last = page.head_seq
        lines += last
        texts.append(await _events(client, each, page, last))
    from ..runtime.backup.session_file import head_line  # here: most clients export nothing

    return head_line(first.session_ids, lines, now_ms()) + "".join(texts).encode()


async def _events(client: Asking, session_id: str, page: ExportedPage, last: int) -> str:
    """Return the lines of the events up to `last`, given their first page."""
    text = [page.text]
    while page.after_seq < last:
        page = await _page(client, session_id, page.after_seq, page.offset)
        if not page.text:
            raise ConflictError(f"{session_id} has changed meanwhile: export it again")
        text.append(page.text)
    whole = "".join(text)
    if page.after_seq == last and not page.offset:
        return whole
    return "\n".join(whole.split("\n")[:last]) + "\n"


async def _page(client: Asking, session_id: str, after_seq: int, offset: int) -> ExportedPage:
    params = ExportSession(session_id=session_id, after_seq=after_seq, offset=offset)
    return await client.request("session/export", params, ExportedPage)


async def send_file(client: Asking, file: bytes, workspace: str | None) -> str:
    """Send a file of sessions, stored with its last part; return the id of the first session.

    A connection may break: each part has a key, and is taken once.
    """
    try:
        text = file.decode()
    except UnicodeDecodeError:
        raise ValidationError(
            "The file is not UTF-8: it is none that callboard exported."
        ) from None
    upload_id = new_id("upload")
    starts = range(0, max(len(text), 1), PART_CHARS)
    answer = ImportedSessions(received_bytes=0)
    for part, start in enumerate(starts):
        params = ImportSessions(
            upload_id=upload_id,
            part=part,
            text=text[start : start + PART_CHARS],
            is_last=part == len(starts) - 1,
            workspace=workspace,
        )
        answer = await client.request(
            "session/import", params, ImportedSessions, key=new_id("request")
        )
    assert answer.session_id is not None
    return answer.session_id

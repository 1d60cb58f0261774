"""Files in bounded parts: those beside messages (`session/attachment`), and whole sessions that leave and come back."""

from __future__ import annotations

import msgspec
import trio

from ...embedding.runtime import host_of
from ...runtime.errors import ConflictError, NotFoundError, ValidationError
from ...runtime.store.interface import StoreReader
from ...runtime.wire import sessions as wire
from ...runtime.wire.fields import Role
from ..connection.caller import Caller
from ..connection.method_table import MethodTable
from ..shared.workspaces import chosen_workspace

PAGE_CHARS = 128 * 1024
"""Characters of a page: even if each is escaped, below the 1 MiB limit of many websocket libraries."""
PAGE_EVENTS = 64
"""Events read for one page; with texts of usual length they fill it."""
FILE_PART_BYTES = 768 * 1024
"""Bytes of a file in one answer: 1 MiB as base64, as much as a page."""

methods = MethodTable()
_ENCODER = msgspec.json.Encoder()


@methods.add("session/attachment", Role.OBSERVER)
async def get_attachment(caller: Caller, params: wire.GetAttachment) -> wire.AttachmentPart:
    """Return a part of a file that came with a message, by its place among the message's `files`."""
    await caller.session(params.session_id)
    file = await caller.runtime.store.message_file(
        params.session_id, params.message_id, params.number
    )
    if file is None:
        raise NotFoundError(f"the message {params.message_id} has no file {params.number}")
    if not 0 <= params.offset <= len(file.data):
        raise ValidationError(f"offset is from 0 to {len(file.data)}", field="offset")
    return wire.AttachmentPart(
        name=file.name,
        media_type=file.media_type,
        size_bytes=len(file.data),
        data=file.data[params.offset : params.offset + FILE_PART_BYTES],
    )


@methods.add("session/export", Role.OBSERVER, is_whole=True)
async def export_session(caller: Caller, params: wire.ExportSession) -> wire.ExportedPage:
    """Return a page of the file that a session and those below it are exported as."""
    row = await caller.session(params.session_id)
    store = caller.runtime.store
    page = await _page(store, params)
    return wire.ExportedPage(
        session_ids=tuple(await store.session_tree([params.session_id])),
        head_seq=row.head_seq,
        text=page[0],
        after_seq=page[1],
        offset=page[2],
    )


async def _page(store: StoreReader, params: wire.ExportSession) -> tuple[str, int, int]:
    """Return the text of a page, and where it ends: the last whole event, and the offset in the next."""
    after_seq, offset = params.after_seq, params.offset
    pieces: list[str] = []
    room = PAGE_CHARS
    events = await store.shown_bytes(params.session_id, after_seq=after_seq, limit=PAGE_EVENTS)
    for stored in events:
        line = _ENCODER.encode(stored).decode() + "\n"
        if not 0 <= offset < len(line) or stored.seq != after_seq + 1:
            raise ConflictError(
                f"event {after_seq} and offset {offset} are not the end of a page of "
                f"{params.session_id}: export it again",
                kind="seq",
            )
        piece = line[offset : offset + room]
        pieces.append(piece)
        room -= len(piece)
        offset += len(piece)
        if offset < len(line):
            break
        after_seq, offset = stored.seq, 0
    return "".join(pieces), after_seq, offset


@methods.add("session/import", Role.OPERATOR, is_slow=True, is_whole=True)
async def import_sessions(caller: Caller, params: wire.ImportSessions) -> wire.ImportedSessions:
    """Import a file of sessions in parts; the last part creates all sessions or none."""
    uploads, sender = caller.daemon.uploads, caller.credential.name
    size = uploads.add(sender, params.upload_id, params.part, params.text)
    if not params.is_last:
        return wire.ImportedSessions(received_bytes=size)
    # A large file takes as long to be cut into lines as some hundred requests.
    lines = await trio.to_thread.run_sync(uploads.take(sender, params.upload_id).lines)
    async with chosen_workspace(caller.daemon, params.workspace) as folder:
        await host_of(caller.runtime).pruning.check()
        session_id = await host_of(caller.runtime).keeping.import_lines(lines, str(folder))
    return wire.ImportedSessions(received_bytes=size, session_id=session_id)

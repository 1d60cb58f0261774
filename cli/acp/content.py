"""Reads what a person put into a prompt: text, images, files that the editor names or sends along."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ...runtime.history import MAX_NAME_CHARS, Attachment
from ...runtime.identity import TraceContext
from ...runtime.wire.rpc import INVALID_PARAMS
from . import wire
from .calls import file_of_uri, file_text, is_within
from .connection import UNREADABLE, RequestFailed

MAX_FILE_BYTES = 10 * 1024 * 1024
"""Of the text of a file of the workspace; a longer one is not attached, but read from the disk by its path."""


class EditorPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent to the session.

    Attributes:
        text: With the paths of files in the place where the person named them.
        attachments: Images, and text that the editor sent along: strangers may have written it, as any attachment.
        trace: Where the editor stands in a trace of its own.
        is_untrusted: Whether strangers may have written the text: a server made it of a prompt.
        compacts: Whether the turn is to sum the conversation up, and to do nothing else.
    """

    text: str
    attachments: tuple[Attachment, ...] = ()
    trace: TraceContext | None = None
    is_untrusted: bool = False
    compacts: bool = False


def linked_files(blocks: Iterable[wire.ContentBlock], folder: Path) -> dict[str, Path]:
    """Return the files of the workspace that links name, by their URIs; it looks at links of the disk, which may block."""
    found = {}
    for block in blocks:
        if isinstance(block, wire.ContentBlockResourceLink):
            path = file_of_uri(block.uri)
            if path is not None and is_within(path, folder):
                found[block.uri] = path
    return found


def trace_of(meta: msgspec.Raw) -> TraceContext | None:
    """Return where the editor stands in a trace; what is no such place is left out."""
    try:
        return msgspec.json.decode(meta, type=TraceContext)
    except UNREADABLE:
        return None


def read_prompt(
    blocks: Iterable[wire.ContentBlock], folder: Path, unsaved: Mapping[str, str]
) -> EditorPrompt:
    """Return what the blocks say; reads files of the workspace, which may block.

    `unsaved` has the texts of linked files as the editor has them, by their URIs.

    The text of a file of the workspace that is as on the disk goes by its path alone, and so does one that is too
    long: whether strangers wrote it is known where it is read.

    Raises:
        RequestFailed: A block was not offered, or is not what it says.
    """
    text, attachments = "", []
    for block in blocks:
        match block:
            case wire.ContentBlockText():
                text += block.text
            case wire.ContentBlockImage():
                data = _bytes(block.data, "an image")
                attachments.append(Attachment(block.mime_type, data, name=_name(block.uri or "")))
            case wire.ContentBlockResourceLink() | wire.ContentBlockResource():
                found = _resource(block, unsaved)
                uri = found.uri or ""
                place = _place(uri, folder)
                text = _named(text, place or f"<{uri}>")
                has_data = found.text is not None or found.blob is not None
                if has_data and not (place and _goes_by_path(uri, found.text, folder)):
                    attachments.append(_attachment(found))
            case wire.ContentBlockAudio():
                raise RequestFailed(INVALID_PARAMS, "audio was not offered: send text")
    return EditorPrompt(text=text, attachments=tuple(attachments))


def _resource(
    block: wire.ContentBlockResourceLink | wire.ContentBlockResource, unsaved: Mapping[str, str]
) -> wire.EmbeddedResourceResource:
    if isinstance(block, wire.ContentBlockResource):
        return block.resource
    return wire.EmbeddedResourceResource(uri=block.uri, text=unsaved.get(block.uri))


def _named(text: str, name: str) -> str:
    """Return the text with a name behind it, as a word of its own."""
    return f"{text} {name} " if text and not text[-1].isspace() else f"{text}{name} "


def _place(uri: str, folder: Path) -> str | None:
    """Return how a tool names the file of a URI, or `None` for what is not in the workspace."""
    path = file_of_uri(uri)
    if path is None or not is_within(path, folder):
        return None
    try:
        return str(path.relative_to(folder))
    except ValueError:  # by way of a link
        return str(path)


def _goes_by_path(uri: str, text: str | None, folder: Path) -> bool:
    path = file_of_uri(uri)
    if text is None or path is None:
        return False
    if len(text.encode()) > MAX_FILE_BYTES:
        return True
    if "#" in uri:
        return False
    return file_text(path, folder, MAX_FILE_BYTES) == text


def _attachment(found: wire.EmbeddedResourceResource) -> Attachment:
    if found.text is not None:
        kind = found.mime_type if (found.mime_type or "").startswith("text/") else "text/plain"
        return Attachment(kind or "text/plain", found.text.encode(), name=_name(found.uri or ""))
    data = _bytes(found.blob or "", "a resource")
    kind = found.mime_type or "application/octet-stream"
    return Attachment(kind, data, name=_name(found.uri or ""))


def _name(uri: str) -> str:
    path = file_of_uri(uri)
    return (uri if path is None else path.name)[-MAX_NAME_CHARS:]


def _bytes(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestFailed(INVALID_PARAMS, f"the data of {what} is not base64") from error

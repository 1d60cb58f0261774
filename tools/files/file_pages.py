"""read_file: a file or a kept artifact, whole or page by page."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from ...runtime.definitions import Attachment, ErrorType, ToolFailure, ToolResult
from ...runtime.handles import ArtifactReader
from ...runtime.history import MAX_NAME_CHARS, media_type_of
from ...runtime.text import json_size
from ..processes.threads import run_read
from ..tool import ToolContext
from ..workspace.paths import shown
from .file_facts import in_bytes, reading, reading_tool, timestamp
from .text_codec import BASE64, STATEFUL, codec_name, decode_page, page_codec

MAX_READ_BYTES = 1024 * 1024
"""A model can't use more at once; a page that is larger than a result may be ends where it is full."""
MAX_CHARACTER_BYTES = 16
"""More than any codec needs for one character, its shift sequences included."""
MAX_OFFSET = 2**53
"""JSON numbers are exact up to it, and no file is larger."""
MAX_PACKED = 4
"""Bytes of a file for one of JSON at most: an ASCII letter in UTF-32."""

MAX_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
"""Anthropic: 5 MB, counted in base64; the others take more."""
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
"""How files begin that may be images."""

ARTIFACT_PREFIX = "artifact:"

Piece = tuple[bytes, int, float | None]
"""Bytes, the size of the whole, and the time of its last change."""
Source = Callable[[int, int], Piece]
"""(offset, limit) → a piece of the file or artifact."""


class PageOutput(TypedDict):
    """What read_file returns."""

    content: str
    size: int
    modified: NotRequired[str]
    next_offset: NotRequired[int]


@reading_tool(output=PageOutput)
async def read_file(
    context: ToolContext,
    path: str,
    encoding: str = "utf-8",
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)] | None = None,
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None,
) -> ToolResult:
    """Reads a file of the workspace, or a page of it.

    Args:
        path: Relative to the workspace; artifact:ID reads a file of a result, or the whole of one that was cut.
        encoding: utf-8 or another text encoding, or base64 for binary files.
        offset: The byte to start at; take next_offset of the page before.
        limit: The most bytes to read; a page ends on a whole character, and where a result is full.
    """
    name = codec_name(encoding)
    if path.startswith(ARTIFACT_PREFIX):
        source = await _artifact(path, context.artifacts)
    else:
        workspace = reading(context)

        def piece(offset: int, limit: int) -> Piece:
            content = workspace.read(path, offset=offset, limit=limit)
            return content.data, content.info.size_bytes, content.info.modified_seconds

        source = piece

    most = context.max_result_bytes
    output, size, files = await run_read(_page, source, shown(path), name, offset, limit, most)
    where = "" if offset is None and limit is None else f" from byte {offset or 0}"
    display = f"Read {shown(path)} ({in_bytes(size)}){where}"
    return ToolResult(output=output, display=display, attachments=files)


async def _artifact(path: str, artifacts: ArtifactReader | None) -> Source:
    whole = None
    if artifacts is not None:
        whole = await artifacts.read_artifact(path.removeprefix(ARTIFACT_PREFIX))
    if whole is None:
        raise ToolFailure(
            ErrorType.FILE_NOT_FOUND, f"{shown(path)}: this session has no such artifact."
        )
    return lambda offset, limit: (whole[offset : offset + limit], len(whole), None)


def _page(
    source: Source, path: str, name: str, offset: int | None, limit: int | None, most: int | None
) -> tuple[dict[str, Any], int, tuple[Attachment, ...]]:
    start = offset or 0
    length = min(limit or MAX_READ_BYTES, MAX_READ_BYTES)
    data, size, modified = source(start, length)
    is_whole = offset is None and limit is None
    if is_whole and name == "utf-8" and (image := _image(source, path, data, size)) is not None:
        said = {"content": "(An image, beside this result for models that see.)", "size": size}
        return said, size, (image,)
    if size > MAX_READ_BYTES and is_whole:
        raise ToolFailure(
            ErrorType.FILE_TOO_LARGE,
            f"{path}: it has {in_bytes(size)}, more than {MAX_READ_BYTES} at once. Read it in "
            "pages: offset=0, then offset=next_offset.",
            size=size,
        )
    output: dict[str, Any] = {"content": "", "size": size}
    if modified is not None:
        output["modified"] = timestamp(modified)

    def content(length: int) -> tuple[str, int]:
        if name == BASE64:
            return base64.b64encode(data[:length]).decode(), min(length, len(data))
        return _text(source, path, name, start, data[:length], size)

    text, used = content(len(data))
    if most is not None and not name.startswith(STATEFUL):  # those have no pages: they are cut
        room = most - json_size({**output, "next_offset": MAX_OFFSET})
        if json_size(text) > room:
            lengths = range(1, min(len(data), MAX_PACKED * room) + 1)
            fitting = bisect_right(lengths, room, key=lambda n: json_size(content(n)[0]))
            text, used = content(max(1, fitting))
    output["content"] = text
    if start + used < size:
        output["next_offset"] = start + used
    return output, used, ()


def _image(source: Source, path: str, data: bytes, size: int) -> Attachment | None:
    """Return the file as an image, if it is one that providers take."""
    if (
        not data.startswith(_IMAGES)
        or (kind := media_type_of(data)) is None
        or size > MAX_IMAGE_BYTES
    ):
        return None
    whole = data if len(data) == size else source(0, size)[0]
    return Attachment(kind, whole, path.rpartition("/")[2][-MAX_NAME_CHARS:])


def _text(
    source: Source, path: str, name: str, start: int, data: bytes, size: int
) -> tuple[str, int]:
    if start > 0:
        name = page_codec(name, source(0, 4)[0])
    skipped = _inside_character(data) if start > 0 and name == "utf-8" else 0
    try:
        text, used = decode_page(data[skipped:], name, at_end=start + len(data) >= size)
        if not text and data and start + skipped + used < size:
            # The limit is smaller than one character: return that one, or paging never ends.
            text, used = _first_character(source, name, start + skipped, size)
    except UnicodeError as error:
        raise ToolFailure(
            ErrorType.BINARY_FILE,
            f"{path}: it is not {name} text ({error}). Read it with encoding=base64, or with the "
            "encoding that it has.",
            size=size,
        ) from error
    return text, skipped + used


def _inside_character(data: bytes) -> int:
    """Return how many bytes at the start belong to a UTF-8 character that began before."""
    count = 0
    while count < min(len(data), 3) and 0x80 <= data[count] < 0xC0:
        count += 1
    return count


def _first_character(source: Source, name: str, start: int, size: int) -> tuple[str, int]:
    data = source(start, MAX_CHARACTER_BYTES)[0]
    for end in range(1, len(data) + 1):
        text, used = decode_page(data[:end], name, at_end=start + end >= size)
        if text:
            return text, used
    return "", len(data)

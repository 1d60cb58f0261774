"""Reads the files that go with a prompt, before anything else happens."""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.history import (
    MAX_ATTACHED_BYTES,
    MAX_ATTACHMENTS,
    MAX_NAME_CHARS,
    OWN_TYPE,
    Attachment,
    checked_attachments,
    media_type_of,
)

_TYPES = {
    ".jsonl": "application/x-ndjson",
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""Media types that Python's own table lacks, or has only from some version on."""


PIPED = "stdin"
"""The name of what is piped in."""


def read_attachments(paths: Sequence[Path], piped: bytes | None = None) -> tuple[Attachment, ...]:
    """Return the files as attachments, with what was piped in first.

    Raises:
        NotFoundError: There is no such file.
        ValidationError: It can't be read, is not a regular file, or they are too many or too large.
    """
    count = len(paths) + (piped is not None)
    if count > MAX_ATTACHMENTS:
        raise _refusal(f"{count} files are too many; {MAX_ATTACHMENTS} are the most")
    found: list[Attachment] = []
    room = MAX_ATTACHED_BYTES
    if piped is not None:
        if not piped:
            raise _refusal("stdin is empty")
        room -= len(piped)
        found.append(Attachment(_media_type(Path(PIPED), piped), piped, name=PIPED))
    for path in paths:
        data = _content(path, room)
        room -= len(data)
        found.append(Attachment(_media_type(path, data), data, name=path.name[:MAX_NAME_CHARS]))
    try:
        return checked_attachments(found)
    except ValidationError as error:
        # A command names no types: they follow from the names of the files.
        text = str(error).replace(OWN_TYPE, "rename it, its ending says what it is")
        raise ValidationError(text, field=error.field) from error


def _content(path: Path, room: int) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _refusal(f"{path} is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(room + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path} to attach.") from None
    except OSError as error:
        raise _refusal(f"{path} can't be read: {error.strerror}") from error
    if len(data) > room:
        raise _refusal(f"{path} is too large: a prompt takes {MAX_ATTACHED_BYTES} bytes of files")
    return data


def _media_type(path: Path, data: bytes) -> str:
    """Return the media type by the file's name, or else by its content."""
    own = _TYPES.get(path.suffix.lower())
    # Not the system's table, which differs from one machine to the next.
    kind, encoding = mimetypes.MimeTypes().guess_type(path.name, strict=False)
    if encoding is not None:
        return "application/octet-stream"
    if named := own or kind:
        return named
    return media_type_of(data) or ("text/plain" if _is_text(data) else "application/octet-stream")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _refusal(problem: str) -> ValidationError:
    return ValidationError(f"{problem}; nothing was sent.", field="attach")

"""Files that go with a prompt: read before anything else happens."""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ..runtime.attachment_rules import MAX_NAME_CHARS, checked_attachments, media_type_of
from ..runtime.errors import NotFoundError, ValidationError
from ..runtime.history import MAX_ATTACHED_BYTES, Attachment

_TYPES = {
    ".jsonl": "application/x-ndjson",
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
"""What Python's own table lacks, or has from a version on."""


def read_attachments(paths: Iterable[Path]) -> tuple[Attachment, ...]:
    """The files as attachments.

    Raises:
        NotFoundError: There is no such file.
        ValidationError: It can't be read, is no regular file, or they are too many or too large.
    """
    return checked_attachments([_attachment(path) for path in paths])


def _attachment(path: Path) -> Attachment:
    data = _content(path)
    return Attachment(_media_type(path, data), data, name=path.name[:MAX_NAME_CHARS])


def _content(path: Path) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for somebody who writes to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFoundError(f"There is no file {path} to attach.") from None
    except OSError as error:
        raise _refusal(f"{path} can't be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refusal(f"{path} is no regular file")
        if found.st_size > MAX_ATTACHED_BYTES:
            raise _refusal(
                f"{path} has {found.st_size} bytes; {MAX_ATTACHED_BYTES} are the most that a "
                "prompt takes"
            )
        try:
            return file.read(MAX_ATTACHED_BYTES + 1)  # it may grow meanwhile
        except OSError as error:
            raise _refusal(f"{path} can't be read: {error.strerror}") from error


def _media_type(path: Path, data: bytes) -> str:
    """By the name; where that says nothing, by the content."""
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

"""Files that clients send in parts, until they are whole: few at once, and bounded."""

from __future__ import annotations

import trio

from ...config.keys.tokens import LOCAL_NAME
from ...runtime.errors import ConflictError, OverloadedError, ValidationError

MAX_UPLOADS = 2
"""Uploads at once, of all tokens, each of which has one: they are held in memory. One more may be this
user's own commands'."""
MAX_UPLOAD_BYTES = 64 * 1024 * 1024
"""The largest file: months of a busy session. Larger ones are imported while no daemon runs."""
IDLE_SECONDS = 60.0
"""Without a new part, after which an upload may be dropped for another one."""


class Upload:
    """The parts of a file that have come so far."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.touched_at = trio.current_time()

    def lines(self) -> list[bytes]:
        """Return the file's lines; takes long for a large file."""
        return b"".join(self.parts).splitlines()


class Uploads:
    """The uploads that are not complete yet."""

    def __init__(self) -> None:
        self._uploads: dict[tuple[str, str], Upload] = {}

    def add(self, sender: str, upload_id: str, part: int, text: str) -> int:
        """Add the next part of a file; return the bytes received so far.

        Raises:
            ConflictError: It is not the next one.
            OverloadedError: Others are being sent.
            ValidationError: It is too large.
        """
        key = (sender, upload_id)
        if part == 0:
            self._begin(key)
        upload = self._uploads.get(key)
        if upload is None or len(upload.parts) != part:
            self._uploads.pop(key, None)
            raise ConflictError(
                f"part {part} does not follow those before it, or they came too long ago: begin again "
                "with part 0"
            )
        data = text.encode()
        upload.size += len(data)
        if upload.size > MAX_UPLOAD_BYTES:
            del self._uploads[key]
            raise ValidationError(
                f"the file is larger than {MAX_UPLOAD_BYTES} bytes: stop the daemon, and import it "
                "then",
                field="text",
            )
        upload.parts.append(data)
        upload.touched_at = trio.current_time()
        return upload.size

    def take(self, sender: str, upload_id: str) -> Upload:
        """Remove a complete upload and return it."""
        return self._uploads.pop((sender, upload_id))

    def _begin(self, key: tuple[str, str]) -> None:
        self._uploads.pop(key, None)
        before = trio.current_time() - IDLE_SECONDS
        for other, upload in list(self._uploads.items()):
            if upload.touched_at < before:
                del self._uploads[other]
        sender = key[0]
        if any(each == sender for each, _ in self._uploads):
            raise OverloadedError("this token is sending a file already; try again soon")
        others = sum(each != LOCAL_NAME for each, _ in self._uploads)
        if sender != LOCAL_NAME and others >= MAX_UPLOADS:
            raise OverloadedError(f"{MAX_UPLOADS} files are being sent already; try again soon")
        self._uploads[key] = Upload()

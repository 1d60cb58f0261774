"""`store/backup` on the wire."""

from __future__ import annotations

import msgspec


class BackupMade(msgspec.Struct, frozen=True, kw_only=True):
    """A backup, in the daemon's data folder.

    Attributes:
        path: The file.
        size_bytes: How large it is.
    """

    path: str
    size_bytes: int

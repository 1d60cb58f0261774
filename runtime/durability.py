"""What was written or renamed outlives a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Makes a file's content durable, or of a folder the names in it; blocks for the disk.

    Raises:
        OSError: It is not there, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""SQLite's log as a file: behind the pages of its commits there may be old ones, and zeros."""

from __future__ import annotations

from pathlib import Path

HEAD_BYTES, FRAME_HEAD_BYTES, PAGE_BYTES = 32, 24, 4096
FRAME_BYTES = FRAME_HEAD_BYTES + PAGE_BYTES


def pages_in(log: Path) -> int:
    """The pages that a log holds: those that have its mark, two words that each round of a log changes."""
    with log.open("rb") as file:
        mark = file.read(HEAD_BYTES)[16:24]
        for count in range(log.stat().st_size // FRAME_BYTES):
            file.seek(HEAD_BYTES + count * FRAME_BYTES)
            if file.read(FRAME_HEAD_BYTES)[8:16] != mark:
                return count
    return log.stat().st_size // FRAME_BYTES

"""Pages that are bounded in bytes as well as in rows: a few rows may be as large as thousands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...runtime.errors import ValidationError
from ..feeds.frames import wire_json

PAGE_BYTES = 1024 * 1024
"""Bytes of one answer, unless its only row is larger: a quarter of an outbox."""
STEP_ROWS = 50
"""Read of the record at a time, as a page fills: each holds some hundred KiB at most."""

MAX_PAGE = 1000
"""Rows of one answer at most."""

Row = TypeVar("Row")


def page(limit: int) -> int:
    """Return a client's `limit`; raise `ValidationError` unless it is from 1 to `MAX_PAGE`."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValidationError(f"limit is from 1 to {MAX_PAGE}", field="limit")
    return limit


async def byte_page(
    read: Callable[[Row | None, int], Awaitable[list[Row]]], limit: int
) -> tuple[list[Row], bool]:
    """Return the first rows that fit, at least one if there is any, and whether there are more.

    `read` returns so many rows after the given one, or the first ones for `None`.
    """
    rows: list[Row] = []
    size = 0
    while True:
        wanted = min(STEP_ROWS, limit + 1 - len(rows))  # one more says whether there are more
        step = await read(rows[-1] if rows else None, wanted)
        for row in step:
            size += len(wire_json(row))
            if len(rows) == limit or (rows and size > PAGE_BYTES):
                return rows, True
            rows.append(row)
        if len(step) < wanted:
            return rows, False

"""Reading what is whole of a damaged store: its log page by page, its tables row by row.

Nothing here changes the store, and nothing asks SQLite to recover its log, which would stop at the first
damaged page. All functions block and check for cancellation: call them in a worker thread of Trio.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import trio

_HEADER = struct.Struct(">I4xI4x4s4s2I")
_FRAME = struct.Struct(">2I4s4s2I")
"""Page, pages of the store after this commit, the two salts, checksum."""
UNREADABLE = (apsw.CorruptError, apsw.IOError)
"""How SQLite says that a page is damaged, or that the disk does not give it."""

_MAX_ID = 2**62
_BLOCK_BYTES = 4096
"""What is given up where the disk gives nothing: a page of the store."""


def copy_with_log(store: Path, copy: Path) -> None:
    """Copy a store, and put each whole page of its log into the copy, up to the last whole commit.

    The checksum of a page in the log begins with that of the page before it, as it stands there. So a
    damaged page is known, and those behind it are not lost. The last commit counts if all of it is there: a
    power cut may have torn it.
    """
    _copy(store, copy)
    path = Path(f"{store}-wal")
    if not path.exists():
        return
    with path.open("rb") as log, copy.open("r+b") as target:
        head = log.read(_HEADER.size)
        if len(head) < _HEADER.size:
            return
        page_size = _page_size(copy)
        pages, size = _last_pages(log.read, head, page_size)
        for page, at in pages.items():
            log.seek(at)
            target.seek((page - 1) * page_size)
            target.write(log.read(page_size))
        if size:
            target.truncate(size * page_size)


def _copy(store: Path, copy: Path) -> None:
    """Copy a file; what the disk does not give becomes zeros, which SQLite takes for damage."""
    source = os.open(store, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with copy.open("wb") as target:
            for at in range(0, os.fstat(source).st_size, _BLOCK_BYTES):
                try:
                    block = os.pread(source, _BLOCK_BYTES, at)
                except OSError:
                    block = bytes(_BLOCK_BYTES)
                target.write(block)
                trio.from_thread.check_cancelled()
    finally:
        os.close(source)


def _page_size(store: Path) -> int:
    with store.open("rb") as file:
        found = int.from_bytes(file.read(18)[16:], "big")
    return 65_536 if found == 1 else found


def _last_pages(read: Any, head: bytes, page_size: int) -> tuple[dict[int, int], int]:
    """Return where in the log each page stands last, and the size of the store after that."""
    magic, _, *own, first, second = _HEADER.unpack(head)
    order = ">" if magic & 1 else "<"
    is_known = _checksum(order, head[:24], 0, 0) == (first, second)
    salts = own if is_known else []
    if not is_known:
        order = "<" if sys.byteorder == "little" else ">"
    done: dict[int, int] = {}
    waiting: dict[
        int, int
    ] = {}  # of commits of which pages are missing, until a later one is there
    size, at, is_whole = 0, _HEADER.size, True
    while len(frame := read(_FRAME.size + page_size)) == _FRAME.size + page_size:
        page, pages, *its_salts, its_first, its_second = _FRAME.unpack(frame[: _FRAME.size])
        salts = salts or its_salts
        found = _checksum(order, frame[:8] + frame[_FRAME.size :], first, second)
        is_sound = found == (its_first, its_second) and its_salts == salts
        first, second = its_first, its_second
        if is_sound:
            waiting[page] = at + _FRAME.size
        is_whole = is_whole and is_sound
        if pages and is_sound:
            if is_whole:
                done |= waiting
                size, waiting = pages, {}
            is_whole = True
        at += _FRAME.size + page_size
        trio.from_thread.check_cancelled()
    return done, size


def _checksum(order: str, data: bytes, first: int, second: int) -> tuple[int, int]:
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


def readable_rows(connection: apsw.Connection, select: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that can be read, in order; leap over those on damaged pages.

    `select` takes the id that the first row comes after, sorts by ids, and returns them first.
    """
    at = 0
    while at < _MAX_ID:
        try:
            for row in connection.execute(select, (at,)):
                yield row
                at = row[0]
                trio.from_thread.check_cancelled()
        except UNREADABLE:
            at = _behind(connection, select, at)
        else:
            return


def _behind(connection: apsw.Connection, select: str, at: int) -> int:
    """Return the first id from which on rows can be read again."""
    step = 1
    while not _is_readable(connection, select, at + step):
        step *= 2
        if at + step >= _MAX_ID:
            return _MAX_ID
    low, high = at + step // 2, at + step
    while high - low > 1:
        middle = (low + high) // 2
        if _is_readable(connection, select, middle):
            high = middle
        else:
            low = middle
    return high


def _is_readable(connection: apsw.Connection, select: str, at: int) -> bool:
    try:
        connection.execute(f"{select} limit 1", (at,)).fetchall()
    except UNREADABLE:
        return False
    return True

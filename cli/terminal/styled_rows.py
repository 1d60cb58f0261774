"""Pieces of text with their colours, broken into rows that fit a terminal.

A row breaks behind a space, or beside a character of double width, as Chinese and Japanese do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .folding import char_columns
from .style import Style

Piece = tuple[str, str]
"""A text and the codes of its colours (`1;36`), or none."""

Cell = tuple[str, str]
"""One character with its codes."""

_NEVER_FIRST = frozenset("，。、；：？！）」』】》〉”’…·")  # ruff: ignore[ambiguous-unicode-character-string]  these are meant
_NEVER_LAST = frozenset("（「『【《〈“‘")  # ruff: ignore[ambiguous-unicode-character-string]
"""Punctuation that stays with the character before it, or behind it."""


def cells_of(pieces: Iterable[Piece]) -> list[Cell]:
    """Return the characters of pieces."""
    return [(char, codes) for text, codes in pieces for char in text]


def wrapped(cells: list[Cell], first: int, others: int, *, is_code: bool) -> Iterator[list[Cell]]:
    """Yield the cells of each row, for so many columns in the first and the others. Code breaks anywhere."""
    begin, room = 0, first
    while True:
        used, end, cut = 0, begin, -1
        while end < len(cells):
            char = cells[end][0]
            width = (
                1 if " " <= char <= "~" else char_columns(char, used)
            )  # a call for each costs most
            if used + width > room:
                break
            used, end = used + width, end + 1
            if not is_code and end < len(cells) and _may_break(cells[end - 1][0], cells[end][0]):
                cut = end
        if end >= len(cells):
            yield cells[begin:]
            return
        if cut <= begin:
            cut = max(end, begin + 1)
        last = cut - 1 if cells[cut - 1][0] == " " and not is_code else cut
        yield cells[begin:last]
        begin, room = cut, others


def _may_break(before: str, after: str) -> bool:
    if before == " ":
        return after != " "
    if after == " " or (before.isascii() and after.isascii()):
        return False
    is_wide = char_columns(before, 0) == 2 or char_columns(after, 0) == 2
    return is_wide and after not in _NEVER_FIRST and before not in _NEVER_LAST and after != "\u200d"


def columns_of_cells(cells: Iterable[Cell]) -> int:
    """Return how many columns they take."""
    used = 0
    for char, _ in cells:
        used += char_columns(char, used)
    return used


def painted(cells: list[Cell], style: Style) -> str:
    """Return the text of cells, with their colours."""
    row: list[str] = []
    start = 0
    for index in range(1, len(cells) + 1):
        if index == len(cells) or cells[index][1] != cells[start][1]:
            text = "".join(char for char, _ in cells[start:index])
            row.append(style.coded(text, cells[start][1]))
            start = index
    return "".join(row)

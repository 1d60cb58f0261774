"""Tables of a model's Markdown, in columns that fit the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .markdown_inline import BOLD, inline
from .style import Style
from .styled_rows import Cell, cells_of, columns_of_cells, painted, wrapped

MAX_HELD_ROWS = 100
"""Rows that are read before the columns get their widths; later ones have to do with these."""
MIN_CELL_COLUMNS = 6
"""A column that gives way keeps so much, if it had it."""

_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_SEPARATOR = re.compile(r"(?<!\\)\|")


def may_be_row(line: str) -> bool:
    """Return whether a line can be a row of a table, as models write them."""
    return line.lstrip(" ").startswith("|")


def is_delimiter(line: str) -> bool:
    """Return whether a line is the one below the heads."""
    return "-" in line and _DELIMITER.fullmatch(line) is not None


class Table:
    """Draws a table whose first two lines are its heads and the delimiter.

    Args:
        lines: The heads, the delimiter, and the rows that decide about the widths.
        columns: How wide it may be.
    """

    def __init__(self, lines: Sequence[str], columns: int, style: Style) -> None:
        self._style = style
        self._bar = " │ " if style.signs else " | "
        heads, delimiter, *rows = [_cells(line) for line in lines]
        self._sides = [(cell.startswith(":"), cell.endswith(":")) for cell in delimiter]
        self._heads = heads
        self._rows = rows
        parsed = [heads, *rows]
        count = len(heads)
        self._widths = [
            max(
                1, *(columns_of_cells(self._read(row[index])) for row in parsed if index < len(row))
            )
            for index in range(count)
        ]
        self._shrink(columns - len(self._bar) * (count - 1))

    def _shrink(self, room: int) -> None:
        while sum(self._widths) > room:
            widest = max(self._widths)
            if widest <= MIN_CELL_COLUMNS and sum(self._widths) - len(self._widths) <= room:
                break
            if widest <= 2:
                break  # there are more columns than the terminal has room for
            self._widths[self._widths.index(widest)] -= 1

    @property
    def width(self) -> int:
        """How wide it is."""
        return sum(self._widths) + len(self._bar) * (len(self._widths) - 1)

    def drawn(self) -> Iterator[str]:
        """Yield the rows on the screen."""
        yield from self._row(self._heads, BOLD)
        line = "─" if self._style.signs else "-"
        cross = f"{line}{'┼' if self._style.signs else '+'}{line}"
        yield cross.join(line * width for width in self._widths)
        for row in self._rows:
            yield from self._row(row)

    def more(self, line: str) -> Iterator[str]:
        """Yield the rows on the screen of one more row."""
        yield from self._row(_cells(line))

    def _read(self, text: str, codes: str = "") -> list[Cell]:
        pieces = inline(text, has_colours=self._style.colours)
        return cells_of((part, ";".join(filter(None, (codes, more)))) for part, more in pieces)

    def _row(self, row: Sequence[str], codes: str = "") -> Iterator[str]:
        count = len(self._widths)
        texts = [*row[: count - 1], " | ".join(row[count - 1 :]), *[""] * count][:count]
        columns = [
            list(wrapped(self._read(text, codes), width, width, is_code=False))
            for text, width in zip(texts, self._widths, strict=True)
        ]
        for height in range(max(len(column) for column in columns)):
            parts = [
                self._aligned(column[height] if height < len(column) else [], index)
                for index, column in enumerate(columns)
            ]
            yield self._bar.join(parts).rstrip()

    def _aligned(self, cells: list[Cell], index: int) -> str:
        left, right = self._sides[index] if index < len(self._sides) else (False, False)
        free = max(self._widths[index] - columns_of_cells(cells), 0)
        before = free // 2 if left and right else free if right else 0
        return " " * before + painted(cells, self._style) + " " * (free - before)


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [_BREAK.sub(" ", cell.replace("\\|", "|").strip()) for cell in _SEPARATOR.split(inner)]

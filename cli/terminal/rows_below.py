"""Rows that stand below what a terminal shows, and are drawn again as they change."""

from __future__ import annotations

import os
from collections.abc import Callable

from .folding import folds_rows, rows_taken

BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized update: terminals that know it show what is between the two all at once."""


class RowsBelow:
    """The last rows of a terminal, which have not come to their end.

    Args:
        rows: Returns them as of now, each narrower than the terminal. While there are any, what is written above
            consists of whole lines.
        size: Returns the present size of the terminal.
    """

    def __init__(self, rows: Callable[[], list[str]], size: Callable[[], os.terminal_size]) -> None:
        self._rows = rows
        self._size = size
        self._folds = folds_rows(os.environ)
        self._drawn: list[str] = []
        self._columns = 0

    def drawn(self, text: str) -> str:
        """Return what writes a text in place of the rows that stand there, and the present ones behind it."""
        columns, lines = self._size()
        rows = self._rows()[-max(lines - 1, 1) :]
        if not text and rows == self._drawn:
            return ""
        begin, end = (BEGIN_UPDATE, END_UPDATE) if self._drawn or rows else ("", "")
        text = begin + self._erased(columns) + text + "\n".join(rows) + end
        self._drawn, self._columns = rows, columns
        return text

    def _erased(self, columns: int) -> str:
        if not self._drawn:
            return ""
        taken = len(self._drawn)
        if self._folds and columns < self._columns:
            taken = sum(rows_taken(row, columns) for row in self._drawn)
        return "\r" + (f"\x1b[{taken - 1}A" if taken > 1 else "") + "\x1b[J"

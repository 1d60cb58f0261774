"""Lays out a model's Markdown while it comes: rows that fit, with colours for what is marked.

Each row stands behind a margin of two columns, so that nothing that a model says stands where
callboard's own words do. What is shown of a line never changes by what follows it: characters that
may be part of a mark wait for the next one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .folding import MIN_COLUMNS, char_columns, folded
from .style import Style

MARGIN = "  "
MAX_LINE_CHARS = 4000
"""The longest line that is laid out as one; the rest goes on in the next."""

_HEADING = re.compile(r"#{1,6} ")
_BULLET = re.compile(r"(\s*)([-*+]|\d{1,3}[.)]) ")
_FENCE = re.compile(r"\s*(```|~~~)")
_MARKS = re.compile(r"\*\*|`")
_PENDING = re.compile(r"(\*{1,2}|`+|~+)$")
_TAB = "    "

_Piece = tuple[str, str]
"""A text and the colour it has, or none."""


class MarkdownRows:
    """Lays text out as it comes.

    Args:
        write: Takes whole rows, each with its end, and the text of others.
        columns: How wide the terminal is now.
        style: What it can show.

    Attributes:
        open_row: The last row, painted, as far as it has come; not written yet.
    """

    def __init__(
        self, write: Callable[[str], None], columns: Callable[[], int], style: Style
    ) -> None:
        self.open_row = ""
        self._write = write
        self._columns = columns
        self._style = style
        self._line = ""
        self._written_rows = 0
        self._width = 0
        self._is_fenced = False

    def feed(self, text: str) -> None:
        """Take a piece of the text, whose control characters are escaped already."""
        first, *others = text.replace("\t", _TAB).split("\n")
        self._extend(first)
        for line in others:
            self._end_line()
            self._extend(line)

    def write(self, text: str) -> None:
        """Write text that is not the model's, after the row that is open."""
        if self._line or self.open_row:
            self._write_rows(is_whole=True)
            self._line, self._written_rows, self.open_row = "", 0, ""
            self._write("\n" if not text.startswith("\n") else "")
        self._is_fenced = False
        columns = self._columns()
        self._write(folded(text, columns if columns >= MIN_COLUMNS else None))

    def _extend(self, text: str) -> None:
        self._line += text
        while len(self._line) > MAX_LINE_CHARS:
            rest = self._line[MAX_LINE_CHARS:]
            self._line = self._line[:MAX_LINE_CHARS]
            self._end_line()
            self._line = rest
        self._write_rows(is_whole=False)

    def _end_line(self) -> None:
        self._write_rows(is_whole=True)
        self._write("\n")
        if _FENCE.match(self._line):
            self._is_fenced = not self._is_fenced
        self._line, self._written_rows, self.open_row = "", 0, ""

    def _write_rows(self, *, is_whole: bool) -> None:
        """Write the rows that are full; the last one without its end, when the line is whole."""
        if self._written_rows == 0:
            self._width = max(self._columns(), MIN_COLUMNS) - 1
        rows = list(self._rows(is_whole=is_whole))
        for row in rows[self._written_rows : -1]:
            self._write(row + "\n")
        self._written_rows = len(rows) - 1
        self.open_row = rows[-1]
        if is_whole:
            self._write(rows[-1])

    def _rows(self, *, is_whole: bool) -> Iterator[str]:
        line = self._line
        if not is_whole and not self._is_fenced:
            line = _PENDING.sub("", line)
        if self._is_fenced or _FENCE.match(line):
            yield from self._wrapped([(line, "dim" if _FENCE.match(line) else "cyan")], "")
            return
        bullet = _BULLET.match(line)
        hanging = " " * len(bullet[0]) if bullet is not None else ""
        yield from self._wrapped(list(self._pieces(line, bullet)), hanging)

    def _pieces(self, line: str, bullet: re.Match[str] | None) -> Iterator[_Piece]:
        if _HEADING.match(line):
            yield line, "bold"
            return
        if line.startswith(">"):
            yield line, "dim"
            return
        start = 0
        if bullet is not None:
            sign = "•" if bullet[2] in "-*+" and self._style.signs else bullet[2]
            yield f"{bullet[1]}{sign} ", ""
            start = bullet.end()
        yield from _inline(line, start)

    def _wrapped(self, pieces: list[_Piece], hanging: str) -> Iterator[str]:
        """Yield rows, broken between words where possible; every row has the margin."""
        cells = [(char, colour) for text, colour in pieces for char in text]
        if not cells:
            yield ""
            return
        begin, margin, is_code = 0, MARGIN, bool(pieces) and pieces[0][1] in {"cyan", "dim"}
        while True:
            used, end, space = len(margin), begin, -1
            while end < len(cells):
                width = char_columns(cells[end][0], used)
                if used + width > self._width:
                    break
                if cells[end][0] == " " and not is_code and end > begin + len(hanging):
                    space = end
                used, end = used + width, end + 1
            if end >= len(cells):
                yield margin + self._painted(cells[begin:])
                return
            cut = space if space > begin and cells[end][0] != " " else max(end, begin + 1)
            yield margin + self._painted(cells[begin:cut])
            begin = cut + 1 if cut < len(cells) and cells[cut][0] == " " and not is_code else cut
            margin = MARGIN + (hanging if len(hanging) < self._width // 2 else "")

    def _painted(self, cells: list[tuple[str, str]]) -> str:
        row: list[str] = []
        start = 0
        for index in range(1, len(cells) + 1):
            if index == len(cells) or cells[index][1] != cells[start][1]:
                text = "".join(char for char, _ in cells[start:index])
                colour = cells[start][1]
                row.append(self._style.paint(text, colour) if colour else text)
                start = index
        return "".join(row)


def _inline(line: str, start: int) -> Iterator[_Piece]:
    """Yield bold and code of one line; a mark that opens or closes nothing is a character."""
    colour = ""
    for mark in _MARKS.finditer(line, start):
        is_code = mark[0] == "`"
        if colour == ("cyan" if not is_code else "bold"):
            continue  # a mark inside another
        if not is_code:
            before, after = line[mark.start() - 1 : mark.start()], line[mark.end() : mark.end() + 1]
            opens = bool(after) and not after.isspace() and not before.isalnum()
            if not (opens if not colour else bool(before) and not before.isspace()):
                continue
        if not is_code:
            yield line[start : mark.start()], colour
            start = mark.end()
            colour = "" if colour else "bold"
        else:
            end = mark.end() if colour else mark.start()
            yield line[start:end], colour
            start = end
            colour = "" if colour else "cyan"
    yield line[start:], colour

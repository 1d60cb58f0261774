"""Lays out a model's Markdown while it comes: rows that fit, with colours for what is marked.

What was printed never changes by what follows it: a row is printed when it is full, marks that may still be
closed wait for the end of their line, and a table waits for its last row. Until then it stands in
`open_rows`, which the caller shows below and replaces.

What a model says stands at the left edge, so that it can be copied, where colours tell it from what
callboard says: the model's have no dim, red, green or yellow. A row of the model that begins as
one of callboard's own does is set off by a margin, and so is every row where there are no colours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from .folding import MIN_COLUMNS, folded
from .highlight import CodeLines
from .markdown_inline import BOLD, CODE, ITALIC, closed, inline, stable_end
from .style import Style
from .styled_rows import Cell, Piece, cells_of, columns_of_cells, painted, wrapped
from .tables import MAX_HELD_ROWS, Table, is_delimiter, may_be_row

MARGIN = "  "
MAX_LINE_CHARS = 4000
"""The longest line that is laid out as one; the rest goes on in the next."""
MAX_OPEN_ROWS = 8
"""Rows that are shown of what waits, the last ones: the smallest screens have room for them."""

_HEADING = re.compile(r"(#{1,6}) +")
_BULLET = re.compile(r"(\s*)([-*+]|\d{1,3}[.)]) (\[[ xX]\] )?")
_QUOTE = re.compile(r"((?:> ?)+)")
_RULE = re.compile(r" {0,3}(-( ?-){2,}|\*( ?\*){2,}|_( ?_){2,})\s*")
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^\s`]*)[^`]*")
_OWN = re.compile(r"\s*([▸✓✗⋯]|callboard\b)", re.IGNORECASE)
_MAY_BE_BLOCK = re.compile(r"\s*([-*+_>#`~\d.) ]|\[[ xX]?\]?)*$")
_TAB = "    "
_RULE_COLUMNS = 40
_HEADING_CODES = "1;4"
_FRAME = "2"
"""Dim, since the grey is the background itself in some themes, and a quotation must be seen as one."""


class _Block(msgspec.Struct, frozen=True):
    """What kind of line it is: what stands before its text, from where that begins, and its colours.

    Rows behind the first begin with `indent`, which takes `hanging` columns.
    """

    head: tuple[Piece, ...] = ()
    start: int = 0
    codes: str = ""
    hanging: int = 0
    indent: str = ""


class MarkdownRows:
    """Lays text out as it comes.

    Args:
        write: Takes whole rows, each with its end, and the text of others.
        columns: How wide the terminal is now.
        style: What it can show.
        is_alone: Whether nothing of callboard's own stands there, to be told apart.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        columns: Callable[[], int],
        style: Style,
        *,
        is_alone: bool = False,
    ) -> None:
        self._write = write
        self._columns = columns
        self._style = style
        self._is_alone = is_alone
        self._has_margin = not (style.colours and style.signs)
        self._line = ""
        self._block: _Block | None = None  # of the line, once rows of it are laid out
        self._laid_out = 0  # characters of the line
        self._cells: list[Cell] = []  # of its last row
        self._is_first_row = True
        self._due_chars = 0  # the line has a further full row at this length at the earliest
        self._width = 0
        self._fence = ""
        self._code = CodeLines("")
        self._held: list[str] = []  # lines of a table
        self._table: Table | None = None
        self._drawn: list[str] = []
        self._drawn_of = (0, 0)

    @property
    def open_rows(self) -> list[str]:
        """The rows that are not written yet, painted, as far as they have come."""
        if not self._line and not self._held:
            return []
        self._set_width()
        rows = self._rows_of_table() if self._held else []
        if self._line:
            line = self._line if self._fence else closed(self._line, self._laid_out)
            rows = [*rows, *(self._rows(line) if self._block is None else self._rest(line))]
        return rows[-MAX_OPEN_ROWS:]

    def _rows_of_table(self) -> list[str]:
        if len(self._held) == 1:
            return self._rows(self._held[0])
        if (drawn_of := (len(self._held), self._room)) != self._drawn_of:
            self._drawn_of = drawn_of
            table = Table(self._held, self._room, self._style)
            self._drawn = [self._set_off(row) for row in table.drawn()]
        return self._drawn

    def feed(self, text: str) -> None:
        """Take a piece of the text, whose control characters are escaped already."""
        first, *others = text.replace("\t", _TAB).split("\n")
        self._extend(first)
        for line in others:
            self._end_line()
            self._extend(line)

    def write(self, text: str) -> None:
        """Write text that is not the model's, after the row that is open."""
        if self._line:
            self._end_line()
            text = text.removeprefix("\n")
        self._end_table()
        self._fence = ""
        self.aside(text)

    def write_whole(self, text: str) -> None:
        """Write a line as `write` does, which the terminal folds: it is copied without our marks. Nothing of it may be foreign."""
        self.write("")
        self._write(f"{text}\n")

    def aside(self, text: str) -> None:
        """Write text that is not the model's above what is open, in which nothing changes."""
        columns = self._columns()
        self._write(folded(text, columns if columns >= MIN_COLUMNS else None))

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _extend(self, text: str) -> None:
        self._line += text
        while len(self._line) > MAX_LINE_CHARS:
            rest = self._line[MAX_LINE_CHARS:]
            self._line = self._line[:MAX_LINE_CHARS]
            self._end_line()
            self._line = rest
        if self._line and not may_be_row(self._line):
            if self._line.strip(" "):
                self._end_table()
            self._write_full_rows()

    def _end_line(self) -> None:
        line = self._line
        if self._block is not None:
            self._write_rows(self._rest(line))
        elif not self._fence and may_be_row(line):
            self._take_table_row(line)
        else:
            self._end_table()
            self._set_width()
            self._write_rows(self._rows(line, is_whole=True))
        self._line, self._due_chars = "", 0
        self._block, self._laid_out, self._cells, self._is_first_row = None, 0, [], True

    def _write_rows(self, rows: Iterable[str]) -> None:
        for row in rows:
            self._write(row + "\n")

    def _set_width(self) -> None:
        if self._is_first_row:
            self._width = max(self._columns(), MIN_COLUMNS) - 1

    @property
    def _room(self) -> int:
        """Columns for text: any row may get a margin."""
        return self._width - len(MARGIN)

    def _write_full_rows(self) -> None:
        """Write the rows that are full and stay as they are, whatever comes."""
        if self._fence or len(self._line) < self._due_chars or _FENCE.match(self._line):
            return  # a line of code is coloured when it is whole
        self._set_width()
        end = stable_end(self._line, self._laid_out)
        if self._block is None:
            if _MAY_BE_BLOCK.fullmatch(self._line[:end]):
                return
            self._block = self._block_of(self._line)
            self._cells, self._laid_out = cells_of(self._block.head), self._block.start
        if end <= self._laid_out:
            return
        self._cells += self._cells_until(self._line[:end])
        self._laid_out = end
        *full, self._cells = self._broken(self._cells)
        self._write_rows(self._hung(full))
        self._is_first_row = self._is_first_row and not full
        # A character takes two columns at most.
        free = self._room - columns_of_cells(self._cells) - self._block.hanging
        self._due_chars = end + max(free // 2, 1)

    def _rest(self, line: str) -> list[str]:
        """Return the rows of a line behind those that are written."""
        return list(self._hung(self._broken([*self._cells, *self._cells_until(line)])))

    def _cells_until(self, line: str) -> list[Cell]:
        assert self._block is not None
        pieces = inline(line, self._laid_out, has_colours=self._style.colours)
        return cells_of((text, _joined(self._block.codes, more)) for text, more in pieces)

    def _broken(self, cells: list[Cell]) -> list[list[Cell]]:
        assert self._block is not None
        others = self._room - self._block.hanging
        first = self._room if self._is_first_row else others
        return list(wrapped(cells, first, others, is_code=False))

    def _hung(self, rows: list[list[Cell]]) -> Iterator[str]:
        assert self._block is not None
        for index, row in enumerate(rows):
            is_first = self._is_first_row and index == 0
            text = painted(row, self._style)
            yield self._set_off(text if is_first or not text else self._block.indent + text)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def _take_table_row(self, line: str) -> None:
        if self._table is not None:
            self._write_rows(map(self._set_off, self._table.more(line)))
            return
        self._held.append(line)
        if len(self._held) == 2 and not is_delimiter(line):  # lines that begin with a bar, no table
            held, self._held = self._held, []
            self._set_width()
            for each in held:
                self._write_rows(self._rows(each, is_whole=True))
        elif len(self._held) >= MAX_HELD_ROWS:
            self._end_table(goes_on=True)

    def _end_table(self, *, goes_on: bool = False) -> None:
        held, self._held = self._held, []
        if held:
            self._set_width()
        if len(held) > 1:
            table = Table(held, self._room, self._style)
            self._write_rows(map(self._set_off, table.drawn()))
            self._table = table
        elif held:
            self._write_rows(self._rows(held[0], is_whole=True))
        if not goes_on:
            self._table = None

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, line: str, *, is_whole: bool = False) -> list[str]:
        """Return the rows of a line; a whole one counts for what comes behind it."""
        fence = _FENCE.fullmatch(line)
        if self._fence:
            if fence is not None and fence[2].startswith(self._fence) and not fence[3]:
                if is_whole:
                    self._fence = ""
                return self._unmarked(self._framed("╰─", line), _FRAME)
            pieces = self._code.line(line) if is_whole else [(line, CODE)]
            rows = wrapped(cells_of(pieces), self._room, self._room, is_code=True)
            return [self._set_off(painted(row, self._style)) for row in rows]
        if fence is not None:
            if is_whole:
                self._fence, self._code = fence[2], CodeLines(fence[3])
            said = line.strip().lstrip("`~").strip()
            return self._unmarked(self._framed(f"╭─ {said}".rstrip(), line), _FRAME)
        if _RULE.fullmatch(line) and (is_whole or len(line) > 2):
            sign = "─" if self._style.signs else "-"
            return self._unmarked(sign * min(self._room, _RULE_COLUMNS), _FRAME)
        # As a line that is laid out from its beginning, and forgotten.
        self._block = self._block_of(line)
        self._cells, self._laid_out = cells_of(self._block.head), self._block.start
        rows_of_line = self._rest(line)
        self._block, self._cells, self._laid_out = None, [], 0
        return rows_of_line

    def _framed(self, frame: str, line: str) -> str:
        return line if self._has_margin else frame

    def _unmarked(self, text: str, codes: str) -> list[str]:
        rows = wrapped(cells_of([(text, codes)]), self._room, self._room, is_code=True)
        return [self._set_off(painted(row, self._style)) for row in rows]

    def _block_of(self, line: str) -> _Block:
        """Return what the beginning of a line says of the whole of it."""
        if (heading := _HEADING.match(line)) is not None:
            codes = _HEADING_CODES if len(heading[1]) < 3 else BOLD
            return _Block(start=heading.end() if self._style.colours else 0, codes=codes)
        if (quote := _QUOTE.match(line)) is not None:
            bar = ("│ " if self._style.signs else "> ") * quote[1].count(">")
            indent = self._style.coded(bar, _FRAME)
            return self._fitting(_Block(((bar, _FRAME),), quote.end(), ITALIC, len(bar), indent))
        if (bullet := _BULLET.match(line)) is not None:
            sign = "•" if bullet[2] in "-*+" and self._style.signs else bullet[2]
            box = bullet[3] or ""
            if box and self._style.signs:
                sign, box = ("☐ " if box[1] == " " else "☑ "), ""
            head = f"{bullet[1]}{sign}{'' if sign[-1] == ' ' else ' '}{box}"
            block = _Block(((head, ""),), bullet.end(), "", len(head), " " * len(head))
            return self._fitting(block)
        return _Block()

    def _fitting(self, block: _Block) -> _Block:
        """Return a block whose further rows don't stand in too far for the terminal."""
        if block.hanging < self._room // 2:
            return block
        return msgspec.structs.replace(block, hanging=0, indent="")

    def _set_off(self, row: str) -> str:
        """Put a margin before a row that callboard's own could be taken for."""
        if self._is_alone or not row:
            return row
        is_own = self._has_margin or _OWN.match(_PAINT.sub("", row))
        return MARGIN + row if is_own else row


_PAINT = re.compile(r"\x1b\[[0-9;]*m")


def _joined(codes: str, more: str) -> str:
    return ";".join(filter(None, (codes, more)))

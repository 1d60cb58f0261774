"""Folds long lines with a mark, so that no foreign text makes a row of its own.

A terminal wraps a long line to the first column, where only what callboard says itself may stand:
padded with spaces, a text could show a question, or an answer, that nobody asked or gave.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping

RUNS_ON = "    |> "
"""The mark before each further row of a line."""

MIN_COLUMNS = 20
"""A narrower terminal has no room behind that mark, and wraps lines itself."""

USUAL_SIZE = os.terminal_size((80, 24))
"""The size of a terminal that does not say its own."""

_TAB_COLUMNS = 8
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_COMMAND = re.compile(r"`callboard [^`]*`")


def columns_of(descriptor: int) -> int | None:
    """Return how wide the terminal is; `None` when it is not a terminal, or does not say."""
    try:
        columns = os.get_terminal_size(descriptor).columns
    except OSError:
        return None
    return columns if columns >= MIN_COLUMNS else None


def size_of(descriptor: int) -> os.terminal_size:
    """Return the size of a terminal, or the usual one of what does not say it."""
    try:
        columns, lines = os.get_terminal_size(descriptor)
    except OSError:
        columns, lines = 0, 0  # it is gone, or none
    return os.terminal_size((columns or USUAL_SIZE.columns, lines or USUAL_SIZE.lines))


def folds_rows(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal folds what it shows when it becomes narrower, as nearly all do.

    xterm, GNU screen, rxvt and the Linux console cut it off. It can't be asked, and who is wrong leaves a row
    twice, or takes one away that is on record.
    """
    if environ.get("TMUX"):
        return True
    cuts = environ.get("STY") or environ.get("XTERM_VERSION")
    return not cuts and not environ.get("TERM", "").startswith(("linux", "rxvt"))


def rows_taken(row: str, columns: int) -> int:
    """Return how many rows a terminal makes of a row that it folds."""
    taken, used = 1, 0
    for char in _COLOUR.sub("", row):
        width = char_columns(char, used)
        if used + width > columns:
            taken, used = taken + 1, 0
        used += width
    return taken


def folded(text: str, columns: int | None) -> str:
    """Return the text with no row wider than that; colours take no room."""
    if columns is None:
        return text
    return "\n".join("\n".join(_rows(line, columns)) for line in text.split("\n"))


def _rows(line: str, columns: int) -> Iterator[str]:
    if line.isascii() and len(line) < columns and "\t" not in line:
        yield line
        return
    row: list[str] = []
    used = blank = 0  # `blank`: where the row may end, after a space
    for piece in _COLOUR.split(line):
        if _COLOUR.fullmatch(piece):
            row.append(piece)
            continue
        begins, whole = _commands(piece, columns - len(RUNS_ON))
        for index, char in enumerate(piece):
            width = char_columns(char, used)
            # The last column stays free: some terminals wrap as soon as it is taken.
            while used + width >= columns:
                cut = blank or len(row)
                yield "".join(row[:cut])
                row, blank = [RUNS_ON, *row[cut:]], 0
                used = columns_taken(row)
                width = char_columns(char, used)
            row.append(char)
            used += width
            if char == " " and index not in whole and (used >= columns // 2 or index in begins):
                blank = len(row)  # a word that is longer than half a row is broken inside
            elif char == "\t":
                blank = 0  # it has another width at another place
    yield "".join(row)


def _commands(text: str, columns: int) -> tuple[set[int], set[int]]:
    """Return the spaces before, and inside, the commands that fit into a row: who copies one finds it whole."""
    begins, inside = set[int](), set[int]()
    for found in _COMMAND.finditer(text) if "`callboard " in text else ():
        if len(found[0]) < columns and found[0].isascii():
            begins.add(found.start() - 1)
            inside.update(range(*found.span()))
    return begins, inside


def columns_taken(pieces: list[str]) -> int:
    """Return how many columns pieces of a row take; colours take none."""
    used = 0
    for piece in pieces:
        if piece.isascii() and piece.isprintable():
            used += len(piece)
            continue
        for char in "" if _COLOUR.fullmatch(piece) else piece:
            used += char_columns(char, used)
    return used


def text_columns(text: str) -> int:
    """Return how many columns a text takes; colours take none."""
    return columns_taken(_COLOUR.split(text))


def fitted(text: str, columns: int) -> str:
    """Return a text without colours, cut with an ellipsis where it takes more columns."""
    if len(text) * 2 <= columns or text_columns(text) <= columns:
        return text
    used = 0
    for index, char in enumerate(text):
        used += char_columns(char, used)
        if used >= columns:
            return text[:index] + "…"
    return text


def char_columns(char: str, used: int) -> int:
    """Return how many columns a character takes at a column."""
    if " " <= char <= "~":
        return 1
    if char == "\t":
        return _TAB_COLUMNS - used % _TAB_COLUMNS
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1

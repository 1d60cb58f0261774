"""Lists in columns: with heads on a terminal, the same rows without them in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from .folding import columns_of, text_columns
from .style import Style, style_of

GAP = "  "
MIN_LAST_COLUMNS = 12
"""With less room for the last column, what it says stands on a row of its own."""
_BELOW = 4


def write_list(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a list on stdout; nothing, not even heads, when it is empty."""
    columns = columns_of(1)
    for line in listed(heads, [*rows], columns, style_of(sys.stdout)):
        sys.stdout.write(f"{line}\n")


def listed(
    heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None, style: Style
) -> list[str]:
    """Return the lines of a list, its columns aligned.

    Args:
        heads: The names of the columns; numbers have `>` in front, and stand on the right.
        rows: As many cells each, safe to print.
        columns: The terminal's; `None` in a pipe, which gets no heads, and every cell whole.
        style: Paints the heads.
    """
    names = [head.removeprefix(">") for head in heads]
    shown = [names, *rows] if columns is not None else rows
    if not rows:
        return []
    # A column without a cell is left out; the last one is as long as it is.
    used = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    widths = {i: max(text_columns(row[i]) for row in shown) for i in used}
    *ahead, last = used
    room = sys.maxsize
    if columns is not None:
        room = columns - 1 - sum(widths[i] + len(GAP) for i in ahead)
    is_below = room < min(widths[last], MIN_LAST_COLUMNS) and bool(ahead)
    if is_below:
        room = (columns or 0) - 1 - _BELOW
    lines: list[str] = []
    for row in shown:
        cells = [_padded(row[i], widths[i], is_number=heads[i][0] == ">") for i in ahead]
        end = (
            _padded(row[last], widths[last], is_number=True) if heads[last][0] == ">" else row[last]
        )
        own = [_cut(end, room)]
        line = GAP.join(cells if is_below else cells + own).rstrip()
        lines.append(style.paint(line, "bold") if row is names else line)
        if is_below and row is not names and row[last]:
            lines.append(" " * _BELOW + own[0])
    return lines


def _padded(text: str, width: int, *, is_number: bool) -> str:
    blank = " " * (width - text_columns(text))
    return blank + text if is_number else text + blank


def _cut(text: str, width: int) -> str:
    if text_columns(text) <= width:
        return text
    while text_columns(text) >= width:
        text = text[:-1]
    return f"{text}…"

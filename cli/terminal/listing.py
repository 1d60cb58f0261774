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
    fitting, room = _fitting([widths[i] for i in used], columns)
    ahead, below = used[:fitting], used[fitting:]
    lines: list[str] = []
    for row in shown:
        cells = [_padded(row[i], widths[i], is_number=heads[i][0] == ">") for i in ahead]
        if ahead[-1] == used[-1]:
            cells[-1] = _cut(cells[-1].rstrip(), room)
        line = GAP.join(cells).rstrip()
        lines.append(style.paint(line, "bold") if row is names else line)
        said = [
            row[i] if len(below) == 1 else f"{names[i]}: {row[i].strip()}" for i in below if row[i]
        ]
        if said and row is not names:
            lines.append(" " * _BELOW + _cut(GAP.join(said), (columns or 0) - 1 - _BELOW))
    return lines


def _fitting(widths: Sequence[int], columns: int | None) -> tuple[int, int]:
    """Return how many columns stand side by side, and the room of the last one; others stand below."""
    if columns is None:
        return len(widths), sys.maxsize
    room, count = columns - 1, 0
    for width in widths:
        least = width if count < len(widths) - 1 else min(width, MIN_LAST_COLUMNS)
        if count and room < least:
            return count, 0
        room, count = room - width - len(GAP), count + 1
    return count, room + widths[-1] + len(GAP)


def _padded(text: str, width: int, *, is_number: bool) -> str:
    blank = " " * (width - text_columns(text))
    return blank + text if is_number else text + blank


def _cut(text: str, width: int) -> str:
    if text_columns(text) <= width:
        return text
    while text_columns(text) >= width:
        text = text[:-1]
    return f"{text}…"

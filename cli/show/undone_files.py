"""What an undo would change inside files, as lines for whoever is asked about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...runtime.changes.undo_report import UndoneFile
from ..terminal.escaping import safe_line
from ..terminal.style import Style, counted

_COLOURS = {"+": "green", "-": "red", "@": "dim"}


def undone_lines(files: Iterable[UndoneFile], style: Style) -> Iterator[str]:
    """Yield each file with how many lines it gets and loses, and the first of them."""
    bar = "│" if style.signs else "|"
    for file in files:
        yield f"{safe_line(file.path)}  +{file.added} -{file.removed}"
        for line in file.diff:
            text = safe_line(line.expandtabs(4))
            colour = _COLOURS.get(line[:1])
            yield f"  {bar} {style.paint(text, colour) if colour else text}"
        if file.more:
            yield style.paint(f"  {bar} … {counted(file.more, 'more line')}", "dim")

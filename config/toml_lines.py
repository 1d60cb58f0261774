"""On which line of a TOML file a setting stands: tomllib keeps no positions."""

from __future__ import annotations

import re
from collections import Counter

_HEADER = re.compile(r"\s*(?:\[\[([^\[\]]+)\]\]|\[([^\[\]]+)\])\s*(#.*)?$")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")

KeyPath = tuple[str, ...]


class TomlLines:
    """The lines of one file, read once.

    It finds headers and `key =` lines, which is how people write settings; what it misses (a table
    inside braces) is reported at the line of its outer key. Of the tables `[[rules]]`, the third
    is `("rules", "[3]")`.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        counts: Counter[KeyPath] = Counter()
        table: KeyPath = ()
        for number, line in enumerate(text.split("\n"), 1):
            if header := _HEADER.match(line):
                table = _numbered(_key(header[1] or header[2]), counts, is_next=bool(header[1]))
                self._lines.setdefault(table, number)
            elif assignment := _ASSIGNMENT.match(line):
                self._lines.setdefault((*table, *_key(assignment[1])), number)

    def line_of(self, path: KeyPath) -> int | None:
        """The line of a setting, or of the nearest table around it; `None` when there is none."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None


def _numbered(key: KeyPath, counts: Counter[KeyPath], *, is_next: bool) -> KeyPath:
    """The key of a header with the number of each table of several that it goes through."""
    found: KeyPath = ()
    for at, part in enumerate(key, 1):
        found = (*found, part)
        if is_next and at == len(key):
            counts[found] += 1
        if found in counts:
            found = (*found, f"[{counts[found]}]")
    return found


def _key(text: str) -> KeyPath:
    """The parts of a dotted TOML key; a part in quotes may hold dots."""
    return tuple(a or b or c for a, b, c in _PART.findall(text))

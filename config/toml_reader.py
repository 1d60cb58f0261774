"""TOML tables become structs, and every mistake is named with its file, line and setting.

tomllib keeps no positions and msgspec words its complaints for programmers. So the text is searched
for the line of a setting once something is wrong with it, and the complaint is put into TOML's words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..runtime.errors import ValidationError
from .validation import explained

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of agents and providers: they stand in commands and before the slash of a model."""

TOML_WORDS = {
    " | null`": "`",
    "`object": "`table",
    "`str`": "`string`",
    "`int`": "`integer`",
    "`float`": "`number`",
}
"""What TOML calls the types that msgspec names."""

_HEADER = re.compile(r"\s*(?:\[\[([^\[\]]+)\]\]|\[([^\[\]]+)\])\s*(#.*)?$")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([A-Za-z0-9_-]+)")

_Any = TypeVar("_Any")

KeyPath = tuple[str, ...]


class TomlReader:
    """Converts the parsed TOML of one file into structs."""

    def __init__(self, text: str, file: Path) -> None:
        self._text = text
        self._file = file

    @cached_property
    def _lines(self) -> TomlLines:
        return TomlLines(self._text)

    def tables(
        self, document: Mapping[str, Any], key: str, kind: type[_Any], defaults: Mapping[str, Any]
    ) -> dict[str, _Any]:
        """Return the tables `[key.NAME]`, each with its name filled in."""
        tables = document.get(key, {})
        if not isinstance(tables, dict):
            raise self.error((key,), f"expected tables like [{key}.NAME]")
        found: dict[str, _Any] = {}
        for name, table in tables.items():
            path: tuple[str, ...] = (key, name)
            if not isinstance(table, dict):
                raise self.error(path, f"expected a table [{key}.NAME], got a single value")
            if not NAME.fullmatch(name):
                raise self.error(path, "a name has letters, digits, '.', '_' and '-', at most 64")
            if table.get("name", name) != name:
                raise self.error((*path, "name"), f"expected {name!r}, the name of its table")
            found[name] = self.convert({**defaults, **table, "name": name}, kind, path)
        return found

    def convert(self, value: Any, kind: type[_Any], path: tuple[str, ...]) -> _Any:
        """Return the struct of one table; raise `ValidationError`."""
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as exc:
            raise self._explained(str(exc), kind, path) from exc

    def _explained(self, complaint: str, kind: type[Any], path: tuple[str, ...]) -> ValidationError:
        inner, problem = explained(complaint, kind)
        for word, plain in TOML_WORDS.items():
            problem = problem.replace(word, plain)
        return self.error((*path, *inner), problem.replace("`", ""))

    def error(self, path: tuple[str, ...], problem: str) -> ValidationError:
        """Return the error for the setting at `path`."""
        field = _dotted(path)
        end = "" if problem.endswith("?") else "."
        return ValidationError(
            f"{self.where(path)}: {field}: {problem}{end} Nothing of it was used.", field=field
        )

    def where(self, path: tuple[str, ...]) -> str:
        """Return where a setting is: `/etc/callboard.toml, line 12`."""
        line = self._lines.line_of(path)
        return f"{self._file}, line {line}" if line else str(self._file)

    def place(self, path: tuple[str, ...]) -> str:
        """Return where the table at `path` is: `rules[3] (callboard.toml, line 12)`."""
        line = self._lines.line_of(path)
        where = f"{self._file.name}, line {line}" if line else self._file.name
        return f"{_dotted(path)} ({where})"


class TomlLines:
    """The lines on which the settings of a file are.

    It finds headers and `key =` lines, which is how people write settings; what it misses (a table
    inside braces) is reported at the line of its outer key. The third of the tables `[[rules]]` is
    `("rules", "[3]")`.
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
        """Return the line of a setting, or of the nearest table around it, or `None`."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None


def _numbered(key: KeyPath, counts: Counter[KeyPath], *, is_next: bool) -> KeyPath:
    """Return the key of a header, with the number of each array's table on its way."""
    found: KeyPath = ()
    for at, part in enumerate(key, 1):
        found = (*found, part)
        if is_next and at == len(key):
            counts[found] += 1
        if found in counts:
            found = (*found, f"[{counts[found]}]")
    return found


def _key(text: str) -> KeyPath:
    """Return the parts of a dotted TOML key; a part in quotes may contain dots."""
    return tuple(a or b or c for a, b, c in _PART.findall(text))


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[", "[")

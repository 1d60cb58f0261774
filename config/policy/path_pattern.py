"""Patterns of paths in a workspace: `*`, `?` and `**`, and everything else as it is.

`*` and `?` stay within one name; `**`, alone between slashes, is any number of names, at the end at least
one. They match names that begin with a dot too. Only the text is judged: links are checked by the file
tools.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property

MAX_PATH_CHARS = 4096
"""Linux's PATH_MAX; a longer path can't be opened."""
MAX_WILDCARDS = 32
"""Characters `*` and `?` of one pattern at most, so that matching stays cheap."""

_REFUSED = re.compile(r"[\[\]{}\\\x00-\x1f\ud800-\udfff]")
_UNJUDGED = re.compile(r"[\x00\ud800-\udfff]")


def judged_path(text: str) -> str | None:
    """Return an argument's path without `.` and empty names; `""` is the workspace.

    Return `None` when the text alone can't tell: it is absolute, has `..`, or is not a path.
    """
    if text.startswith("/") or len(text) > MAX_PATH_CHARS or _UNJUDGED.search(text):
        return None
    if not (text.startswith(".") or text.endswith("/") or "/." in text or "//" in text):
        return text
    names = [name for name in text.split("/") if name not in {"", "."}]
    return None if ".." in names else "/".join(names)


def folded(text: str) -> str:
    """Return the text case-folded and normalized, as some file systems compare names."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


class PathPattern:
    """One pattern.

    Args:
        text: As it is written.
        fold: Compare folded texts; the paths must be `folded` then.

    Raises:
        ValueError: It is malformed; the message says why.
    """

    def __init__(self, text: str, *, fold: bool = False) -> None:
        names = _names(text)
        self._names = tuple(map(folded, names)) if fold else names
        fixed = 0
        while fixed < len(names) and not is_wild(names[fixed]):
            fixed += 1
        self.head = self._names[0] if fixed else None
        """The first name, unless it is a wildcard: a path that begins otherwise does not match."""
        self._literal = "/".join(self._names) if fixed == len(names) else None
        is_below = fixed == len(names) - 1 and names[-1] == "**"
        self._below = "/".join((*self._names[:-1], "")) if is_below and fixed else None

    def expression(self, *, reaching: bool) -> str:
        """Return the pattern as a regular expression; with `reaching`, it matches folders above too."""
        whole = f"(?:{_sequence(self._names)})"
        return f"{whole}|{self._folders}" if reaching else whole

    def matches(self, path: str) -> bool:
        """Whether the pattern matches this path (a `judged_path`)."""
        if self._literal is not None:
            return path == self._literal
        if self._below is not None:
            return path.startswith(self._below) and len(path) > len(self._below)
        return self._regex.match(path) is not None

    def reaches_into(self, path: str) -> bool:
        """Whether the path is a folder above what the pattern matches, by the names before `**`."""
        return self._above.match(path) is not None

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return re.compile(_sequence(self._names), re.DOTALL)

    @cached_property
    def _above(self) -> re.Pattern[str]:
        return re.compile(self._folders)

    @property
    def _folders(self) -> str:
        end = self._names.index("**") if "**" in self._names else len(self._names) - 1
        nested = ""
        for name in reversed(self._names[:end]):
            nested = _name(name) + (f"(?:/{nested})?" if nested else "")
        return rf"(?:{nested})?\Z"


def _names(text: str) -> tuple[str, ...]:
    if not text or len(text) > MAX_PATH_CHARS:
        raise ValueError(f'path: a pattern has 1 to {MAX_PATH_CHARS} characters; "." is the root')
    if text.startswith("/"):
        raise ValueError(f"path: {text!r} is absolute; patterns are relative to the workspace")
    if refused := _REFUSED.search(text):
        raise ValueError(
            f"path: {text!r} holds {refused[0]!r}; the wildcards are *, ** and ?, and ? stands "
            "for any one character"
        )
    names: list[str] = []
    for name in text.split("/"):
        if name == "..":
            raise ValueError(f"path: {text!r} holds '..'; write the path that is meant")
        if "**" in name and name != "**":
            raise ValueError(f"path: in {text!r}, ** does not stand alone between slashes")
        if name in {"", "."} or (name == "**" and names[-1:] == ["**"]):
            continue
        names.append(name)
    if sum(name.count("*") + name.count("?") for name in names) > MAX_WILDCARDS:
        raise ValueError(f"path: {text!r} has more than {MAX_WILDCARDS} wildcards")
    return tuple(names)


def is_wild(text: str) -> bool:
    """Whether a text, read as a pattern, has a wildcard."""
    return "*" in text or "?" in text


def _sequence(names: tuple[str, ...]) -> str:
    # Atomic groups: each piece between two `**` is taken where it first fits, which is never worse
    # than later. So there is no backtracking, whatever path a model makes up.
    pieces: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            pieces.append([])
        else:
            pieces[-1].append(_name(name))
    first, *between = pieces
    if not between:
        return "/".join(first) + r"\Z"
    *middle, last = between
    text = "".join(f"{name}/" for name in first)
    text += "".join(rf"(?>(?:[^/]+/)*?{'/'.join(piece)}/)" for piece in middle)
    if last:
        return text + rf"(?:[^/]+/)*?{'/'.join(last)}\Z"
    return text + (r".+\Z" if len(names) > 1 else r".*\Z")


def _name(name: str) -> str:
    """Return a regular expression for one whole name."""
    if name == "*":
        return r"[^/]+(?=/|\Z)"
    fixed = ["".join("[^/]" if c == "?" else re.escape(c) for c in s) for s in name.split("*")]
    if len(fixed) == 1:
        return rf"{fixed[0]}(?=/|\Z)"
    first, *middle, last = fixed
    skips = "".join(f"(?>[^/]*?{piece})" for piece in middle if piece)
    return rf"(?>{first}{skips}[^/]*{last}(?=/|\Z))"

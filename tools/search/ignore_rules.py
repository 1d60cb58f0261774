"""Which files a search skips: the .gitignore files of the workspace, matched in bounded time.

pathspec defines the meaning of a pattern, but its regular expressions backtrack over each star in
turn: twenty lines like `*a*a*a0b` held the interpreter for seconds on one long name, and a cloned
repository brings both the lines and the name. Within a name, only the last star has to be tried in
more than one way. Whatever stands before it may be found once, as early as possible, and kept: so we
make an atomic group of it. Patterns, stars and paths are bounded besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from ...runtime.definitions import ToolFailure
from ...runtime.handles import FileInfo, ReadableFiles
from ...runtime.taint.tracked_files import disregard
from ..failures import invalid

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MAX_IGNORE_BYTES = 256 * 1024
"""The part of a .gitignore that is read; each line costs time for each file."""
MAX_GLOB_CHARACTERS = 500
"""A person writes no longer glob."""

MAX_STARS = 5
"""Runs of `*` in a pattern; a person writes no more."""
MAX_DEEP_STARS = 2
"""Runs of `**`, which fits any folders: each multiplies the ways to try by a path's length."""
MAX_PATTERNS = 2000
"""In all .gitignore files of one search: each costs time for each file."""
MAX_PATH_CHARACTERS = 1024
"""The longest path that is matched; a longer one is nobody's source, and matches no pattern."""

_STAR = "[^/]*"
_STARS = re.compile(r"\*+")
_NEVER_SEARCHED = frozenset({".git", ".callboard"})


class NamePattern:
    """A glob over paths, in the language of .gitignore: `*.py` fits at any depth.

    Raises `ToolFailure` (`validation_error`) when it is not a glob.
    """

    def __init__(self, glob: str) -> None:
        if not glob.strip() or len(glob) > MAX_GLOB_CHARACTERS:
            raise _no_glob("it must have 1 to 500 characters")
        if not _is_bounded(glob):
            raise _no_glob(
                f"it has more than {MAX_STARS} stars, or {MAX_DEEP_STARS} of them are **"
            )
        try:
            self._spec = spec_of([pattern_of(glob)])
        except ValueError as error:
            raise _no_glob(str(error)) from error

    def fits(self, path: str) -> bool:
        """Return whether a path relative to the workspace fits."""
        return len(path) <= MAX_PATH_CHARACTERS and self._spec.match_file(path)


class IgnoreRules:
    """The .gitignore files from the root down to each directory, each read on first use."""

    def __init__(self, files: ReadableFiles) -> None:
        self._files = files
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._count = 0

    def covers(self, info: FileInfo) -> bool:
        """Return whether a file or directory is ignored; callers skip all that an ignored one holds."""
        names = info.path.split("/")
        if names[-1] in _NEVER_SEARCHED:
            return True
        if len(info.path) > MAX_PATH_CHARACTERS:
            return False
        # The nearest .gitignore with a matching pattern decides.
        for depth in range(len(names) - 1, -1, -1):
            folder = "/".join(names[:depth])
            if folder not in self._specs:
                self._specs[folder] = self._read(f"{folder}/.gitignore".lstrip("/"))
            if (spec := self._specs[folder]) is None:
                continue
            inner = "/".join(names[depth:])
            found = spec.check_file(f"{inner}/" if info.kind == "directory" else inner).include
            if found is not None:
                return found
        return False

    def _read(self, path: str) -> GitIgnoreSpec | None:
        try:
            data = self._files.read(path, limit=MAX_IGNORE_BYTES).data
        except ToolFailure:
            return None
        disregard(self._files, path)  # it only says which files to skip
        patterns: list[GitIgnoreSpecPattern] = []
        for line in data.decode("utf-8", "replace").splitlines():
            if not line.strip() or line.startswith("#") or not _is_bounded(line):
                continue
            if self._count >= MAX_PATTERNS:
                break
            self._count += 1
            with suppress(ValueError):  # git too ignores an invalid line
                patterns.append(pattern_of(line))
        return spec_of(patterns)


def _is_bounded(pattern: str) -> bool:
    runs = _STARS.findall(pattern)
    deep = sum(len(run) > 1 for run in runs)
    return len(pattern) <= MAX_GLOB_CHARACTERS and len(runs) <= MAX_STARS and deep <= MAX_DEEP_STARS


def spec_of(patterns: Iterable[GitIgnoreSpecPattern]) -> GitIgnoreSpec:
    """Return what matches paths against these patterns."""
    from pathspec import GitIgnoreSpec  # here: only a search needs it, and it takes 20 ms

    # Another backend does not know atomic groups, and is installed on some machines only.
    return GitIgnoreSpec(patterns, backend="simple")


def pattern_of(line: str) -> GitIgnoreSpecPattern:
    """Return the pattern of a line, in bounded time; raise `ValueError` for an invalid one."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    if regex is None:
        return GitIgnoreSpecPattern(None)
    before, *pieces = regex.split(_STAR)
    for number, piece in enumerate(pieces, 1):
        # A slash that is not part of "any character but a slash" ends the name.
        is_last = number == len(pieces) or "/" in piece.replace("[^/]", "")
        before += f"{_STAR}{piece}" if is_last else f"(?>{_STAR}?{piece})"
    return GitIgnoreSpecPattern(re.compile(before), include)


def _no_glob(problem: str) -> ToolFailure:
    return invalid(
        "glob", f"glob: {problem}. Use the patterns of .gitignore, such as *.py or src/**/*.md."
    )

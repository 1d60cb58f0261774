"""Which files a search passes over: what the .gitignore files of the workspace say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...runtime.definitions import ErrorType, ToolFailure
from ...runtime.handles import FileInfo, ReadableFiles
from ...runtime.taint.tracked_files import disregard

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_IGNORE_BYTES = 256 * 1024
"""The longest .gitignore that is read; each line costs time for each file."""
MAX_GLOB_CHARACTERS = 500
"""What a person would still call a glob."""

MAX_STARS = 5
"""Runs of `*` in a pattern: more no person means."""
MAX_DEEP_STARS = 2
"""Of `**`, which fits any folders: each one more multiplies the ways to try by a path's length."""
MAX_PATTERNS = 2000
"""Of all .gitignore files of one search: each costs time for each file."""
MAX_PATH_CHARACTERS = 1024
"""Of a path that is held against them; what lies deeper is nobody's source, and none passes it over."""

_STARS = re.compile(r"\*+")
_NEVER_SEARCHED = frozenset({".git", ".callboard"})


class NamePattern:
    """A glob over paths, in the language of .gitignore: `*.py` fits at any depth.

    Raises:
        ToolFailure: `validation_error` for what is no glob.
    """

    def __init__(self, glob: str) -> None:
        if not glob.strip() or len(glob) > MAX_GLOB_CHARACTERS:
            raise _no_glob("it must have 1 to 500 characters")
        if not _is_bounded(glob):
            raise _no_glob(
                f"it has more than {MAX_STARS} stars, or {MAX_DEEP_STARS} of them are **"
            )
        try:
            self._spec = _spec([glob])
        except ValueError as error:
            raise _no_glob(str(error)) from error

    def fits(self, path: str) -> bool:
        """Whether a path relative to the workspace fits."""
        return len(path) <= MAX_PATH_CHARACTERS and self._spec.match_file(path)


class IgnoreRules:
    """The .gitignore files from the root down to each directory, read when first needed."""

    def __init__(self, files: ReadableFiles) -> None:
        self._files = files
        self._specs: dict[str, GitIgnoreSpec | None] = {}
        self._count = 0

    def covers(self, info: FileInfo) -> bool:
        """Whether a file or directory is ignored; what lies in an ignored one is not asked."""
        names = info.path.split("/")
        if names[-1] in _NEVER_SEARCHED:
            return True
        if len(info.path) > MAX_PATH_CHARACTERS:
            return False
        # The nearest file that says something decides.
        for depth in range(len(names) - 1, -1, -1):
            spec = self._spec_of("/".join(names[:depth]))
            if spec is None:
                continue
            inner = "/".join(names[depth:])
            verdict = spec.check_file(f"{inner}/" if info.kind == "directory" else inner).include
            if verdict is not None:
                return verdict
        return False

    def _spec_of(self, directory: str) -> GitIgnoreSpec | None:
        if directory not in self._specs:
            path = f"{directory}/.gitignore" if directory else ".gitignore"
            self._specs[directory] = self._read(path)
        return self._specs[directory]

    def _read(self, path: str) -> GitIgnoreSpec | None:
        try:
            data = self._files.read(path, limit=MAX_IGNORE_BYTES).data
        except ToolFailure:
            return None
        disregard(self._files, path)  # it only says which files are passed over
        lines: list[str] = []
        for line in data.decode("utf-8", "replace").splitlines():
            if not line.strip() or line.startswith("#") or not _is_bounded(line):
                continue
            if self._count >= MAX_PATTERNS:
                break
            self._count += 1
            try:
                _spec([line])
            except ValueError:
                continue  # git too passes over a line that is no pattern.
            lines.append(line)
        return _spec(lines)


def _is_bounded(pattern: str) -> bool:
    runs = _STARS.findall(pattern)
    deep = sum(len(run) > 1 for run in runs)
    return len(pattern) <= MAX_GLOB_CHARACTERS and len(runs) <= MAX_STARS and deep <= MAX_DEEP_STARS


def _spec(lines: list[str]) -> GitIgnoreSpec:
    from .ignore_patterns import spec_of  # Late: only a search needs it, and it takes 20 ms.

    return spec_of(lines)


def _no_glob(problem: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.VALIDATION_ERROR,
        f"glob: {problem}. Use the patterns of .gitignore, such as *.py or src/**/*.md.",
        field="glob",
    )

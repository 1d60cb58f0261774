"""Which files a search passes over: what the .gitignore files of the workspace say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..runtime.definitions import ErrorType, ToolFailure
from ..runtime.handles import FileInfo, ReadableFiles
from ..runtime.watched_files import disregard

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_IGNORE_BYTES = 256 * 1024
"""The longest .gitignore that is read; each line costs time for each file."""
MAX_GLOB_CHARACTERS = 500
"""What a person would still call a glob."""

MAX_STARS = 5
MAX_STARS_IN_NAME = 3
"""Runs of `*`. pathspec makes regular expressions of patterns, which backtrack like any other:
`*a*a*a*a*a*a*b` on one long name of a cloned repository would stop the whole runtime."""

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
            raise _no_glob(f"it has more than {MAX_STARS} stars, or {MAX_STARS_IN_NAME} in a name")
        try:
            self._spec = _spec([glob])
        except ValueError as error:
            raise _no_glob(str(error)) from error

    def fits(self, path: str) -> bool:
        """Whether a path relative to the workspace fits."""
        return self._spec.match_file(path)


class IgnoreRules:
    """The .gitignore files from the root down to each directory, read when first needed."""

    def __init__(self, files: ReadableFiles) -> None:
        self._files = files
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def covers(self, info: FileInfo) -> bool:
        """Whether a file or directory is ignored; what lies in an ignored one is not asked."""
        names = info.path.split("/")
        if names[-1] in _NEVER_SEARCHED:
            return True
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
        lines = []
        for line in data.decode("utf-8", "replace").splitlines():
            if not _is_bounded(line):
                continue
            try:
                _spec([line])
            except ValueError:
                continue  # git too passes over a line that is no pattern.
            lines.append(line)
        return _spec(lines)


def _is_bounded(pattern: str) -> bool:
    return len(_STARS.findall(pattern)) <= MAX_STARS and all(
        len(_STARS.findall(name)) <= MAX_STARS_IN_NAME for name in pattern.split("/")
    )


def _spec(lines: list[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # Late: only a search needs it, and it takes 20 ms.

    return GitIgnoreSpec.from_lines(lines)


def _no_glob(problem: str) -> ToolFailure:
    return ToolFailure(
        ErrorType.VALIDATION_ERROR,
        f"glob: {problem}. Use the patterns of .gitignore, such as *.py or src/**/*.md.",
        field="glob",
    )

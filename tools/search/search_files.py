"""search_files: a walk over the workspace, by content, by name, or both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
import trio

from ...runtime.definitions import ErrorType, ToolFailure, ToolResult
from ...runtime.handles import FileInfo, Listing, ReadableFiles
from ...runtime.taint.tracked_files import disregard
from ..failures import invalid
from ..files.file_facts import reading, reading_tool
from ..processes.threads import run_read
from ..tool import ToolContext
from ..workspace.paths import shown
from .ignore_rules import IgnoreRules, NamePattern
from .search_pattern import MAX_LINE_CHARACTERS, SearchPattern
from .search_process import SearchProcess

MAX_SEARCHED_BYTES = 2 * 1024 * 1024
"""Larger files are data, not text that somebody wrote."""
MAX_RESULTS = 1_000
"""About 100 KB of JSON."""
MAX_SHOWN_CHARACTERS = 500
"""How much of a matching line is shown: minified files have lines of a megabyte."""
MAX_DIRECTORY_ENTRIES = 10_000
"""Entries read of one directory, so that memory stays flat; the rest makes the result `truncated`."""
MAX_PENDING_DIRECTORIES = 100_000
"""Paths that wait for their visit: some 10 MB."""
SEARCH_SECONDS = 8.0
"""Below the tool's own timeout: what was found by then is worth more than a timeout."""

_PROBE_BYTES = 8192
"""git and grep look at as much to tell a binary file."""


class MatchOutput(TypedDict):
    """A file, and with a pattern a line of it."""

    file: str
    line: NotRequired[int]
    text: NotRequired[str]


class Found(TypedDict):
    """What search_files returns: the matches, and how much was left out."""

    matches: list[MatchOutput]
    truncated: bool
    skipped_large_files: NotRequired[int]
    unreadable_files: NotRequired[int]
    lines_searched_in_part: NotRequired[int]
    files_searched_in_part: NotRequired[int]


@reading_tool(output=Found)
async def search_files(
    context: ToolContext,
    pattern: str = "",
    path: str = ".",
    glob: str | None = None,
    max_results: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS)] = 100,
) -> ToolResult:
    """Searches text files of the workspace line by line, or finds files by name.

    Args:
        pattern: A regular expression (Python's) to find in lines; empty to list files by glob.
        path: The directory or file to search, relative to the workspace.
        glob: Only files whose path fits, as in .gitignore: *.py, src/**/test_*.
        max_results: How many matches at most.
    """
    if not pattern and glob is None:
        raise invalid(
            "pattern",
            "pattern: give a regular expression to find in lines, or a glob to find files by name.",
        )
    search = FileSearch(reading(context), pattern, glob, max_results)
    output = await run_read(search.run, path)
    count = len(output["matches"])
    more = " and more" if output["truncated"] else ""
    matches = "1 match" if count == 1 and not more else f"{count}{more} matches"
    return ToolResult(output=output, display=f"Searched {shown(path)} ({matches})")


class FileSearch:
    """One search, in one thread; it ends soon after its call was cancelled."""

    def __init__(
        self,
        files: ReadableFiles,
        pattern: str,
        glob: str | None,
        max_results: int,
        seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._files = files
        self._pattern_text = pattern
        self._glob = glob
        self._pattern: SearchPattern | None = None
        self._process = SearchProcess(pattern, MAX_LINE_CHARACTERS, self._must_stop)
        self._max_results = max_results
        self._deadline = time.monotonic() + seconds
        self._ignore = IgnoreRules(files)
        self._matches: list[dict[str, Any]] = []
        self._notes: dict[str, int] = {}
        self._is_cut = False

    def run(self, path: str) -> dict[str, Any]:
        """Return what was found, and what was left out."""
        # Here and not on the Trio thread: compiling a pattern may take a second.
        self._pattern = SearchPattern(self._pattern_text) if self._pattern_text else None
        names = None if self._glob is None else NamePattern(self._glob)
        with self._process:
            for info in self._walk(path):
                count = len(self._matches)
                if names is None or names.fits(info.path):
                    self._search(info)
                if len(self._matches) == count:
                    disregard(self._files, info.path)
                if self._is_cut:
                    break
        return {"matches": self._matches, "truncated": self._is_cut, **self._notes}

    def _walk(self, path: str) -> Iterator[FileInfo]:
        top = self._files.find(path)
        if top is None:
            raise ToolFailure(ErrorType.FILE_NOT_FOUND, f"{shown(path)}: no such directory.")
        if top.kind != "directory":
            yield top
            return
        pending = [top.path]
        while pending and not self._must_stop():
            listing = self._entries(pending.pop(), top.path)
            if listing is None:
                continue
            below = []
            for info in listing.entries:
                if self._must_stop():
                    return
                if self._ignore.covers(info):
                    continue
                if info.kind == "directory":
                    below.append(info.path)
                elif info.kind == "file":
                    yield info
            # Taken one by one from the end: in the order of names, depth first.
            pending.extend(reversed(below))
            self._is_cut |= listing.truncated
            if len(pending) > MAX_PENDING_DIRECTORIES:
                del pending[:-MAX_PENDING_DIRECTORIES]
                self._is_cut = True

    def _entries(self, path: str, top: str) -> Listing | None:
        """Return what a directory holds; `None` when it can't be read, unless it is the top."""
        try:
            return self._files.entries(
                path, recursive=False, include_hidden=True, max_entries=MAX_DIRECTORY_ENTRIES
            )
        except ToolFailure:
            if path == top:
                raise
            self._note("unreadable_files")
            return None

    def _search(self, info: FileInfo) -> None:
        if self._pattern is None:
            self._add({"file": shown(info.path)})
            return
        if info.size_bytes > MAX_SEARCHED_BYTES:
            self._note("skipped_large_files")
            return
        try:
            data = self._files.read(info.path, limit=MAX_SEARCHED_BYTES).data
        except ToolFailure:
            self._note("unreadable_files")  # the others are still searched
            return
        if b"\0" in data[:_PROBE_BYTES]:
            return
        lines = data.decode("utf-8", "replace").splitlines()
        for number in self._numbers(self._pattern, data, lines):
            text = lines[number - 1][:MAX_SHOWN_CHARACTERS]
            self._add({"file": shown(info.path), "line": number, "text": text})

    def _numbers(self, pattern: SearchPattern, data: bytes, lines: list[str]) -> Iterator[int]:
        if not pattern.is_quick(lines):
            in_part = sum(len(line) > MAX_LINE_CHARACTERS for line in lines)
            self._note("lines_searched_in_part", in_part)
            yield from self._process.numbers(data, self._max_results - len(self._matches) + 1)
            if not self._process.is_whole:
                self._note("files_searched_in_part")
            return
        for number, line in enumerate(lines, start=1):
            if pattern.matches(line):
                yield number
            if self._is_cut or (number % 64 == 0 and self._must_stop()):
                return

    def _add(self, match: dict[str, Any]) -> None:
        if len(self._matches) == self._max_results:
            self._is_cut = True
        else:
            self._matches.append(match)

    def _note(self, what: str, count: int = 1) -> None:
        if count:
            self._notes[what] = self._notes.get(what, 0) + count

    def _must_stop(self) -> bool:
        # When the call is cancelled, this raises and ends the abandoned thread.
        trio.from_thread.check_cancelled()
        if time.monotonic() > self._deadline:
            self._is_cut = True
        return self._is_cut

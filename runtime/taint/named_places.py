"""What the words of a command, or the text of a program, name on the disk.

Neither can be read without running it. So whatever in it may be a name counts, is tried where the program
begins and in each folder that it names, since it may go there first, and rather too much is found than too
little. Not found: what is put together from parts, or met by walking through folders.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain, count, islice

MAX_WORDS = 65536
"""Words that are looked at, of all texts together; a text with more is data."""
MAX_TRIED = 4096
"""Names that are looked for in a folder that is too large to be listed, of a microsecond or two each."""
MAX_PATTERNS = 256
"""Words with signs of a pattern that are matched; code with more has few of them."""
MAX_FOLDERS = 16
"""Folders that words name, which other words may be relative to."""
MAX_LISTED = 1000
"""Entries of a folder that are matched with a pattern such as `*.md`."""
MAX_PATH = 4096
"""The kernel refuses longer paths."""
MAX_SHELL_LINE = 2048
"""A line of this length is split as a shell would do it, in 3 ms. In a longer one escapes are not seen."""

Listing = Callable[[str], list[str]]
"""Returns the names in a folder, which are looked up once."""

_WORD = re.compile(r"[^\s\0'\"`=;|&()<>]+")
_PIECE = re.compile(r"[^\s\0'\"`=;|&()<>,:{}$\[\]]+")
_QUOTED = re.compile(r"\"([^\"\n\0]{1,255})\"|'([^'\n\0]{1,255})'")
_BEHIND_VARIABLE = re.compile(r"\$\{?\w+\}?/([^\s\0'\"`=;|&()<>]+)")
_OPTION = re.compile(r"[-+@!%]+[A-Za-z]?([^-].*)")
_PATTERN = re.compile(r"[*?\[]")
_ELSEWHERE = frozenset({"", ".", ".."})


def named_places(texts: Iterable[str], root: str, cwd: str = ".") -> Iterator[tuple[str, str]]:
    """Yield each name in the texts that leads to something, with its real path; the folder of the program first.

    Args:
        texts: Words of a command, and texts that it runs.
        root: The real path of the workspace.
        cwd: Where the program begins, relative to it.
    """
    begin = os.path.realpath(os.path.join(root, cwd))
    if begin != root:
        yield cwd, begin
    words: dict[str, list[str]] = {}
    patterns: list[str] = []
    for word in dict.fromkeys(islice(chain.from_iterable(map(_words, texts)), MAX_WORDS)):
        if len(word) < MAX_PATH:
            words.setdefault(word.partition("/")[0], []).append(word)
            if _PATTERN.search(word) and len(patterns) < MAX_PATTERNS:
                patterns.append(word)
    folders, seen, names = [begin], {begin} - {root}, cache(_names)
    for place in count():
        if place == len(folders):  # which grow meanwhile: any word may say where any other is
            return
        for word, path in _found(folders[place], words, patterns, names):
            real = os.path.realpath(path)
            if real in seen:
                continue
            seen.add(real)
            yield word, real
            is_inside = real.startswith(f"{root}/")
            if is_inside and len(folders) < MAX_FOLDERS and os.path.isdir(real):
                folders.append(real)


def _words(text: str) -> Iterator[str]:
    """Yield what may be names; the whole text first, which may be one word of a list."""
    if len(text) < MAX_PATH and "\n" not in text:
        yield text
    if len(text) <= MAX_SHELL_LINE and ("\\" in text or '"' in text or "'" in text):
        with suppress(ValueError):  # no shell's quotes
            yield from shlex.split(text)
    for double, single in _QUOTED.findall(text):
        yield double or single
    yield from _BEHIND_VARIABLE.findall(text)
    for word in _WORD.findall(text):
        yield word
        if (option := _OPTION.fullmatch(word)) is not None:  # -Cfolder, @file
            yield option[1]
        pieces = _PIECE.findall(word)
        if pieces != [word]:
            yield from pieces


def _found(
    folder: str, words: dict[str, list[str]], patterns: list[str], names: Listing
) -> Iterator[tuple[str, str]]:
    """Yield the words, here by their first names, that lead from a folder to something, with what they lead to."""
    there = names(folder)
    firsts = sorted({*there, *_ELSEWHERE}) if len(there) < MAX_LISTED else islice(words, MAX_TRIED)
    for first in firsts:
        for word in words.get(first, ()):
            path = os.path.join(folder, word)
            if os.path.exists(path):
                yield word, path
    for word in patterns:
        sign = _PATTERN.search(word)
        assert sign is not None
        for path in _matching(folder, word, sign.start(), names):
            yield word, path


def _matching(folder: str, word: str, sign: int, names: Listing) -> Iterator[str]:
    above, _, begin = word[:sign].rpartition("/")
    name, _, rest = (begin + word[sign:]).partition("/")
    place = os.path.join(folder, above or ("/" if word.startswith("/") else ""))
    for each in fnmatch.filter(names(place), name):
        found = os.path.join(place, each)
        inner = os.path.join(found, rest) if rest else found
        if os.path.exists(inner):
            yield inner
        elif _PATTERN.search(rest) and os.path.isdir(found):
            yield found


def _names(folder: str) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, MAX_LISTED)]
    return []

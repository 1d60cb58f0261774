"""Files that go with a prompt: named by `@path`, or dropped on the terminal."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

_MENTION = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")
_DROPPED = re.compile(r"(?<!\S)(?:'[^']+'|\"[^\"]+\"|(?:\\.|[^\s'\"\\])+)")
_AFTER = ".,;:!?)]}'"
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")


def mentioned(text: str, folder: Path) -> list[Path]:
    """Return the files that a prompt names, each once; a word that names none is a word."""
    found = [*_by_sign(text, folder), *_dropped(text)]
    return list(dict.fromkeys(path.resolve() for path in found))


def is_dropped_file(text: str) -> bool:
    """Return whether a line that begins with a slash begins with the path of a picture, and is no command."""
    first = _DROPPED.match(text)
    return first is not None and any(_dropped(first[0]))


def _by_sign(text: str, folder: Path) -> Iterator[Path]:
    for mention in _MENTION.finditer(text):
        name = mention[1].strip('"')
        for each in dict.fromkeys((name, name.rstrip(_AFTER))):
            if each and (path := _file_at(each, folder)) is not None:
                yield path
                break


def _dropped(text: str) -> Iterator[Path]:
    for word in _DROPPED.finditer(text):
        if not word[0].lower().rstrip("'\"").endswith(_PICTURES):
            continue
        try:
            name = "".join(shlex.split(word[0]))
        except ValueError:
            continue
        if name.startswith("file://"):
            name = unquote(name.removeprefix("file://"))
        is_place = name.startswith(("/", "~/"))
        if is_place and (path := _file_at(name, Path("/"))) is not None:
            yield path


def _file_at(name: str, folder: Path) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # too long, out of reach, or in the home of nobody: just a word
        return None

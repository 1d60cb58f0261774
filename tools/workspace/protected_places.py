"""Places in one workspace that file tools don't write, besides the names protected everywhere.

They are looked up each time, since people change them meanwhile:

- Hooks and further settings that the repository's git settings name. The settings are read as text:
  git itself is not asked, since the repository may be a stranger's.
- callboard's own code, when it lies in the workspace.

While a program runs, *stubs* stand in the places of protected names that are missing. The sandbox makes them
(`sandbox.box.stubs`): a mount needs something to lie on, and nothing but an entry in a folder keeps its name from
being taken. They are nobody's work, and go with the program. So whoever looks at a workspace meanwhile, or before
and behind another program, leaves them out.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from ...runtime.errors import ValidationError
from .paths import (
    BARE_REPOSITORY,
    PROTECTED_IN_GIT,
    PROTECTED_NAMES,
    START_UP_NAMES,
    is_below,
    shown,
)
from .resolver import Names

MAX_HELD = 4096
"""Paths of workspaces that one runtime remembers; beyond it the oldest is forgotten."""
MAX_SETTINGS_BYTES = 256 * 1024
"""The largest settings file; git itself writes some hundred bytes."""
MAX_LINES = 4096
MAX_FILES = 8
"""Settings that include settings."""

COMMON_DIR = "commondir"
"""The file that says where git's config is; a repository works with one that names itself."""
OWN_COMMON_DIR = b".\n"

STUB_NAMES = PROTECTED_NAMES | START_UP_NAMES | PROTECTED_IN_GIT | {*BARE_REPOSITORY} | {
    *(".git", "modules", "worktrees", "gitdir")
}  # fmt: skip
"""The names that have stubs in any workspace; git's settings may name others."""

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:[ \t]+"(?:[^"\\]|\\.)*")?\s*\](.*)', re.DOTALL)
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=(.*)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_KINDS = {
    ("core", "hookspath"): "hooks",
    **dict.fromkeys((("include", "path"), ("includeif", "path")), "include"),
}


class HeldPlaces:
    """The real path of each workspace, as it was when it was first opened."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def check(self, path: str, real: str) -> None:
        """Raise `ValidationError` when a path has led to another place before."""
        held = self._real.setdefault(path, real)
        if held != real:
            raise ValidationError(
                f"{shown(path)} leads to {shown(real)} now, and led to {shown(held)}: something put "
                "a link in its place. Put the folder back, or restart callboard if that was meant.",
                field="workspace",
            )
        if len(self._real) > MAX_HELD:
            del self._real[next(iter(self._real))]


@cache
def own_code() -> tuple[str, ...]:
    """Return the real paths of the package, of parts that are links, and of the interpreter."""
    package = Path(sys.modules[__name__.partition(".")[0]].__path__[0])
    found = {os.path.realpath(package)}
    with os.scandir(package) as entries:
        found.update(os.path.realpath(entry.path) for entry in entries if entry.is_symlink())
    found.update(os.path.realpath(prefix) for prefix in (sys.prefix, sys.exec_prefix))
    return tuple(sorted(found))


def own_code_in(workspace: str) -> tuple[str, ...]:
    """Return the parts of callboard's code in a workspace (a real path), outermost only."""
    inside: list[str] = []
    for path in own_code():
        if is_below(path, workspace) and not any(is_below(path, outer) for outer in inside):
            inside.append(path)
    return tuple(inside)


def own_code_around(workspace: str) -> str | None:
    """Return the part of callboard's code that a workspace is or lies in, or `None`."""
    shared = {os.path.realpath(sys.base_prefix), "/usr", "/usr/local"}
    for path in own_code():
        if path not in shared and (path == workspace or is_below(workspace, path)):
            return path
    return None


class GuardedPlaces:
    """The protected places of one workspace, given by its real path."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace

    def covers(self, names: Names) -> bool:
        """Return whether a path is or lies in such a place, or completes a bare repository."""
        folded = _folded(names)
        lies_in = any(folded[: len(place)] == place for place in self._places())
        return lies_in or self._makes_repository(folded)

    def leads_to(self, names: Names) -> bool:
        """Return whether such a place lies below a folder, and would move or go along with it."""
        folded = _folded(names)
        return any(place[: len(folded)] == folded for place in self._places())

    def _places(self) -> list[Names]:
        paths = (*paths_in_settings(self._workspace), *own_code_in(self._workspace))
        return [_folded(os.path.relpath(path, self._workspace).split("/")) for path in paths]

    def _makes_repository(self, folded: Names) -> bool:
        """Return whether the path is the one missing part of a repository without `.git`."""
        parts = {name.casefold(): os.path.join(self._workspace, name) for name in BARE_REPOSITORY}
        own = parts.pop(folded[0], None) if folded else None
        return (
            own is not None
            and all(os.path.lexists(path) and not is_stub(path) for path in parts.values())
            and not os.path.lexists(own)
        )


def _folded(names: Sequence[str]) -> Names:
    return tuple(name.casefold().rstrip(". ") for name in names)


def paths_in_settings(workspace: str) -> tuple[str, ...]:
    """Return the folders of hooks and the settings files that a workspace's repository names.

    They are absolute paths below the workspace (a real path), by their text: links on the way are not followed.
    """
    git = os.path.join(workspace, ".git")
    waiting = [os.path.join(git, name) for name in ("config", "config.worktree")]
    found: dict[str, None] = {}
    for _ in range(MAX_FILES):
        if not waiting:
            break
        path = waiting.pop(0)
        for kind, value in _named(_settings(path)):
            base = workspace if kind == "hooks" else os.path.dirname(path)
            place = os.path.normpath(os.path.join(base, os.path.expanduser(value)))
            if kind == "include":
                waiting.append(place)
            elif os.path.basename(place) == "_":
                place = os.path.dirname(place)  # husky's hooks run what lies one folder above
            if is_below(place, workspace):
                found.setdefault(place)
    return tuple(found)


def _named(text: str) -> list[tuple[str, str]]:
    """Return what one settings file names: `hooks` or `include`, and the path."""
    found: list[tuple[str, str]] = []
    section = ""
    for line in text.splitlines()[:MAX_LINES]:
        line = line.strip()
        if head := _SECTION.fullmatch(line):
            section, line = head[1].lower(), head[2].strip()
        if not (setting := _SETTING.fullmatch(line)):
            continue
        name = (section, setting[1].lower())
        if (kind := _KINDS.get(name)) is not None and (value := _value(setting[2])):
            found.append((kind, value))
    return found


def _value(text: str) -> str:
    text = text.strip()
    if quoted := _QUOTED.match(text):
        return re.sub(r"\\(.)", r"\1", quoted[1])
    return re.split(r"\s*[#;]", text, maxsplit=1)[0].strip()


def _settings(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, MAX_SETTINGS_BYTES).decode(errors="surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(fd)


class Stubs:
    """Tells the stubs of a workspace (a real path), and of those in it, from people's files. Use it for one look."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace

    def hides(self, path: str, at: str, dir_fd: int | None = None) -> bool:
        """Return whether an entry is a stub. Ask only about what nobody may write, by its mode.

        `path` is relative to the workspace; `at`, of the same last name, is what can be opened, in `dir_fd` if given.
        """
        name = at.rpartition("/")[2]
        if name not in STUB_NAMES and path not in self._named:
            return False
        contents = (None, OWN_COMMON_DIR) if name == COMMON_DIR else (None,)
        return any(_is_stub(at, content, dir_fd) for content in contents)

    @cached_property
    def _named(self) -> frozenset[str]:
        paths = paths_in_settings(self._workspace)
        return frozenset(os.path.relpath(path, self._workspace) for path in paths)


def is_stub(path: str, content: bytes | None = None) -> bool:
    """Return whether a path is a stub, a folder or a file of this content; never blocks on what is there."""
    return os.path.lexists(path) and _is_stub(path, content)


def _is_stub(path: str, content: bytes | None, dir_fd: int | None = None) -> bool:
    try:
        # Opening a FIFO would block without O_NONBLOCK.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, flags, dir_fd=dir_fd)
    except FileNotFoundError:
        return True  # it was one a moment ago
    except OSError:
        return False
    try:
        mode = os.fstat(fd).st_mode
        if mode & 0o222:
            return False
        if content is None:
            return stat.S_ISDIR(mode) and not os.listdir(fd)
        # One that is still being written is empty.
        return stat.S_ISREG(mode) and os.read(fd, len(content) + 1) in (content, b"")
    except OSError:
        return False
    finally:
        os.close(fd)

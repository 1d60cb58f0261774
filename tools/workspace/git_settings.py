"""Paths in a workspace that a repository's settings name, and whose contents run another day.

Of the settings only those count that lead to hooks and to further settings. They are read as text:
git itself is not asked, since a repository may be a stranger's.
"""

from __future__ import annotations

import os
import re
import stat

MAX_SETTINGS_BYTES = 256 * 1024
"""Of one file; git itself writes some hundred bytes."""
MAX_LINES = 4096
MAX_FILES = 8
"""Settings that include settings."""

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:[ \t]+"(?:[^"\\]|\\.)*")?\s*\](.*)', re.DOTALL)
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=(.*)", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def paths_in_settings(workspace: str) -> tuple[str, ...]:
    """Folders of hooks and files of settings below a workspace that its repository names.

    They are absolute and below the workspace by their text; links on the way are not followed.

    Args:
        workspace: Its real path.
    """
    git = os.path.join(workspace, ".git")
    waiting = [os.path.join(git, name) for name in ("config", "config.worktree")]
    found: dict[str, None] = {}
    for _ in range(MAX_FILES):
        if not waiting:
            break
        path = waiting.pop(0)
        for kind, value in _named(_read(path)):
            base = workspace if kind == "hooks" else os.path.dirname(path)
            place = os.path.normpath(os.path.join(base, os.path.expanduser(value)))
            if kind == "include":
                waiting.append(place)
            elif os.path.basename(place) == "_":
                place = os.path.dirname(place)  # husky's hooks run what lies one folder above
            if place.startswith(workspace.rstrip("/") + "/"):
                found.setdefault(place)
    return tuple(found)


def _named(text: str) -> list[tuple[str, str]]:
    """What the settings of one file name: `hooks` or `include`, and the path."""
    found: list[tuple[str, str]] = []
    section = ""
    for line in text.splitlines()[:MAX_LINES]:
        line = line.strip()
        if head := _SECTION.fullmatch(line):
            section, line = head[1].lower(), head[2].strip()
        if not (setting := _SETTING.fullmatch(line)):
            continue
        kind = {("core", "hookspath"): "hooks"}.get((section, setting[1].lower()))
        if section in {"include", "includeif"} and setting[1].lower() == "path":
            kind = "include"
        if kind is not None and (value := _value(setting[2])):
            found.append((kind, value))
    return found


def _value(text: str) -> str:
    text = text.strip()
    if quoted := _QUOTED.match(text):
        return re.sub(r"\\(.)", r"\1", quoted[1])
    return re.split(r"\s*[#;]", text, maxsplit=1)[0].strip()


def _read(path: str) -> str:
    """The text of a file; empty when there is none, or what is there is no file."""
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

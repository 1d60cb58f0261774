"""Commands that callboard tells people to run: with `--data` and `--config` of this command line, so that they work as they stand.

Most are named where nobody knows how the process was started: in errors of the store, of providers, of the daemon.
So what is printed is completed here, where it is printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

WITHOUT_DATA = frozenset(
    {
        "cluster manifest",
        "cluster ray",
        "completion",
        "policy check",
        "policy lint",
        "protocol",
        "service uninstall",
        "store copy",
        "tool list",
        "tool show",
        "tools",
    }
)
"""The commands that have no `--data`; all others do."""
WITHOUT_CONFIG = frozenset(
    {
        "approvals",
        "backup",
        "cluster manifest",
        "cluster ray",
        "compact",
        "completion",
        "console",
        "grants",
        "hooks dead",
        "hooks resend",
        "hooks test",
        "logs",
        "memory forget",
        "memory list",
        "protocol",
        "restore",
        "service uninstall",
        "session",
        "sessions",
        "show",
        "skills",
        "status",
        "stop",
        "store",
        "token",
        "undo",
        "upgrade",
    }
)
"""The commands that have no `--config`, those below them included; all others do."""

_NAMED = re.compile(r"`callboard ([a-z][^`]*)`")
_BEFORE = re.compile(r"(?= -- | …$|$)")
"""Where options stand: before the words that are another program's, and before what is left open."""

_given: dict[str, str] = {}
"""The options of the command line of this process, which has one."""


def note_options(options: Mapping[str, object]) -> None:
    """Note what the command line says about where callboard's data and configuration are."""
    _given.clear()
    for name in ("data", "config"):
        if isinstance(path := options.get(name), Path):
            from ..runtime.text import shell_word  # here: most command lines name none

            _given[name] = shell_word(str(path))


def runnable(text: str) -> str:
    """Return the text with the options in each command that it names in backticks."""
    if not _given or "`callboard " not in text:
        return text
    return _NAMED.sub(lambda found: f"`{command_line(found[0][1:-1])}`", text)


def command_line(command: str) -> str:
    """Return a command, as in `callboard show last`, with the options that it needs of this command line."""
    words = command.split()[1:3]
    own = [
        f"--{name} {path}"
        for name, path in _given.items()
        if f"--{name}" not in command and has_option(name, words)
    ]
    if not own:
        return command
    said = f" {' '.join(own)}"
    return _BEFORE.sub(lambda _: said, command, count=1)  # a path may have backslashes


def has_option(name: str, words: list[str]) -> bool:
    """Return whether the command that these words begin with has `--data`, or `--config`."""
    without = WITHOUT_DATA if name == "data" else WITHOUT_CONFIG
    return words[0] not in without and " ".join(words[:2]) not in without

"""Which calls a remembered answer covers, and which answers can't be remembered for good. Pure.

A grant binds to a tool and to what makes a call of it the same permission: the paths of a file tool, the
host of a request, and for everything else the exact arguments.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from ...runtime.definitions import Binding, Capability, Tier, ToolDefinition
from .match import CallArguments
from .path_pattern import PathPattern, is_wild

MAX_CACHED_PATTERNS = 256
"""Patterns kept compiled: more grants of paths than a person gives."""
_pattern = lru_cache(maxsize=MAX_CACHED_PATTERNS)(PathPattern)

MAX_CACHED_ARGUMENTS = 4
"""Arguments kept decoded while one grant after the other is compared with them."""
_read = lru_cache(maxsize=MAX_CACHED_ARGUMENTS)(CallArguments)


class _Subject(msgspec.Struct, frozen=True):
    """A tool's arguments with paths, those with hosts, and those that may differ."""

    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


_SUBJECTS = {
    "read_file": _Subject(paths=("path",), free=("offset", "limit", "encoding")),
    "list_directory": _Subject(paths=("path",)),
    "write_file": _Subject(paths=("path",), free=("content", "encoding", "create_dirs")),
    "edit_file": _Subject(paths=("path",), free=("edits",)),
    "delete_file": _Subject(paths=("path",)),
    "move_file": _Subject(paths=("from", "to")),
    "web_fetch": _Subject(hosts=("url",), free=("timeout",)),
    "http_request": _Subject(hosts=("url",), free=("headers", "body", "timeout")),
}
"""Built-in tools whose calls are the same permission although some arguments differ. An argument that is
not named here must be equal: the mode of a write, the method of a request, a recursive delete."""

_COMMANDS = frozenset({"command", "cmd", "argv", "args", "shell", "script", "code"})
"""Arguments that say what is run, whatever the tool."""

_SHELL_TEXT = re.compile(r"[\s;&|<>()$`\\\"'*?\[\]{}~#!]")
"""Characters that make a text a shell line rather than a name, number or path."""


def binding_of(
    tool: str, arguments: str, *, tier: Tier, pattern: str | None = None, programs: str = ""
) -> Binding:
    """Return what an answer about this call binds to when it is remembered.

    Args:
        tool: The tool's name.
        arguments: The final arguments, as canonical JSON.
        tier: The call's tier; an elevated call is bound to exactly its arguments.
        pattern: Replaces the path, when the person widened it.
        programs: A digest of what the call runs, when it runs programs.

    Raises:
        ValueError: The pattern is malformed, or does not match this call.
    """
    subject = _Subject() if tier is Tier.ELEVATED else _SUBJECTS.get(tool, _Subject())
    read = CallArguments(arguments)
    said: dict[str, Any] = read.given
    paths = _exact(subject.paths, said, lambda name: read.paths(name, fold=False), _is_plain)
    hosts = _exact(subject.hosts, said, read.hosts, bool)
    if pattern is not None:
        paths = _widened(tool, paths, pattern)
    if paths is None or hosts is None or not (paths or hosts):
        return Binding(arguments=arguments, programs=programs)
    open_ones = {*paths, *hosts, *subject.free}
    fixed = {name: value for name, value in said.items() if name not in open_ones}
    return Binding(
        arguments=_json(fixed), paths=paths, hosts=hosts, free=subject.free, programs=programs
    )


def covers(binding: Binding, arguments: str) -> bool:
    """Whether a binding covers a call with these arguments (canonical JSON)."""
    if not (binding.paths or binding.hosts):
        return arguments == binding.arguments
    read = _read(arguments)
    open_ones = {*binding.paths, *binding.hosts, *binding.free}
    fixed = {name: value for name, value in read.given.items() if name not in open_ones}
    if _json(fixed) != binding.arguments:
        return False
    for name, text in binding.paths.items():
        paths = read.paths(name, fold=False) if name in read.given else None
        if not paths or not all(_pattern(text).matches(path) for path in paths):
            return False
    for name, host in binding.hosts.items():
        if name not in read.given or read.hosts(name) != (host,):
            return False
    return True


def lasting_problem(definition: ToolDefinition, arguments: str) -> str | None:
    """Return why an answer can't be remembered beyond its session; `None` when it can."""
    from .commands import RUNS_THE_WORKSPACE, is_plain  # here: few answers are remembered

    said: dict[str, Any] = CallArguments(arguments).given
    runs = Capability.PROCESSES in definition.needs
    # What is typed into a running program is its own business.
    if runs and definition.name in RUNS_THE_WORKSPACE | {"process"}:
        return f"what {definition.name} runs is not in its arguments"
    for name, value in said.items():
        is_command = name.lower() in _COMMANDS
        if isinstance(value, str) and (is_command or (runs and _SHELL_TEXT.search(value))):
            return f"{name} is a text that a shell or an interpreter reads"
        if isinstance(value, dict) and value and (is_command or runs):
            return f"{name} may say what is run"
        if isinstance(value, list) and value and (is_command or runs):
            words: list[object] = value
            if not is_plain(words, said.get("cwd")):
                return f"{words[0]} may run more than its words say"
    return None


def _exact(names: tuple[str, ...], said: dict[str, Any], read: Any, is_fit: Any) -> Any:
    """Return by argument its one path or host; `None` when one can't be judged."""
    found: dict[str, str] = {}
    for name in names:
        values = read(name) if name in said else None
        if values is None or len(values) != 1 or not is_fit(values[0]):
            return None
        found[name] = values[0]
    return found


def _widened(tool: str, paths: dict[str, str] | None, pattern: str) -> dict[str, str]:
    if paths is None or len(paths) != 1:
        raise ValueError(f"pattern: a call of {tool} has not one path to widen")
    ((name, path),) = paths.items()
    if not PathPattern(pattern).matches(path):
        raise ValueError(f"pattern: {pattern!r} does not match {path!r}, which was asked about")
    return {name: pattern}


def _is_plain(path: str) -> bool:
    """Whether a path, read as a pattern, matches itself only."""
    try:
        return not is_wild(path) and PathPattern(path).matches(path)
    except ValueError:
        return False


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()

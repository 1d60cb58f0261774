"""The text of a profile for macOS's `sandbox-exec`: what one program may do, and nothing else.

It says what bubblewrap's arguments say, of the same box. The last rule that fits is the one that
counts, so that what is taken away stands behind what is given. Nobody has tried it on macOS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePosixPath

from ..box.recipe import Box, Recipe

PRIVATE = "PRIVATE"
"""The parameter that names the program's own folder."""
GIVEN = "GIVEN"
"""The parameter that names the folder of the files that come with a command."""

SYSTEM = (
    "/Applications/Xcode.app/Contents/Developer",
    "/Library/Apple",
    "/Library/Developer/CommandLineTools",
    "/Library/Frameworks",
    "/Library/Java",
    "/System/Cryptexes",
    "/System/Library",
    "/System/Volumes/Preboot/Cryptexes",
    "/private/var/db/dyld",
    "/private/var/db/timezone",
    "/private/var/select",
)
"""What programs need of macOS besides /usr and /bin. /Library as a whole holds keychains, and
/System/Volumes/Data everything."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
LINKS = ("/", "/etc", "/tmp", "/var")
"""On the way to everything; the last three are links into /private."""

_HEAD = """\
(version 1)
(deny default)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
"""
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(path: str) -> str:
    """A path as a string of the profile; what is in it is no part of the rules.

    Raises:
        ValueError: It holds a NUL, which no path does.
    """
    if "\0" in path:
        raise ValueError("a path holds no NUL")
    return '"' + "".join(map(_escaped, path)) + '"'


def profile_of(recipe: Recipe, box: Box) -> bytes:
    """The profile of one sandbox; all paths in it are real ones."""
    read = [*SYSTEM, *(source for source, _ in recipe.bound), *map(os.path.realpath, recipe.copied)]
    places = [*_below(read), _parameter(GIVEN)]
    own = [*_below([box.workspace]), _parameter(PRIVATE)]
    pinned = [path for how, path in box.mounts if how == "--bind"]
    sealed = [path for how, path in box.mounts if how == "--ro-bind"]
    hidden = [*map(os.path.realpath, recipe.view.masked), *recipe.forbidden]
    ways = [*LINKS, *_parents([*read, box.workspace])]
    rules = [
        _rule("allow file-read-metadata", _exactly(ways)),
        # Each program's loader lists the top.
        _rule("allow file-read*", _exactly(["/"])),
        _rule("allow file-read* process-exec*", [*places, *own]),
        _rule("allow file-read* file-write-data", _exactly(DEVICES)),
        _rule("allow file-read* file-write-data", _below(["/dev/fd"])),
        _rule("allow file-write*", own),
        "(deny file-write-setugid)\n",
        # Put aside, the workspace and what is protected in it would have other paths.
        _rule("deny file-write-unlink", _exactly([box.workspace])),
        _rule("deny file-write*", _exactly(pinned)),
        _rule("deny file-write*", _below(sealed)),
        _rule("deny file-read* file-write* process-exec*", _below(hidden)),
        "(deny network*)\n",
    ]
    return os.fsencode(_HEAD + "".join(rules))


def _escaped(character: str) -> str:
    if (known := _ESCAPES.get(character)) is not None:
        return known
    return f"\\x{ord(character):02x}" if ord(character) < 0x20 or character == "\x7f" else character


def _rule(what: str, filters: Iterable[str]) -> str:
    """One rule; none where it is about nothing, since without a filter it would be about all."""
    told = "".join(f"\n  {each}" for each in filters)
    return f"({what}{told})\n" if told else ""


def _below(paths: Iterable[str]) -> list[str]:
    return [f"(subpath {quoted(path)})" for path in dict.fromkeys(paths)]


def _exactly(paths: Iterable[str]) -> list[str]:
    return [f"(literal {quoted(path)})" for path in dict.fromkeys(paths)]


def _parameter(name: str) -> str:
    return f'(subpath (param "{name}"))'


def _parents(paths: Iterable[str]) -> list[str]:
    return sorted({str(parent) for path in paths for parent in PurePosixPath(path).parents})

"""The programs in the workspace that a command names, by what they hold.

A command of which somebody says that it may run is more than its words: `bash build.sh` is what
stands in build.sh. What is found here goes into the digest that an approval is bound to, is shown to
who is asked, and is looked at again when the command starts. A shell line can't be read without
running it; whatever in it may be a name counts, so that too much is found rather than too little.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from ..openat2 import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, openat2
from ..paths import shown

MAX_NAMED_FILES = 64
"""More programs are named by no command that a person can judge."""
MAX_NAMES = 4096
"""Words that are looked at, of all texts together; beyond it they are data."""
MAX_HASHED_BYTES = 1024 * 1024
"""Of a larger file its facts count: size, number and the time of its last change, which no program
can set."""
MAX_SHOWN_BYTES = 16 * 1024
"""Of a file that is shown to who is asked."""

MAX_PATH = 4096
"""A longer path the kernel refuses."""
MAX_READ_LINE = 8 * 1024
"""Of a line that is taken apart as a shell would; a longer one, as a program's text, names files by
whatever in it looks like one. It costs 10 ms."""

_INTERPRETER = re.compile(
    r"(ba|da|z|k|fi)?sh|source|\.|(python|pypy|node|deno|bun|ruby|perl|php|lua|rscript)[\d.]*",
    re.IGNORECASE,
)
_PROGRAM_SUFFIXES = frozenset(
    [
        ".sh",
        ".bash",
        ".zsh",
        ".py",
        ".pyw",
        ".rb",
        ".pl",
        ".js",
        ".mjs",
        ".cjs",
        ".ts",
        ".php",
        ".lua",
        ".r",
        ".awk",
        ".mk",
    ]
)
_NAME = re.compile(r"[^\s;&|()<>'\"`$=:,]+")
_REDIRECTS = re.compile(r"[<>]+&?|&>+")
_ENDS_COMMAND = frozenset(";&|()<>\n")


class NamedFile(msgspec.Struct, frozen=True):
    """A file that a command names and that it may run.

    Attributes:
        path: Relative to the workspace.
        digest: Of its content; of a large file, of its facts.
        size_bytes: How large it is.
        head: Its beginning, for who is asked.
    """

    path: str
    digest: str
    size_bytes: int
    head: bytes


def named_files(
    workspace: str, cwd: str, commands: Iterable[str | Sequence[str]]
) -> list[NamedFile]:
    """The programs that commands name, those in the workspace.

    Args:
        workspace: Its real path.
        cwd: Where the commands run, absolute, below it.
        commands: Lines for a shell, and lists of words.
    """
    try:
        root = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []  # nothing can be run there either
    found: dict[str, NamedFile] = {}
    try:
        for name, is_run in _names(commands):
            path = _relative(name, workspace, cwd)
            if path is None or path in found:
                continue
            if (file := _read(root, path, is_run=is_run)) is not None:
                found[path] = file
                if len(found) >= MAX_NAMED_FILES:
                    break
    finally:
        os.close(root)
    return list(found.values())


def shown_files(files: Iterable[NamedFile]) -> str:
    """What they hold, for a person who is asked; each one's beginning."""
    return "\n".join(map(_shown, files))


def _shown(file: NamedFile) -> str:
    line = f"── {shown(file.path)} ({file.size_bytes} bytes)"
    if b"\0" in file.head:
        return f"{line}: no text"
    more = " is longer; this is its beginning" if file.size_bytes > len(file.head) else ""
    return f"{line}{more}\n{file.head.decode(errors='replace')}"


def _names(commands: Iterable[str | Sequence[str]]) -> Iterator[tuple[str, bool]]:
    """What may be names, and whether it stands where a program does; those come first."""
    run: dict[str, bool] = {}
    for command in commands:
        for words in _simple_commands(command):
            run.update(dict.fromkeys(_run_by(words), True))
    for command in commands:
        for text in (command,) if isinstance(command, str) else command:
            for name in (text, *_NAME.findall(text)):
                run.setdefault(name, False)
                if len(run) >= MAX_NAMES:
                    yield from run.items()
                    return
    yield from run.items()


def _simple_commands(command: str | Sequence[str]) -> list[list[str]]:
    """The commands of a line, as far as it can be read without a shell; a list is one."""
    if not isinstance(command, str):
        return [list(command)]
    if len(command) > MAX_READ_LINE:
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    with suppress(ValueError):  # a quote that nothing closes: what came before it counts
        for word in lexer:
            if _REDIRECTS.fullmatch(word):
                next(lexer, None)  # no command, but what it reads or writes
            elif _ENDS_COMMAND.issuperset(word):
                found.append([])
            else:
                found[-1].append(word.strip("`$"))
    return [words for words in found if words]


def _run_by(words: list[str]) -> Iterator[str]:
    """The words of a command that may be run: the first, and what follows an interpreter's name."""
    begun = [word for word in words if "/" in word or "=" not in word]  # variables stand ahead
    yield from begun[:1]
    for index, word in enumerate(begun):
        if _INTERPRETER.fullmatch(os.path.basename(word)):
            yield from (later for later in begun[index + 1 :] if not later.startswith("-"))
            return


def _relative(name: str, workspace: str, cwd: str) -> str | None:
    """A name as a path below the workspace; what leads out by its text is not there."""
    if "\0" in name or len(name) >= MAX_PATH:
        return None
    path = os.path.relpath(os.path.join(cwd, name), workspace)
    return None if path in {".", ".."} or path.startswith("../") else path


def _read(root: int, path: str, *, is_run: bool) -> NamedFile | None:
    """The file, when there is one that may be run; links lead no further than the workspace."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        fd = openat2(root, path, flags, resolve=RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    except (OSError, ValueError):
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return None
        head = os.pread(fd, MAX_SHOWN_BYTES, 0)
        if not (is_run or _may_be_run(path, info.st_mode, head)):
            return None
        return NamedFile(path, _digest(fd, info), info.st_size, head)
    except OSError:
        return None
    finally:
        os.close(fd)


def _may_be_run(path: str, mode: int, head: bytes) -> bool:
    suffix = os.path.splitext(path)[1].lower()
    return bool(mode & 0o111) or head.startswith(b"#!") or suffix in _PROGRAM_SUFFIXES


def _digest(fd: int, info: os.stat_result) -> str:
    if info.st_size > MAX_HASHED_BYTES:
        facts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        return hashlib.sha256(repr(facts).encode()).hexdigest()
    content = os.pread(fd, MAX_HASHED_BYTES + 1, 0)
    return hashlib.sha256(content).hexdigest()

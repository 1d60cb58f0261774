"""The programs in the workspace that a command names, by what they hold.

A command that somebody allows is more than its words: `bash build.sh` does what stands in build.sh. What
is found here goes into the digest that an approval is bound to, is shown to the person who decides, and is
looked at again when the command starts.

A shell line can't be read without running it. So whatever in it may be a name counts (`names_of`), is tried
where the command begins and in each folder that it names, since it may go there first, and too much is found
rather than too little. Where a command may run what no word of it names (`leads_on`), a warning says so.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from ..workspace.openat2 import RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, openat2
from ..workspace.paths import shown

MAX_NAMES = 4096
"""Words that are tried, of all texts together; a text with more is data."""
MAX_READ_LINE = 8 * 1024
"""A line of this length is split as a shell would do it, which takes 10 ms. In a longer one, such as the text of a
program, whatever looks like a name counts."""

_INTERPRETER = re.compile(
    r"(ba|da|z|k|fi)?sh|source|\.|(python|pypy|node|deno|bun|ruby|perl|php|lua|rscript)[\d.]*",
    re.IGNORECASE,
)
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_NAME = re.compile(r"[^\s;&|()<>'\"`$=:,]+")
_HERE = re.compile(r"\$\{?PWD\}?|\$\(\s*pwd\s*\)|`\s*pwd\s*`")
_BELOW = re.compile(r"\$\{?\w+\}?/([^\s;&|()<>'\"`$=:,]+)")
_LEADS_ON = re.compile(
    r"\*[^\s/]{0,99}/|\b(xargs|eval|parallel)\b|(^|\s)-(exec|ok)(dir)?\b"
    r"|(^|[;&|({\n]|\b(then|do|else|exec|env|source|(ba|da|z)?sh|python[\d.]{0,9}|node|perl|ruby)\b"
    r"( {1,4}-\S{1,32}){0,8} |(^|\s)\. )[ \t]{0,16}[\"']?[$`]"
    r"|\|&?\s{0,16}(env |sudo |exec )?\S{0,99}\b((ba|da|z)?sh|python[\d.]{0,9}|node|perl|ruby)\b|<\("
    r"|(^|[;&|({\n])\s{0,16}(npx|bunx|pnpx|uvx|pipx|ssh|docker|podman)(\s|$)"
)
"""Matches what runs something under another name than stands there: patterns of folders, a variable in the
place of a program, what comes through a pipe, and what is somewhere else."""
_REDIRECTS = re.compile(r"[<>]+&?|&>+")
_ENDS_COMMAND = frozenset(";&|()<>\n")

_SCRIPTED = {"package.json": ("npm", "npx", "yarn", "pnpm", "bun")}
RUN_FILES: dict[str, tuple[str, ...]] = {
    "ant": ("build.xml",),
    "cargo": ("build.rs", "Cargo.toml", ".cargo/config.toml"),
    "cmake": ("CMakeLists.txt",),
    "fab": ("fabfile.py",),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "grunt": ("Gruntfile.js",),
    "gulp": ("gulpfile.js",),
    "inv": ("tasks.py",),
    "invoke": ("tasks.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "mvn": ("pom.xml",),
    "ninja": ("build.ninja",),
    "nox": ("noxfile.py",),
    "py.test": ("conftest.py",),
    "pytest": ("conftest.py",),
    "rake": ("Rakefile", "rakefile"),
    "scons": ("SConstruct",),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "tox": ("tox.ini", "pyproject.toml"),
    **{each: (file,) for file, programs in _SCRIPTED.items() for each in programs},
}
"""Files that programs run without their names in the command."""
SETTINGS_FILES = {"git": (".git/config", ".gitattributes", ".gitmodules")}
"""Files that say what the words of a program mean: aliases, hooks, filters."""

MAX_NAMED_FILES = 64
"""No command that a person can judge names more programs."""
MAX_HASHED_BYTES = 1024 * 1024
"""A larger file is compared by size, inode and ctime; no program can set the latter."""
MAX_SHOWN_BYTES = 16 * 1024
"""The part of a file that is shown to the person who decides."""

MAX_PATH = 4096
"""The kernel refuses longer paths."""
MAX_FOLDERS = 16
"""Folders that a command names, which its other names may be relative to."""
MAX_FOLDER_NAMES = 512
"""Names that are tried as folders; those in a program's place come first."""
MAX_LISTED = 1000
"""Entries of a folder that are matched with a pattern such as `*.sh`."""

_PROGRAM_SUFFIXES = frozenset(
    {
        ".sh", ".bash", ".zsh", ".py", ".pyw", ".rb", ".pl", ".js", ".mjs", ".cjs", ".ts", ".php", ".lua",
        ".r", ".awk", ".mk",
    }
)  # fmt: skip

_PATTERN = re.compile(r"[*?\[]")

UNBOUND = "(What these run or read in their turn is not shown, and may change until it runs.)"

UNREAD = (
    "(Where variables, substitutions, patterns of folders, pipes into a shell, xargs and -exec lead, and what "
    "ssh, npx or docker run, can't be read from the command: it may run more than is named here.)"
)


class NamedFile(msgspec.Struct, frozen=True):
    """A file that a command names and may run; `digest` is of its content, or of a large file's facts."""

    path: str
    digest: str
    size_bytes: int
    head: bytes


def named_files(
    workspace: str,
    cwd: str,
    commands: Iterable[str | Sequence[str]],
    *,
    path: Iterable[str] = (),
    is_whole: bool = False,
) -> list[NamedFile]:
    """Return the programs in the workspace (its real path) that commands name, which run in `cwd` (absolute).

    Programs are also looked for in the folders of `path` (PATH inside) that are in the workspace. With
    `is_whole`, every file that commands name counts, and the settings that say what their words mean.
    """
    try:
        root = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []  # nothing can be run there either
    try:
        names = dict(names_of(commands))
        if is_whole:
            said = [file for name in names for file in SETTINGS_FILES.get(_program(name), ())]
            names = dict.fromkeys((*names, *said), True)
        within = [folder for folder in path if _relative(folder, workspace, workspace) is not None]
        for name in [
            name for name, is_run in names.items() if is_run and within and "/" not in name
        ]:
            names |= {os.path.join(folder, name): True for folder in within}
        return _found(root, workspace, cwd, list(names.items()))
    finally:
        os.close(root)


def _found(root: int, workspace: str, cwd: str, names: list[tuple[str, bool]]) -> list[NamedFile]:
    found: dict[str, NamedFile] = {}
    folders = _folders(root, workspace, cwd, [name for name, _ in names])
    for name, is_run in names[: MAX_NAMES // len(folders)]:
        for folder in folders:
            for path in _paths(root, workspace, folder, name):
                if path in found or (file := _read(root, path, is_run=is_run)) is None:
                    continue
                found[path] = file
                if len(found) >= MAX_NAMED_FILES:
                    return list(found.values())
    return list(found.values())


def _folders(root: int, workspace: str, cwd: str, names: list[str]) -> list[str]:
    """Return where the command begins, and the folders that it names, relative to it or to one another."""
    folders = [cwd]
    names = names[:MAX_FOLDER_NAMES]
    for name in (*names, *names):  # again: `cd a` may stand in one text, `cd b` in one before
        for folder in tuple(folders):
            inner = os.path.normpath(os.path.join(folder, name)) if _may_be_path(name) else folder
            path = _relative(inner, workspace, folder)
            if path is None or inner in folders:
                continue
            with suppress(OSError, ValueError):
                os.close(_open_below(root, path, os.O_PATH | os.O_DIRECTORY))
                folders.append(inner)
            if len(folders) >= MAX_FOLDERS:
                return folders
    return folders


def _paths(root: int, workspace: str, folder: str, name: str) -> Iterator[str]:
    """Yield a name's paths below the workspace; a pattern may stand for several."""
    path = _relative(name, workspace, folder)
    if path is None:
        return
    yield path
    if _PATTERN.search(path) and (place := os.path.dirname(path)) == _PATTERN.sub("", place):
        with suppress(OSError, ValueError):
            fd = _open_below(root, place or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(fd) as entries:
                    names = sorted(entry.name for entry in islice(entries, MAX_LISTED))
            finally:
                os.close(fd)
            yield from (
                os.path.join(place, each) for each in fnmatch.filter(names, os.path.basename(path))
            )


def _open_below(root: int, path: str, flags: int) -> int:
    return openat2(root, path, flags, resolve=RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)


def _may_be_path(name: str) -> bool:
    return "\0" not in name and len(name) < MAX_PATH


def shown_files(
    files: Iterable[NamedFile],
    commands: Iterable[str | Sequence[str]] = (),
    others: Sequence[str] = (),
) -> str:
    """Return what was found in these commands, for the person who decides, and warnings of what is not known.

    `others` are programs that run in the workspace by now.
    """
    parts = list(map(_shown, files))
    parts += [UNBOUND] if parts else []
    parts += [UNREAD] if any(map(leads_on, commands)) else []
    if others:
        names = ", ".join(others)
        parts.append(
            f"(Not run while this does in the workspace, since it could change them: {names})"
        )
    return "\n".join(parts)


def _shown(file: NamedFile) -> str:
    line = f"── {shown(file.path)} ({file.size_bytes} bytes)"
    if b"\0" in file.head:
        return f"{line}: no text"
    more = " is longer; this is its beginning" if file.size_bytes > len(file.head) else ""
    return f"{line}{more}\n{file.head.decode(errors='replace')}"


def _relative(name: str, workspace: str, cwd: str) -> str | None:
    if not _may_be_path(name):
        return None
    path = os.path.relpath(os.path.join(cwd, name), workspace)
    return None if path in {".", ".."} or path.startswith("../") else path


def _read(root: int, path: str, *, is_run: bool) -> NamedFile | None:
    """Return the file, if there is one that may be run; links can't leave the workspace."""
    try:
        fd = _open_below(root, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return None
        head = os.pread(fd, MAX_SHOWN_BYTES, 0)
        may_be_run = (
            info.st_mode & 0o111
            or head.startswith(b"#!")
            or os.path.splitext(path)[1].lower() in _PROGRAM_SUFFIXES
        )
        if not (is_run or may_be_run):
            return None
        facts = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        is_large = info.st_size > MAX_HASHED_BYTES
        known_by = repr(facts).encode() if is_large else os.pread(fd, MAX_HASHED_BYTES + 1, 0)
        return NamedFile(path, hashlib.sha256(known_by).hexdigest(), info.st_size, head)
    except OSError:
        return None
    finally:
        os.close(fd)


def names_of(commands: Iterable[str | Sequence[str]]) -> Iterator[tuple[str, bool]]:
    """Yield what may be names, and whether it stands in a program's place; those come first."""
    run: dict[str, bool] = {}
    texts = [_HERE.sub(".", each) if isinstance(each, str) else each for each in commands]
    for command in texts:
        for words in _simple_commands(command):
            run.update(dict.fromkeys(_run_by(words), True))
    for command in texts:
        for text in (command,) if isinstance(command, str) else command:
            for name in (text, *_NAME.findall(_HERE.sub(".", text)), *_BELOW.findall(text)):
                run.setdefault(name, False)
                if (inner := _inner(name)) != name and inner:
                    run.setdefault(inner, False)
                run.update(dict.fromkeys(RUN_FILES.get(_program(name), ()), True))
                if len(run) >= MAX_NAMES:
                    yield from run.items()
                    return
    yield from run.items()


def _program(name: str) -> str:
    return os.path.basename(name)


def _inner(name: str) -> str:
    """Return what is behind signs or a short option that stand right before a name: `!x.sh`, `@x`, `-fx.mk`."""
    bare = name.lstrip("!@+%")
    return bare[2:] if bare[:1] == "-" and bare[1:2].isalpha() else bare


def leads_on(command: str | Sequence[str]) -> bool:
    """Return whether a command may run what its words don't name."""
    words = [command] if isinstance(command, str) else command
    return any(_LEADS_ON.search(_HERE.sub(".", word[:MAX_READ_LINE])) for word in words)


def _simple_commands(command: str | Sequence[str]) -> list[list[str]]:
    """Split a line into commands, as far as that can be done without a shell; a list is one."""
    if not isinstance(command, str):
        return [list(command)]
    if len(command) > MAX_READ_LINE:
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    with suppress(ValueError):  # an open quote: what came before it counts
        for word in lexer:
            if _REDIRECTS.fullmatch(word):
                next(lexer, None)  # a file that it reads or writes
            elif _ENDS_COMMAND.issuperset(word):
                found.append([])
            else:
                found[-1].append(word.strip("`$"))
    return [words for words in found if words]


def _run_by(words: list[str]) -> Iterator[str]:
    """Yield the words of a command that may be run: the first, and what follows an interpreter."""
    begun = [word for word in words if "/" in word or "=" not in word]  # variables stand ahead
    yield from begun[:1]
    for index, word in enumerate(begun):
        if _INTERPRETER.fullmatch(os.path.basename(word)):
            later = begun[index + 1 :]
            for before, name in zip(["", *later], later, strict=False):
                if before == "-m" and _MODULE.fullmatch(name):
                    module = name.replace(".", "/")
                    yield from (f"{module}.py", f"{module}/__main__.py", f"{module}/__init__.py")
                if not name.startswith("-"):
                    yield name
                    yield os.path.join(name, "__main__.py")  # of a folder, what Python runs
            return

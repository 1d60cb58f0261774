"""The words of a command that may be names of files, and which of them it may run.

A shell line can't be read without running it; whatever in it may be a name counts, so that too much
is found rather than too little.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

MAX_NAMES = 4096
"""Words that are looked at, of all texts together; beyond it they are data."""
MAX_READ_LINE = 8 * 1024
"""Of a line that is taken apart as a shell would; a longer one, as a program's text, names files by
whatever in it looks like one. It costs 10 ms."""

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
)
"""What is run by another name than stands there: a pattern of folders, or a variable in a program's
place."""
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
"""What programs run without being told its name."""


def names_of(commands: Iterable[str | Sequence[str]]) -> Iterator[tuple[str, bool]]:
    """What may be names, and whether it stands where a program does; those come first.

    Args:
        commands: Lines for a shell, and lists of words.
    """
    run: dict[str, bool] = {}
    told = [_HERE.sub(".", each) if isinstance(each, str) else each for each in commands]
    for command in told:
        for words in _simple_commands(command):
            run.update(dict.fromkeys(_run_by(words), True))
    for command in told:
        for text in (command,) if isinstance(command, str) else command:
            for name in (text, *_NAME.findall(_HERE.sub(".", text)), *_BELOW.findall(text)):
                run.setdefault(name, False)
                run.update(dict.fromkeys(RUN_FILES.get(os.path.basename(name), ()), True))
                if len(run) >= MAX_NAMES:
                    yield from run.items()
                    return
    yield from run.items()


def leads_on(command: str | Sequence[str]) -> bool:
    """Whether a command may run what its words don't name."""
    words = [command] if isinstance(command, str) else command
    return any(_LEADS_ON.search(_HERE.sub(".", word[:MAX_READ_LINE])) for word in words)


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
            later = begun[index + 1 :]
            for before, name in zip(["", *later], later, strict=False):
                if before == "-m" and _MODULE.fullmatch(name):
                    yield from _files_of_module(name)
                if not name.startswith("-"):
                    yield name
                    yield os.path.join(name, "__main__.py")  # of a folder, what Python runs
            return


def _files_of_module(name: str) -> Iterator[str]:
    path = name.replace(".", "/")
    yield from (f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py")

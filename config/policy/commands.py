"""Which commands do only what their words say. Pure.

An answer about a command may be remembered for good only when the same words do the same each time. Most
programs run more than they are: what an option, a settings file, an alias or the workspace says. No list of those
is ever complete (`flock`, `sed e`, `sort --compress-program`, `git -c alias.x=!…`), so this is a list of the others.
It lets nothing run: it only says about which calls a person is not asked again.
"""

from __future__ import annotations

from collections.abc import Sequence

PLAIN_PROGRAMS = frozenset(
    {
        "basename", "cat", "chmod", "cksum", "cmp", "comm", "cp", "cut", "date", "df", "diff", "dirname", "du",
        "echo", "expand", "expr", "false", "fmt", "fold", "grep", "head", "hexdump", "id", "join", "ln", "ls",
        "md5sum", "mkdir", "mktemp", "mv", "nl", "od", "paste", "printenv", "printf", "pwd", "readlink",
        "realpath", "rev", "rm", "rmdir", "seq", "sha1sum", "sha256sum", "sha512sum", "sleep", "stat", "sum",
        "tac", "tail", "tee", "test", "touch", "tr", "true", "tsort", "uname", "unexpand", "uniq", "wc", "which",
        "whoami",
    }
)  # fmt: skip
"""Programs that run no other program, whatever their arguments are."""

GIT_READS = frozenset({"blame", "describe", "log", "rev-parse", "shortlog", "show"})
"""Subcommands of git that run no hook and enter no submodule, whose settings the workspace holds (`status` and
`diff` do). git lets no alias take the name of one."""
GIT_OPTIONS = frozenset(
    {
        "--", "--abbrev-commit", "--all", "--decorate", "--graph", "--name-only", "--name-status", "--no-pager",
        "--oneline", "--reverse", "--short", "--stat",
    }
)  # fmt: skip
"""Long options that they may have; others, like `--ext-diff`, run programs."""

RUNS_THE_WORKSPACE = frozenset({"format_code", "run_tests"})
"""Tools that run what the workspace holds by then: that is what a person allows, and not for good."""


def is_plain(words: Sequence[object], cwd: object = None) -> bool:
    """Whether a list of words runs nothing but the program that it begins with.

    `cwd` is the call's own folder, if it names one: git reads the settings of a repository there.
    """
    if not words or not all(isinstance(word, str) for word in words):
        return False
    program, *rest = map(str, words)
    folder, _, name = program.rpartition("/")
    if folder not in {"", "/bin", "/usr/bin"}:
        return False
    if name == "git":
        options = [word for word in rest if word.startswith("--")]
        begun = [word for word in rest if word != "--no-pager"]
        is_read = bool(begun) and begun[0] in GIT_READS and GIT_OPTIONS.issuperset(options)
        return is_read and cwd in {None, "", "."}
    return name in PLAIN_PROGRAMS

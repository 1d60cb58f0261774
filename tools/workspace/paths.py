"""The rules for path arguments that are decided on the text alone, before any disk access.

`..` is resolved lexically (`a/../b` is `b`, also when `a` is a link), so that no `..` ever reaches
the kernel. Bytes are bytes: no Unicode normalisation. Case and trailing dots or spaces are
ignored only for protected names, since some file systems ignore them (CVE-2025-59944).
"""

from __future__ import annotations

import re

from ...runtime.definitions import ErrorType, ToolFailure
from ..failures import invalid

MAX_PATH_BYTES = 4096
"""Linux's PATH_MAX: longer ones can't be opened at all."""
MAX_NAME_BYTES = 255
"""The bytes that ext4, xfs, btrfs and apfs allow for one name."""

PROTECTED_FILES = frozenset({"callboard.toml", "managed.toml", "mcp-pins.json"})
PROTECTED_NAMES = frozenset({".callboard", *PROTECTED_FILES})
"""They configure callboard itself, at any depth (a folder below may be a workspace another day)."""
START_UP_NAMES = frozenset(
    {".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".envrc", ".gitconfig"}
    | {".profile", ".zlogin", ".zprofile", ".zshenv", ".zshrc"}
)
"""Files that shells, direnv and git run or obey in a home folder, or in a folder that is entered."""
PROTECTED_IN_GIT = frozenset({"hooks", "config", "config.worktree", "commondir"})
"""Below `.git`, at any depth (submodules): git runs programs that these name, or takes its config
from where `commondir` points."""

BARE_REPOSITORY = ("refs", "objects", "HEAD")
"""A folder without `.git` that holds all three is a repository: git then runs what the `config`
beside them names. The first is the one that projects have least often of their own."""

UNSHOWABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that a person would not see, or would see as others; among them all that HFS+ ignores
in a name (git's `is_hfs_dotgit` has the list), and the tags in which hidden text is written."""


def shown(name: str) -> str:
    """Return a name with control, zero-width and bidirectional characters and broken bytes escaped."""
    if not name:
        return "''"
    return UNSHOWABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def not_allowed(path: str) -> ToolFailure:
    """Return the one refusal for all forbidden paths; it does not say whether anything exists there."""
    return ToolFailure(
        ErrorType.PATH_NOT_ALLOWED,
        f"{shown(path)}: not allowed. Tools reach only what lies inside the workspace, and never "
        "write to .git/hooks, .git/config, .callboard, callboard.toml, managed.toml or mcp-pins.json, to start-up files (.bashrc, "
        ".profile, .envrc, .gitconfig and the like), to hooks that git's settings name, or to "
        "callboard's own code. Use a path relative to the workspace; the user can write the others.",
    )


def split_path(path: str, roots: tuple[tuple[str, ...], ...] = ()) -> tuple[str, ...]:
    """Return the names that lead from the workspace's root to a path.

    An absolute path must lie under one of `roots`, the workspace's own (as given, and real), split into names.
    Raises `ToolFailure`: `validation_error` for an impossible path, `path_not_allowed` outside the root.
    """
    _check_text(path)
    names = _normalize(path)
    if not path.startswith("/"):
        if names is None:
            raise not_allowed(path)
        return names
    for root in roots:
        if names is not None and names[: len(root)] == root:
            return names[len(root) :]
    raise not_allowed(path)


def root_names(path: str) -> tuple[str, ...]:
    """Return the names of a workspace's own absolute path, as `split_path` takes them."""
    return tuple(name for name in path.split("/") if name)


def check_new_name(path: str) -> None:
    """Raise `ToolFailure` for names that could deceive readers of a log or a terminal."""
    if UNSHOWABLE.search(path):
        raise invalid(
            "path",
            f"{shown(path)}: a name to write to may not hold control, zero-width or "
            "bidirectional characters. Choose a plain name.",
        )


def is_protected(names: tuple[str, ...]) -> bool:
    """Return whether tools may not write, move or delete this path (real names, links resolved)."""
    return not START_UP_NAMES.isdisjoint(map(_folded, names)) or is_steering(names)


def is_steering(names: tuple[str, ...]) -> bool:
    """Return whether a path configures callboard or git; such paths block even a recursive delete."""
    folded = [_folded(name) for name in names]
    if PROTECTED_NAMES.intersection(folded):
        return True
    if ".git" not in folded:
        return False
    below = folded[folded.index(".git") + 1 :]
    # `.git` itself: a file of that name redirects git to a repository with a config of its own,
    # and renaming the folder would make way for a new one.
    return not below or not PROTECTED_IN_GIT.isdisjoint(below)


def is_inside_git(names: tuple[str, ...]) -> bool:
    """Return whether a path lies in a repository's `.git`."""
    return any(_folded(name) == ".git" for name in names)


def _folded(name: str) -> str:
    return name.casefold().rstrip(". ")


def is_below(path: str, folder: str) -> bool:
    """Return whether a path lies below a folder; both are real paths."""
    return path.startswith(folder.rstrip("/") + "/")


def _check_text(path: str) -> None:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise _unusable(path, "it holds a lone surrogate, which is no character") from None
    if "\0" in path:
        raise _unusable(path, "it holds a NUL character")
    if length > MAX_PATH_BYTES:
        raise _unusable(path[:64] + "…", f"it is longer than {MAX_PATH_BYTES} bytes")
    if length > MAX_NAME_BYTES and any(
        len(name.encode()) > MAX_NAME_BYTES for name in path.split("/")
    ):
        raise _unusable(path[:64] + "…", f"a name in it is longer than {MAX_NAME_BYTES} bytes")


def _unusable(path: str, why: str) -> ToolFailure:
    return invalid("path", f"{shown(path)}: not a usable path: {why}.")


def _normalize(path: str) -> tuple[str, ...] | None:
    names: list[str] = []
    for name in path.split("/"):
        if name in {"", "."}:
            continue
        if name != "..":
            names.append(name)
        elif names:
            names.pop()
        elif not path.startswith("/"):
            return None
    return tuple(names)

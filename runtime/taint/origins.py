"""Which files came from elsewhere: strangers may have written them, and reading one taints.

Nothing says for certain who wrote a file. What counts: a repository that fetched from another one, what a
browser or a downloader has marked with where it got it, archives, and folders that the operator names. In doubt a
repository counts as fetched; everything else counts as the person's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice

MAX_ABOVE = 64
"""Folders above a file that are looked at; deeper ones count as foreign."""
MAX_CONFIG_BYTES = 256 * 1024
"""A larger file with a repository's settings is not searched: the repository counts as fetched."""
MAX_LOOKED_INTO = 1000
"""Entries of a folder, and of the folders in it, among which repositories are looked for."""
MAX_KNOWN_CONFIGS = 256
"""Repositories whose settings are remembered until they change; with more, all are read again."""

_REMOTE = re.compile(rb"^\s*\[\s*(remote|include|includeif)\b", re.MULTILINE | re.IGNORECASE)
_ARCHIVE = re.compile(
    r"\.(zip|jar|whl|egg|tar|tgz|tbz2?|txz|gz|bz2|xz|zst|7z|rar|deb|rpm|cpio|iso|dmg)$",
    re.IGNORECASE,
)
_DOWNLOADED = ("user.xdg.origin.url", "user.xdg.referrer.url")
"""Attributes with which browsers, wget and curl say where a file came from (freedesktop.org's common ones)."""

_NONE: tuple[str, ...] = ()


class Origins:
    """What the operator trusts, and what the disk says of where files came from. Blocks for some microseconds.

    Attributes:
        trusted, untrusted: Absolute paths without links. Of several that hold a file, the innermost counts.
        words: What is trusted that is no folder: `attachments`, `stdin`.
    """

    def __init__(self, trusted: Iterable[str] = _NONE, untrusted: Iterable[str] = _NONE) -> None:
        said = tuple(trusted)
        self.words = frozenset(each for each in said if not each.startswith(("/", "~")))
        self.trusted = tuple(_real(path) for path in said if path not in self.words)
        self.untrusted = tuple(map(_real, untrusted))
        self._configs: dict[str, tuple[tuple[int, int, int], bool]] = {}

    def is_foreign(self, path: str, known: dict[str, bool]) -> bool:
        """Whether strangers may have written what is at an absolute path without links.

        `known` is what one caller has learned of folders, for as long as that may count.
        """
        if (trust := self._trust(path)) is not None:
            return not trust
        if _ARCHIVE.search(path) is not None or _is_downloaded(path):
            return True
        return self._is_fetched(os.path.dirname(path), known)

    def is_foreign_folder(self, path: str) -> bool:
        """Whether strangers may have written what is in a folder, as a whole."""
        trust = self._trust(path)
        return not trust if trust is not None else self._is_fetched(path, {})

    def untrusted_in(self, folder: str) -> str | None:
        """Return a place in a folder that the settings do not trust."""
        inside = folder.rstrip("/") + "/"
        return next(
            (each for each in self.untrusted if each.startswith(inside) and os.path.exists(each)),
            None,
        )

    def holds_foreign(self, folder: str) -> bool:
        """Whether a folder, or one in it, holds a repository that strangers may have written."""
        inner = list(_folders(folder))
        looked_at = islice(chain(inner, chain.from_iterable(map(_folders, inner))), MAX_LOOKED_INTO)
        return any(_may_be_repository(each) and self.is_foreign_folder(each) for each in looked_at)

    def repository_of(self, folder: str) -> str | None:
        """Return the folder of the fetched repository that holds a folder, if there is one."""
        while not self._is_repository(folder):
            folder, below = os.path.dirname(folder), folder
            if folder == below:
                return None
        return folder

    def has_lost_signs(self, folder: str) -> bool:
        """Whether the folder of a repository is no longer foreign by what the disk says; what settings say stays."""
        return self._trust(folder) is None and not self._is_fetched(folder, {})

    def _trust(self, path: str) -> bool | None:
        """Return what the settings say; the innermost folder decides, and at a tie it is not trusted."""
        found: tuple[int, bool] | None = None
        for places, is_trusted in ((self.trusted, True), (self.untrusted, False)):
            for place in places:
                is_in = path == place or path.startswith(f"{place}/")
                if is_in and (found is None or len(place) >= found[0]):
                    found = len(place), is_trusted
        return None if found is None else found[1]

    def _is_fetched(self, folder: str, known: dict[str, bool]) -> bool:
        """Whether a repository that holds the folder has fetched from another one."""
        if folder.count("/") > MAX_ABOVE:
            return True
        if (found := known.get(folder)) is None:
            above = os.path.dirname(folder)
            found = self._is_repository(folder) or (
                above != folder and self._is_fetched(above, known)
            )
            known[folder] = found
        return found

    def _is_repository(self, folder: str) -> bool:
        """Whether a folder is the top of a repository that has fetched, with files or bare."""
        return self._has_fetched(f"{folder}/.git") or (
            not folder.endswith("/.git")
            and os.path.exists(f"{folder}/objects")
            and self._has_fetched(folder)
        )

    def _has_fetched(self, git: str) -> bool:
        try:
            info = os.stat(git)
        except OSError:
            return False
        config = git if not os.path.isdir(git) else f"{git}/config"
        try:
            info = os.stat(config)
        except OSError:
            return os.path.exists(f"{git}/FETCH_HEAD")
        facts, known = (info.st_ino, info.st_mtime_ns, info.st_size), self._configs.get(git)
        if known is None or known[0] != facts:
            if len(self._configs) >= MAX_KNOWN_CONFIGS:
                self._configs.clear()
            known = self._configs[git] = facts, _names_another(config)
        return known[1] or os.path.exists(f"{git}/FETCH_HEAD")


def _names_another(config: str) -> bool:
    """Whether a repository's settings name another one; a file in place of the folder leads to them."""
    try:
        with open(config, "rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
    except OSError:
        return True
    if text.startswith(b"gitdir:"):
        place = os.path.join(os.path.dirname(config), os.fsdecode(text[7:].strip()))
        return _names_another(f"{_common(place)}/config")
    return len(text) > MAX_CONFIG_BYTES or _REMOTE.search(text) is not None


def _common(git: str) -> str:
    """Return the folder with the settings of a worktree."""
    try:
        with open(f"{git}/commondir", encoding="utf-8", errors="surrogateescape") as file:
            return os.path.join(git, file.read(4096).strip())
    except OSError:
        return git


def _may_be_repository(folder: str) -> bool:
    return os.path.exists(f"{folder}/.git") or os.path.exists(f"{folder}/objects")


def _folders(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (
            each.path
            for each in islice(entries, MAX_LOOKED_INTO)
            if each.is_dir(follow_symlinks=False)
        )


def _is_downloaded(path: str) -> bool:
    for name in _DOWNLOADED:
        try:
            if os.getxattr(path, name):
                return True
        except (OSError, AttributeError):  # there is none; or the system has no such attributes
            continue
    return False


def _real(path: str) -> str:
    return os.path.realpath(os.path.expanduser(path))

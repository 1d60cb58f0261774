"""The result of the self-test, kept in the data folder, so that a first turn need not wait for a new one.

What is kept only says which tools may be *offered*: every process measures for itself before it runs a first
program. So a kept result that is wrong, or forged, costs a model one failed call. Only a result that was good
enough is kept, with a digest of what it depends on: the boot, the kernel and its settings for namespaces, the
user, the control group, bubblewrap, the Python inside, the settings, and the environment.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ....config.private_file import read_private, write_private
from ....config.sections import SandboxSettings, Strength
from ....runtime.errors import StorageError
from ....runtime.text import UNDECODABLE
from ...processes.system_programs import find_system_program

FILE_NAME = "callboard.sandbox.json"
MAX_FILE_BYTES = 4096
SECONDS_PER_HOUR = 3600.0

KERNEL_FILES = (
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/self/cgroup",
    "/proc/self/attr/current",
)
"""What a kernel, a distribution or a container changes when it allows or forbids namespaces."""


class _Kept(msgspec.Struct, frozen=True):
    digest: str
    strength: Strength
    tested_at: float


# At import, since threads use it: see config/keys/tokens.
_DECODER = msgspec.json.Decoder(_Kept)


class KeptResult:
    """The file of one data folder; without a folder nothing is kept, and nothing found."""

    def __init__(
        self, data: Path | None, settings: SandboxSettings, environ: Mapping[str, str]
    ) -> None:
        self._file = None if data is None else data / FILE_NAME
        self._settings = settings
        self._environ = environ

    def read(self) -> Strength | None:
        """Return the strength that was measured for exactly this machine and these settings, or `None`."""
        if self._file is None:
            return None
        try:
            found = read_private(self._file, MAX_FILE_BYTES)
            kept = None if found is None else _DECODER.decode(found)
        except (StorageError, *UNDECODABLE):
            return None  # it is measured again, and the file replaced
        if kept is None or kept.digest != self._digest():
            return None
        age = time.time() - kept.tested_at
        is_fresh = 0 <= age < self._settings.self_test_hours * SECONDS_PER_HOUR
        return kept.strength if is_fresh else None

    def write(self, strength: Strength) -> None:
        """Keep a result, or forget it if it is not good enough. Blocks on the disk; its errors are ignored."""
        if self._file is None:
            return
        # The next start measures then, and a store that can't be written says so itself.
        with suppress(StorageError, OSError):
            if strength.rank < self._settings.minimum.rank:
                self._file.unlink(missing_ok=True)
                return
            kept = _Kept(self._digest(), strength, time.time())
            write_private(self._file, msgspec.json.encode(kept), replace=True)

    def _digest(self) -> str:
        """Return a digest of what the result depends on, as far as that can be read."""
        parts = [
            repr(tuple(os.uname())),
            repr((os.geteuid(), os.getegid(), sorted(os.getgroups()))),
            repr(msgspec.json.encode(self._settings)),
            repr(sorted(self._environ.items())),
            *(_text(path) for path in KERNEL_FILES),
            *(_place(path) for path in (find_system_program("bwrap"), sys.executable)),
            *(_link(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "user")),
        ]
        return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _place(path: str | None) -> str:
    """Return which file a program is, as far as replacing it would show."""
    try:
        found = None if path is None else os.stat(path)
    except OSError:
        found = None
    return repr(found and (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))

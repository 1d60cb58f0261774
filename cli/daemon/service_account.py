"""The account that a unit of the machine runs as, and the folders that are its own."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from ...runtime.errors import StorageError, ValidationError

MAKE_SECONDS = 60.0
"""For making folders on a slow disk."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        """What its folders follow from where nothing else is said."""
        own = {"HOME": str(self.home)}
        home = os.environ.get("CALLBOARD_HOME")  # the unit has that, too
        return {**own, "CALLBOARD_HOME": home} if home else own


def account_of(name: str | None) -> Account:
    """The account of that name; else of whoever said sudo; else this process's own.

    Raises:
        ValidationError: There is none of that name.
    """
    wanted = name or os.environ.get("SUDO_USER")
    try:
        found = pwd.getpwnam(wanted) if wanted else pwd.getpwuid(os.geteuid())
    except KeyError:
        raise ValidationError(
            f"there is no user {wanted!r} on this machine: make one (useradd), or name another",
            field="user",
        ) from None
    return Account(name=found.pw_name, uid=found.pw_uid, gid=found.pw_gid, home=Path(found.pw_dir))


def prepare_folder(account: Account, folder: Path) -> None:
    """Makes a folder as that user, if it is missing: root writes into nobody's home.

    Raises:
        ValidationError: It belongs to somebody else.
        StorageError: The user can't make it.
    """
    if not folder.exists():
        _make(account, folder)
    owner = folder.stat().st_uid
    if owner != account.uid:
        raise ValidationError(
            f"{folder} belongs to {_name_of(owner)}, and the service would run as {account.name}, who "
            f"can't use it. Say --user {_name_of(owner)}, or another folder with --data, or give it "
            f"away: chown -R {account.name} {folder}",
            field="data",
        )


def _make(account: Account, folder: Path) -> None:
    others: dict[str, Any] = {}
    if account.uid != os.geteuid():
        others = {"user": account.uid, "group": account.gid, "extra_groups": ()}
    command = ("mkdir", "-p", "-m", "700", "--", str(folder))
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False, **others
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"{folder} can't be made as {account.name}: {error}.") from error
    if ran.returncode:
        raise StorageError(
            f"{folder} can't be made as {account.name} ({ran.stderr.strip()}). Make it and give it "
            f"to {account.name}, or choose another one with --data."
        )


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

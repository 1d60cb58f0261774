"""`callboard backup` and `restore`, and their options; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .parameters import Data, Json, data_path

NewFile = Annotated[Path, Parameter(name="FILE", help="A file that is not there yet.")]
BackupFile = Annotated[Path, Parameter(name="FILE", help="What `callboard backup` wrote.")]
Yes = Annotated[bool, Parameter(help="Do it without asking.", negative=())]


def backup(file: NewFile, /, *, json: Json = False, data: Data = None) -> int:
    """Copy all sessions into one file, as of one moment, also while a daemon works with them.

    Keys, tokens and the configuration are not in it.
    """
    from .backup_desk import back_up

    return back_up(data_path(data), file, json=json)


def restore(file: BackupFile, /, *, yes: Yes = False, data: Data = None) -> int:
    """Put the sessions of a backup in the place of those there are, which are kept beside them.

    Only while no other process works with the data folder.
    """
    from .backup_desk import restore_from

    return restore_from(data_path(data), file, is_sure=yes)

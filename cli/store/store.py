"""`callboard backup`, `restore`, `upgrade`, `compact` and `store`: the store as one file.

A backup reads the store itself, whether or not a daemon runs: it takes no lock. The others have the
store for themselves meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import trio
from cyclopts import App, Parameter

from ...runtime.backup import upkeep
from ...runtime.backup.aside import PARTS, set_aside
from ...runtime.backup.backup import restore_backup, write_backup
from ...runtime.backup.upkeep import Formats
from ...runtime.disk.data_lock import DataInUse, check_free
from ...runtime.errors import ConflictError
from ...runtime.text import shell_word
from ..exit_codes import ANSWERED, USAGE
from ..parameters import Data, Json, Yes, data_path
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line
from ..terminal.json_lines import json_line
from ..terminal.keyboard import agrees
from ..terminal.style import counted

MIB = 1024 * 1024

Done = TypeVar("Done")

Check = Annotated[bool, Parameter(help="Say what it would do, and do nothing.", negative=())]
NewFile = Annotated[Path, Parameter(name="FILE", help="A file that is not there yet.")]
BackupFile = Annotated[Path, Parameter(name="FILE", help="What `callboard backup` wrote.")]


def upgrade(*, check: Check = False, json: Json = False, data: Data = None) -> int:
    """Convert the store of an older callboard, after a backup of it.

    Only while no other process works with the data folder. Commands that write do the same when
    they open it, without the backup.
    """
    folder = data_path(data)
    found = upkeep.formats(folder)
    kept = None if check else _alone(folder, upkeep.upgrade)
    if json:
        line = {
            "stored_format": found.stored,
            "written_format": found.written,
            "backup": "" if kept is None else str(kept),
        }
        sys.stdout.write(json_line(line))
    else:
        sys.stdout.write("\n".join(_upgrade_lines(folder, found, kept)) + "\n")
    return ANSWERED


def _upgrade_lines(data: Path, found: Formats, backup: Path | None) -> list[str]:
    where = f"The store in {safe_line(str(data))}"
    if not found.is_old:
        return [f"{where} has format {found.stored}, which this callboard writes: nothing to do."]
    if backup is None:
        return [
            f"{where} has format {found.stored}, and this callboard writes {found.written}. "
            "`callboard upgrade` makes a backup and brings it there."
        ]
    return [
        f"{where} was brought from format {found.stored} to {found.written}, and is sound.",
        f"What it was before is {safe_line(str(backup))}; remove it when you are sure.",
    ]


def compact(*, json: Json = False, data: Data = None) -> int:
    """Give back the disk space that purged sessions left in the store.

    Only while no other process works with the data folder.
    """
    before, after = _alone(data_path(data), upkeep.compact)
    if json:
        line = {"bytes_before": before.file_bytes, "bytes_after": after.file_bytes}
        sys.stdout.write(json_line(line))
    else:
        sys.stdout.write(
            f"The store had {before.file_bytes / MIB:.1f} MiB, and has {after.file_bytes / MIB:.1f} "
            "now.\n"
        )
    return ANSWERED


def _alone(data: Path, work: Callable[[Path], Done]) -> Done:
    try:
        return trio.run(trio.to_thread.run_sync, work, data)
    except DataInUse as error:
        raise _in_use(data, error) from error


def backup(file: NewFile, /, *, json: Json = False, data: Data = None) -> int:
    """Copy all sessions into one file, as of one moment, also while a daemon works with them.

    Keys, tokens and the configuration are not in it.
    """
    target = file.expanduser().absolute()
    size = trio.run(trio.to_thread.run_sync, write_backup, data_path(data), target)
    if json:
        sys.stdout.write(json_line({"path": str(target), "size_bytes": size}))
    else:
        print(f"Wrote {safe_line(str(target))} ({size:,} bytes): all sessions, and no keys.")
    return ANSWERED


def restore(file: BackupFile, /, *, yes: Yes = False, data: Data = None) -> int:
    """Replace all sessions by those of a backup; the replaced ones are kept beside them.

    Only while no other process works with the data folder.
    """
    source, folder = file.expanduser().absolute(), data_path(data)
    if not yes and not _agrees(folder, "Replace the sessions in", "restored"):
        return USAGE
    kept = _alone(folder, partial(restore_backup, backup=source))
    print(f"Restored {safe_line(str(source))} into {safe_line(str(folder))}.")
    if kept is not None:
        print(f"What was there before is {safe_line(str(kept))}; remove it when you are sure.")
    return ANSWERED


MovedTo = Annotated[
    str | None,
    Parameter(
        help="The database to which `callboard store copy` has copied them: it has the record from now on, and the "
        "versions of files for undo stay."
    ),
]

store = App(name="store", help="What to do about a store that is damaged, or not wanted any more.")


@store.command(name="set-aside")
def set_aside_command(*, store: MovedTo = None, yes: Yes = False, data: Data = None) -> int:
    """Put all sessions away, with all that belongs to them, and begin with an empty store.

    They go into a folder of their own, which --data reads. Only while no other process works with
    the data folder.
    """
    folder = data_path(data)
    if not yes and not _agrees(folder, "Put away the sessions in", "set aside"):
        return USAGE
    kept = _alone(folder, partial(set_aside, moved_to=store))
    if store is not None:
        print(f"The file is in {safe_line(str(kept))} now, and the record in {safe_line(store)}.")
        print("The versions of files for undo stay here.")
        return ANSWERED
    print(f"The sessions are in {safe_line(str(kept))} now; the next start makes an empty store.")
    print(f"To read them: callboard sessions --data {safe_line(shell_word(str(kept)))}")
    return ANSWERED


@store.command
def rescue(*, yes: Yes = False, json: Json = False, data: Data = None) -> int:
    """Write what is whole of a damaged store into a new one, and list what is not.

    The damaged one is kept beside it. Only while no other process works with the data folder, and
    with room on the disk for two copies.
    """
    from ...runtime.backup.rescue import rescue as rescue_store  # here: the others need none of it

    folder = data_path(data)
    if not yes and not _agrees(folder, "Write what is whole into a new store in", "rescued"):
        return USAGE
    done = _alone(folder, rescue_store)
    if json:
        sys.stdout.write(json_line(done))
        return ANSWERED
    print(f"{safe_line(done.problem.partition(';')[0])}.")
    print(f"{counted(done.whole, 'session')} of {safe_line(str(folder))}: whole.")
    for name, taken, head in done.cut:
        known = f"of {head} events" if head is not None else "events, of an unknown number"
        print(f"{safe_line(name)}: not whole, {taken} {known} are there.")
    for name in done.lost:
        print(f"{safe_line(name)}: lost.")
    print(f"What was there before is {safe_line(done.kept)}; remove it when you are sure.")
    return ANSWERED


From = Annotated[str, Parameter(name="FROM", help="A data folder, or postgresql://HOST/DATABASE.")]
To = Annotated[str, Parameter(name="TO", help="The same; it is made, and must hold no session.")]


@store.command(name="copy")
def copy_command(source: From, target: To, /, *, json: Json = False) -> int:
    """Copy all sessions to another store: from a file to PostgreSQL, or back.

    Only while no callboard works with either. Every session is read again on both sides and
    compared; what was copied is left as it was.
    """
    from ...runtime.backup.store_copy import copy_store  # here: the others need none of it

    copied = trio.run(copy_store, source, target, lambda line: complain(f"{line} …"))
    if json:
        sys.stdout.write(json_line(copied._asdict()))
    else:
        print(
            f"{counted(copied.sessions, 'session')} with {counted(copied.events, 'event')} copied, and compared."
        )
    return ANSWERED


def _agrees(data: Path, question: str, done: str) -> bool:
    """Ask whether the store may be replaced; where nobody says yes, say that it was not."""
    try:
        check_free(data)
    except DataInUse as error:
        raise _in_use(data, error) from error
    if not any(os.path.lexists(data / name) for name in PARTS):
        return True
    if os.isatty(0) and agrees(f"{question} {safe_line(str(data))}?"):
        return True
    complain(f"Nothing was {done}: say --yes to do it.")
    return False


def _in_use(data: Path, error: DataInUse) -> ConflictError:
    return ConflictError(
        f"{data} is in use by {error.holder}: stop that (a daemon with `callboard stop`), and come "
        "back. Nothing was changed."
    )

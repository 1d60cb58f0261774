"""The options of `backup`, `restore`, `upgrade`, `compact`, `replay` and `undo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..parameters import Config, Data, Json, data_path

Check = Annotated[bool, Parameter(help="Say what it would do, and do nothing.", negative=())]


def upgrade(*, check: Check = False, json: Json = False, data: Data = None) -> int:
    """Bring the store of an older callboard into the present format, behind a backup of it.

    Only while no other process works with the data folder. Commands that write do the same when
    they open it, without the backup.
    """
    from .store import upgrade_store

    return upgrade_store(data_path(data), only_check=check, json=json)


def compact(*, json: Json = False, data: Data = None) -> int:
    """Give the disk back what purged sessions have left in the store.

    Only while no other process works with the data folder.
    """
    from .store import compact_store

    return compact_store(data_path(data), json=json)


NewFile = Annotated[Path, Parameter(name="FILE", help="A file that is not there yet.")]
BackupFile = Annotated[Path, Parameter(name="FILE", help="What `callboard backup` wrote.")]
Yes = Annotated[bool, Parameter(help="Do it without asking.", negative=())]


def backup(file: NewFile, /, *, json: Json = False, data: Data = None) -> int:
    """Copy all sessions into one file, as of one moment, also while a daemon works with them.

    Keys, tokens and the configuration are not in it.
    """
    from .store import back_up

    return back_up(data_path(data), file, json=json)


def restore(file: BackupFile, /, *, yes: Yes = False, data: Data = None) -> int:
    """Put the sessions of a backup in the place of those there are, which are kept beside them.

    Only while no other process works with the data folder.
    """
    from .store import restore_from

    return restore_from(data_path(data), file, is_sure=yes)


What = Annotated[
    str,
    Parameter(
        name="SESSION",
        help="A session: its id, the beginning of it, or last; or a file that was exported.",
    ),
]


def replay(what: What, /, *, json: Json = False, config: Config = None, data: Data = None) -> int:
    """Run a session again from its record, and say whether the same comes out.

    Nothing is asked, no tool runs and nothing connects: what models said and what became of calls
    is on record. Exits with 1 when something else came out, or the last turn has no end yet.
    """
    from ...config.files import load_settings
    from .replay import replay_session

    return replay_session(what, data_path(data), load_settings(config), json=json)


SessionName = Annotated[str, Parameter(help="The session: its id, the beginning of it, or last.")]
CallName = Annotated[
    str | None,
    Parameter(help="Only this call, or this undoing: its id, or the beginning of it."),
]
Listed = Annotated[
    bool, Parameter(name="--list", help="List the calls that changed files.", negative=())
]
DryRun = Annotated[bool, Parameter(help="Only say what would be done.", negative=())]
Force = Annotated[
    bool,
    Parameter(help="Also where a file was changed since; what is there is kept.", negative=()),
]


def undo(
    session: SessionName,
    call: CallName = None,
    /,
    *,
    list_calls: Listed = False,
    dry_run: DryRun = False,
    force: Force = False,
    yes: Yes = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """Take back what the calls of a session changed in files, the latest change first.

    Files come back byte for byte. One that was changed since is left alone, and nothing is
    undone, unless it is forced. An undoing can be undone: its id stands in a call's place.
    A daemon that has the data folder is asked to do it; while another process has it, nobody can.

    What programs changed (run_code, shell) comes back in a git repository; their results say
    what does not.
    """
    from .undo import UndoOptions, list_changes, undo_changes

    folder = data_path(data)
    if list_calls:
        return list_changes(folder, session, json=json)
    options = UndoOptions(call=call, dry_run=dry_run, force=force, yes=yes, json=json)
    return undo_changes(folder, session, options)

"""`callboard undo` and its options; what it does is imported when it runs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .parameters import Data, Json, data_path

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
Yes = Annotated[bool, Parameter(help="Do it without asking.", negative=())]


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
    from .undo_desk import Wish, list_changes, undo_changes

    folder = data_path(data)
    if list_calls:
        return list_changes(folder, session, json=json)
    wish = Wish(call=call, dry_run=dry_run, force=force, yes=yes, json=json)
    return undo_changes(folder, session, wish)

"""`callboard undo`: lists what calls changed, shows what an undoing would do, and does it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import Parameter

from ...actors.upkeep.undo import delegated_by, program_changes
from ...config.files import config_folder
from ...runtime.changes.file_versions import KnownChange
from ...runtime.changes.undo_report import ChangedCall, UndoReport
from ...runtime.changes.version_log import VersionStore
from ...runtime.errors import NotFoundError
from ...runtime.store.file import address_in
from ...runtime.store.rows import SessionRow
from ...tools.undo.undo import Undo, changed_calls, no_change
from ..backend import open_backend
from ..exit_codes import ANSWERED, FAILED, USAGE
from ..hints import command_line
from ..parameters import Data, Json, Yes, data_path, offered
from ..record_names import begins, find_session, folder_here, folders_of, only
from ..show.sessions import open_record
from ..show.undone_files import undone_lines
from ..terminal.complaint import complain
from ..terminal.escaping import safe_line, short_path
from ..terminal.json_lines import json_line
from ..terminal.keyboard import agrees
from ..terminal.listing import write_list
from ..terminal.style import counted, minute, style_of

MAX_SHOWN_PATHS = 3
"""Paths of a call in a list; the others are counted."""
SessionName = Annotated[
    str,
    Parameter(
        completer=offered("sessions"), help="The session: its id, the beginning of it, or last."
    ),
]
CallName = Annotated[
    str | None, Parameter(help="Only this call, or this undoing: its id, or the beginning of it.")
]
Listed = Annotated[
    bool, Parameter(name="--list", help="List the calls that changed files.", negative=())
]
DryRun = Annotated[bool, Parameter(help="Only say what would be done.", negative=())]
Force = Annotated[
    bool, Parameter(help="Also where a file was changed since; what is there is kept.", negative=())
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

    With what the sessions changed to which it delegated, or of a call that delegated, only those.
    Files come back byte for byte. One that was changed since is left alone, and nothing is
    undone, unless it is forced. An undoing can be undone: its id stands in a call's place.
    A daemon that has the data folder, or a chat or run, is asked to do it; while a program of yours
    has it, that program can.

    What programs changed (run_code, shell) comes back in a git repository; their results say
    what does not.
    """
    folder = data_path(data)
    row, known, programs = trio.run(session_and_changes, folder, session)
    if list_calls:
        return _list_changes(folder, row, known, programs, json=json)
    call_id, delegated = None, list[str]()
    if call is not None:
        call_id, delegated = trio.run(_call_id, folder, row, known, call)
    try:
        foreseen = trio.run(_foreseen, folder, row, known, call_id, delegated, force)
    except NotFoundError as nothing:
        message = f"{nothing}{trio.run(_elsewhere, folder, row)}"
        if not dry_run:
            raise NotFoundError(message) from None
        complain(message)
        return ANSWERED
    if dry_run:
        _show(row, foreseen, json=json, is_done=False)
        return FAILED if foreseen.left and not force else ANSWERED
    if not yes and (not foreseen.left or force):
        if not os.isatty(0):
            complain(
                "Nothing was undone: say --yes to do it, or --dry-run to see what it would do."
            )
            return USAGE
        _show(row, foreseen, json=False, is_done=False)
        if not agrees("Undo this?"):
            complain("Nothing was undone.")
            return ANSWERED
    report = trio.run(_undo, folder, row, call_id, force)
    _show(row, report, json=json, is_done=True)
    return ANSWERED


def _list_changes(
    data: Path, row: SessionRow, known: list[KnownChange], programs: list[str], *, json: bool
) -> int:
    """List the calls of a session that changed files, in their order, and what can't be undone."""
    changed = changed_calls(known)
    if json:
        sys.stdout.writelines(map(json_line, changed))
    else:
        cells = [_call_cells(call, row.session_id) for call in changed]
        write_list(("call", "ran", "state", "files"), cells)
        _show_programs(programs)
    if not changed:
        nothing = no_change(has_nodes=address_in(data) is not None)
        complain(nothing + trio.run(_elsewhere, data, row))
    return ANSWERED


async def session_and_changes(
    data: Path, name: str
) -> tuple[SessionRow, list[KnownChange], list[str]]:
    """Return a session, what it and those below it changed, and what programs did."""
    async with open_record(data) as reader:
        row = await find_session(reader, name)
        tree = await reader.session_tree([row.session_id])
        known = versions_in(data).changes(*tree)
        return row, known, await program_changes(reader, tree, None, known)


def versions_in(data: Path) -> VersionStore:
    """Return where the node of a data folder keeps versions of files: of sessions in a shared root, in that. Blocks."""
    from ...runtime.cluster.roots import roots_in  # few data folders are of a node with roots

    if not (roots := roots_in(data).all):
        return VersionStore(data)
    from ...runtime.changes.shared_versions import SharedVersions
    from ...runtime.cluster.shared_root import MARKER, OWN_FOLDER

    own = {root.path: Path(root.path, OWN_FOLDER) for root in roots}
    return SharedVersions(
        data, {path: folder for path, folder in own.items() if (folder / MARKER).exists()}
    )


async def _elsewhere(data: Path, session: SessionRow) -> str:
    """Return a hint at what may be meant: the session that this is a copy of, or the last other one of its folder."""
    versions = versions_in(data)
    async with open_record(data) as reader:
        origin = await reader.session(session.forked_from) if session.forked_from else None
        page = await reader.session_page(folders_of(session.workspace))
        for row in (*([] if origin is None else [origin]), *page.sessions):
            changes = (
                [] if row.session_id == session.session_id else versions.changes(row.session_id)
            )
            if any(not each.is_undone and not each.change.undoes for each in changes):
                which = f"The last session of {short_path(row.workspace)}"
                which = "The session that it is a copy of" if row is origin else which
                return f" {which} whose changes can be undone is {row.session_id}: `callboard undo {row.session_id}`."
    return ""


async def _call_id(
    data: Path, row: SessionRow, known: list[KnownChange], name: str
) -> tuple[str, list[str]]:
    """Return the call, or undoing, of this id, or whose id begins so; and to whom it delegated."""
    async with open_record(data) as reader:
        tree = await reader.session_tree([row.session_id])
        delegated = {
            child.parent_call_id: await delegated_by(reader, tree, child.parent_call_id)
            for session_id in tree
            for child in await reader.children(session_id)
        }
    found = {
        call_id: call_id
        for call_id in (*(call.call_id for call in changed_calls(known)), *delegated)
        if name == call_id or begins(call_id, "call", name) or begins(call_id, "undo", name)
    }
    if not found:
        raise NotFoundError(
            f"No call {name!r} of {row.session_id} changed a file so that it can be undone; "
            f"`callboard undo {row.session_id} --list` lists those that did. What programs change "
            "(run_code, shell) can be undone in a git repository; their results say what can't."
        )
    call_id = name if name in found else only(found, name, "calls")
    return call_id, delegated.get(call_id, [])


async def _foreseen(
    data: Path,
    row: SessionRow,
    known: list[KnownChange],
    call_id: str | None,
    delegated: list[str],
    force: bool,
) -> UndoReport:
    from ...runtime.cluster.roots import checked_in  # few data folders are of a node with roots

    folder, is_real = checked_in(data, row.workspace)
    closed = (data, config_folder())
    has_nodes = address_in(data) is not None  # few databases have one daemon alone
    undo = Undo(folder, closed, versions_in(data).log, is_real=is_real, has_nodes=has_nodes)
    async with open_record(data) as reader:
        tree = await reader.session_tree([row.session_id])
        programs = await program_changes(reader, tree, call_id, known, delegated)
    plan = undo.planned(known, call_id, force, programs, delegated)
    return undo.report(plan, "", programs)


async def _undo(data: Path, row: SessionRow, call_id: str | None, force: bool) -> UndoReport:
    async with open_backend(data) as backend:
        return await backend.undo(row.session_id, call_id=call_id, force=force)


def _show(row: SessionRow, report: UndoReport, *, json: bool, is_done: bool) -> None:
    if json:
        sys.stdout.write(json_line(report))
        return
    if (report.lines or report.left) and row.workspace != folder_here():
        sys.stdout.write(f"in {safe_line(row.workspace)}:\n")
    for line in report.lines:
        sys.stdout.write(f"{safe_line(line)}\n")
    for line in report.left:
        sys.stdout.write(f"left as it is: {safe_line(line)}\n")
    if sys.stdout.isatty():
        for line in undone_lines(report.files, style_of(sys.stdout)):
            sys.stdout.write(f"{line}\n")
    _show_programs(report.programs)
    for line in report.running:
        sys.stdout.write(f"still runs, and may write to these files: {safe_line(line)}\n")
    if is_done:
        count = counted(len(report.lines), "path")
        command = command_line(f"callboard undo {row.session_id} {report.undo_id}")
        again = f"{command} takes that back"
        sys.stdout.write(f"undone: {count}; {again}\n")
    elif not report.lines and not report.left:
        sys.stdout.write("All files are as they were before: nothing changes.\n")


def _show_programs(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"can't be undone, a program did it: {safe_line(line)}\n")


def _call_cells(call: ChangedCall, session_id: str) -> tuple[str, ...]:
    more = call.path_count - MAX_SHOWN_PATHS
    paths = ", ".join(map(safe_line, call.paths[:MAX_SHOWN_PATHS]))
    rest = f" and {more} more" if more > 0 else ""
    state = call.state.replace("_", " ")
    whose = "" if call.session_id == session_id else f"  (by {call.session_id})"
    return call.call_id, minute(call.at_ms), state, f"{paths}{rest}{whose}"

"""Taking back what calls of one session changed: which changes, the plan, and the work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import starmap
from pathlib import Path
from typing import Literal

import msgspec

from ...runtime.changes.file_versions import Action, KnownChange, PathStep, path_names
from ...runtime.changes.undo_report import MAX_PATHS, ChangedCall, UndoReport
from ...runtime.changes.version_log import VersionLog
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.taint.tracked_files import FileWatch
from ..workspace.paths import shown
from ..workspace.workspace import open_workspace
from .plan import UndoPlan, plan_undo, temporary_names
from .work import UndoWork

MAX_TOLD = 5
"""Calls of programs that a message names; the report has them all."""


class Undo:
    """The undoing of a session's changes. Its methods block on the disk.

    Args:
        workspace: The session's folder.
        forbidden: Folders that it may not hold.
        log: What files were before.
        session_id: The session.
    """

    def __init__(
        self, workspace: str, forbidden: Sequence[Path], log: VersionLog, session_id: str
    ) -> None:
        self.session_id = session_id
        self._workspace = workspace
        self._forbidden = forbidden
        self._log = log

    def planned(
        self, known: list[KnownChange], call_id: str | None, force: bool, programs: list[str]
    ) -> UndoPlan:
        """Foresees it; nothing is done. `programs` says what programs changed and can't be
        undone, for a message.

        Raises:
            NotFoundError: There is nothing to undo.
        """
        chosen = chosen_changes(known, call_id, programs)
        ids = {each.change.change_id for each in chosen}
        stay = [k for k in known if k.change.change_id not in ids and not k.is_undone]
        broken = (k.change for k in known if k.change.undoes and not k.is_whole)
        leftovers = tuple(names for change in broken for names in temporary_names(change))
        with open_workspace(self._workspace, forbidden=self._forbidden) as workspace:
            plan = plan_undo(workspace.resolver, chosen, stay, force)
        return msgspec.structs.replace(plan, leftovers=leftovers)

    def run(self, plan: UndoPlan, undo_id: str, watch: FileWatch) -> None:
        """Does it; see `UndoWork.run`."""
        with open_workspace(self._workspace, forbidden=self._forbidden) as workspace:
            work = UndoWork(workspace.resolver, self._log, self.session_id, watch)
            try:
                work.run(plan, undo_id)
            except OSError as error:
                raise ConflictError(
                    f"The undoing stopped ({os.strerror(error.errno or 0)}): what was undone before "
                    "is on record. Look at the workspace, and undo again."
                ) from error

    def report(
        self, plan: UndoPlan, undo_id: str, programs: list[str], running: tuple[str, ...] = ()
    ) -> UndoReport:
        """What is done, in words."""
        calls = dict.fromkeys(reversal.change.call_id for reversal in plan.reversals)
        return UndoReport(
            undo_id=undo_id,
            call_ids=tuple(calls),
            lines=plan.lines,
            left=tuple(map(str, plan.problems)),
            programs=tuple(programs),
            running=running,
        )


def chosen_changes(
    known: list[KnownChange], call_id: str | None, programs: list[str]
) -> list[KnownChange]:
    """The changes of a call, or of all calls; those that are undone already are left out.

    Raises:
        NotFoundError: There is none.
    """
    if call_id is None:
        found = [each for each in known if not each.change.undoes]
        nothing = "No call of this session changed a file so that it can be undone."
    else:
        found = [each for each in known if each.change.call_id == call_id]
        nothing = f"{call_id} changed no file of this session so that it can be undone."
    if not found:
        raise NotFoundError(nothing + (f" {cannot(programs)}" if programs else ""))
    chosen = [each for each in found if not each.is_undone]
    if not chosen:
        raise NotFoundError("All of that is undone already.")
    return chosen


def cannot(programs: list[str]) -> str:
    """What to say of what programs changed and is not kept."""
    more = f"; and {len(programs) - MAX_TOLD} more calls" if len(programs) > MAX_TOLD else ""
    return f"What programs changed and can't be undone: {'; '.join(programs[:MAX_TOLD])}{more}."


def changed_calls(known: Iterable[KnownChange]) -> list[ChangedCall]:
    """One entry for each call, in their order."""
    by_call: dict[str, list[KnownChange]] = {}
    for each in known:
        by_call.setdefault(each.change.call_id, []).append(each)
    return list(starmap(_changed, by_call.items()))


def _changed(call_id: str, changes: list[KnownChange]) -> ChangedCall:
    paths: dict[str, None] = {}
    for each in changes:
        for action in each.change.actions:
            paths.update(dict.fromkeys(_paths(action)))
    state: Literal["changed", "undone", "broken_off"]
    if not all(each.is_whole for each in changes):
        state = "broken_off"
    else:
        state = "undone" if all(each.is_undone for each in changes) else "changed"
    return ChangedCall(
        call_id=call_id,
        at_ms=changes[0].change.at_ms,
        paths=tuple(paths)[:MAX_PATHS],
        path_count=len(paths),
        state=state,
        is_undoing=any(each.change.undoes for each in changes),
    )


def _paths(action: Action) -> tuple[str, ...]:
    ends = (action.path,) if isinstance(action, PathStep) else (action.source, action.destination)
    return tuple(shown("/".join(path_names(end))) for end in ends)

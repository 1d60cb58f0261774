"""Which calls changed files, as a list for people."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap

from ..runtime.file_versions import Action, KnownChange, PathStep, path_names
from ..runtime.undo_report import MAX_PATHS, ChangedCall
from .paths import shown


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

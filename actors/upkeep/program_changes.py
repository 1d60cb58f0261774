"""What the programs of a session changed in files and can't be undone, as its record says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ...runtime.changes.file_versions import KnownChange
from ...runtime.definitions import CallStatus
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import CallRow

MAX_CALLS = 100
"""The latest calls of each tool that are looked at: who undoes wants to know of those."""
PROGRAM_TOOLS = ("run_code", "shell", "run_tests", "format_code", "install_package")


async def program_changes(
    store: StoreReader, session_id: str, call_id: str | None, known: Iterable[KnownChange]
) -> list[str]:
    """A line for each call whose program changed what can't be undone, or may have.

    Args:
        store: Where the calls are.
        session_id: Whose.
        call_id: Only of this call.
        known: What is on record of the session's changes.
    """
    unkept = {each.change.call_id: each.change.unkept for each in known}
    rows: list[CallRow] = []
    for name in PROGRAM_TOOLS:
        rows += await store.calls(session_id=session_id, name=name, limit=MAX_CALLS)
    rows.sort(key=lambda row: row.proposed_at_ms, reverse=True)
    asked = [row for row in rows if call_id in {None, row.call_id}]
    return [line for row in asked if (line := _line(row, unkept))]


def _line(row: CallRow, unkept: Mapping[str, tuple[str, ...]]) -> str:
    who = f"{row.call_id} ({row.name})"
    if row.call_id in unkept:
        rest = "; ".join(unkept[row.call_id])
        return f"{who}: {rest}" if rest else ""
    if row.status in {CallStatus.CANCELLED, CallStatus.INTERRUPTED} and row.started_at_ms:
        return f"{who}: it was ended, and what it changed is not known"
    result = _result(row.result)
    changed, why = result.get("changed"), result.get("not_undoable")
    because = "; ".join(map(str, why)) if isinstance(why, list) else ""
    if not isinstance(changed, dict):
        return f"{who}: {because}" if because else ""
    if "not_looked_at" in changed:
        return f"{who}: what it changed is not known: {changed['not_looked_at']}"
    kinds = [
        f"{kind} {', '.join(map(str, changed[kind]))}"
        for kind in ("created", "modified", "deleted")
        if isinstance(changed.get(kind), list)
    ]
    more = f" and {changed['more']} more" if "more" in changed else ""
    because = f" ({because})" if because else ""
    return f"{who}: {'; '.join(kinds)}{more}{because}" if kinds else ""


def _result(text: str | None) -> dict[str, Any]:
    """What a result says; one that was cut says nothing any more."""
    try:
        whole = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.DecodeError:
        return {}
    inner = whole.get("result")
    return dict(inner) if isinstance(inner, dict) else whole

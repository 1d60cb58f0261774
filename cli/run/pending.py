"""Finds what waits in a session that `callboard run --continue` goes on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...runtime.definitions import CallStatus
from ...runtime.errors import ConflictError
from ...runtime.event_types.calls import CallDeferred
from ...runtime.event_types.permissions import ApprovalAnswered
from ...runtime.events import AgentSwitched, TurnEnded, TurnStarted
from ...runtime.identity import now_ms
from ...runtime.messages import ApprovalRequest
from ...runtime.store.interface import StoreReader
from ...runtime.store.recovery import CUT_OFF
from ...runtime.store.rows import ApprovalRow, CallRow, SessionRow
from ..show.event_lines import waits
from ..show.sessions import asked_by_models

MAX_WAITING = 1000
"""The most questions that are read: more than people leave unanswered."""
MAX_NAMED = 10
"""Questions that one line names."""
MAX_CALLS = 1000
"""The latest calls of a session: those of a turn that is open are among them."""
LAST_EVENTS = 50
"""Events behind which the end of the last turn stands: inputs, titles, a budget."""
MAX_DEPTH = 100
"""The most levels of sessions: far more than limits allow."""


class UnansweredCalls:
    """Folds events into the deferred calls that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, CallDeferred] = {}

    def see(self, event: object) -> None:
        """Take note of an event."""
        match event:
            case CallDeferred():
                self._waiting[event.approval_id] = event
            case ApprovalAnswered():
                self._waiting.pop(event.approval_id, None)
            case _:
                pass

    def lines(self) -> list[str]:
        """Return a line for each, with the command that answers it."""
        return [waits(call) for call in self._waiting.values()]


async def open_questions(reader: StoreReader, session_id: str) -> list[ApprovalRow]:
    """Return the questions that wait in a session, or below it, the oldest first."""
    rows = await reader.approvals(state="waiting", limit=MAX_WAITING)
    now = now_ms()
    waiting = [row for row in reversed(rows) if not 0 < row.expires_at_ms <= now]
    above = {row.session_id: False for row in waiting}
    for below in above:
        above[below] = await _is_below(reader, below, session_id)
    return [row for row in waiting if above[row.session_id] and not row.same_as]


async def waits_for_person(reader: StoreReader, session_id: str) -> bool:
    """Return whether a turn, in a session or below it, waits for a person; one with a deferred call goes on without."""
    asked = await open_questions(reader, session_id)
    if any(not row.is_deferred for row in asked):
        return True
    return bool(await asked_by_models(reader, session_id))


async def running_below(reader: StoreReader, session_id: str) -> int:
    """Return how many detached sessions run below one; each answer comes as an input."""
    suspended = {turn.session_id for turn in await reader.open_turns() if turn.is_suspended}
    children = await reader.children(session_id, is_detached=True)
    return sum(child.session_id not in suspended for child in children)


async def check_answered(reader: StoreReader, session_id: str) -> None:
    """Raise `ConflictError` when a turn waits for answers that nobody here can give: it would be denied."""
    waiting = await open_questions(reader, session_id)
    if any(not row.is_deferred for row in waiting):
        raise ConflictError(unanswered(session_id, waiting))
    for below, asked in await asked_by_models(reader, session_id):
        raise ConflictError(
            f"{asked.question_id} in {below} waits for an answer: run this at a terminal."
        )


async def cut_off(reader: StoreReader, session_id: str) -> str:
    """Return what to do about the last turn of a session, when its process ended in it; else nothing."""
    row = await reader.session(session_id)
    ended = await last_end(reader, row) if row is not None else None
    if ended is None or ended.message != CUT_OFF:
        return ""
    begun = [each.name for each in await reader.calls(session_id=session_id, limit=MAX_CALLS)
             if each.status is CallStatus.INTERRUPTED and each.turn_id == ended.turn_id]  # fmt: skip
    calls = (
        f" in {', '.join(begun[:3])}, of which nobody knows whether it was done" if begun else ""
    )
    return (
        f"; its last turn was cut off{calls}. `callboard run --session {session_id} --retry` runs it again, "
        f"`callboard show {session_id}` shows it"
    )


async def last_end(reader: StoreReader, row: SessionRow) -> TurnEnded | None:
    """Return the end of the last turn of a session."""
    after = max(row.head_seq - LAST_EVENTS, 0)
    events = [each.event for each in await reader.events(row.session_id, after_seq=after)]
    return next((each for each in reversed(events) if isinstance(each, TurnEnded)), None)


async def open_calls(reader: StoreReader, session_id: str) -> list[CallRow]:
    """Return the calls that have no result yet."""
    rows = await reader.calls(session_id=session_id, limit=MAX_CALLS)
    return [row for row in rows if not row.status.is_final]


def held(data: Path, holder: str) -> str:
    """Return the error text for when another process has the sessions."""
    return (
        f"{data} is in use by {holder}, and only one process at a time goes on with its sessions. "
        "What it asks is answered there; or stop it, and run this again. Nothing was changed."
    )


def unanswered(session_id: str, waiting: Sequence[ApprovalRow]) -> str:
    """Return the error text for when nobody can be asked."""
    return (
        f"{_names(waiting)} in {session_id} without an answer. Give it with `callboard approve ID` "
        "or `callboard deny ID`, or run this at a terminal."
    )


def _names(waiting: Sequence[ApprovalRow]) -> str:
    """`approval_… waits`, or `approval_…, approval_… wait`."""
    ids = ", ".join(row.approval_id for row in waiting[:MAX_NAMED])
    more = f" and {len(waiting) - MAX_NAMED} more" if len(waiting) > MAX_NAMED else ""
    return f"{ids}{more} {'waits' if len(waiting) == 1 else 'wait'}"


def put_here(request: ApprovalRequest) -> ApprovalRequest:
    """Return a deferred question as one that is asked now."""
    return msgspec.structs.replace(request, is_deferred=False)


async def _is_below(reader: StoreReader, session_id: str | None, above: str) -> bool:
    """Return whether a session is `above`, or below it."""
    for _ in range(MAX_DEPTH):
        if session_id is None or session_id == above:
            return session_id is not None
        row = await reader.session(session_id)
        session_id = row.parent_id if row is not None else None
    return False


async def agent_taken_over(
    reader: StoreReader, session_id: str, head_seq: int
) -> AgentSwitched | None:
    """Return how a session came to another agent since its last turn, where nobody chose that: its own was deleted."""
    found = None
    after_seq = max(head_seq - LAST_EVENTS, 0)
    for stored in await reader.events(session_id, after_seq=after_seq):
        if isinstance(stored.event, TurnStarted):
            found = None
        elif isinstance(stored.event, AgentSwitched):
            found = stored.event if stored.event.reason else None
    return found

"""`callboard approvals` and `callboard grants`: list questions and remembered answers from the record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Annotated

import trio
from cyclopts import App, Parameter

from ...actors.permissions.decisions import is_suspended
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.events import QuestionAsked
from ...runtime.identity import now_ms
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import ApprovalRow, GrantRow, SessionRow
from ...runtime.store.tables.permissions import LASTING_SCOPES
from ...runtime.taint.marks import SessionMarks
from ..exit_codes import ANSWERED
from ..parameters import Data, Json, data_path
from ..record_names import ambiguous, find_approval, find_session
from ..show.question_text import argument_lines, change_lines, coverage, preview_lines
from ..show.sessions import asked_by_models, open_record, with_those_below
from ..terminal.complaint import complain
from ..terminal.escaping import exact, safe_line, shortened
from ..terminal.folding import columns_of, folded
from ..terminal.json_lines import json_line
from ..terminal.listing import write_list

MAX_LISTED = 1000
"""Questions in a list, the latest first: more than a person goes through."""
MAX_ARGUMENT_CHARS = 60
"""Arguments in a list are cut here; `callboard approvals ID` shows all of them."""

TAINTED = SessionMarks(is_tainted=True)
"""The marks of a session that has read untrusted content."""

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))

Asked = Annotated[
    str | None,
    Parameter(
        name="NAME",
        help="A question, to see it whole, or a session, to see its own: an id, or its beginning.",
    ),
]
AllQuestions = Annotated[
    bool, Parameter(name="--all", help="Also those that are answered.", negative=())
]
AllGrants = Annotated[
    bool, Parameter(name="--all", help="Also those that no longer hold.", negative=())
]


def approvals(
    asked: Asked = None,
    /,
    *,
    everything: AllQuestions = False,
    json: Json = False,
    data: Data = None,
) -> int:
    """List the questions that wait for a person, or show one in full."""
    return trio.run(_show_approvals, data_path(data), asked, everything, json)


grants = App(name="grants", help="List the answers that are remembered, and take them back.")
grants.command(
    "callboard.cli.approvals.answers:revoke",  # a list imports nothing that answers
    help="Take a remembered answer back: such calls follow the policy again.",
)


@grants.default
def list_grants(*, everything: AllGrants = False, json: Json = False, data: Data = None) -> int:
    """List the remembered answers that hold: such calls are not asked about."""
    return trio.run(_show_grants, data_path(data), everything, json)


async def _show_approvals(data: Path, name: str | None, everything: bool, json: bool) -> int:
    """List the questions of a session, or of all; or print the one that `name` means.

    Raises:
        NotFoundError: `name` means neither a question nor a session.
        ValidationError: It is the beginning of several ids.
    """
    try:
        async with open_record(data) as reader:
            session, question = await _meant(reader, name)
            if question is not None:
                shown = folded(described(question), columns_of(1))
                sys.stdout.write(json_line(question) if json else shown)
                return ANSWERED
            rows = await _rows(reader, session, None if everything else "waiting")
            questions = await asked_by_models(reader, session.session_id if session else None)
    except NotFoundError as nothing:
        if name is not None:
            raise
        complain(str(nothing))
        return ANSWERED
    if json:
        sys.stdout.writelines(map(json_line, rows[:MAX_LISTED]))
        sys.stdout.writelines(json_line(asked) for _, asked in questions)
    else:
        cells = [*map(_cells, rows[:MAX_LISTED])]
        cells += starmap(_asked_cells, questions)
        write_list(("question", "asked", "state", "tool (tier)", "session", "arguments"), cells)
    if len(rows) > MAX_LISTED:
        complain(f"There are more: these are the latest {MAX_LISTED}.")
    if not rows and not questions:
        complain("No question is on record." if everything else "No question is waiting.")
    return ANSWERED


async def _rows(
    reader: StoreReader, session: SessionRow | None, state: str | None
) -> list[ApprovalRow]:
    """Return the questions of a session and of those below it, or of all; the latest first."""
    if session is None:
        return await reader.approvals(state=state, limit=MAX_LISTED + 1)
    rows: list[ApprovalRow] = []
    for each in await with_those_below(reader, session.session_id):
        rows += await reader.approvals(session_id=each, state=state, limit=MAX_LISTED + 1)
        rows.sort(key=lambda row: row.asked_at_ms, reverse=True)
        del rows[MAX_LISTED + 1 :]
    return rows


async def _show_grants(data: Path, everything: bool, json: bool) -> int:
    rows: list[GrantRow] = []
    suspended: set[str] = set()
    try:
        async with open_record(data) as reader:
            rows = await reader.grants(include_ended=everything)
            suspended = await _suspended(reader, rows)
    except NotFoundError as nothing:
        complain(str(nothing))
        return ANSWERED
    if json:
        sys.stdout.writelines(map(json_line, rows))
    else:
        note = "  (suspended: the session has read untrusted content)"
        write_list(
            ("grant", "given", "verdict", "for", "folder", "calls"),
            [_grant_cells(row, note if row.grant_id in suspended else "") for row in rows],
        )
    if not json and any(is_suspended(row, TAINTED) and _is_lasting(row) for row in rows):
        complain(
            "What is allowed for an agent or always is suspended in sessions that have read "
            "untrusted content."
        )
    if not rows:
        complain("No remembered answer is on record." if everything else "Nothing is granted.")
    return ANSWERED


async def _suspended(reader: StoreReader, rows: list[GrantRow]) -> set[str]:
    """Return the ids of grants that are suspended in the one session that they are about."""
    found: set[str] = set()
    for row in rows:
        if row.revoked_at_ms is None and not _is_lasting(row) and is_suspended(row, TAINTED):
            session = await reader.session(row.session_id)
            if session is not None and session.is_tainted:
                found.add(row.grant_id)
    return found


def _is_lasting(row: GrantRow) -> bool:
    return row.scope in LASTING_SCOPES and row.revoked_at_ms is None


async def _meant(
    reader: StoreReader, name: str | None
) -> tuple[SessionRow | None, ApprovalRow | None]:
    """Return the session or the question that a name on the command line means."""
    if name is None:
        return None, None
    if name == "last" or name.startswith("session_"):
        return await find_session(reader, name), None
    if name.startswith("approval_"):
        return None, await find_approval(reader, name)
    try:
        question = await find_approval(reader, name)
    except NotFoundError:
        try:
            return await find_session(reader, name), None
        except NotFoundError:
            raise NotFoundError(
                f"There is no question and no session {name!r}; `callboard approvals --all` and "
                "`callboard sessions` list them."
            ) from None
    try:
        session = await find_session(reader, name)
    except (NotFoundError, ValidationError):
        return None, question
    raise ambiguous(name, [question.approval_id, session.session_id], "things")


def described(row: ApprovalRow) -> str:
    """Return one question in full: every argument, the preview, the answer."""
    lines = [
        f"{row.approval_id}: {state_of(row)}",
        f"  tool: {safe_line(row.tool)} (tier: {row.tier})",
        f"  reason: {safe_line(row.reason)}",
        f"  asked: {span(now_ms() - row.asked_at_ms)} ago in {row.session_id}",
        *argument_lines(row.arguments),
        *preview_lines(row.preview),
    ]
    if row.same_as:
        lines.append(f"  asks the same as {row.same_as}; the answer to that counts here too")
    if row.answered_at_ms is not None:
        lines += _answer_lines(row)
    return "\n".join(lines) + "\n"


def _answer_lines(row: ApprovalRow) -> Iterator[str]:
    said = f": {safe_line(row.answer_reason)}" if row.answer_reason else ""
    when = span(now_ms() - (row.answered_at_ms or 0))
    yield f"  answer: {row.decision} by {safe_line(row.answered_by)}, {when} ago{said}"
    if row.remember:
        yield f"  remembered for: {row.remember}"
    if row.final_arguments is not None:
        yield "  with other arguments:"
        yield from change_lines(row.arguments, row.final_arguments)


def state_of(row: ApprovalRow) -> str:
    """Return the state in words, with the time that is left to a question that waits."""
    if row.state != "waiting":
        return row.state
    if not row.expires_at_ms:
        return "waiting"
    left = row.expires_at_ms - now_ms()
    return f"waiting, {span(left)} left" if left > 0 else "expired"


def _asked_cells(session_id: str, asked: QuestionAsked) -> tuple[str, ...]:
    text = shortened(exact(asked.question), MAX_ARGUMENT_CHARS)
    return asked.question_id, "", "waiting", "ask_user", session_id, text


def _cells(row: ApprovalRow) -> tuple[str, ...]:
    arguments = shortened(exact(row.arguments), MAX_ARGUMENT_CHARS)
    return (
        row.approval_id,
        f"{span(now_ms() - row.asked_at_ms)} ago",
        state_of(row),
        f"{safe_line(row.tool)} ({row.tier})",
        row.session_id,
        arguments,
    )


def grant_line(row: GrantRow) -> str:
    """Return a remembered answer on one line: for how long, where, and about which calls."""
    return "  ".join(_grant_cells(row)) + "\n"


def _grant_cells(row: GrantRow, note: str = "") -> tuple[str, ...]:
    where = {
        "turn": f"turn {row.turn_id}",
        "session": row.session_id,
        "agent": f"agent {safe_line(row.agent)}",
    }.get(row.scope, "always")
    ended = "  revoked" if row.revoked_at_ms is not None else ""
    said = f"  {safe_line(row.reason)}" if row.reason else ""
    return (
        row.grant_id,
        f"{span(now_ms() - row.given_at_ms)} ago",
        row.verdict,
        where,
        f"in {exact(row.workspace)}",
        f"{coverage(safe_line(row.tool), row.binding)}{said}{ended}{note}",
    )


def span(duration_ms: int) -> str:
    """Return a time in its largest unit: `6 d`, `3 h`, `12 min`, `5 s`."""
    for size, unit in _UNITS:
        if duration_ms >= size:
            return f"{duration_ms // size} {unit}"
    return "0 s"

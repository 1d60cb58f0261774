"""The table `inputs`: inputs whose turn has not ended, and the deferred calls that some are about.

Beside it stands what is read of open turns: their calls, and what these ask people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...events import CallProposed, InputAccepted, QuestionAnswered, QuestionAsked, TurnStarted
from ..codec import decode_event, event_of
from ..rows import AskedQuestion, WaitingQuestion

if TYPE_CHECKING:
    from .connection import SqlConnection


class Late(NamedTuple):
    """The deferred call that an input is about, and the question that the call waited for."""

    call_id: str
    approval_id: str


LATE_CALLS = (
    "select i.call_id from inputs i"
    " where i.session = ? and i.turn_id = ? and i.approval_id is not null"
)
"""The deferred calls that a turn runs."""

LATE_QUESTIONS = (
    "select i.approval_id from inputs i"
    " where i.session = ? and i.turn_id = ? and i.approval_id is not null"
)

OPEN_CALLS = (
    "where c.session = ? and c.finished_at_ms is null"
    f" and (c.turn_id = ? and c.status <> 'deferred' or c.call_id in ({LATE_CALLS})) order by c.id"
)
"""The calls of a turn that have no result, those that were deferred to it among them."""

OPEN_QUESTIONS = (
    "where a.session = ? and (a.turn_id = ? and a.is_deferred = 0"
    f" or a.approval_id in ({LATE_QUESTIONS})) and not exists (select 1 from tool_calls c where"
    " c.session = a.session and c.call_id = a.call_id and c.finished_at_ms is not null) order by a.id"
)
"""The questions about them."""

OPEN_TURNS = (
    "select t.session, s.session_id, t.turn_id, t.started_at_ms, t.is_suspended,"
    " s.parent_id, s.parent_call_id, s.is_detached from turns t indexed by turns_open"
    " join sessions s on s.id = t.session where t.ended_at_ms is null"
)

_BEFORE = f"select seq, {event_of('e')} from events e where session = ? and seq < ? order by seq desc limit ?"
_PAGE = 64
_END = 2**63 - 1

Rows: TypeAlias = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]

WAKING = """
select s.session_id from inputs i join sessions s on s.id = i.session
where (i.source <> 'person' or i.turn_id is null) and s.deleted_at_ms is null and not exists (
  select 1 from turns t where t.session = i.session and t.ended_at_ms is null and not exists (
    select 1 from inputs b where b.session = t.session and b.turn_id = t.turn_id
    and b.source <> 'person'))
group by s.id order by s.id
"""
"""Sessions whose next turn begins by itself: an acknowledged input waits, or a turn of the runtime's own
is suspended. Left out are sessions in which another turn runs (the input follows it) or is suspended (a
person resumes it), and deleted ones until they are restored."""

SELECT_INPUTS = (
    "select s.session_id, i.input_id, i.source, coalesce(i.call_id, ''),"
    " coalesce(i.approval_id, ''), i.turn_id"
    " from inputs i join sessions s on s.id = i.session"
)

END_INPUTS = "delete from inputs where session = ? and turn_id = ? returning call_id, approval_id"


def accept_input(connection: SqlConnection, session: int, event: InputAccepted) -> None:
    """Add an input that waits for its turn."""
    connection.execute(
        "insert into inputs (session, input_id, source, call_id, approval_id)"
        " values (?, ?, ?, ?, ?) on conflict do nothing",
        (
            session,
            event.input_id,
            event.source.value,
            event.call_id or None,
            event.approval_id or None,
        ),
    )


def begin_inputs(
    connection: SqlConnection, session: int, turn_id: str, input_ids: Iterable[str]
) -> None:
    """Note the turn of inputs, which begins for them or is steered by them."""
    for input_id in input_ids:
        connection.execute(
            "update inputs set turn_id = ? where session = ? and input_id = ?",
            (turn_id, session, input_id),
        )


def part_with_call(connection: SqlConnection, session: int, call_id: str) -> None:
    """Detach a call that is deferred again from its input; its next answer brings a new one."""
    connection.execute(
        "update inputs set call_id = null, approval_id = null"
        " where session = ? and call_id = ? and approval_id is not null",
        (session, call_id),
    )


def end_inputs(connection: SqlConnection, session: int, turn_id: str) -> list[Late]:
    """Remove the inputs of a turn that ended; return the deferred calls that they were about."""
    rows = connection.execute(END_INPUTS, (session, turn_id)).fetchall()
    return [Late(str(row[0]), str(row[1])) for row in rows if row[1] is not None]


def drop_input(connection: SqlConnection, session: int, input_id: str) -> None:
    """Remove an input that was cancelled before its turn."""
    connection.execute("delete from inputs where session = ? and input_id = ?", (session, input_id))


def last_questions(
    rows: Rows, session: int, turn_id: str, call_ids: Iterable[str]
) -> list[AskedQuestion]:
    """Return what each of these open calls of an open turn has asked people last, in order.

    It reads from the end of the record back to where they were proposed, or to where the turn began that
    runs deferred ones. Raises what decoding raises.
    """
    found: list[AskedQuestion] = []
    answers: dict[str, QuestionAnswered] = {}
    seq, left = _END, set(call_ids)
    while left and (page := rows(_BEFORE, (session, seq, _PAGE))):
        seq = page[-1][0]
        for _, data in page:
            event = decode_event(data)
            if isinstance(event, QuestionAnswered):
                answers[event.question_id] = event
            elif isinstance(event, QuestionAsked) and event.call_id in left:
                left.remove(event.call_id)
                found.append(AskedQuestion(event, answers.get(event.question_id)))
            elif isinstance(event, CallProposed):
                left.discard(event.call_id)
            elif isinstance(event, TurnStarted) and event.turn_id == turn_id:
                left.clear()
    return found[::-1]


def open_questions(rows: Rows, turn: tuple[Any, ...]) -> list[WaitingQuestion]:
    """Return the questions without an answer of an open turn, a row of `OPEN_TURNS`, whose calls have no result."""
    key, session_id, turn_id, _, is_suspended, parent_id, *_ = turn
    calls = f"select c.call_id, c.name from tool_calls c {OPEN_CALLS}"
    tools: dict[str, str] = dict(rows(calls, (key, turn_id, key, turn_id)))
    return [
        WaitingQuestion(
            session_id=session_id,
            parent_id=parent_id,
            is_suspended=bool(is_suspended),
            tool=tools[each.asked.call_id],
            asked=each.asked,
        )
        for each in last_questions(rows, key, turn_id, tools)
        if each.answered is None
    ]

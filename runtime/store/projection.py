"""The projection: what each event changes in the tables.

A `Projection` serves the appends of one transaction to one session. It loads the session's row, applies
the events one by one, and saves the row at the end. Events and messages are only added, so all of a
transaction are inserted together (`LateRows`). Events are the truth and every row follows from
them, so applying all events of a session to empty tables gives the same rows again.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from ..definitions import InputSource
from ..event_types.memories import MemoryForgotten, MemoryStored
from ..events import (
    AgentSwitched,
    AnswerRejected,
    ApprovalAnswered,
    ApprovalAsked,
    AttemptCharged,
    AttemptFailed,
    CallDeferred,
    CallFinished,
    CallProposed,
    CallStarted,
    ChangesUndone,
    ChildAsks,
    DurableEvent,
    FilesMarked,
    GrantGiven,
    GrantRevoked,
    HistoryCompacted,
    HistoryGiven,
    InputAccepted,
    InputCancelled,
    InputDelivered,
    MessageCompleted,
    MessagesDeleted,
    MessageSent,
    ModelSwitched,
    PlanSet,
    PrivateDataRead,
    ProviderSetAside,
    QuestionAnswered,
    QuestionAsked,
    SessionBudgetSet,
    SessionCreated,
    SessionDeleted,
    SessionPurged,
    SessionRestored,
    SessionTainted,
    TitleSet,
    ToolGivenUp,
    TurnEnded,
    TurnResumed,
    TurnSetAside,
    TurnStarted,
    TurnSuspended,
)
from ..history import Thinking, text_of
from ..stream import Usage
from ..text import excerpt
from .codec import checksum
from .feeds import TOPIC_OF
from .tables.calls import defer_call, finish_call, mark_call_asked, propose_call, start_call
from .tables.inputs import accept_input, begin_inputs, drop_input, end_inputs, part_with_call
from .tables.memories import keep_memory
from .tables.permissions import NEVER_RAN, PermissionEvent, PermissionRows
from .tables.requests import keep_request
from .tables.sessions import insert_session, is_delivered, mark_private, set_title
from .tables.topics import log_event
from .tables.usage import add_usage, count_attempt, count_run, set_budget

if TYPE_CHECKING:
    from .tables.connection import SqlConnection

WithoutRows = (
    ChangesUndone
    | ChildAsks
    | HistoryGiven
    | MessageSent
    | PlanSet
    | ProviderSetAside
    | QuestionAnswered
    | QuestionAsked
    | SessionCreated
    | SessionPurged
    | ToolGivenUp
)
"""Events that change no row here: `create` adds the session's row, and a purge removes all rows."""

Rare = (
    AgentSwitched
    | AnswerRejected
    | AttemptCharged
    | AttemptFailed
    | CallDeferred
    | FilesMarked
    | HistoryCompacted
    | InputCancelled
    | InputDelivered
    | ModelSwitched
    | PrivateDataRead
    | SessionBudgetSet
    | SessionDeleted
    | SessionRestored
    | TurnSetAside
    | WithoutRows
)
"""The less frequent events, matched last."""


def set_aside(connection: SqlConnection, session: int, event: TurnSetAside) -> None:
    """Mark the turn's messages, and open its inputs again until the turn that follows has ended.

    The inputs count as a person's, whatever their source: a person has them run again.
    """
    connection.execute(
        "update messages set is_set_aside = 1 where session = ? and turn_id = ?",
        (session, event.turn_id),
    )
    for input_id in event.input_ids:
        connection.execute(
            "insert into inputs (session, input_id, source) values (?, ?, ?) on conflict do nothing",
            (session, input_id, InputSource.PERSON.value),
        )


def keep_mark(
    connection: SqlConnection, session: int, event: PrivateDataRead | FilesMarked
) -> None:
    """Note that the session has read private data, or has written files that others may read."""
    if isinstance(event, PrivateDataRead):
        mark_private(connection, session)
        return
    for path in (*event.cleared, *event.marked):
        # All paths below, by the order of keys: from `path/` to `path0`, as 0 follows the slash.
        connection.execute(
            "delete from marked_files where path = ?1 or (path > ?1 || '/' and path < ?1 || '0')",
            (path,),
        )
    connection.executemany(
        "insert into marked_files (path) values (?) on conflict do nothing",
        ((path,) for path in event.marked),
    )


MAX_TITLE_LENGTH = 60
"""What fits on one line of a terminal in a list of sessions."""

MAX_PREVIEW_LENGTH = 120
"""Two such lines."""

INCOMPLETE = "incomplete"
"""The `stop_reason` of a message that was stopped or broke off."""


_ROWS_AT_ONCE = 8
"""Rows that one statement inserts: all of a commit in a round of model and tool."""


def _inserts(into: str, columns: int) -> tuple[str, ...]:
    """Return the statements that insert one row, two rows, and so on."""
    row = f"({', '.join('?' * columns)})"
    return tuple(
        f"insert into {into} values {', '.join([row] * count)}"
        for count in range(1, _ROWS_AT_ONCE + 1)
    )


_INSERT_EVENTS = _inserts("events (session, seq, at_ms, event, checksum)", 5)
_SOME_COLUMNS = (
    *("turn_id", "thinking", "call_id", "input_tokens", "output_tokens"),
    *("model", "provider", "duration_ms", "stop_reason", "cached_tokens", "cache_write_tokens"),
    "files",
)
"""The columns that only some messages have."""
_INSERT_MESSAGES = _inserts(
    "messages (session, position, message_id, type, content, created_at_ms,"
    f" {', '.join(_SOME_COLUMNS)})",
    6 + len(_SOME_COLUMNS),
)
_LATE = frozenset(
    {
        *(CallFinished, CallProposed, CallStarted, MessageCompleted),
        *(InputAccepted, TurnStarted, TurnEnded),
    }
)
"""Events whose changes of rows read no event and no message, so that those may still wait."""


ENDED_WITHOUT_ANSWER = frozenset({"failed", "budget", "loop_guard"})
"""Outcomes of a turn that a message says, since nothing else in the conversation does: of the others there is an
answer, or whoever stopped the turn knows it."""

LOAD = (
    "select id, head_seq, title, agent, message_count, last_message_preview, is_active,"
    " deleted_at_ms, is_tainted from sessions where session_id = ?"
)
SAVE = (
    "update sessions set head_seq = ?, title = ?, agent = ?, message_count = ?,"
    " last_message_preview = ?, is_active = ?, deleted_at_ms = ?, is_tainted = ?,"
    " last_event = ?, updated_at_ms = ? where id = ?"
)
BEGIN_TURN = (
    "insert into turns (session, turn_id, started_at_ms, started_seq) values (?, ?, ?, ?)"
    " on conflict do nothing"
)
END_TURN = (
    "insert into turns (session, turn_id, started_at_ms, ended_at_ms)"
    " values (?1, ?2, ?3, ?3) on conflict (session, turn_id) do update set ended_at_ms = ?3"
    " where turns.ended_at_ms is null"
)
HAS_OPEN_TURN = "select exists (select 1 from turns where session = ? and ended_at_ms is null)"


class LateRows:
    """Events and messages of one transaction, inserted together before something reads them.

    Each statement costs some ten microseconds, however little it does.
    """

    def __init__(self, connection: SqlConnection) -> None:
        self.connection = connection
        self._events: list[tuple[object, ...]] = []
        self._owners: list[Projection] = []
        self._messages: list[tuple[object, ...]] = []

    def add_event(self, owner: Projection, row: tuple[object, ...]) -> None:
        """Add an event, whose id its owner learns when it has one."""
        self._events.append(row)
        self._owners.append(owner)

    def add_message(self, row: tuple[object, ...]) -> None:
        """Add a message."""
        self._messages.append(row)

    def flush(self) -> None:
        """Insert what waits, in the order in which it came."""
        if self._events:
            self._insert(_INSERT_EVENTS, self._events)
            first = self.connection.last_insert_rowid() - len(self._events) + 1
            for event_id, owner in enumerate(self._owners, first):
                owner.last_event = event_id
            self._events, self._owners = [], []
        if self._messages:
            self._insert(_INSERT_MESSAGES, self._messages)
            self._messages = []

    def _insert(self, statements: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[at : at + _ROWS_AT_ONCE]
            self.connection.execute(statements[len(some) - 1], tuple(chain.from_iterable(some)))


class Projection:
    """The row of one session and, through it, all its other rows while events are applied.

    Attributes:
        starting: Calls whose start is in the append that is applied.
    """

    def __init__(self, late: LateRows, now_ms: int, row: tuple[Any, ...]) -> None:
        self._late = late
        self._connection = late.connection
        self.now_ms = now_ms
        self.clock_ms = now_ms
        self.last_event: int | None = None
        self.starting: frozenset[str] = frozenset()
        self._begun: set[str] = set()
        self.last_data = b""
        self.key: int
        self.head_seq: int
        self.title: str
        self.agent: str
        self.message_count: int
        self.preview: str
        self.is_active: int
        self.deleted_at_ms: int | None
        self.is_tainted: int
        self.key, self.head_seq, self.title, self.agent, *rest = row
        self.message_count, self.preview, self.is_active, self.deleted_at_ms, self.is_tainted = rest

    @classmethod
    def load(cls, late: LateRows, session_id: str, now_ms: int) -> Projection | None:
        """Return the projection of a session, or `None` if there is no such session."""
        row = late.connection.execute(LOAD, (session_id,)).fetchone()
        return None if row is None else cls(late, now_ms, row)

    @classmethod
    def create(
        cls, late: LateRows, session_id: str, event: SessionCreated, now_ms: int
    ) -> Projection:
        """Add the row of a new session and return its projection."""
        key = insert_session(late.connection, session_id, event, now_ms)
        keep_request(late.connection, key, 1, event.request)
        return cls(late, now_ms, (key, 0, event.title, event.agent, 0, "", 0, None, 0))

    @property
    def _permissions(self) -> PermissionRows:
        return PermissionRows(self._connection, self.key)

    def keep(self, event: DurableEvent, data: bytes) -> bool:
        """Store the event that was just applied; return `True`."""
        self.head_seq += 1
        place = (self.key, self.head_seq, self.now_ms)
        self._late.add_event(self, (*place, data, checksum(data, *place)))
        self.last_data = data
        if (topic := TOPIC_OF.get(type(event))) is not None:
            log_event(self._connection, self.key, self.head_seq, topic)
        return True

    def save(self) -> None:
        """Write the session's row back if an event was kept; call it when nothing is late."""
        if self.last_event is None:
            return
        self._connection.execute(
            SAVE,
            (
                self.head_seq,
                self.title,
                self.agent,
                self.message_count,
                self.preview,
                self.is_active,
                self.deleted_at_ms,
                self.is_tainted,
                self.last_event,
                self.now_ms,
                self.key,
            ),
        )

    def apply(self, event: DurableEvent) -> bool:  # ruff: ignore[complex-structure]  one case a kind
        """Change the rows; return `False`, having changed nothing, for a repeated event.

        That is a second end of a call, of a turn or of a child's task, or a known memory.
        """
        if type(event) not in _LATE:
            self._late.flush()
        # The most frequent events first: each case costs a test.
        match event:
            case CallFinished():
                return self._finished(event)
            case CallProposed():
                starts = event.call_id in self.starting
                if propose_call(self._connection, self.key, event, self.now_ms, starts=starts):
                    self._call_message("call", event)
                    if starts:
                        self._begun.add(event.call_id)
            case CallStarted():
                if event.call_id not in self._begun:
                    start_call(self._connection, self.key, event, self.now_ms)
                if event.approval_id:
                    self._permissions.use(event.approval_id)
            case MessageCompleted():
                self._answer(event)
            case InputAccepted():
                return self._input(event)
            case TurnStarted():
                self._turn_started(event)
            case TurnEnded():
                return self._turn_ended(event)
            case ApprovalAsked() | ApprovalAnswered():
                mark_call_asked(self._connection, self.key, event)
                return self._permission(event)
            case TitleSet():
                if not set_title(self._connection, self.key, event):
                    return False
                self.title = event.title
            case GrantGiven() | GrantRevoked() | SessionTainted() | TurnSuspended() | TurnResumed():
                return self._permission(event)
            case MemoryStored() | MemoryForgotten():
                at, mark = self.head_seq + 1, bool(self.is_tainted)
                return keep_memory(self._connection, self.key, event, at, is_untrusted=mark)
            case MessagesDeleted():
                self._deleted(event)
            case _:
                self._apply_rare(event)
        return True

    def _summary(self, event: HistoryCompacted) -> None:
        name = f"summary:{self.head_seq + 1}"
        self._message(name, "system", f"Summary: {event.summary}")
        if not (event.why_left_out or event.is_copy):  # then no model was asked for it here
            add_usage(self._connection, self.key, name, event, self.now_ms)

    def _deleted(self, event: MessagesDeleted) -> None:
        from .tables.messages import delete_messages  # rare, and a start imports it not

        removed, last = delete_messages(self._connection, self.key, event.message_ids)
        self.preview = excerpt(last, MAX_PREVIEW_LENGTH)
        if self.title in {excerpt(text, MAX_TITLE_LENGTH) for text in removed}:
            self.title = ""  # the first words of one of them

    def _say(self, event: ModelSwitched | AnswerRejected) -> None:
        if isinstance(event, ModelSwitched):
            name, text = "model", f"Model: {event.provider}/{event.model}, because: {event.reason}"
        else:
            name, text = "rejected", f"The answer was not taken: {event.problem}"
        self._message(f"{name}:{self.head_seq + 1}", "system", text)

    def _apply_rare(self, event: Rare) -> None:
        match event:
            case PrivateDataRead() | FilesMarked():
                keep_mark(self._connection, self.key, event)
            case CallDeferred():
                defer_call(self._connection, self.key, event)
                part_with_call(self._connection, self.key, event.call_id)
            case InputDelivered():
                begin_inputs(self._connection, self.key, event.turn_id, (event.input_id,))
            case InputCancelled():  # what it said stays
                drop_input(self._connection, self.key, event.input_id)
            case AttemptFailed() | AttemptCharged():
                count_attempt(self._connection, self.key, self.head_seq + 1, event, self.now_ms)
            case SessionBudgetSet():
                set_budget(self._connection, self.key, event.budget)
            case ModelSwitched() | AnswerRejected():
                self._say(event)
            case HistoryCompacted():
                self._summary(event)
            case AgentSwitched():
                self.agent = event.agent
                self._message(f"agent:{self.head_seq + 1}", "system", f"Agent: {event.agent}")
            case TurnSetAside():
                set_aside(self._connection, self.key, event)
                keep_request(self._connection, self.key, self.head_seq + 1, event.request)
            case SessionDeleted() | SessionRestored():
                self.deleted_at_ms = self.now_ms if type(event) is SessionDeleted else None
            case _:
                _ignored(event)

    def _permission(self, event: PermissionEvent) -> bool:
        kept = self._permissions.apply(event, self.head_seq + 1, self.now_ms, self.clock_ms)
        if isinstance(event, SessionTainted):
            self.is_tainted = 1
        elif kept and isinstance(event, TurnSuspended | TurnResumed):
            count_run(self._connection, self.key, event, self.now_ms)
            self.is_active = int(isinstance(event, TurnResumed))
        return kept

    def _input(self, event: InputAccepted) -> bool:
        if is_delivered(self._connection, event):
            return False
        accept_input(self._connection, self.key, event)
        keep_request(self._connection, self.key, self.head_seq + 1, event.request)
        is_said = event.source is InputSource.PERSON
        kind = "user" if is_said else "system"
        files = self._files(event) if event.attachments else None
        self._message(event.input_id, kind, event.text, files=files)
        if is_said:
            self.title = self.title or excerpt(event.text, MAX_TITLE_LENGTH)
        return True

    def _answer(self, event: MessageCompleted) -> None:
        usage = event.usage or Usage()
        thinking = [part.text for part in event.parts if isinstance(part, Thinking)]
        self._message(
            event.message_id,
            "assistant",
            text_of(event.parts),
            turn_id=event.turn_id,
            thinking="\n\n".join(thinking) if thinking else None,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            model=event.model,
            provider=event.provider,
            duration_ms=event.duration_ms,
            stop_reason=INCOMPLETE if event.incomplete else event.stop_reason,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        if not event.is_copy:
            add_usage(self._connection, self.key, event.message_id, event, self.now_ms)

    def _finished(self, event: CallFinished) -> bool:
        if not finish_call(self._connection, self.key, event, self.now_ms, self.head_seq + 1):
            return False
        self._call_message("result", event)
        if event.status in NEVER_RAN:
            self._permissions.end_call(event.call_id)
        return True

    def _turn_started(self, event: TurnStarted) -> None:
        self._connection.execute(
            BEGIN_TURN,
            (self.key, event.turn_id, self.now_ms, self.head_seq + 1),
        )
        if self._connection.changes():
            self.is_active = 1
        begin_inputs(self._connection, self.key, event.turn_id, event.input_ids)

    def _turn_ended(self, event: TurnEnded) -> bool:
        self._connection.execute(
            END_TURN,
            (self.key, event.turn_id, self.now_ms),
        )
        if not self._connection.changes():
            return False
        count_run(self._connection, self.key, event, self.now_ms)
        self._permissions.end_turn(event.turn_id)
        for late in end_inputs(self._connection, self.key, event.turn_id):
            self._permissions.end_late(late.approval_id)
        self.is_active = self._connection.execute(HAS_OPEN_TURN, (self.key,)).get
        if event.outcome in ENDED_WITHOUT_ANSWER:
            text = event.message or event.error_type or event.outcome
            self._message(f"error:{event.turn_id}", "error", text, turn_id=event.turn_id)
        return True

    def _call_message(self, side: str, event: CallProposed | CallFinished) -> None:
        name, call_id = f"{side}:{event.call_id}", event.call_id
        files = None
        if type(event) is CallFinished and event.attachments:
            files = self._files(event)
        self._message(name, f"tool_{side}", "", turn_id=event.turn_id, call_id=call_id, files=files)

    def _files(self, event: InputAccepted | CallFinished) -> str:
        from .tables.files import kept_files  # rare, and a start imports it not

        return kept_files(self.head_seq + 1, event.attachments)

    def _message(self, message_id: str, kind: str, content: str, **columns: object) -> None:
        self.message_count += 1
        if content:
            self.preview = excerpt(content, MAX_PREVIEW_LENGTH) or self.preview
        some = (columns.get(name) for name in _SOME_COLUMNS)
        self._late.add_message(
            (self.key, self.message_count, message_id, kind, content, self.now_ms, *some)
        )


def _ignored(event: WithoutRows) -> None:
    """Do nothing: the type makes checkers prove that only these events come here."""

"""The tables `approvals` and `grants`: what the store refuses about them, their rows, and reading them.

This decides who answered first: an answer changes a question only while it waits, and a start only
while it is allowed. Both checks run inside the store's transaction, so they hold for all processes.
`PermissionCheck` looks at an append before it writes anything; `PermissionRows` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

import msgspec

from ...approval import ApprovalDecision, GrantVerdict
from ...definitions import CallStatus
from ...errors import ConflictError, ConflictKind
from ...events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDeferred,
    CallStarted,
    DurableEvent,
    GrantGiven,
    GrantRevoked,
    InputAccepted,
    SessionTainted,
    TurnResumed,
    TurnSuspended,
)
from ..codec import decode_event, event_of
from ..rows import ApprovalRow, ApprovalState, GrantRow

if TYPE_CHECKING:
    from .connection import SqlConnection

LASTING_SCOPES = frozenset({"agent", "always"})
"""Scopes of grants that outlive their session. A tainted session can neither give nor use them."""


def is_suspended_in_tainted(verdict: GrantVerdict, scope: str, *, is_tainted: bool) -> bool:
    """Whether a grant is suspended in a session that has read untrusted content.

    There, only a person who knew about that (`is_tainted`) can allow more than one call, and only
    within the session.
    """
    return verdict == "allow" and (scope in LASTING_SCOPES or not is_tainted)


REFUSED = frozenset({"denied", "expired"})
"""States of a question in which the call may not run, whatever changes later."""

NEVER_RAN = frozenset({CallStatus.DENIED, CallStatus.CANCELLED, CallStatus.INTERRUPTED})
"""Calls that end so may have an open question."""

GUARDED = frozenset(
    {
        ApprovalAnswered,
        ApprovalAsked,
        CallDeferred,
        GrantGiven,
        GrantRevoked,
        TurnResumed,
        TurnSuspended,
    }
)
"""An append with one of these events, or with an event that names an approval (the start of an allowed
call, the input with a late answer), needs a `PermissionCheck` and up-to-date rows."""

_STATES: dict[ApprovalDecision, tuple[ApprovalState, ApprovalState]] = {
    "allow": ("waiting", "allowed"),
    "deny": ("waiting", "denied"),
    "revised": ("waiting", "revised"),
    "expired": ("waiting", "expired"),
    "withdrawn": ("waiting", "withdrawn"),
    "void": ("allowed", "void"),
}
"""The state that each decision needs, and the state that it leads to."""

_BY_A_PERSON = frozenset({"allow", "deny", "revised"})

_DELIVERED = frozenset({"allow", "deny", "expired"})
"""Answers to a deferred question that must reach its session: by an input in the same append."""

OPEN_STATES = frozenset({"waiting", "allowed"})
IS_OPEN = "state in ('waiting', 'allowed')"
"""The condition of the index of open questions, which SQLite uses where it stands in these words."""


class _Approval(NamedTuple):
    state: ApprovalState
    call_id: str
    digest: str
    ends_at_ms: int | None
    is_deferred: bool


class PermissionCheck:
    """Decides whether an append may be stored, before anything of it is written.

    Args:
        connection: Inside the transaction that stores the append.
        session: The key of the session's row; `None` if the append creates the session.
        now_ms: The ledger's clock.
        is_tainted: Whether the session is tainted.
    """

    def __init__(
        self,
        connection: SqlConnection,
        session: int | None,
        now_ms: int,
        *,
        is_tainted: bool = False,
    ) -> None:
        self._connection = connection
        self._session = session
        self._now_ms = now_ms
        self._known: dict[str, _Approval | None] = {}
        self._is_tainted = is_tainted
        self._delivering: set[str] = set()

    def problem(self, events: Iterable[DurableEvent]) -> ConflictError | None:
        """Return why events can't be stored in this order, or `None` if they can."""
        events = tuple(events)
        inputs = (event for event in events if isinstance(event, InputAccepted))
        self._delivering = {each.approval_id for each in inputs if each.approval_id}
        for event in events:
            match event:
                case ApprovalAsked():
                    found = self._asked(event)
                case ApprovalAnswered():
                    found = self._answered(event)
                case CallStarted(approval_id=approval_id) if approval_id:
                    found = self._started(event)
                case CallDeferred():
                    found = self._deferred(event)
                case GrantGiven():
                    found = self._given(event)
                case GrantRevoked():
                    found = self._revoked(event)
                case SessionTainted():
                    self._is_tainted = True
                    continue
                case _:
                    continue
            if found is not None:
                return found
        for approval_id in self._delivering:
            return _refused(f"An input brings an answer to {approval_id} not stored with it.")
        return None

    def _asked(self, event: ApprovalAsked) -> ConflictError | None:
        if self._find(event.approval_id) is not None:
            return _refused(f"The question {event.approval_id} was asked already.")
        # No expiry: one append does not outlast it.
        self._known[event.approval_id] = _Approval(
            "waiting", event.call_id, event.digest, None, event.is_deferred
        )
        return None

    def _deferred(self, event: CallDeferred) -> ConflictError | None:
        approval = self._find(event.approval_id)
        if approval is None or approval[:2] != ("waiting", event.call_id) or not approval[4]:
            return _refused(f"The call {event.call_id} does not wait for {event.approval_id}.")
        if self._is_over(event.call_id):
            return _refused(f"The call {event.call_id} has started or ended already.")
        return None

    def _answered(self, event: ApprovalAnswered) -> ConflictError | None:
        approval = self._find(event.approval_id)
        if approval is None or approval.call_id != event.call_id:
            return _refused(f"The call {event.call_id} has no question {event.approval_id}.")
        if (states := _STATES.get(event.decision)) is None:
            return _refused(f"{event.decision!r} is not an answer to a question.")
        needed, made = states
        if approval.state != needed:
            text = f"The question {event.approval_id} is not open: it is {approval.state}."
            return _refused(text, "answered")
        ends = approval.ends_at_ms
        if event.decision in _BY_A_PERSON and ends is not None and self._now_ms >= ends:
            return _refused(f"The question {event.approval_id} has expired.", "expired")
        if event.grant_id and event.decision == "allow" and (found := self._by_grant(event)):
            return found
        if approval.is_deferred and event.decision in _DELIVERED:
            if event.approval_id not in self._delivering:
                return _refused(
                    f"The answer to {event.approval_id} is stored with the input that brings it."
                )
            self._delivering.remove(event.approval_id)
        digest = event.digest or approval.digest
        self._known[event.approval_id] = approval._replace(state=made, digest=digest)
        return None

    def _started(self, event: CallStarted) -> ConflictError | None:
        approval = self._find(event.approval_id)
        if approval is None or approval.call_id != event.call_id:
            return _refused(f"The call {event.call_id} was not asked about as {event.approval_id}.")
        if approval.state != "allowed":
            return _refused(
                f"The question {event.approval_id} is {approval.state}, and allows nothing."
            )
        if approval.digest != event.digest:
            return _refused(
                "What would run is not what was allowed: its arguments, the policy, the sandbox or a "
                "program of the workspace that it names has changed. Ask again."
            )
        if self._is_over(event.call_id):
            return _refused(f"The call {event.call_id} has started or ended already.")
        self._known[event.approval_id] = approval._replace(state="used")
        return None

    def _given(self, event: GrantGiven) -> ConflictError | None:
        if event.verdict == "allow" and event.scope in LASTING_SCOPES and self._is_tainted:
            text = f"A session that has read untrusted content can't allow for {event.scope!r}."
            return _refused(text, "scope")
        return None

    def _revoked(self, event: GrantRevoked) -> ConflictError | None:
        row = self._connection.execute(
            "select revoked_at_ms from grants where grant_id = ? and session = ?",
            (event.grant_id, self._session),
        ).fetchone()
        if row is None:
            return _refused(f"There is no grant {event.grant_id}.")
        if row[0] is not None:
            return _refused(f"The grant {event.grant_id} is revoked already.")
        return None

    def _by_grant(self, event: ApprovalAnswered) -> ConflictError | None:
        """Return why a grant can't give this answer, or `None` if it can."""
        row = self._connection.execute(
            f"select {event_of('e')}, g.revoked_at_ms from grants g"
            " join events e on e.session = g.session and e.seq = g.given_seq where g.grant_id = ?",
            (event.grant_id,),
        ).fetchone()
        if row is None or row[1] is not None:
            return _refused(f"The grant {event.grant_id} does not hold.", "grant")
        grant = decode_event(row[0])
        assert isinstance(grant, GrantGiven)
        if self._is_tainted and is_suspended_in_tainted(
            grant.verdict, grant.scope, is_tainted=grant.is_tainted
        ):
            text = f"{event.grant_id} does not hold where untrusted content was read."
            return _refused(f"The grant {text}", "grant")
        return None

    def _find(self, approval_id: str) -> _Approval | None:
        if approval_id not in self._known:
            row = self._connection.execute(
                "select state, call_id, digest, ends_at_ms, is_deferred from approvals"
                " where approval_id = ? and session = ?",
                (approval_id, self._session),
            ).fetchone()
            self._known[approval_id] = None if row is None else _Approval(*row)
        return self._known[approval_id]

    def _is_over(self, call_id: str) -> bool:
        return bool(
            self._connection.execute(
                "select exists (select 1 from tool_calls where session = ? and call_id = ?"
                " and (started_at_ms is not null or finished_at_ms is not null))",
                (self._session, call_id),
            ).get
        )


def _refused(text: str, kind: ConflictKind | None = None) -> ConflictError:
    return ConflictError(text, kind=kind)


PermissionEvent = (
    ApprovalAnswered
    | ApprovalAsked
    | GrantGiven
    | GrantRevoked
    | SessionTainted
    | TurnResumed
    | TurnSuspended
)


class PermissionRows:
    """Writes the rows of one session, after `PermissionCheck` has accepted the events."""

    __slots__ = ("_connection", "_session")

    def __init__(self, connection: SqlConnection, session: int) -> None:
        self._connection = connection
        self._session = session

    def apply(self, event: PermissionEvent, seq: int, at_ms: int, clock_ms: int) -> bool:
        """Change the rows; return `False` for a turn that is suspended or resumed already."""
        match event:
            case ApprovalAsked():
                self._ask(event, seq, at_ms, clock_ms)
            case ApprovalAnswered():
                self._answer(event, seq)
            case GrantGiven():
                self._give(event, seq)
            case GrantRevoked():
                self._revoke(event, at_ms)
            case TurnSuspended() | TurnResumed():
                return self._pause(event.turn_id, pauses=isinstance(event, TurnSuspended))
            case SessionTainted():
                pass
            case _:
                assert_never(event)
        return True

    def _ask(self, event: ApprovalAsked, seq: int, at_ms: int, clock_ms: int) -> None:
        """Add a question that waits; it expires by the ledger's clock."""
        lasts_ms = event.expires_at_ms - at_ms
        self._connection.execute(
            "insert into approvals (session, approval_id, turn_id, call_id, digest, state,"
            " asked_seq, asked_at_ms, ends_at_ms, is_deferred)"
            " values (?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?)",
            (
                self._session,
                event.approval_id,
                event.turn_id,
                event.call_id,
                event.digest,
                seq,
                clock_ms,
                clock_ms + lasts_ms if event.expires_at_ms else None,
                event.is_deferred,
            ),
        )

    def _answer(self, event: ApprovalAnswered, seq: int) -> None:
        """Store the answer to a question."""
        needed, made = _STATES[event.decision]
        self._connection.execute(
            "update approvals set state = ?, digest = coalesce(?, digest),"
            " answered_seq = coalesce(answered_seq, ?)"
            " where approval_id = ? and session = ? and state = ?",
            (made, event.digest, seq, event.approval_id, self._session, needed),
        )

    def use(self, approval_id: str) -> None:
        """Note that an allowed call has started, which it may do once."""
        self._connection.execute(
            "update approvals set state = 'used' where approval_id = ? and session = ?",
            (approval_id, self._session),
        )

    def end_call(self, call_id: str) -> None:
        """End the question of a call that ended without running."""
        self._end("call_id", call_id)

    def end_turn(self, turn_id: str) -> None:
        """End all questions of a turn except deferred ones."""
        self._end("turn_id", turn_id, "and is_deferred = 0")

    def end_late(self, approval_id: str) -> None:
        """Void the answer to a deferred call whose turn has ended without starting it."""
        self._connection.execute(
            "update approvals set state = 'void'"
            " where session = ? and approval_id = ? and state = 'allowed'",
            (self._session, approval_id),
        )

    def _pause(self, turn_id: str, *, pauses: bool) -> bool:
        """Suspend or resume a turn; return `False` if it is so already, or has ended."""
        self._connection.execute(
            "update turns set is_suspended = ?1 where session = ?2 and turn_id = ?3"
            " and is_suspended <> ?1 and ended_at_ms is null",
            (pauses, self._session, turn_id),
        )
        return self._connection.changes() > 0

    def _give(self, event: GrantGiven, seq: int) -> None:
        """Add a grant."""
        self._connection.execute(
            "insert into grants (session, grant_id, scope, turn_id, given_seq)"
            " values (?, ?, ?, ?, ?)",
            (self._session, event.grant_id, event.scope, event.turn_id, seq),
        )

    def _revoke(self, event: GrantRevoked, at_ms: int) -> None:
        """Revoke a grant."""
        self._connection.execute(
            "update grants set revoked_at_ms = ? where grant_id = ? and session = ?",
            (at_ms, event.grant_id, self._session),
        )

    def _end(self, column: str, name: str, which: str = "") -> None:
        self._connection.execute(
            "update approvals set state = case when state = 'waiting' then 'withdrawn' else 'void' end"
            f" where session = ? and {IS_OPEN} and {column} = ? {which}",
            (self._session, name),
        )


SELECT_APPROVALS = f"""
select s.session_id, a.state, asked.at_ms, {event_of("asked")}, answered.at_ms, {event_of("answered")}
from approvals a
join sessions s on s.id = a.session
join events asked on asked.session = a.session and asked.seq = a.asked_seq
left join events answered on answered.session = a.session and answered.seq = a.answered_seq
"""

ASKED_BEFORE = "a.id < (select b.id from approvals b where b.approval_id = ?)"
"""The condition for a page: questions asked before the given one; none if that is unknown."""

SELECT_GRANTS = f"""
select s.session_id, given.at_ms, {event_of("given")}, g.revoked_at_ms
from grants g
join sessions s on s.id = g.session
join events given on given.session = g.session and given.seq = g.given_seq
"""

GRANTS_THAT_HOLD = (
    "select l.id from grants l where l.revoked_at_ms is null and l.scope <> 'turn'"
    " union all select l.id from turns t indexed by turns_open cross join grants l"
    " on l.session = t.session and l.turn_id = t.turn_id"
    " where t.ended_at_ms is null and l.revoked_at_ms is null and l.scope = 'turn'"
)
"""Grants that outlast their turn, and those of open turns."""


def approval_row(row: tuple[Any, ...]) -> ApprovalRow:
    """Return the question of a row of `SELECT_APPROVALS`."""
    session_id, state, asked_at_ms, asked_data, answered_at_ms, answered_data = row
    asked = decode_event(asked_data)
    assert isinstance(asked, ApprovalAsked)
    answered = None if answered_data is None else decode_event(answered_data)
    assert answered is None or isinstance(answered, ApprovalAnswered)
    return ApprovalRow(
        approval_id=asked.approval_id,
        session_id=session_id,
        turn_id=asked.turn_id,
        call_id=asked.call_id,
        state=state,
        tool=asked.name,
        tier=asked.tier,
        reason=asked.reason,
        arguments=asked.arguments,
        digest=asked.digest,
        preview=asked.preview,
        policy_version=asked.policy_version,
        same_as=asked.same_as,
        asked_at_ms=asked_at_ms,
        expires_at_ms=asked.expires_at_ms,
        answered_at_ms=answered_at_ms,
        decision=answered.decision if answered else "",
        answered_by=answered.answered_by if answered else "",
        answer_reason=answered.reason if answered else "",
        remember=answered.remember if answered else None,
        final_arguments=answered.arguments if answered else None,
        final_digest=answered.digest if answered else None,
        is_deferred=asked.is_deferred,
        grant_id=answered.grant_id if answered else "",
    )


def grant_row(row: tuple[Any, ...]) -> GrantRow:
    """Return the grant of a row of `SELECT_GRANTS`."""
    session_id, given_at_ms, data, revoked_at_ms = row
    given = decode_event(data)
    assert isinstance(given, GrantGiven)
    return given_grant(given, session_id, given_at_ms, revoked_at_ms)


def given_grant(
    given: GrantGiven, session_id: str, given_at_ms: int, revoked_at_ms: int | None = None
) -> GrantRow:
    """Return the row of a grant, from its event."""
    return GrantRow(
        session_id=session_id,
        given_at_ms=given_at_ms,
        revoked_at_ms=revoked_at_ms,
        **msgspec.structs.asdict(given),
    )

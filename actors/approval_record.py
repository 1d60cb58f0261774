"""What is on record of questions and grants, and the broker's way to it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..config.policy import PolicyBook
from ..runtime.definitions import Agent
from ..runtime.errors import ConflictError, NotFoundError
from ..runtime.events import ApprovalAnswered, DurableEvent, GrantRevoked
from ..runtime.history import Call
from ..runtime.mailbox import Mailbox
from ..runtime.messages import (
    AppendEvents,
    CallPlace,
    JournalMessage,
    PermissionQuestion,
    SessionMarks,
)
from ..runtime.permission_table import REFUSED
from ..runtime.store import ApprovalRow, GrantRow, SessionRow, StoreReader
from .call_preparation import CallPreparation
from .open_question import OpenQuestion
from .people import Approver

MAX_FOLLOWERS = 1000
"""Questions of one answer that ask the same: more than the calls that an answer may ask for."""


class BrokerServices(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker works with.

    Attributes:
        store: Where questions and grants of earlier processes are found.
        preparation: Validates what a person changed.
        agents: By name, for answers to sessions that are not loaded.
        policies: All rules.
        approver: Asks a person, or `None` when there is nobody to ask.
        approval_seconds: When silence becomes a denial.
    """

    store: StoreReader
    preparation: CallPreparation
    agents: Mapping[str, Agent]
    policies: PolicyBook
    approver: Approver | None
    approval_seconds: float


class ApprovalRecord:
    """Reads the store, and writes through the journal, what questions and grants need."""

    def __init__(self, journal: Mailbox[JournalMessage], services: BrokerServices) -> None:
        self._journal = journal
        self._services = services

    async def append(self, question: OpenQuestion, *events: DurableEvent) -> None:
        """Stores events of the question's session; `ConflictError` when the store is against it."""
        await self._store(question.place.session_id, *events)

    async def row(self, question: OpenQuestion) -> ApprovalRow:
        """The question as it is now."""
        return await self._row(question.approval_id, question.place.session_id)

    async def still_asked(self, known: ApprovalRow | None, digest: str) -> ApprovalRow | None:
        """A question of an earlier process, if it is about what would run now.

        What is not is taken back: the tool, its policy or its place has changed.
        """
        if known is None or known.state in {"void", "withdrawn"}:
            return None
        if known.digest == digest or known.state in REFUSED:
            return known
        decision = {"waiting": "withdrawn", "allowed": "void"}.get(known.state)
        if decision is not None:
            event = ApprovalAnswered(
                approval_id=known.approval_id,
                call_id=known.call_id,
                decision=decision,
                answered_by="callboard",
                reason="the tool, its policy or its place has changed since it was asked",
            )
            await self._store(known.session_id, event)
        return None

    async def question(self, approval_id: str) -> OpenQuestion:
        """A question that waits on record, in a session that is not loaded, with its followers.

        Raises:
            NotFoundError: There is none, or its session's agent is gone.
            ConflictError: It does not wait.
        """
        row = await self._row(approval_id)
        if row.state != "waiting":
            raise ConflictError(f"the question {approval_id} is not open: it is {row.state}")
        session = await self._services.store.session(row.session_id)
        agent = self._services.agents.get(session.agent) if session is not None else None
        if session is None or agent is None:
            raise NotFoundError(
                f"the session of {approval_id} has an agent that is not configured any more; "
                "configure it again to answer"
            )
        question = self._opened(row, session, agent)
        others = await self._services.store.approvals(
            session_id=row.session_id, state="waiting", limit=MAX_FOLLOWERS
        )
        question.followers += [
            self._opened(other, session, agent) for other in others if other.same_as == approval_id
        ]
        return question

    async def grant(self, grant_id: str) -> GrantRow:
        """A grant, in force or not; `NotFoundError` when there is none."""
        rows = await self._services.store.grants(grant_id=grant_id, include_ended=True)
        if not rows:
            raise NotFoundError(f"there is no grant {grant_id}")
        return rows[0]

    async def revoke(self, grant: GrantRow, revoked_by: str) -> None:
        """Stores that it holds no longer; `ConflictError` when that is so already."""
        event = GrantRevoked(grant_id=grant.grant_id, revoked_by=revoked_by)
        await self._store(grant.session_id, event)

    async def _row(self, approval_id: str, session_id: str | None = None) -> ApprovalRow:
        rows = await self._services.store.approvals(approval_id=approval_id, session_id=session_id)
        if not rows:
            raise NotFoundError(f"there is no question {approval_id}")
        return rows[0]

    async def _store(self, session_id: str, *events: DurableEvent) -> None:
        await self._journal.ask(AppendEvents(session_id=session_id, events=events))

    def _opened(self, row: ApprovalRow, session: SessionRow, agent: Agent) -> OpenQuestion:
        place = CallPlace(
            session_id=row.session_id,
            turn_id=row.turn_id,
            agent=agent,
            session_kind=session.kind,
            workspace=session.workspace,
        )
        question = PermissionQuestion(
            call_id=row.call_id,
            name=row.tool,
            tier=row.tier,
            arguments=row.arguments,
            approval_reason=None,
            definition=self._services.preparation.definition(row.tool),
        )
        return OpenQuestion(
            row.approval_id,
            place,
            Call(row.call_id, row.tool, row.arguments),
            question,
            reason=row.reason,
            digest=row.digest,
            policy_version=row.policy_version,
            expires_at_ms=row.expires_at_ms,
            marks=SessionMarks(is_tainted=session.is_tainted),
        )

"""Questions and grants on record: read from the store, written through the journal."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from ...config.policy.policy import PolicyBook
from ...config.settings import Limits
from ...runtime.definitions import Agent
from ...runtime.errors import ConflictError, NotFoundError
from ...runtime.events import ApprovalAnswered, DurableEvent, GrantRevoked
from ...runtime.history import Call
from ...runtime.identity import new_id, now_ms
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import (
    AppendEvents,
    AskPerson,
    CallPlace,
    DirectoryMessage,
    JournalMessage,
    PermissionQuestion,
    WakeSession,
)
from ...runtime.redaction import redacting_logger
from ...runtime.store.interface import StoreReader
from ...runtime.store.rows import ApprovalRow, GrantRow, SessionRow
from ...runtime.store.tables.permissions import REFUSED
from ...runtime.taint.marks import SessionMarks, joined
from ..calls.call import CallPreparation
from ..people.lineage import Channels, Lineage
from .question import OpenQuestion

logger = redacting_logger(__name__)

MAX_FOLLOWERS = 1000
"""Twins of one question at most: more than the calls that one model answer may ask for."""
MAX_LEFT = 10_000
"""Questions of earlier processes taken up again at most; the oldest of more wait on record."""


class BrokerServices(msgspec.Struct, kw_only=True):
    """What the broker works with.

    Attributes:
        store: Holds the questions and grants of earlier processes.
        preparation: Validates arguments that a person changed.
        agents: By name, for answers to sessions that are not loaded.
        gone_agents: Those that are not configured any more, as they were.
        policies: All rules.
        channels: Finds the people to ask.
        limits: Say after what time silence becomes a denial.
        sessions: Wakes sessions for late answers.
    """

    store: StoreReader
    preparation: CallPreparation
    agents: Mapping[str, Agent]
    gone_agents: Mapping[str, Agent] = {}
    policies: PolicyBook
    channels: Channels
    limits: Limits
    sessions: Mailbox[DirectoryMessage]


class ApprovalRecord:
    """What the broker reads from the store and appends to the journal."""

    def __init__(self, journal: Mailbox[JournalMessage], services: BrokerServices) -> None:
        self._journal = journal
        self._services = services

    def opened(self, message: AskPerson, known: ApprovalRow | None) -> OpenQuestion:
        """Return a question to ask, for the first time or again; store nothing.

        Here its expiry is set: `approval_seconds` or `deferred_seconds` from now.
        """
        is_deferred = known is None and message.defers
        limits = self._services.limits
        served = self._services.channels.serving(message.place)
        seconds = limits.deferred_seconds if is_deferred else limits.approval_seconds
        expires_at_ms = now_ms() + int(seconds * 1000)
        if known is not None:
            # Its time went on while nobody asked; a clock that was set back adds nothing to it.
            seconds = max(0.0, min((known.expires_at_ms - now_ms()) / 1000, seconds))
            expires_at_ms = known.expires_at_ms
        return OpenQuestion(
            approval_id=known.approval_id if known is not None else new_id("approval"),
            place=message.place,
            call=message.call,
            question=message.question,
            reason=message.reason,
            digest=message.digest,
            policy_version=message.policy_version,
            expires_at_ms=expires_at_ms,
            patience_seconds=seconds,
            marks=message.marks,
            preview=message.preview,
            asked_in=served.asked_in if served is not None else "",
            origin=served.origin if served is not None else "",
            is_deferred=is_deferred,
            number=message.number,
            count=message.count,
        )

    async def append(self, question: OpenQuestion, *events: DurableEvent) -> None:
        """Store events of the question's session; raise `ConflictError` when the store refuses."""
        await self._store(question.place.session_id, *events)

    async def append_above(self, question: OpenQuestion) -> None:
        """Store in the session whose people are asked that one below it asks."""
        await self._store(question.asked_in, question.asked_above())

    async def refresh(self, question: OpenQuestion) -> None:
        """Update what the question's session has read."""
        session = await self._services.store.session(question.place.session_id)
        if session is not None:
            read = SessionMarks(is_tainted=session.is_tainted, has_private=session.has_private)
            question.marks = joined(question.marks, read)

    async def still_asked(
        self, known: ApprovalRow | None, digest: str, *, is_granted: bool
    ) -> ApprovalRow | None:
        """Return the question of an earlier process, if it is about what would run now.

        Otherwise withdraw it: the tool, its policy or its place has changed, or the grant that
        answered it holds no longer.
        """
        if known is None or known.state in {"void", "withdrawn"}:
            return None
        if known.state in REFUSED:
            return known
        by_grant = known.state == "allowed" and known.grant_id
        if known.digest == digest and (is_granted or not by_grant):
            return known
        if known.state in {"waiting", "allowed"}:
            event = ApprovalAnswered(
                approval_id=known.approval_id,
                call_id=known.call_id,
                decision="withdrawn" if known.state == "waiting" else "void",
                answered_by="callboard",
                reason="the tool, its policy or its place has changed since it was asked, or what "
                "was remembered holds no longer",
            )
            await self._store(known.session_id, event)
        return None

    async def question(self, approval_id: str) -> OpenQuestion:
        """Return a question that waits on record, with its followers.

        Raises:
            NotFoundError: There is none, or its session's agent is gone.
            ConflictError: It does not wait.
        """
        row = await self.row(approval_id)
        if row.state != "waiting":
            raise ConflictError(f"the question {approval_id} is not open: it is {row.state}")
        session = await self._services.store.session(row.session_id)
        if session is None:
            raise NotFoundError(f"the session of {approval_id} is gone")
        place = await self._place(row, session)
        question = self._opened(row, session, place)
        others = await self._services.store.approvals(
            session_id=row.session_id, state="waiting", limit=MAX_FOLLOWERS
        )
        question.followers += [
            self._opened(other, session, place) for other in others if other.same_as == approval_id
        ]
        return question

    async def deferred(self) -> list[tuple[OpenQuestion, str]]:
        """Return the deferred questions that wait, the oldest first, each with its twin's id.

        A question whose session's agent is not configured is left on record.
        """
        found: list[tuple[OpenQuestion, str]] = []
        store = self._services.store
        rows = await store.approvals(state="waiting", limit=MAX_LEFT)
        for row in reversed(rows):
            session = await store.session(row.session_id)
            if not row.is_deferred or session is None or not store.owns(row.session_id):
                continue
            try:
                question = self._opened(row, session, await self._place(row, session))
            except NotFoundError as error:
                logger.warning("%s", error)
            else:
                left_ms = row.expires_at_ms - now_ms()
                question.patience_seconds = max(
                    0.0, min(left_ms / 1000, self._services.limits.deferred_seconds)
                )
                found.append((question, row.same_as))
        return found

    async def wake(self, session_id: str | None = None) -> None:
        """Let this session, or all, begin the turns of inputs that wait."""
        for waking in await self._services.store.waking_sessions():
            if session_id in {None, waking} and self._services.store.owns(waking):
                await self._services.sessions.tell(WakeSession(session_id=waking))

    async def grant(self, grant_id: str) -> GrantRow:
        """Return a grant that can be revoked.

        Raises:
            NotFoundError: There is no such grant.
            ConflictError: It is revoked already.
        """
        rows = await self._services.store.grants(grant_id=grant_id, include_ended=True)
        if not rows:
            raise NotFoundError(f"there is no grant {grant_id}")
        if rows[0].revoked_at_ms is not None:
            raise ConflictError(f"the grant {grant_id} is revoked already")
        return rows[0]

    async def revoke(self, grant: GrantRow, revoked_by: str) -> None:
        """Store that a grant holds no longer; raise `ConflictError` when that is on record."""
        event = GrantRevoked(grant_id=grant.grant_id, revoked_by=revoked_by)
        await self._store(grant.session_id, event)

    async def void_answers_of(self, grant: GrantRow) -> None:
        """Withdraw what a grant has allowed and has not started."""
        for row in await self._services.store.approvals(state="allowed", limit=MAX_LEFT):
            if row.grant_id == grant.grant_id:
                event = ApprovalAnswered(
                    approval_id=row.approval_id,
                    call_id=row.call_id,
                    decision="void",
                    answered_by="callboard",
                    reason="what was remembered was revoked",
                )
                with suppress(ConflictError):  # it has just started
                    await self._store(row.session_id, event)

    async def row(self, approval_id: str, session_id: str | None = None) -> ApprovalRow:
        """Return the row of a question; raise `NotFoundError`."""
        rows = await self._services.store.approvals(approval_id=approval_id, session_id=session_id)
        if not rows:
            raise NotFoundError(f"there is no question {approval_id}")
        return rows[0]

    async def _store(self, session_id: str, *events: DurableEvent) -> None:
        await self._journal.ask(AppendEvents(session_id=session_id, events=events))

    async def _place(self, row: ApprovalRow, session: SessionRow) -> CallPlace:
        """Return where the call was made, with the tools and the parents that the session has."""
        services = self._services
        tree = Lineage(services.store, services.agents, services.channels, services.gone_agents)
        lineage = await tree.above(session.parent_id)
        agent = await tree.agent_of(session, lineage)
        return CallPlace(
            session_id=row.session_id,
            turn_id=row.turn_id,
            agent=agent,
            session_kind=session.kind,
            workspace=session.workspace,
            channel=services.channels.own(session.kind),
            lineage=lineage,
            task=session.title if session.parent_id else "",
        )

    def _opened(self, row: ApprovalRow, session: SessionRow, place: CallPlace) -> OpenQuestion:
        question = PermissionQuestion(
            call_id=row.call_id,
            name=row.tool,
            tier=row.tier,
            arguments=row.arguments,
            approval_reason=None,
            definition=self._services.preparation.definition(row.session_id, row.tool),
        )
        return OpenQuestion(
            approval_id=row.approval_id,
            place=place,
            call=Call(row.call_id, row.tool, row.arguments),
            question=question,
            reason=row.reason,
            digest=row.digest,
            policy_version=row.policy_version,
            expires_at_ms=row.expires_at_ms,
            preview=row.preview,
            is_deferred=row.is_deferred,
            marks=SessionMarks(is_tainted=session.is_tainted, has_private=session.has_private),
        )

"""Notices: what webhooks say of an event, in JSON.

A notice names question, session and tool, or a turn and how it ended. It has no arguments and no text of a model,
which may hold secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...config.sections import WebhookEvent
from ...runtime.definitions import Tier
from ...runtime.events import ApprovalAsked, QuestionAsked, Stored, TurnEnded


class QuestionNotice(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="question_waits"
):
    """Something begins to wait for a person.

    Attributes:
        kind: `approval` of a call, or `question` of a model.
        question_id: Answered by `callboard approve`, `callboard deny` or `callboard attach`.
        session_id, tool, tier: The call; without a tier when a model asks.
        expires_at_ms: When the question expires, in Unix milliseconds.
        text: All of it in one line, which chat services show.
    """

    kind: str
    question_id: str
    session_id: str
    tool: str
    tier: Tier | None
    expires_at_ms: int
    text: str

    @property
    def identity(self) -> str:
        """The same whenever this notice is sent."""
        return self.question_id


class TurnNotice(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_ended"):
    """A turn of a main session, or of a branch, has ended.

    Attributes:
        outcome: As in the event `turn_ended`.
        error_type: One of the types of errors, if it failed.
        text: All of it in one line, which chat services show.
    """

    session_id: str
    turn_id: str
    outcome: str
    error_type: str
    duration_ms: int
    text: str

    @property
    def identity(self) -> str:
        """The same whenever this notice is sent."""
        return self.turn_id


class ServerNotice(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="server_changed"
):
    """A server of MCP is not as it was accepted; what has changed of it is withheld until a person has looked at it.

    Attributes:
        server: Its name.
        withheld: Its tools that are not offered, as models call them.
        new: How many tools it offers that nobody has accepted.
        change: Its own id: the same for the same change.
        text: All of it in one line, which chat services show.
    """

    server: str
    withheld: tuple[str, ...]
    new: int
    change: str
    text: str

    @property
    def identity(self) -> str:
        """The same whenever this notice is sent."""
        return self.change


class TestNotice(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="test"):
    """Somebody wants to know whether a webhook is right."""

    identity: str
    text: str = "callboard: this is a test."


Notice = QuestionNotice | TurnNotice | ServerNotice | TestNotice


def notice_of(stored: Stored) -> QuestionNotice | TurnNotice | None:
    """Return the notice of an event; `None` if there is nothing to say of it."""
    match stored.event:
        case ApprovalAsked(same_as="") as asked:
            return QuestionNotice(
                kind="approval",
                question_id=asked.approval_id,
                session_id=stored.session_id,
                tool=asked.name,
                tier=asked.tier,
                expires_at_ms=asked.expires_at_ms,
                text=f"callboard asks: may {asked.name} run in {stored.session_id}? "
                f"callboard approve {asked.approval_id}",
            )
        case QuestionAsked() as asked:
            return QuestionNotice(
                kind="question",
                question_id=asked.question_id,
                session_id=stored.session_id,
                tool="ask_user",
                tier=None,
                expires_at_ms=asked.expires_at_ms,
                text=f"callboard: the model has a question in {stored.session_id}. "
                f"callboard attach {stored.session_id}",
            )
        case TurnEnded() as ended if ended.outcome != "suspended":
            return TurnNotice(
                session_id=stored.session_id,
                turn_id=ended.turn_id,
                outcome=ended.outcome,
                error_type=ended.error_type,
                duration_ms=ended.duration_ms,
                text=f"callboard: a turn of {stored.session_id} has ended: {ended.outcome}. "
                f"callboard show {stored.session_id}",
            )
        case _:
            return None


def events_of(notice: QuestionNotice | TurnNotice | ServerNotice) -> Iterator[WebhookEvent]:
    """Yield the events under which somebody may want to hear of it."""
    if isinstance(notice, QuestionNotice | ServerNotice):
        yield "question"
        return
    yield "turn"
    if notice.outcome == "failed":
        yield "failure"
    if notice.outcome == "budget":
        yield "budget"

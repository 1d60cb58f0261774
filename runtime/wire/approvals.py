"""`approval/…`, `grant/…` and `question/…` on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..channel import UserQuestion
from ..definitions import SessionKind, Tier, Verdict
from ..store.rows import ApprovalRow, GrantRow
from ..text import WireInteger
from .fields import Line, LongText, Word


class ListApprovals(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of a session, or of all; by default those that wait.

    Those that were asked before the question `before`.
    """

    session_id: Word | None = None
    state: Word | None = "waiting"
    before: Word | None = None
    limit: WireInteger = 100


class Approvals(msgspec.Struct, frozen=True):
    """Questions, the latest first; with `has_more`, others were asked before the last one.

    A page ends at `limit`, or at a size.
    """

    approvals: list[ApprovalRow]
    has_more: bool = False


class OneApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A question; with `arguments`, as it would be about these."""

    approval_id: Word
    arguments: LongText | None = None


class Remember(msgspec.Struct, frozen=True, kw_only=True):
    """For what an answer is remembered."""

    scope: Word
    pattern: Line | None = None


class Resolve(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; `arguments` are other ones, as the text of a JSON object."""

    approval_id: Word
    decision: Literal["allow", "deny"]
    arguments: LongText | None = None
    remember: Remember | None = None
    reason: Line = ""


class Grants(msgspec.Struct, frozen=True):
    """The remembered answers that hold."""

    grants: list[GrantRow]


class OneGrant(msgspec.Struct, frozen=True):
    """A remembered answer."""

    grant_id: Word


class AnswerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says to a question of a model."""

    question_id: Word
    text: LongText = ""
    option: WireInteger | None = None


class ListQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of models in a session and its branches, or in all."""

    session_id: Word | None = None


class QuestionList(msgspec.Struct, frozen=True):
    """Questions that wait, the oldest first."""

    questions: list[UserQuestion]


class CheckPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a session would make it; `arguments` is the text of a JSON object. Nothing runs."""

    session_id: Word
    tool: Word
    arguments: LongText


class PolicyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict; `callboard policy check --json` prints it.

    Attributes:
        arguments: As the policy saw them: canonical JSON.
        policy: The version of the policy.
    """

    verdict: Verdict
    reason: str
    rule: str
    tool: str
    tier: Tier
    arguments: str
    agent: str
    kind: SessionKind
    policy: str

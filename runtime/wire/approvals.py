"""`approval/…`, `grant/…` and `question/…` on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..approval import ApprovalRequest
from ..channel import UserQuestion
from ..definitions import Binding, SessionKind, Tier, Verdict
from ..store.rows import ApprovalRow, GrantRow
from ..text import WireInteger
from .fields import Line, LongText, Word


class ListApprovals(msgspec.Struct, frozen=True, kw_only=True):
    """Which questions to list: of a session or of all, asked before `before`; by default waiting ones."""

    session_id: Word | None = None
    state: Word | None = "waiting"
    before: Word | None = None
    limit: WireInteger = 100


class Approvals(msgspec.Struct, frozen=True):
    """Questions, the latest first; with `has_more`, more were asked before the last one.

    A page ends at `limit`, or at a size.
    """

    approvals: list[ApprovalRow]
    has_more: bool = False


class OneApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A question; with `arguments`, as it would be with these arguments."""

    approval_id: Word
    arguments: LongText | None = None


class AskedApproval(ApprovalRequest, frozen=True, kw_only=True):
    """A question as a person would see it now; a remembered answer would be about the calls of `covers`."""

    covers: Binding | None = None


class Remember(msgspec.Struct, frozen=True, kw_only=True):
    """The scope for which an answer is remembered."""

    scope: Word
    pattern: Line | None = None


class Resolve(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; `arguments` are the arguments as the person changed them, a JSON object as text."""

    approval_id: Word
    decision: Literal["allow", "deny"]
    arguments: LongText | None = None
    remember: Remember | None = None
    reason: Line = ""


class Grants(msgspec.Struct, frozen=True):
    """The remembered answers in force."""

    grants: list[GrantRow]


class OneGrant(msgspec.Struct, frozen=True):
    """A remembered answer."""

    grant_id: Word


class AnswerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to a question of a model."""

    question_id: Word
    text: LongText = ""
    option: WireInteger | None = None


class ListQuestions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Questions of models to list: of a session with its branches, or of all; `after` is a page's `next_after`."""

    session_id: Word | None = None
    after: Word | None = None
    limit: WireInteger = 100


class QuestionList(msgspec.Struct, frozen=True):
    """Waiting questions, the first to expire first; with `next_after`, there are more.

    A page ends at `limit`, or at a size.
    """

    questions: list[UserQuestion]
    next_after: str | None = None


class CheckPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A call to check, as a session would make it; `arguments` is a JSON object as text. Nothing runs."""

    session_id: Word
    tool: Word
    arguments: LongText


class PolicyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, as `callboard policy check --json` prints it.

    Attributes:
        arguments: The canonical JSON that the policy judged.
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

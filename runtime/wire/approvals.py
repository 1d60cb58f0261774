"""`approval/…`, `grant/…` and `question/…` on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..integers import WireInteger
from ..store import ApprovalRow, GrantRow


class ListApprovals(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of a session, or of all; by default those that wait.

    Those that were asked before the question `before`.
    """

    session_id: str | None = None
    state: str | None = "waiting"
    before: str | None = None
    limit: WireInteger = 100


class Approvals(msgspec.Struct, frozen=True):
    """Questions, the latest first; with `has_more`, others were asked before the last one.

    A page ends at `limit`, or at a size.
    """

    approvals: list[ApprovalRow]
    has_more: bool = False


class OneApproval(msgspec.Struct, frozen=True, kw_only=True):
    """A question; with `arguments`, as it would be about these."""

    approval_id: str
    arguments: str | None = None


class Remember(msgspec.Struct, frozen=True, kw_only=True):
    """For what an answer is remembered."""

    scope: str
    pattern: str | None = None


class Resolve(msgspec.Struct, frozen=True, kw_only=True):
    """An answer; `arguments` are other ones, as the text of a JSON object."""

    approval_id: str
    decision: Literal["allow", "deny"]
    arguments: str | None = None
    remember: Remember | None = None
    reason: str = ""


class Grants(msgspec.Struct, frozen=True):
    """The remembered answers that hold."""

    grants: list[GrantRow]


class OneGrant(msgspec.Struct, frozen=True):
    """A remembered answer."""

    grant_id: str


class AnswerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says to a question of a model."""

    question_id: str
    text: str = ""
    option: WireInteger | None = None

"""Durable events of permissions: approvals, grants, and the marks of tainted sessions."""

from __future__ import annotations

from ..approval import ApprovalDecision, GrantVerdict
from ..definitions import Binding, Tier
from ..text import StoredInteger
from .durable import Event


class ApprovalAsked(Event, frozen=True, kw_only=True, tag="approval_asked"):
    """A person was asked about a call.

    Attributes:
        arguments: The final arguments as canonical JSON.
        digest: The SHA-256 of all that the approval binds to.
        preview: What the call would do, for a person; may be empty.
        expires_at_ms: When the question expires, which denies the call; in Unix milliseconds.
        policy_version: The version of the policy that requires the question.
        same_as: The identical question of another call of this answer, whose answer holds for both.
        is_deferred: Whether the turn continues without the answer.
        asked_in: The session whose people are asked, if that is an ancestor of this one.
    """

    approval_id: str
    turn_id: str
    call_id: str
    name: str
    tier: Tier
    reason: str
    arguments: str
    digest: str
    preview: str = ""
    expires_at_ms: StoredInteger = 0
    policy_version: str = ""
    same_as: str = ""
    is_deferred: bool = False
    asked_in: str = ""


class ApprovalAnswered(Event, frozen=True, kw_only=True, tag="approval_answered"):
    """A question was answered; the store refuses a second answer.

    Attributes:
        decision: How the question ended; see `ApprovalDecision`.
        answered_by: Who answered: `terminal`, `application`, `grant ID`, or a credential's name.
        arguments: The arguments as the person changed them: with `allow` or `revised`, as canonical
            JSON; with `deny`, those that were refused.
        remember: The scope for which the answer is remembered, if it is.
        digest: The digest with the changed arguments, if they were changed.
        grant_id: The remembered answer that decided, if one did.
    """

    approval_id: str
    call_id: str
    decision: ApprovalDecision
    answered_by: str
    reason: str = ""
    arguments: str | None = None
    remember: str | None = None
    digest: str | None = None
    grant_id: str = ""


class GrantGiven(Event, frozen=True, kw_only=True, tag="grant_given"):
    """An answer is remembered: calls that it covers are not asked about while it holds.

    Attributes:
        verdict: `allow`, or `deny` for "don't ask again".
        scope: `turn`, `session`, `agent` or `always`.
        tool: The tool's name; `definition` is the hash of its definition.
        tier: The highest tier of calls that it covers.
        binding: The calls of the tool that it covers.
        agent, turn_id: To whom it applies, depending on the scope.
        workspace: The workspace in which it holds.
        approval_id: The question that was answered.
        is_tainted: Whether the session had read untrusted content when the question was asked. An
            `allow` from before that does not hold in a tainted session.
    """

    grant_id: str
    verdict: GrantVerdict
    scope: str
    tool: str
    definition: str
    tier: Tier
    binding: Binding
    agent: str
    turn_id: str
    workspace: str
    approval_id: str
    given_by: str
    reason: str = ""
    is_tainted: bool = False


class GrantRevoked(Event, frozen=True, kw_only=True, tag="grant_revoked"):
    """A grant was revoked, for queued calls too."""

    grant_id: str
    revoked_by: str


class SessionTainted(Event, frozen=True, kw_only=True, tag="session_tainted"):
    """The session has read what strangers may have written, and is tainted for good.

    `source` is a tool's name, `parent`, or `file` and the path of a file that a tainted session wrote.
    """

    source: str
    call_id: str = ""


class FilesMarked(Event, frozen=True, kw_only=True, tag="files_marked"):
    """A call of a tainted session wrote files, or a call moved or removed marked files.

    Paths are absolute, without links, and have `\\udcXX` for a byte that is not UTF-8. The path of a
    folder stands for everything below it.

    Attributes:
        marked: Files that taint a session that reads them.
        cleared: Files that no longer do, except for those in `marked`.
    """

    call_id: str
    marked: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


class PrivateDataRead(Event, frozen=True, kw_only=True, tag="private_data_read"):
    """The session has read private data for the first time, with the tool `source`."""

    source: str
    call_id: str = ""

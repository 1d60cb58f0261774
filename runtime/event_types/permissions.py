"""What happens about permissions in a session: questions, their answers, grants, the taint."""

from __future__ import annotations

from ..approval import ApprovalDecision, GrantVerdict
from ..definitions import Binding, Tier
from ..text import StoredInteger
from .durable import Event


class ApprovalAsked(Event, frozen=True, kw_only=True, tag="approval_asked"):
    """A person was asked about a call.

    Attributes:
        approval_id: Names the question.
        arguments: The canonical JSON of the final arguments.
        digest: SHA-256 over what the approval binds to.
        preview: What would happen, for a person; may be empty.
        expires_at_ms: When silence becomes a denial, in Unix milliseconds.
        policy_version: The version of the policy that wanted the question.
        same_as: The question of another call of this answer that asks the same; its answer is
            this one's too, and nobody is asked twice.
        is_deferred: Whether the turn goes on without the answer.
        asked_in: The session whose people are asked, when that is a parent of this one.
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
    """A question has its answer; the store refuses a second one.

    Attributes:
        decision: `allow`, `deny`, `expired`, `revised` (the changed arguments want a question of
            their own), `withdrawn` (it is no longer asked) or `void` (an allowed call that did not
            start: it may not start any more).
        answered_by: Who, in words: `terminal`, `application`, `grant ID`, or a credential's name.
        arguments: The changed arguments, when they were changed: of an `allow` or `revised` as
            canonical JSON; of a `deny`, what the person would have had and could not.
        remember: The scope for which it is remembered, when it is.
        digest: What it binds to with the changed arguments, when they were changed.
        grant_id: The remembered answer that answered it, if one did.
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
    """An answer is remembered: such calls need no question for as long as it holds.

    Attributes:
        verdict: `allow`, or `deny` for "don't ask again".
        scope: `turn`, `session`, `agent` or `always`.
        tool: The tool's name; `definition` is the hash of its definition.
        tier: No call of a higher tier is covered.
        binding: Which calls of the tool.
        agent, turn_id: Whose, as far as the scope says so.
        workspace: Where it holds.
        approval_id: The question whose answer it was.
        given_by: Who answered.
        is_tainted: Whether the session had read untrusted content when it was asked about: one that
            allows and was given before is suspended once it has.
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
    """A grant holds no longer, for queued calls too."""

    grant_id: str
    revoked_by: str


class SessionTainted(Event, frozen=True, kw_only=True, tag="session_tainted"):
    """The session has read what strangers may have written, and is marked for good.

    `source` says what it was: a tool's name, `parent`, or `file` and the path of one that a tainted
    session wrote.
    """

    source: str
    call_id: str = ""


class FilesMarked(Event, frozen=True, kw_only=True, tag="files_marked"):
    """A call of a tainted session wrote files, or a marked one is elsewhere now, or gone.

    Paths are absolute, without links, and with `\\udcXX` for a byte that is no UTF-8; one of a folder
    is about everything below it.

    Attributes:
        call_id: The call.
        marked: Whoever reads these is tainted by that.
        cleared: These no longer, but for those in `marked`.
    """

    call_id: str
    marked: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()


class PrivateDataRead(Event, frozen=True, kw_only=True, tag="private_data_read"):
    """The session has read what is not for strangers, for the first time.

    `source` says what it was: a tool's name.
    """

    source: str
    call_id: str = ""

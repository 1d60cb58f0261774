"""What a person is asked about a call, and what they say."""

from __future__ import annotations

from typing import Literal

import msgspec

from .definitions import Tier

ApprovalDecision = Literal["allow", "deny", "expired", "revised", "withdrawn", "void", "deferred"]
"""How a question ended. A person says `allow` or `deny`; the others come from the broker:

- `expired`: nobody answered in time.
- `revised`: the person changed the arguments, and the changed call needs a question of its own.
- `withdrawn`: nobody needs the answer any more.
- `void`: it was allowed, and the call may not start any more.
- `deferred`: the turn goes on without the answer; never on record.
"""

GrantVerdict = Literal["allow", "deny"]
"""What a remembered answer says about the calls that it covers."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked.

    Attributes:
        arguments: Every argument, as canonical JSON.
        reason: Why this call asks.
        preview: What would happen (a diff, a command line); may be empty.
        expires_at_ms: When silence becomes a denial, in Unix milliseconds.
        scopes: For what an answer may be remembered: `call`, `turn`, `session`, `agent`, `always`.
        asked_in: The session whose people are asked, when a branch of it asks.
        origin: That a branch asks, and its task, in words; empty otherwise.
        is_deferred: Whether the turn goes on meanwhile, and the answer may come days later.

    Example:
        async def ask(request: callboard.ApprovalRequest) -> bool:
            print(request.tool, request.arguments, request.reason)
            return request.tier is not callboard.Tier.ELEVATED

        async with callboard.open_runtime(model="rehearsal", on_approval=ask) as runtime:
            session = await runtime.create_session()
            await session.run("Write 'buy milk' to list.txt, then delete list.txt.")
    """

    approval_id: str
    session_id: str
    turn_id: str
    call_id: str
    tool: str
    tier: Tier
    reason: str
    arguments: str
    digest: str
    expires_at_ms: int
    preview: str = ""
    scopes: tuple[str, ...] = ()
    asked_in: str = ""
    origin: str = ""
    is_deferred: bool = False


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the person said.

    Attributes:
        decision: `allow` or `deny` (`expired` comes from the broker alone).
        arguments: Other arguments, as a JSON object, when the person changed them.
        remember: The scope for which to remember it: one of the question's `scopes`.
        pattern: With `remember`, a pattern of paths in the place of the one that was asked about.
        reason: Why, for the model; at most 4,000 characters are kept.
        answered_by: Who said it.

    Example:
        async def ask(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
            print("asked about", request.tool)
            return callboard.ApprovalAnswer(decision="deny", reason="Keep that file.")

        async with callboard.open_runtime(model="rehearsal", on_approval=ask) as runtime:
            session = await runtime.create_session()
            await session.run("Write 'buy milk' to list.txt, then delete list.txt.")
    """

    decision: ApprovalDecision
    arguments: str | None = None
    remember: str | None = None
    reason: str = ""
    answered_by: str = "application"
    pattern: str | None = None

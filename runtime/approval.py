"""Approvals: the question that a person is asked about a call, and their answer."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .definitions import Tier

ApprovalDecision = Literal["allow", "deny", "expired", "revised", "withdrawn", "void", "deferred"]
"""How a question ended. A person says `allow` or `deny`; the others come from the broker:

- `expired`: nobody answered in time.
- `revised`: the person changed the arguments, and the changed call needs a question of its own.
- `withdrawn`: the answer is no longer needed.
- `void`: the call was allowed, but may no longer start.
- `deferred`: the turn continues without the answer; never on record.
"""

GrantVerdict = Literal["allow", "deny"]
"""The decision of a remembered answer, for all calls that it covers."""


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person: may this call run?

    Attributes:
        arguments: Every argument, as canonical JSON.
        reason: Why the call needs approval.
        preview: What the call would do (a diff, a command line); may be empty.
        expires_at_ms: When the question expires, which denies the call; in Unix milliseconds.
        scopes: The scopes for which the answer may be remembered: `call`, `turn`, `session`, `agent`, `always`.
        asked_in: The session whose people are asked, if one of its branches asks.
        origin: If a branch asks: that it does, and its task, in words. Empty otherwise.
        is_deferred: Whether the turn continues meanwhile, so that the answer may come days later.
        number: Which of the `count` questions of one answer this is, in the model's order, from 1.
        parameters: The JSON Schema of the tool's arguments, where `Runtime.approval` returns the question as it is;
            `None` where the tool is gone.

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
    number: int = 1
    count: int = 1
    parameters: dict[str, Any] | None = None


class ApprovalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer to an `ApprovalRequest`.

    Attributes:
        decision: `allow` or `deny` (`expired` comes from the broker alone).
        arguments: The changed arguments as a JSON object, if the person changed them.
        remember: The scope for which to remember the answer: one of the question's `scopes`.
        pattern: With `remember`, a pattern of paths to use instead of the path in the question.
        reason: The reason, for the model; at most 4,000 characters are kept.
        answered_by: Who answered.

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

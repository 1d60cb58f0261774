"""Questions to a person, as tests of the terminal put them."""

from __future__ import annotations

from typing import Any

from callboard.runtime.definitions import Tier
from callboard.runtime.messages import ApprovalRequest


def approval_request(arguments: str = "{}", **fields: Any) -> ApprovalRequest:
    """A question about a call of `write_file`."""
    given: dict[str, Any] = {
        "approval_id": "approval_1", "session_id": "session_1", "turn_id": "t", "call_id": "c",
        "tool": "write_file", "tier": Tier.WORKSPACE, "reason": "because", "digest": "d",
        "expires_at_ms": 0,
    }  # fmt: skip
    return ApprovalRequest(arguments=arguments, **{**given, **fields})

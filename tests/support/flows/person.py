"""A person who is asked."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import callboard
from callboard.runtime.approval import ApprovalDecision


class Person:
    """Says the same to everything, and keeps what was asked."""

    def __init__(self, decision: ApprovalDecision = "allow", remember: str | None = None) -> None:
        self.said = callboard.ApprovalAnswer(decision=decision, remember=remember)
        self.asked: list[callboard.ApprovalRequest] = []

    async def __call__(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        self.asked.append(request)
        return self.said

    @property
    def hosts(self) -> list[str | None]:
        """The hosts that were asked about."""
        return [urlsplit(json.loads(request.arguments)["url"]).hostname for request in self.asked]

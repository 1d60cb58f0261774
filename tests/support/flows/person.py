"""A person who is asked."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import callboard
from callboard.runtime.approval import ApprovalDecision


class Person:
    """Says the same to everything, and keeps what was asked."""

    def __init__(
        self, decision: ApprovalDecision = "allow", remember: str | None = None, **more: Any
    ) -> None:
        self.said = callboard.ApprovalAnswer(decision=decision, remember=remember, **more)
        self.asked: list[callboard.ApprovalRequest] = []

    async def __call__(self, request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        self.asked.append(request)
        return self.said

    @property
    def tools(self) -> list[str]:
        return [request.tool for request in self.asked]

    @property
    def hosts(self) -> list[str | None]:
        """The hosts that were asked about."""
        return [urlsplit(json.loads(request.arguments)["url"]).hostname for request in self.asked]


class Desk(callboard.Channel):
    """A channel whose person says the same to everything, and keeps what came.

    Args:
        says: What.
        but: Where this is in the arguments, the opposite.
    """

    name = "desk"

    def __init__(self, says: bool = True, but: str | None = None) -> None:
        self.says = says
        self.but = but
        self.asked: list[callboard.ApprovalRequest] = []
        self.told: list[str] = []

    async def approve(self, request: callboard.ApprovalRequest) -> bool:
        self.asked.append(request)
        return self.says is not (self.but is not None and self.but in request.arguments)

    async def tell(self, message: callboard.ChannelMessage) -> None:
        self.told.append(message.text)

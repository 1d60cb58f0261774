"""A channel whose methods run where the program is: on its event loop, or in threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..runtime.channel import AnswerSaid, ApprovalSaid, Channel, ChannelMessage, UserQuestion
from ..runtime.messages import ApprovalRequest

Adapt = Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]
"""Turns a method of the program into one that Trio can await."""


def adapted_channel(channel: Channel | None, adapt: Adapt) -> Channel | None:
    """Return the same channel for Trio; anything else is left for `open_runtime` to refuse."""
    if not isinstance(channel, Channel):
        return channel
    return _Elsewhere(channel, adapt)


class _Elsewhere(Channel):
    def __init__(self, channel: Channel, adapt: Adapt) -> None:
        self.name = channel.name
        self._channel = channel
        self._approve = adapt(channel.approve)
        self._ask = adapt(channel.ask)
        self._tell = adapt(channel.tell)

    @property
    def is_connected(self) -> bool:  # type: ignore[override]  # as of now, and never set here
        return self._channel.is_connected

    def approve(self, request: ApprovalRequest) -> Awaitable[ApprovalSaid]:
        return self._approve(request)

    def ask(self, question: UserQuestion) -> Awaitable[AnswerSaid]:
        return self._ask(question)

    def tell(self, message: ChannelMessage) -> Awaitable[None]:
        return self._tell(message)

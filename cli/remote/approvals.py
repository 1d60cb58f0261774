"""Answers by way of the daemon, whose session goes on with them at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ...client.client import Client, connect
from ...config.daemon_file import RunningDaemon
from ...runtime.approval import ApprovalAnswer, ApprovalRequest


class RemoteDesk:
    """An `AnswerDesk`; the daemon notes itself who answers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def answer(self, approval_id: str, answer: ApprovalAnswer) -> None:
        """See `Desk.answer`."""
        await self._client.answer(approval_id, answer)

    async def approval(self, approval_id: str, *, arguments: str | None = None) -> ApprovalRequest:
        """See `Desk.approval`."""
        return await self._client.approval(approval_id, arguments=arguments)

    async def revoke(self, grant_id: str, *, revoked_by: str) -> None:
        """See `Desk.revoke`."""
        await self._client.revoke(grant_id)


@asynccontextmanager
async def open_remote_desk(daemon: RunningDaemon) -> AsyncGenerator[RemoteDesk]:
    """The desk of a daemon, around the block."""
    async with connect(daemon.url, daemon.token.reveal()) as client:
        yield RemoteDesk(client)

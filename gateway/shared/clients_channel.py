"""The people of a daemon's sessions: whoever is connected, now or later."""

from __future__ import annotations

import trio

from ...runtime.approval import ApprovalRequest
from ...runtime.channel import Channel, ChannelMessage, UserQuestion
from ...runtime.definitions import ErrorType, ToolFailure


class ClientsChannel(Channel):
    """Questions wait on record for a client that answers by their id; messages are on record for all.

    It counts as connected: what a model says is delivered when it is on record, where whoever
    follows the session reads it.
    """

    async def approve(self, request: ApprovalRequest) -> bool:
        """Wait until a client answers by the question's id, which cancels this."""
        await trio.sleep_forever()
        return False

    async def ask(self, question: UserQuestion) -> str:
        """Wait until a client answers by the question's id, which cancels this."""
        await trio.sleep_forever()
        raise ToolFailure(ErrorType.EXECUTION_ERROR, "Nobody answered.")

    async def tell(self, message: ChannelMessage) -> None:
        """Done by the record."""
        await trio.lowlevel.checkpoint()

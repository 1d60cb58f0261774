"""The people of a daemon's sessions: whoever is connected, now or later."""

from __future__ import annotations

import trio

from ..runtime.channel import Channel, ChannelMessage


class ClientsChannel(Channel):
    """Questions wait on record for a client that answers; messages are on record for all to read."""

    is_connected = False

    async def tell(self, message: ChannelMessage) -> None:
        """Done by the record: who follows the session sees it there."""
        await trio.lowlevel.checkpoint()

"""What becomes of requests to a session that can't be loaded."""

from __future__ import annotations

from contextlib import suppress

import trio

from ..runtime.errors import CallboardError
from ..runtime.mailbox import Mailbox
from ..runtime.messages import SessionMessage, WakeSession
from ..runtime.subscription import Subscription


def refuse_all(mailbox: Mailbox[SessionMessage], error: CallboardError) -> None:
    """Tells whoever waits why there is no session; the next request tries to load it again."""
    with mailbox.open() as messages, suppress(trio.WouldBlock):
        while True:
            message = messages.receive_nowait()
            if isinstance(message, WakeSession):
                continue
            subscription: Subscription | None = getattr(message, "subscription", None)
            if subscription is not None:
                subscription.close(error)
            message.reply.fail(error)

"""What becomes of requests that a session refuses, or that find none."""

from __future__ import annotations

from contextlib import suppress

import trio

from ..runtime.errors import CallboardError
from ..runtime.mailbox import Mailbox
from ..runtime.messages import RerunTurn, SessionMessage, SubmitInput
from ..runtime.subscription import Subscription


def refuse(message: SubmitInput | RerunTurn, error: CallboardError) -> None:
    """Tells who asked for a turn why there is none."""
    if message.subscription is not None:
        message.subscription.close(error)
    message.reply.fail(error)


def refuse_all(mailbox: Mailbox[SessionMessage], error: CallboardError) -> None:
    """Tells whoever waits why there is no session; the next request tries to load it again."""
    with mailbox.open() as messages, suppress(trio.WouldBlock):
        while True:
            message = messages.receive_nowait()
            subscription: Subscription | None = getattr(message, "subscription", None)
            if subscription is not None:
                subscription.close(error)
            message.reply.fail(error)

"""The questions of one answer, put to the broker in the model's order."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...runtime.errors import ActorStopped
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import AskPerson, BrokerMessage, Resolution


class QuestionLine:
    """Waits until each of these calls has its question, then sends all in one step, in order.

    Trio runs ready tasks in random order, and previews take their time. Sent together, a question
    also finds its twin before that has its answer.

    Args:
        broker: Who asks people.
        call_ids: The calls that are asked about, in the model's order. Others are asked about at once.
    """

    def __init__(self, broker: Mailbox[BrokerMessage], call_ids: Iterable[str]) -> None:
        self._broker = broker
        self._missing = dict.fromkeys(call_ids)
        self._order = tuple(self._missing)
        self._ready: dict[str, AskPerson] = {}

    async def ask(self, message: AskPerson) -> Resolution:
        """Ask a person when it is this call's turn; return what comes of it. Raises as `Mailbox.ask`."""
        call_id = message.call.call_id
        if call_id not in self._missing:  # asked about a second time, or after a wait
            return await self._broker.ask(message)
        del self._missing[call_id]
        self._ready[call_id] = message
        if not self._missing:
            await self._send_all()
        return await message.reply.wait()

    async def _send_all(self) -> None:
        messages = [self._ready.pop(call_id) for call_id in self._order]
        places: dict[str, int] = {}  # calls that ask the same are asked about once
        for message in messages:
            if message.known is None or message.known.state == "waiting":
                places.setdefault(message.digest, len(places) + 1)
        try:
            for message in messages:
                if number := places.get(message.digest):  # otherwise it has its answer
                    message = msgspec.structs.replace(message, number=number, count=len(places))
                await self._broker.tell(message)
        except ActorStopped:
            for message in messages:
                message.abandon()

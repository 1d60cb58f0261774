"""What a client has come to know of a session, live text included, with every rule of the wire checked."""

from __future__ import annotations

from callboard.client.client import Client
from callboard.runtime.events import (
    AttemptFailed,
    CallFinished,
    CallProgress,
    MessageCompleted,
    MessageDiscarded,
    Stored,
    StreamBatch,
    TurnEnded,
)
from callboard.runtime.history import Call, Text, Thinking
from callboard.runtime.stream import TextDelta, ThinkingDelta, ToolCallDelta
from callboard.runtime.wire.topics import Snapshot


class Witness:
    """Takes events in the order in which a client gives them; a hole or a piece that comes twice fails.

    Attributes:
        stored: All events on record.
        whole: Of each answer that was followed to its end: what the live text came to, and what is
            on record of it.
        outputs: Of running calls.
    """

    def __init__(self) -> None:
        self.stored: list[Stored] = []
        self.whole: list[tuple[tuple[str, str, str], tuple[str, str, str]]] = []
        self.outputs: dict[str, str] = {}
        self.snapshots = 0
        self.batches = 0
        self._stream_id = ""
        self._text = self._thinking = self._arguments = ""

    def take(self, event: object) -> None:
        match event:
            case Stored():
                last = self.stored[-1].seq if self.stored else event.seq - 1
                assert event.seq == last + 1, "a gap, or an event that came twice"
                self.stored.append(event)
                self._take_stored(event)
            case Snapshot(answer=answer, outputs=outputs):
                self.snapshots += 1
                self._forget()
                if answer is not None:
                    self._batch(answer)
                self.outputs = {each.call_id: each.text for each in outputs}
            case StreamBatch():
                self.batches += 1
                self._batch(event)
            case CallProgress(call_id=call_id, text=text):
                before = self.outputs.get(call_id)
                self.outputs[call_id] = text if before is None else f"{before}\n{text}"
            case MessageDiscarded(stream_id=stream_id):
                assert stream_id == self._stream_id or not self._stream_id
                self._forget()

    @property
    def live(self) -> tuple[str, str, str]:
        """Text, thinking and arguments of the answer that is under way."""
        return self._text, self._thinking, self._arguments

    @property
    def ended(self) -> int:
        """How many turns have ended."""
        return sum(isinstance(each.event, TurnEnded) for each in self.stored)

    def _take_stored(self, stored: Stored) -> None:
        event = stored.event
        if isinstance(event, MessageCompleted):
            if self._stream_id:
                # Of an answer that broke off, a call that was not whole is none.
                arguments = "" if event.incomplete else self._arguments
                self.whole.append(((self._text, self._thinking, arguments), _said(event)))
            self._forget()
        elif isinstance(event, TurnEnded | AttemptFailed):
            self._forget()  # what was live of it, and broke off, is withdrawn
        elif isinstance(event, CallFinished):
            self.outputs.pop(event.call_id, None)

    def _batch(self, batch: StreamBatch) -> None:
        if batch.stream_id != self._stream_id:
            self._forget()
            self._stream_id = batch.stream_id
        assert batch.offset == len(self._text.encode()), "a hole, or a piece that came twice"
        for event in batch.events:
            match event:
                case TextDelta(text=text):
                    self._text += text
                case ThinkingDelta(text=text):
                    self._thinking += text
                case ToolCallDelta(arguments=arguments):
                    self._arguments += arguments
                case _:
                    pass

    def _forget(self) -> None:
        self._stream_id = self._text = self._thinking = self._arguments = ""


def _said(event: MessageCompleted) -> tuple[str, str, str]:
    parts = event.parts
    return (
        "".join(part.text for part in parts if isinstance(part, Text)),
        "".join(part.text for part in parts if isinstance(part, Thinking)),
        "".join(part.arguments for part in parts if isinstance(part, Call)),
    )


async def hear(client: Client, session_id: str, witness: Witness, turns: int) -> None:
    """Follows a session from its beginning until so many turns have ended."""
    async with client.events(session_id, after_seq=0) as events:
        async for event in events:
            witness.take(event)
            if witness.ended == turns:
                return

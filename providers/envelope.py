"""What stands around the text in an event, where a stream repeats it from event to event.

An event of one token is 150 to 350 bytes of JSON around its text. Many servers repeat all of them: ids,
names and times are those of the answer. Then an event can be read without decoding all of it: if it begins
and ends as the last one did, and what is between is one JSON string, then that is its text.

A stream whose envelope changes with each event (a counter, padding against measuring) is decoded as
always; looking costs it little, and learning is given up soon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from .lenient_json import BROKEN

_PROBE = "\u2603 is not in the event"
_decode_string = msgspec.json.Decoder(str).decode
_encode_string = msgspec.json.Encoder().encode

_OTHER = 7919
"""The number of a call that no answer has."""

_FREE_LESSONS = 16
"""Envelopes to learn before a stream counts as one that never repeats them; then it is tried after twice as
many events each time."""


class TextEnvelope:
    """The envelope of one answer's text events.

    Args:
        decode: Returns the text of an event that holds nothing else, or `None`.
    """

    __slots__ = ("_after", "_around_bytes", "_before", "_changes", "_decode")

    def __init__(self, decode: Callable[[bytes], str | None]) -> None:
        self._decode = decode
        self._before = self._after = b""
        self._around_bytes = -1
        self._changes = 0

    def read(self, event: bytes) -> str:
        """Return the text of an event in the envelope; empty if the event must be decoded."""
        inside = event.removeprefix(self._before).removesuffix(self._after)
        if len(inside) + self._around_bytes != len(event):
            return ""
        try:
            return _decode_string(inside)
        except BROKEN:
            return ""

    def read_all(self, events: Sequence[bytes]) -> list[str]:
        """Return the texts of events that are all in the envelope; empty if one must be decoded."""
        if self._around_bytes < 0:
            return []
        before, after = self._before, self._after
        insides = [event.removeprefix(before).removesuffix(after) for event in events]
        # What is cut off an event is at most all that is around its text.
        cut = sum(map(len, events)) - sum(map(len, insides))
        if cut != self._around_bytes * len(events):
            return []
        try:
            texts = list(map(_decode_string, insides))
        except BROKEN:
            return []
        return texts if all(texts) else []

    def learn(self, event: bytes, text: str) -> bool:
        """Learn the envelope of an event that was decoded, and holds this text and nothing else.

        Return whether it was learned; if not, the one before is kept.
        """
        self._changes += 1
        if self._changes > _FREE_LESSONS and self._changes & (self._changes - 1):
            return False
        before, quoted, after = event.partition(_encode_string(text))
        # Only decoding says whether this is the place of the text.
        if (
            not quoted
            or self._decode(before + _encode_string(_PROBE) + after) != _PROBE
            or text == _PROBE
        ):
            return False
        self._enclose(before, after)
        return True

    def _enclose(self, before: bytes, after: bytes) -> None:
        self._before, self._after = before, after
        self._around_bytes = len(before) + len(after)


class PieceEnvelope(TextEnvelope):
    """The envelope of the pieces of arguments: from call to call only the call's number changes.

    Args:
        decode: Returns the number and the arguments of an event that holds nothing else, or `None`.
    """

    __slots__ = ("_decode_piece", "_head", "_number", "_tail")

    def __init__(self, decode: Callable[[bytes], tuple[int, str] | None]) -> None:
        super().__init__(lambda event: (decode(event) or (0, None))[1])
        self._decode_piece = decode
        self._head: bytes | None = None
        self._tail = b""
        self._number = -1

    def read_run(self, events: Sequence[bytes], start: int, number: int) -> list[str]:
        """Return the arguments of the events from `start` on that are pieces of this call."""
        if number != self._number:
            if self._head is None:
                return []
            self._enclose(b"%b%d%b" % (self._head, number, self._tail), self._after)
            self._number = number
        before, after, around = self._before, self._after, self._around_bytes
        pieces: list[str] = []
        for event in islice(events, start, None):
            inside = event.removeprefix(before).removesuffix(after)
            if len(inside) + around != len(event):
                break
            try:
                piece = _decode_string(inside)
            except BROKEN:
                break
            if not piece:
                break
            pieces.append(piece)
        return pieces

    def learn_piece(self, event: bytes, piece: str, number: int) -> None:
        """Learn the envelope of an event that was decoded, and holds this piece of this call."""
        if not self.learn(event, piece):
            return
        self._number = number
        self._head, _, self._tail = self._before.rpartition(b"%d" % number)
        # Only decoding says whether this is the place of the number.
        other = b'%b%d%b"%d"%b' % (self._head, _OTHER, self._tail, _OTHER, self._after)
        if self._decode_piece(other) != (_OTHER, f"{_OTHER}"):
            self._head = None

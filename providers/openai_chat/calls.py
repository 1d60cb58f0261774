"""Assembling calls: which call a piece belongs to.

The wire format says: by `index`. Servers say: by `index`, but every call has 0 (older Ollama,
Cerebras, Gemini's compatible endpoint); by none at all, since each call comes whole (Mistral); by
an `id` that is repeated with every piece (OpenRouter); or by nothing, the pieces follow each
other. So a piece goes on with the call of its index, unless it shows that it begins another one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..answer_body import MAX_CALLS, cut_to_room
from ..lenient_json import NOTHING, attempt
from ..provider import NO_NAMES
from .wire import CallPiece

MAX_KEPT_BYTES = 64 * 1024
"""Bytes kept of a call that has begun, to see where a call without an id ends: far more than such servers
(small local models) write, and little beside the arguments that were passed on."""

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class OpenCall(msgspec.Struct, eq=False):
    """One call while its pieces come."""

    index: int
    call_id: str
    name: str = ""
    is_started: bool = False
    # Pieces that wait for the name; later kept only to tell whether the arguments are whole.
    pieces: list[str] = []
    size_bytes: int = 0

    def has_whole_arguments(self) -> bool:
        """Return whether what came so far is a JSON object, so that nothing can follow."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return attempt(_decode_object, "".join(self.pieces)) is not None


class CallAssembly:
    """Turns the calls of one answer into events, in the order in which they begin.

    Attributes:
        place: The number with which more arguments of the last call come, if it has one.
        count: How many calls there were.

    Args:
        tool_names: Our names of the tools that had to be renamed, by the sent ones.
    """

    def __init__(self, tool_names: Mapping[str, str] = NO_NAMES) -> None:
        self._tool_names = tool_names
        self._by_index: dict[int | None, OpenCall] = {}
        self._open: list[OpenCall] = []
        self._last: OpenCall | None = None
        self.place: int | None = None
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether there are more calls than any answer may have."""
        return self.count > MAX_CALLS

    def are_whole(self) -> bool:
        """Return whether the arguments of every open call are a JSON object that was kept whole."""
        return all(call.has_whole_arguments() for call in self._open)

    def go_on(self, place: int | None, arguments: str, events: list[AnyStreamEvent]) -> bool:
        """Add more arguments of the last call; return whether that is the call of this place."""
        call = self._last
        if call is None or not call.is_started or self._by_index.get(place) is not call:
            return False
        self._add(call, arguments, events)
        return True

    def take(self, piece: CallPiece, events: list[AnyStreamEvent]) -> int | None:
        """Add a piece to its call and return the call's number, `None` if it belongs to none."""
        function = piece.function
        name = (function.name or "") if function is not None else ""
        arguments = (function.arguments or "") if function is not None else ""
        call = self._find(piece, name)
        if call is None:
            if not (name or piece.id or arguments):
                return None
            call = OpenCall(self.count, piece.id or "")
            self.count += 1
            self._open.append(call)
            self._by_index[piece.index] = call
        self._last = call
        call.call_id = call.call_id or piece.id or ""
        if name and not call.name:
            call.name = name
        if call.name and not call.is_started:
            self._start(call, events)
        self.place = piece.index if call.is_started else None
        if arguments:
            self._add(call, arguments, events)
        return call.index

    def end(self, events: list[AnyStreamEvent]) -> None:
        """End the open calls; later pieces begin new ones."""
        for call in self._open:
            if not call.is_started:
                self._start(call, events)
            events.append(ToolCallEnd(call.index))
        self._open.clear()
        self._by_index.clear()
        self._last = self.place = None

    def _find(self, piece: CallPiece, name: str) -> OpenCall | None:
        if piece.index is None:
            if piece.id:
                return next((call for call in self._open if call.call_id == piece.id), None)
            call = self._last
        else:
            call = self._by_index.get(piece.index)
        if call is None:
            return None
        if piece.id and call.call_id:
            return call if piece.id == call.call_id else None
        if name and call.name and (name != call.name or call.has_whole_arguments()):
            return None
        return call

    def _start(self, call: OpenCall, events: list[AnyStreamEvent]) -> None:
        call.is_started = True
        name = self._tool_names.get(call.name, call.name)
        events.append(ToolCallStart(call.index, call.call_id, name))
        events.extend(ToolCallDelta(call.index, piece) for piece in call.pieces)

    def _add(self, call: OpenCall, arguments: str, events: list[AnyStreamEvent]) -> None:
        size = call.size_bytes + len(arguments)
        if size <= MAX_KEPT_BYTES and call.is_started and arguments.isascii():
            call.size_bytes = size
            call.pieces.append(arguments)
            events.append(ToolCallDelta(call.index, arguments))
            return
        room = MAX_ARGUMENT_BYTES - call.size_bytes
        if room < 0:
            return
        arguments, room = cut_to_room(arguments, room)
        call.size_bytes = MAX_ARGUMENT_BYTES - room
        if not call.is_started or call.size_bytes <= MAX_KEPT_BYTES:
            call.pieces.append(arguments)
        else:
            call.pieces.clear()
        if call.is_started:
            events.append(ToolCallDelta(call.index, arguments))


def lone_arguments(pieces: list[CallPiece] | None) -> tuple[int | None, str] | None:
    """Return the place and the arguments of a piece that holds nothing else."""
    if not pieces or len(pieces) != 1:
        return None
    (piece,) = pieces
    function = piece.function
    if function is None or piece.id or function.name or piece.extra_content is not NOTHING:
        return None
    return (piece.index, function.arguments) if function.arguments else None

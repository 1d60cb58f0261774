"""The bytes of one answer on their way to a decoder, and how a decoder ends the answer.

Every decoder of server-sent events does the same first: cut the bytes into events, bound them, and
keep the beginning of a body until an event was seen, to tell what it was if none comes.
"""

from __future__ import annotations

import msgspec

from ..runtime.stream import AnyStreamEvent, Done, StreamError
from .error_answer import plain_line, read_body, read_error_answer, read_error_event
from .lenient_json import read_value
from .sse import SseParser

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Bytes of one answer, which bounds all that comes out of it: several times what a fast
model sends within the longest model call (15 minutes, 200 tokens a second, 300 bytes each)."""

MAX_HEAD_BYTES = 1024 * 1024
"""Bytes kept of a body in which no event was seen yet, to tell what it was instead (a whole JSON answer
of a server that does not stream, an error object, a web page)."""

MAX_CALLS = 1024
"""Calls of one answer: four times what a response may run; more is a runaway stream."""

_FIELDS = (b"data:", b"event:", b"id:", b"retry:")

TOO_LARGE = StreamError(
    error_type="provider", message="The provider sent more than any answer holds."
)
CUT_OFF = StreamError(
    error_type="network",
    message="The connection ended before the answer was complete.",
    retryable=True,
    advice="Try again.",
)
_NOT_BEGUN = StreamError(
    error_type="network",
    message="The connection ended before the answer began.",
    retryable=True,
    advice="Try again.",
)


class AnswerBody:
    """Cuts the bytes of one answer into the payloads of its events.

    Attributes:
        head: The beginning of a body in which no event was seen; empty once one was.
        size_bytes: The length of the body so far.

    Args:
        with_names: Whether the names of events are kept.
    """

    __slots__ = ("_sse", "head", "size_bytes")

    def __init__(self, *, with_names: bool = False) -> None:
        self._sse = SseParser(with_names=with_names)
        self.size_bytes = 0
        self.head: bytearray | None = bytearray()

    @property
    def names(self) -> list[bytes]:
        """Names of the events that the last call returned, if names are kept."""
        return self._sse.names

    @property
    def fault(self) -> StreamError | None:
        """Why nothing useful can follow: an error that is no event of the format, or too many bytes."""
        sse = self._sse
        if sse.error is None and not sse.overflowed and self.size_bytes <= MAX_ANSWER_BYTES:
            return None
        return fault_of(sse)

    @property
    def cut_off(self) -> StreamError:
        """The error of an answer that ended here, before its end."""
        return cut_off(self._sse.stray)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the events that these bytes complete. Never raise."""
        self.size_bytes += len(data)
        payloads = self._sse.feed(data)
        if payloads:
            self.head = None
        elif self.head is not None:
            self.head += data[: MAX_HEAD_BYTES - len(self.head)]
        return payloads

    def end(self) -> list[bytes]:
        """Return what the end of the bytes completes; it may be cut in the middle."""
        return self._sse.end()


class AnswerDecoder:
    """How the decoders of all wire formats end an answer."""

    def __init__(self) -> None:
        self._ended = False

    @property
    def is_whole(self) -> bool:
        """Whether the answer is known to be whole before its terminal event."""
        return False

    @property
    def is_doubtful(self) -> bool:
        """Whether more has followed what looked like the end."""
        return False

    def _stop(self, events: list[AnyStreamEvent], last: Done | StreamError) -> None:
        self._ended = True
        events.append(last)

    def _fail(self, events: list[AnyStreamEvent], message: str) -> None:
        self._stop(events, failure(message))

    def _fail_unread(
        self, events: list[AnyStreamEvent], payload: bytes, why: str = "is no JSON"
    ) -> None:
        start = plain_line(payload.decode("utf-8", "replace"), 100)
        self._fail(events, f"The provider sent an event that {why}: {start}")


def cut_to_room(arguments: str, room: int) -> tuple[str, int]:
    """Return what of a piece of a call's arguments is passed on, and the room that is left.

    One character past the limit is passed on: it says that there was more (`MAX_ARGUMENT_BYTES`).
    """
    size = len(arguments) if arguments.isascii() else len(arguments.encode())
    if size > room:
        fitting = arguments.encode()[:room].decode(errors="ignore")
        arguments = arguments[: len(fitting) + 1]
    return arguments, room - size


def fault_of(sse: SseParser) -> StreamError:
    """Return why nothing follows in a stream: an error in the form of no format, or its size."""
    if sse.error is None:
        return TOO_LARGE
    said = sse.error.decode("utf-8", "replace")
    value = read_value(said.encode())
    if value is None and said[:1] in {"", "{"}:
        return cut_off(sse.error)  # its own end is missing
    if isinstance(value, dict):
        value = value.get("error") or value
    return read_error_event(said if value is None else value)


def cut_off(stray: bytes) -> StreamError:
    """Return the error of an answer without its end, with what stood between its events.

    Servers and proxies that break off an answer say why as they would in an answer of its own, without
    the form of an event.
    """
    said = read_body(stray)[0]
    if not said:
        return CUT_OFF
    if isinstance(value := read_value(stray), dict | list):
        return read_error_event(value)
    message = f"{CUT_OFF.message[:-1]}: {plain_line(said)}"
    return msgspec.structs.replace(CUT_OFF, message=message)


def no_answer(body: bytes) -> StreamError:
    """Return the error for a body that is not an answer: other JSON, a page, or a cut-off start."""
    if begins_stream(body):
        return _NOT_BEGUN
    return msgspec.structs.replace(read_error_answer(200, {}, body), status=None)


def begins_stream(body: bytes | bytearray) -> bool:
    """Return whether a body without an event begins a stream: with comments or a first field."""
    lines = (line for line in body.splitlines() if line and not line.startswith(b":"))
    line = next(lines, b"")
    return any(line.startswith(field) or field.startswith(line) for field in _FIELDS)


def failure(message: str, *, retryable: bool = False) -> StreamError:
    """Return an error for which the provider is to blame."""
    return StreamError(error_type="provider", message=message, retryable=retryable)

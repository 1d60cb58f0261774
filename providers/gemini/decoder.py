"""Decoder of a Gemini answer: bytes in, stream events out; no I/O.

Terminal is a `finishReason` of the first candidate, or a `blockReason` of the prompt. `Done` waits
for the end of the bytes: usage and citations may follow, and several chunks may carry a reason.

Three bodies are read: server-sent events (`alt=sse`), the list `[{…},{…}]` that comes without it,
and one whole JSON answer.

Signatures prove the thought behind a part, and go back on exactly the part that they came with:

- of a thought in its `ThinkingEnd`, and a signed thought is a block of its own;
- of a text in an `OpaquePart` of kind `text_signature` directly after it, which says how many of
  the last characters it is for: an event of its own may have none, and its neighbours may be
  unsigned;
- of a call, with the id that the provider gave it, in one of kind `function_call` directly after
  the call (`calls`);
- of any other part within the part, which is kept whole, under its own kind.

What came beside the parts, once an answer: `grounding_metadata`, `citation_metadata` and
`url_context_metadata`, lists of the objects that came. They are kept and never sent back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ...runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    Usage,
)
from ..answer_body import (
    MAX_ANSWER_BYTES,
    MAX_CALLS,
    MAX_HEAD_BYTES,
    TOO_LARGE,
    AnswerDecoder,
    begins_stream,
    cut_off,
    failure,
    fault_of,
    no_answer,
)
from ..error_answer import plain_line, read_error_event
from ..lenient_json import BROKEN, NOTHING, checked_count
from ..provider import NO_NAMES
from ..sse import SseParser
from ..stop_words import read_stop
from .calls import CallAssembly, MisfitError
from .wire import (
    Candidate,
    Part,
    UsageCount,
    decode_chunk,
    odd_chunk,
    other_part,
    raw_parts,
    sound_json,
)

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""Largest document that is kept; as the largest event (`sse.MAX_EVENT_BYTES`)."""

_OUTSIDE = re.compile(rb"[{}\[\]\"]")
_INSIDE_TEXT = re.compile(rb"[\"\\]")


class JsonDocuments:
    """Cuts one stream into its JSON objects.

    Attributes:
        overflowed: A document was larger than `MAX_DOCUMENT_BYTES`; nothing more comes out.
    """

    __slots__ = ("_depth", "_document", "_is_escaped", "_is_text", "overflowed")

    def __init__(self) -> None:
        self.overflowed = False
        # The bytes of the document that is not complete yet.
        self._document = bytearray()
        self._depth = 0
        self._is_text = False
        self._is_escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the objects that these bytes complete. Never raise."""
        documents: list[bytes] = []
        start = at = 0
        while not self.overflowed and at < len(data):
            if self._is_text:
                at = self._pass_text(data, at)
                continue
            found = _OUTSIDE.search(data, at)
            if found is None:
                break
            at = found.end()
            mark = found.group()
            if mark == b'"':
                self._is_text = True
            elif mark == b"{" or (mark == b"[" and self._depth):
                if not self._depth:
                    start = at - 1
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    documents.append(bytes(self._document) + data[start:at])
                    self._document.clear()
        if self._depth and not self.overflowed:
            self._document += data[start:]
            self.overflowed = len(self._document) > MAX_DOCUMENT_BYTES
        return documents

    def _pass_text(self, data: bytes, at: int) -> int:
        """Return the place behind the end of a string, or behind the data."""
        if self._is_escaped:
            self._is_escaped = False
            at += 1
        while (found := _INSIDE_TEXT.search(data, at)) is not None:
            at = found.end()
            if found.group() == b'"':
                self._is_text = False
                return at
            if at == len(data):
                self._is_escaped = True
            at += 1
        return len(data)


NAME = "gemini"

MAX_OPAQUE_BYTES = 8 * 1024 * 1024
"""Bytes of all opaque parts of one answer: an image of the largest size that models make. What goes
beyond it is dropped whole; a part is of no use in part."""

_REFUSALS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
        "ESCALATION",
        "PUP_LIMITED_DISABLED",
        "MODEL_ARMOR",
    }
)
_FAILED = {
    "MALFORMED_FUNCTION_CALL": ("The model wrote a call of a tool that can't be read", True),
    "UNEXPECTED_TOOL_CALL": ("The model asked for a tool that it was not given", True),
    "MALFORMED_RESPONSE": ("The model wrote an answer that can't be read", True),
    "TOO_MANY_TOOL_CALLS": ("The model used the provider's own tools too often", False),
    "MISSING_THOUGHT_SIGNATURE": ("The provider misses a signature in the history", False),
    "NO_IMAGE": ("The model made no image", True),
}
_MISFIT = "The provider sent arguments of a call that don't fit together"
_BOM = b"\xef\xbb\xbf"
_encode = msgspec.json.Encoder().encode


class GeminiDecoder(AnswerDecoder):
    """The `Decoder` of one answer."""

    def __init__(self, tool_names: Mapping[str, str] = NO_NAMES) -> None:
        super().__init__()
        self._body: SseParser | JsonDocuments | None = None
        self._calls = CallAssembly(NAME, tool_names)
        self._beside: dict[str, list[msgspec.Raw]] = {}
        # Bytes from before the kind of body is known; then, until an event, what may be a page.
        self._head: bytearray | None = bytearray()
        self._size_bytes = 0
        self._opaque_bytes = 0
        self._is_thinking = False
        self._finish_reason = ""
        self._finish_message = ""
        self._is_blocked = False
        self._has_begun = self._has_spoken = self._is_doubtful = False
        # A whole document that is not part of an answer, in case nothing else comes.
        self._stray = b""

    @property
    def is_whole(self) -> bool:
        """Whether a reason to end has come; usage and citations may still follow."""
        has_reason = self._finish_reason and self._finish_reason not in _FAILED
        return bool(has_reason) and not self._is_doubtful

    @property
    def is_doubtful(self) -> bool:
        """Whether the reason to end may be one that every chunk carries: then it ends nothing."""
        return self._is_doubtful

    def feed(self, data: bytes) -> list[AnyStreamEvent]:
        """Return the events that these bytes complete; none after a terminal event. Never raise."""
        events: list[AnyStreamEvent] = []
        if self._ended:
            return events
        self._size_bytes += len(data)
        body = self._body
        if body is None:
            data = bytes(self._head or b"") + data
            body = self._body = _kind_of_body(data)
            self._head = bytearray(data[:MAX_HEAD_BYTES])
            if body is None:
                return events
        elif self._head is not None:
            self._head += data[: MAX_HEAD_BYTES - len(self._head)]
        payloads = body.feed(data)
        if payloads:
            self._head = None
        for payload in payloads:
            self._read(payload, events)
            if self._ended:
                return events
        if isinstance(body, SseParser) and body.error is not None:
            self._stop(events, fault_of(body))
        elif body.overflowed or self._size_bytes > MAX_ANSWER_BYTES:
            self._stop(events, TOO_LARGE)
        return events

    def finish(self) -> list[AnyStreamEvent]:
        """Return what the end of the bytes means: an error, unless the answer has ended."""
        events: list[AnyStreamEvent] = []
        said = b""
        if isinstance(self._body, SseParser):
            for payload in self._body.end():
                # An event cut in the middle, which its JSON shows, counts as not received.
                if not self._ended and odd_chunk(payload) is not None:
                    self._head = None
                    self._read(payload, events)
            if self._body.error is not None and not self._ended:
                self._stop(events, fault_of(self._body))
            said = self._body.stray
        if self._ended:
            return events
        if self._finish_reason:
            self._done(events)
        elif stray := self._no_answer():
            self._stop(events, no_answer(stray))
        else:
            self._stop(events, cut_off(said))
        return events

    def _no_answer(self) -> bytes:
        """Return the body, or its beginning, if it is not an answer."""
        if self._head and not _begins_answer(self._head):
            return bytes(self._head)
        return b"" if self._has_begun else self._stray

    def _read(self, payload: bytes, events: list[AnyStreamEvent]) -> None:
        try:
            chunk = decode_chunk(payload)
        except BROKEN:
            self._read_odd(payload, events)
            return
        if (
            not chunk.candidates
            or chunk.error is not NOTHING
            or chunk.promptFeedback is not NOTHING
        ):
            self._read_odd(payload, events)
            return
        for place, candidate in enumerate(chunk.candidates):
            if not candidate.index:
                self._read_candidate(candidate, payload, place, events)
                break
        self._read_usage(chunk.usageMetadata, events)

    def _read_odd(self, payload: bytes, events: list[AnyStreamEvent]) -> None:
        if payload.strip() in {b"[DONE]", b""}:
            return
        chunk = odd_chunk(payload)
        if chunk is None:
            self._fail_unread(events, payload)
            return
        if chunk.candidate is not None:
            self._read_candidate(chunk.candidate, chunk.parts, 0, events)
        if self._ended:
            return
        self._read_usage(chunk.usage, events)
        if chunk.error is not None:
            self._stop(events, read_error_event(chunk.error))
        elif chunk.block_reason:
            self._is_blocked = True
            self._finish_reason = chunk.block_reason
        elif chunk.candidate is None and isinstance(self._body, JsonDocuments):
            self._stray = self._stray or payload[:MAX_HEAD_BYTES]

    def _read_candidate(
        self,
        candidate: Candidate,
        source: bytes | list[msgspec.Raw],
        place: int,
        events: list[AnyStreamEvent],
    ) -> None:
        """Read a candidate; `source` is its chunk or its parts, for parts of other kinds."""
        self._has_begun = True
        said = len(events)
        parts = candidate.content.parts if candidate.content is not None else None
        if parts:
            try:
                for at, part in enumerate(parts):
                    if part.text is None and part.functionCall is None:
                        if isinstance(source, bytes):
                            source = raw_parts(source, place)
                        self._read_other(part, source[at], events)
                    else:
                        self._read_part(part, events)
            except MisfitError as error:
                self._fail(events, f"{_MISFIT}: {error}.")
                return
            if self._calls.is_full:
                self._fail(
                    events, f"The model asked for more than {MAX_CALLS} tools in one answer."
                )
                return
        if candidate.groundingMetadata is not NOTHING:
            self._keep_beside("grounding_metadata", candidate.groundingMetadata)
        if candidate.citationMetadata is not NOTHING:
            self._keep_beside("citation_metadata", candidate.citationMetadata)
        if candidate.urlContextMetadata is not NOTHING:
            self._keep_beside("url_context_metadata", candidate.urlContextMetadata)
        self._read_finish(candidate, has_said=len(events) > said or self._calls.is_open)

    def _read_finish(self, candidate: Candidate, *, has_said: bool) -> None:
        reason = candidate.finishReason
        has_reason = reason and reason != "FINISH_REASON_UNSPECIFIED"
        if has_said:
            if self._finish_reason or (has_reason and not self._has_spoken):
                self._is_doubtful = True
            self._has_spoken = True
        if reason and has_reason:
            self._finish_reason = reason
            self._finish_message = candidate.finishMessage or ""

    def _read_part(self, part: Part, events: list[AnyStreamEvent]) -> None:
        signature = part.thoughtSignature
        if part.text and not part.thought and not signature and not self._is_thinking:
            if self._calls.is_open:
                self._calls.end(events)
            events.append(TextDelta(part.text))
        elif part.functionCall is not None:
            self._end_thinking(events)
            self._calls.take(part.functionCall, signature, events)
        elif part.thought:
            if signature:
                self._end_thinking(events)
            if part.text:
                self._is_thinking = True
                events.append(ThinkingDelta(part.text))
            if signature:
                self._is_thinking = False
                events.append(ThinkingEnd(signature))
        elif part.text or signature:
            self._end_thinking(events)
            self._calls.end(events)
            text = part.text or ""
            if text:
                events.append(TextDelta(text))
            if signature:
                data = _text_signature(len(text), signature)
                if self._has_room(data):
                    events.append(OpaquePart(NAME, "text_signature", data))

    def _read_other(self, part: Part, raw: msgspec.Raw, events: list[AnyStreamEvent]) -> None:
        if not self._has_room(raw):
            return
        kind, data = other_part(raw)
        if kind:
            self._end_thinking(events)
            self._calls.end(events)
            events.append(OpaquePart(NAME, kind, data))
        elif part.thoughtSignature:
            self._read_part(msgspec.structs.replace(part, text=""), events)

    def _keep_beside(self, kind: str, raw: msgspec.Raw) -> None:
        if self._has_room(raw) and (value := sound_json(raw)) is not None:
            # Encoded again: smaller than objects, and its text is sound.
            self._beside.setdefault(kind, []).append(msgspec.Raw(_encode(value)))

    def _has_room(self, raw: msgspec.Raw) -> bool:
        size = len(memoryview(raw))
        if self._opaque_bytes + size > MAX_OPAQUE_BYTES:
            return False
        self._opaque_bytes += size
        return True

    def _read_usage(self, usage: UsageCount | None, events: list[AnyStreamEvent]) -> None:
        if usage is None:
            return
        read, thought = usage.promptTokenCount, usage.thoughtsTokenCount
        written = usage.candidatesTokenCount
        if read is None and written is None and thought is None:
            return
        if thought is not None:
            # This format counts them beside the answer's tokens; ours include them.
            written = (written or 0) + thought
        cached = usage.cachedContentTokenCount
        events.append(Usage(*map(checked_count, (read, written, cached, thought))))

    def _end_thinking(self, events: list[AnyStreamEvent]) -> None:
        if self._is_thinking:
            self._is_thinking = False
            events.append(ThinkingEnd())

    def _done(self, events: list[AnyStreamEvent]) -> None:
        self._end_thinking(events)
        # An end that may be none doesn't end a call: its own last piece must have come.
        are_whole = self._calls.is_whole and not (self._is_doubtful and self._calls.is_open)
        try:
            self._calls.end(events)
        except MisfitError as error:
            self._fail(events, f"{_MISFIT}: {error}.")
            return
        for kind, values in self._beside.items():
            events.append(OpaquePart(NAME, kind, msgspec.Raw(_encode(values))))
        reason = plain_line(self._finish_reason, 100)
        if reason in _FAILED:
            what, retryable = _FAILED[reason]
            said = plain_line(self._finish_message)
            text = f"{what} ({reason}): {said}" if said else f"{what} ({reason})."
            self._stop(events, failure(text, retryable=retryable))
            return
        if self._is_blocked or reason in _REFUSALS:
            stop: StopReason | StreamError | None = StopReason.REFUSED
        elif reason == "CONTINUATION":
            stop = StopReason.MAX_TOKENS
        else:
            stop = read_stop(reason, has_calls=self._calls.count > 0, are_whole=are_whole)
        if stop is None:
            stop = StopReason.TOOL_CALLS if self._calls.count else StopReason.END
        self._stop(events, stop if isinstance(stop, StreamError) else Done(stop, reason))


def _text_signature(chars: int, signature: str) -> msgspec.Raw:
    return msgspec.Raw(_encode({"chars": chars, "thoughtSignature": signature}))


def _kind_of_body(head: bytes | bytearray) -> SseParser | JsonDocuments | None:
    """Return what reads a body that begins so, `None` while only a BOM and blanks came."""
    if len(head) < len(_BOM) and _BOM.startswith(head):
        return None
    start = head.removeprefix(_BOM).lstrip()
    if not start and len(head) < MAX_HEAD_BYTES:
        return None
    return JsonDocuments() if start.startswith((b"{", b"[")) else SseParser()


def _begins_answer(head: bytes | bytearray) -> bool:
    """Return whether a body without an event is the beginning of an answer."""
    start = head.removeprefix(_BOM).lstrip()
    if start.startswith((b"{", b"[")):
        return True
    return begins_stream(start)

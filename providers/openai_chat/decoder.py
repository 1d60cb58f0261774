"""Decoder of a Chat Completions answer: bytes in, stream events out; no I/O.

Terminal is a `finish_reason` of the first choice, or `[DONE]`. `Done` waits for `[DONE]` or for
the end of the bytes, since usage, errors, and with some servers more text, come between the two.
Some say a reason with every piece: then it ends nothing, and calls are whole when their arguments are.

Speed: a burst brings hundreds of chunks in a read, and nearly all hold one piece of text, or of a
call's arguments, and nothing else. Those take a short way through `feed`; whatever else a chunk may
hold is in `_read`.

Some servers send a whole `message` beside or after its deltas. What was shown stays. Text that
extends it is added, and parts that had no delta.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ...runtime.stream import (
    AnyStreamEvent,
    Done,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
)
from ..answer_body import MAX_CALLS, AnswerBody, AnswerDecoder, no_answer
from ..envelope import PieceEnvelope, TextEnvelope
from ..error_answer import plain_line, read_error_event
from ..lenient_json import BROKEN, NOTHING, attempt
from ..openai.usage import usage_events
from ..provider import NO_NAMES
from ..stop_words import read_stop
from .calls import CallAssembly, lone_arguments
from .extras import ANNOTATIONS, REASONING_DETAILS, Extras
from .wire import Chunk, Delta, decode_chunk, odd_chunk

NAME = "openai_chat"

MAX_COMPARED_CHARS = 4 * 1024 * 1024
"""Characters kept of the text so far, to tell what of it a whole `message` repeats: as much as such an event
may hold. Past it nothing is kept, and such a message adds no text."""


class OpenAiChatDecoder(AnswerDecoder):
    """The `Decoder` of one answer.

    Args:
        tool_names: Our names of the tools that had to be renamed, by the sent ones.
    """

    def __init__(self, tool_names: Mapping[str, str] = NO_NAMES) -> None:
        super().__init__()
        self._body = AnswerBody()
        self._calls = CallAssembly(tool_names)
        self._extras = Extras(NAME)
        self._is_thinking = False
        self._has_thought = False
        self._has_refused = False
        self._is_doubtful = self._has_spoken = False
        # Whether a piece alone may be passed on without looking at anything else.
        self._is_plain = True
        self._texts: list[str] | deque[str] = []
        self._counted_texts = self._size_chars = 0
        self._finish_reason: str | None = None
        self._envelope = TextEnvelope(_decode_text)
        self._pieces = PieceEnvelope(_decode_piece)

    @property
    def is_doubtful(self) -> bool:
        """Whether the reason to end may be one that every piece carries: then it ends nothing."""
        return self._is_doubtful

    def feed(self, data: bytes) -> list[AnyStreamEvent]:
        """Return the events that these bytes complete; none after a terminal event. Never raise."""
        events: list[AnyStreamEvent] = []
        if self._ended:
            return events
        read_text = self._envelope.read
        payloads = self._body.feed(data)
        if len(payloads) > 1 and self._is_plain and (texts := self._envelope.read_all(payloads)):
            self._texts.extend(texts)
            events += map(TextDelta, texts)
            payloads = []
        is_text = True
        read = 0
        for at, payload in enumerate(payloads):
            if at < read:
                continue
            if is_text and self._is_plain and (text := read_text(payload)):
                self._texts.append(text)
                events.append(TextDelta(text))
                continue
            if self._is_plain and (pieces := self._read_pieces(payloads, at, events)):
                read = at + pieces
                continue
            try:
                chunk = decode_chunk(payload)
            except BROKEN:
                chunk = None
            delta = _lone_delta(chunk) if chunk is not None and self._is_plain else None
            is_text = delta is None or delta.tool_calls is None
            if delta is None:
                self._read(payload, chunk, events)
            elif piece := delta.content:
                self._has_spoken = True
                self._envelope.learn(payload, piece)
                self._texts.append(piece)
                events.append(TextDelta(piece))
            elif not self._go_on(payload, delta, events):
                self._read_calls(delta, events)
            if self._ended:
                return events
        self._bound(events)
        return events

    def _read_pieces(self, payloads: list[bytes], at: int, events: list[AnyStreamEvent]) -> int:
        """Pass on the arguments of the last call that are in the envelope; return how many events they were."""
        if (place := self._calls.place) is None:
            return 0
        pieces = self._pieces.read_run(payloads, at, place)
        is_read = bool(pieces) and self._calls.go_on(place, "".join(pieces), events)
        return len(pieces) if is_read else 0

    def _go_on(self, payload: bytes, delta: Delta, events: list[AnyStreamEvent]) -> bool:
        """Pass on an event that holds nothing but arguments of the last call; return whether it does."""
        found = lone_arguments(delta.tool_calls)
        if found is None or not self._calls.go_on(*found, events):
            return False
        place, arguments = found
        if place is not None:
            self._pieces.learn_piece(payload, arguments, place)
        return True

    def _bound(self, events: list[AnyStreamEvent]) -> None:
        if self._body.size_bytes > MAX_COMPARED_CHARS:
            self._count_texts()
        if fault := self._body.fault:
            self._stop(events, fault)

    def finish(self) -> list[AnyStreamEvent]:
        """Return what the end of the bytes means: an error, unless the answer has ended."""
        events: list[AnyStreamEvent] = []
        for payload in self._body.end():
            # An event cut in the middle, which its JSON shows, counts as not received.
            if not self._ended and (payload == b"[DONE]" or odd_chunk(payload) is not None):
                self._body.head = None
                self._read(payload, attempt(decode_chunk, payload), events)
        if self._ended:
            return events
        if fault := self._body.fault:
            self._stop(events, fault)
        elif self._finish_reason is not None:
            self._done(events)
        elif self._body.head:
            self._read_head(bytes(self._body.head), events)
        else:
            self._stop(events, self._body.cut_off)
        return events

    def _read_head(self, head: bytes, events: list[AnyStreamEvent]) -> None:
        """Read a body that was not an event stream."""
        chunk = odd_chunk(head)
        if chunk is not None and (chunk.deltas or chunk.messages or chunk.error is not None):
            self._body.head = None
            self._read(head, attempt(decode_chunk, head), events)
            if not self._ended and self._finish_reason is not None:
                self._done(events)
        if self._ended:
            return
        self._stop(events, no_answer(head))

    def _read(self, payload: bytes, chunk: Chunk | None, events: list[AnyStreamEvent]) -> None:
        """Read any event, in the usual form (`chunk`) or not."""
        if chunk is None and payload.strip() in {b"[DONE]", b""}:
            if payload.strip():
                self._done(events, is_said=True)
            return
        if chunk is None or _is_odd(chunk):
            self._read_odd(payload, events)
            return
        for choice in chunk.choices:
            if choice.index == 0:
                if choice.delta is not None:
                    self._read_delta(choice.delta, events, choice.finish_reason)
                self._read_finish(choice.finish_reason)
        events += usage_events(chunk.usage)

    def _read_odd(self, payload: bytes, events: list[AnyStreamEvent]) -> None:
        chunk = odd_chunk(payload)
        if chunk is None:
            self._fail_unread(events, payload)
            return
        for delta in chunk.deltas:
            self._read_delta(delta, events, chunk.finish_reason)
        self._read_message(chunk.messages, events)
        if chunk.error is not None:
            self._ended = True
            events += usage_events(chunk.usage)
            events.append(read_error_event(chunk.error))
            return
        self._read_finish(chunk.finish_reason)
        events += usage_events(chunk.usage)

    def _read_message(self, message: list[Delta], events: list[AnyStreamEvent]) -> None:
        """Read what a whole message adds to its deltas."""
        if not message:
            return
        has_thought, has_refused = self._has_thought, self._has_refused
        has_details, has_notes = map(self._extras.has, (REASONING_DETAILS, ANNOTATIONS))
        has_calls, has_text = self._calls.count > 0, bool(self._texts)
        if has_text:
            text = self._unsaid("".join(delta.content or "" for delta in message))
            self._read_delta(Delta(content=text), events)
        for delta in message:
            if has_thought or has_text:
                delta.reasoning = delta.reasoning_content = None
            if has_text:
                delta.content = None
            if has_refused:
                delta.refusal = None
            if has_calls:
                delta.tool_calls = None
            if has_details:
                delta.reasoning_details = NOTHING
            if has_notes:
                delta.annotations = NOTHING
            self._read_delta(delta, events)

    def _unsaid(self, text: str) -> str:
        """Return how this text continues what was said; empty if it does not repeat that."""
        self._count_texts()
        if len(text) <= self._size_chars or self._size_chars > MAX_COMPARED_CHARS:
            return ""
        said = "".join(self._texts)
        return text[len(said) :] if text.startswith(said) else ""

    def _count_texts(self) -> None:
        if not isinstance(self._texts, list):
            return
        self._size_chars += sum(map(len, self._texts[self._counted_texts :]))
        self._counted_texts = len(self._texts)
        if self._size_chars > MAX_COMPARED_CHARS:
            self._texts = deque(self._texts, maxlen=1)

    def _read_delta(
        self, delta: Delta, events: list[AnyStreamEvent], reason: str | None = None
    ) -> None:
        """Read a piece; `reason` is the one to end that came beside it."""
        # Servers in transition send the same text under both names.
        thinking = delta.reasoning_content or delta.reasoning
        if thinking:
            self._is_thinking = self._has_thought = True
            self._is_plain = False
            events.append(ThinkingDelta(thinking))
        if delta.reasoning_details is not NOTHING:
            self._extras.add(REASONING_DETAILS, delta.reasoning_details)
        if delta.annotations is not NOTHING:
            self._extras.add(ANNOTATIONS, delta.annotations)
        if delta.content or delta.refusal or delta.tool_calls:
            self._end_thinking(events)
        elif not thinking:
            return
        if self._finish_reason is not None or (reason and not self._has_spoken):
            self._is_doubtful = True
        self._has_spoken = True
        if delta.content:
            self._texts.append(delta.content)
            events.append(TextDelta(delta.content))
        if delta.refusal:
            self._has_refused = True
            events.append(RefusalDelta(delta.refusal))
        if delta.tool_calls:
            self._read_calls(delta, events)

    def _read_calls(self, delta: Delta, events: list[AnyStreamEvent]) -> None:
        for piece in delta.tool_calls or ():
            self._has_spoken = True
            call = self._calls.take(piece, events)
            if piece.extra_content is not NOTHING and call is not None:
                self._extras.add_to_call(call, piece.extra_content)
            if self._calls.is_full:
                self._fail(
                    events, f"The model asked for more than {MAX_CALLS} tools in one answer."
                )
                return

    def _read_finish(self, reason: str | None) -> None:
        if reason and not self._ended:
            self._finish_reason = reason
            self._is_plain = False

    def _end_thinking(self, events: list[AnyStreamEvent]) -> None:
        if self._is_thinking:
            self._is_thinking = False
            self._is_plain = self._finish_reason is None
            events.append(ThinkingEnd())

    def _end_parts(self, events: list[AnyStreamEvent]) -> None:
        self._end_thinking(events)
        events.extend(self._extras.drain())
        self._calls.end(events)

    def _done(self, events: list[AnyStreamEvent], *, is_said: bool = False) -> None:
        """End the answer; `is_said` if `[DONE]` says so, not only the end of the bytes."""
        reason = self._finish_reason or ""
        # Some compatible servers send only `[DONE]`: then the calls themselves show if they are whole.
        has_end = bool(reason) and (is_said or not self._is_doubtful)
        are_whole = has_end or self._calls.are_whole()
        self._end_parts(events)
        stop = read_stop(reason, has_calls=self._calls.count > 0, are_whole=are_whole)
        if isinstance(stop, StreamError):
            self._stop(events, stop)
            return
        if stop is None:
            # Many servers say `stop` for everything: the parts of the answer decide.
            if self._calls.count:
                stop = StopReason.TOOL_CALLS
            elif self._has_refused and not self._texts:
                stop = StopReason.REFUSED
            else:
                stop = StopReason.END
        self._stop(events, Done(stop, plain_line(reason, 100)))


def _is_odd(chunk: Chunk) -> bool:
    if not chunk.choices or chunk.error is not NOTHING or chunk.x_groq is not NOTHING:
        return True
    return any(c.message is not NOTHING or c.error is not NOTHING for c in chunk.choices)


def _decode_text(payload: bytes) -> str | None:
    chunk = attempt(decode_chunk, payload)
    delta = _lone_delta(chunk) if chunk is not None else None
    return delta.content if delta is not None else None


def _decode_piece(payload: bytes) -> tuple[int, str] | None:
    chunk = attempt(decode_chunk, payload)
    delta = _lone_delta(chunk) if chunk is not None else None
    found = lone_arguments(delta.tool_calls) if delta is not None else None
    return None if found is None or found[0] is None else (found[0], found[1])


def _lone_delta(chunk: Chunk) -> Delta | None:
    """Return the delta of an event that holds text, or pieces of calls, and nothing else."""
    if len(chunk.choices) != 1:
        return None
    choice = chunk.choices[0]
    delta = choice.delta
    if (
        delta is not None
        and choice.index == 0
        and choice.finish_reason is None
        and bool(delta.content) is (delta.tool_calls is None)
        and not delta.reasoning
        and not delta.reasoning_content
        and not delta.refusal
        and delta.annotations is NOTHING
        and delta.reasoning_details is NOTHING
        and choice.message is NOTHING
        and choice.error is NOTHING
        and chunk.x_groq is NOTHING
        and chunk.usage is None
        and chunk.error is NOTHING
    ):
        return delta
    return None

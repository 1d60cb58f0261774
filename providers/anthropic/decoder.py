"""Decoder of a Messages answer: bytes in, stream events out; no I/O.

Terminal is `message_stop`: an answer that ends before it was cut off, even after its stop reason.
`Done` waits for the next event, or the end of the bytes, since what proxies splice together goes on
with another `message_start`.

Speed: nearly all events of an answer are pieces of one text. Those take a short way through `feed`;
whatever else an event may be is in `_read`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ...runtime.stream import AnyStreamEvent, Done, StopReason, StreamError, TextDelta, Usage
from ..answer_body import (
    MAX_ANSWER_BYTES,
    MAX_CALLS,
    AnswerBody,
    AnswerDecoder,
    no_answer,
)
from ..envelope import TextEnvelope
from ..error_answer import plain_line, read_error_event
from ..lenient_json import BROKEN, NOTHING, attempt, checked_count
from ..provider import NO_NAMES
from ..stop_words import read_stop
from .blocks import MAX_BLOCKS, NAME, BlockAssembly
from .wire import (
    KNOWN_EVENTS,
    UsageCount,
    WireEvent,
    WireMessage,
    clean,
    decode_event,
    decode_message,
    decode_usage,
    error_value,
    odd_event,
)

__all__ = ["MAX_ANSWER_BYTES", "NAME", "AnthropicMessagesDecoder"]


class AnthropicMessagesDecoder(AnswerDecoder):
    """The `Decoder` of one answer.

    Args:
        tool_names: Our names by the sent ones, for tools that were renamed.
    """

    def __init__(self, tool_names: Mapping[str, str] = NO_NAMES) -> None:
        super().__init__()
        self._body = AnswerBody()
        self._blocks = BlockAssembly(tool_names)
        self._usage = UsageCount()
        self._has_begun = False
        self._has_stopped = False
        self._stop_reason: str | None = None
        self._is_document = False
        self._envelope = TextEnvelope(_decode_text)
        self._enveloped_place = -2  # no block's, and not -1

    @property
    def is_whole(self) -> bool:
        """Whether `message_stop` was seen, after which only another message could follow."""
        return self._has_stopped

    def feed(self, data: bytes) -> list[AnyStreamEvent]:
        """Return the events that these bytes complete; none after a terminal event. Never raise."""
        events: list[AnyStreamEvent] = []
        if self._ended:
            return events
        blocks, envelope = self._blocks, self._envelope
        payloads = self._body.feed(data)
        # The place is in the envelope: another block's is another one.
        is_enveloped = blocks.text_place == self._enveloped_place and not self._has_stopped
        if is_enveloped and len(payloads) > 1 and (texts := envelope.read_all(payloads)):
            blocks.wrote(sum(map(len, texts)))
            events += map(TextDelta, texts)
            payloads = []
        for payload in payloads:
            if blocks.text_place == self._enveloped_place and not self._has_stopped:
                text = envelope.read(payload)
                if text:
                    blocks.wrote(len(text))
                    events.append(TextDelta(text))
                    continue
            try:
                event = decode_event(payload)
            except BROKEN:
                self._read_odd(payload, events)
            else:
                delta = event.delta
                if (
                    delta is not None
                    and event.index == blocks.text_place
                    and delta.type == "text_delta"
                    and event.type == "content_block_delta"
                    and delta.text
                    and not self._has_stopped
                ):
                    if envelope.learn(payload, delta.text):
                        self._enveloped_place = blocks.text_place
                    blocks.wrote(len(delta.text))
                    events.append(TextDelta(delta.text))
                    continue
                self._read(event, payload, events)
            if self._ended:
                return events
        if fault := self._body.fault:
            self._break_off(fault, events)
        return events

    def finish(self) -> list[AnyStreamEvent]:
        """Return what the end of the bytes means: an error, unless the answer has ended."""
        events: list[AnyStreamEvent] = []
        for payload in self._body.end():
            # An event cut in the middle, which its JSON shows, counts as not received.
            if not self._ended and clean(payload) is not None:
                self._body.head = None
                self._read_odd(payload, events)
        if self._ended:
            return events
        if self._body.head and not self._body.fault:
            self._read_head(bytes(self._body.head), events)
        else:
            self._break_off(self._body.fault or self._body.cut_off, events)
        return events

    def _break_off(self, error: StreamError, events: list[AnyStreamEvent]) -> None:
        """End with an error, unless a message has ended: then nothing more was needed."""
        if self._has_stopped:
            self._done(events)
        else:
            self._stop(events, error)

    def _read_head(self, head: bytes, events: list[AnyStreamEvent]) -> None:
        """Read a body that was not an event stream: a whole message, an error, anything."""
        message = _whole_message(head)
        if message is not None:
            self._is_document = True
            self._begin(message, events)
            self._blocks.end_all(events)
            self._done(events)
        else:
            self._stop(events, no_answer(head))

    def _read_odd(self, payload: bytes, events: list[AnyStreamEvent]) -> None:
        """Read an event in any form."""
        if payload.strip() in {b"[DONE]", b""}:
            # Not of this format; servers that also speak Chat Completions send it out of habit.
            return
        event = odd_event(payload)
        if event is None:
            self._fail_unread(events, payload, "can't be read")
        else:
            self._read(event, payload, events)

    def _read(self, event: WireEvent, payload: bytes, events: list[AnyStreamEvent]) -> None:
        """Read any event but a piece of the text that is being written."""
        if not self._has_stopped or event.type == "message_start":
            self._read_piece(event, payload, events)
        elif event.type in KNOWN_EVENTS:  # others may stand between spliced messages
            self._done(events)

    def _read_piece(self, event: WireEvent, payload: bytes, events: list[AnyStreamEvent]) -> None:
        kind = event.type
        if kind == "content_block_delta":
            if event.delta is not None:
                self._blocks.add(event.index, event.delta, payload, events)
                self._check_blocks(events)
        elif kind == "content_block_stop":
            self._blocks.end(event.index, events)
        elif kind == "content_block_start":
            if not self._blocks.begin(event.content_block, event.index, events):
                self._fail(events, "The provider sent a block that can't be read.")
            self._check_blocks(events)
        elif kind == "message_start":
            self._has_stopped = False
            self._read_message_start(event, events)
        elif kind == "message_delta":
            if event.delta is not None and event.delta.stop_reason:
                self._stop_reason = event.delta.stop_reason
                self._blocks.end_all(events)
            self._read_usage(event.usage, events)
        elif kind == "message_stop":
            self._blocks.end_all(events)
            self._has_stopped = True
        elif kind == "error" or event.error is not NOTHING:
            self._stop(events, read_error_event(error_value(event, payload)))

    def _read_message_start(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        # What can't be read holds nothing that an answer needs.
        if (message := attempt(decode_message, event.message)) is not None:
            self._begin(message, events)

    def _begin(self, message: WireMessage, events: list[AnyStreamEvent]) -> None:
        self._stop_reason = message.stop_reason
        for index, raw in enumerate(message.content or ()):
            self._blocks.begin(raw, index, events)
            self._check_blocks(events)
            if self._ended:
                return
        self._read_usage(message.usage, events)

    def _check_blocks(self, events: list[AnyStreamEvent]) -> None:
        if self._blocks.is_full and not self._ended:
            text = f"The answer has more than {MAX_BLOCKS} blocks, or than {MAX_CALLS} tool calls."
            self._fail(events, text)

    def _read_usage(self, raw: msgspec.Raw, events: list[AnyStreamEvent]) -> None:
        """Read counts, which are totals so far; one that is left out has not changed."""
        if raw is NOTHING or bytes(raw) == b"null":
            return
        now, was = decode_usage(raw), self._usage
        total = self._usage = UsageCount(
            _count(now.input_tokens, was.input_tokens),
            _count(now.cache_creation_input_tokens, was.cache_creation_input_tokens),
            _count(now.cache_read_input_tokens, was.cache_read_input_tokens),
            _count(now.output_tokens, was.output_tokens),
            now.output_tokens_details or was.output_tokens_details,
        )
        read = total.input_tokens
        if read is not None:
            read += (total.cache_creation_input_tokens or 0) + (total.cache_read_input_tokens or 0)
        details = total.output_tokens_details
        thought = _count(details.thinking_tokens, None) if details is not None else None
        events.append(
            Usage(
                read,
                total.output_tokens,
                total.cache_read_input_tokens,
                thought,
                total.cache_creation_input_tokens,
            )
        )

    def _done(self, events: list[AnyStreamEvent]) -> None:
        self._ended = True
        reason = self._stop_reason or ""
        are_whole = self._is_document or self._blocks.are_calls_whole(is_finished=bool(reason))
        stop = read_stop(reason, has_calls=self._blocks.calls > 0, are_whole=are_whole)
        if isinstance(stop, StreamError):
            events.append(stop)
            return
        if stop is None:
            # Some servers say `end_turn` beside calls, and a turn that paused is over
            # here: tools that the provider runs, for which it paused, are never asked for.
            stop = StopReason.TOOL_CALLS if self._blocks.calls else StopReason.END
        events.append(Done(stop, plain_line(reason, 100)))


def _count(now: int | None, was: int | None) -> int | None:
    count = checked_count(now)
    return was if count is None else count


def _whole_message(head: bytes) -> WireMessage | None:
    """Return the message of a server that does not stream, if the body is one."""
    data = clean(head)
    message = attempt(decode_message, data) if data is not None else None
    is_whole = message is not None and message.type == "message" and message.content is not None
    return message if is_whole else None


def _decode_text(payload: bytes) -> str | None:
    event = attempt(decode_event, payload)
    is_text = event is not None and event.type == "content_block_delta"
    delta = event.delta if event is not None and is_text else None
    return delta.text if delta is not None and delta.type == "text_delta" else None

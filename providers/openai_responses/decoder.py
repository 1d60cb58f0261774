"""Decoder of a Responses answer: bytes in, stream events out; no I/O.

Terminal is the event that holds the whole response: completed, incomplete or failed. An `error`
event is terminal, too; everything else that ends the bytes has cut the answer off, `[DONE]`
included.

Speed: nearly all events hold one piece of text for the same part of the same message as the one
before. Those take a short way through `feed`; whatever else an event may be is in `_read`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...runtime.stream import AnyStreamEvent, Done, StopReason, StreamError, TextDelta
from ..answer_body import MAX_CALLS, AnswerBody, AnswerDecoder, no_answer
from ..error_answer import plain_line, read_error_event
from ..lenient_json import BROKEN, attempt, read_value
from ..openai.usage import usage_events
from ..provider import NO_NAMES
from ..stop_words import read_stop
from .calls import CUSTOM, FUNCTION
from .items import MAX_ITEMS, ItemAssembly
from .wire import Response, WireEvent, decode_event, odd_event, read_response

TEXT_DELTA = "response.output_text.delta"

_TERMINAL = frozenset(
    f"response.{status}" for status in ("completed", "incomplete", "failed", "cancelled", "done")
)
_FAILED = frozenset({"failed", "cancelled"})
_REFUSALS = frozenset({"content_filter", "refusal", "safety"})
_ERRORS = frozenset({"error", "response.error"})
_ERROR_KEYS = frozenset({"error", "message", "detail"})


class OpenAiResponsesDecoder(AnswerDecoder):
    """The `Decoder` of one answer."""

    def __init__(self, tool_names: Mapping[str, str] = NO_NAMES) -> None:
        super().__init__()
        self._body = AnswerBody(with_names=True)
        self._items = ItemAssembly(tool_names)

    def feed(self, data: bytes) -> list[AnyStreamEvent]:
        """Return the events that these bytes complete; none after a terminal event. Never raise."""
        events: list[AnyStreamEvent] = []
        if self._ended:
            return events
        payloads = self._body.feed(data)
        place, part, pieces = self._items.hot
        for position, payload in enumerate(payloads):
            event: WireEvent | None
            try:
                event = decode_event(payload)
                if (
                    event.type == TEXT_DELTA
                    and event.output_index == place
                    and event.content_index == part
                    and (text := event.delta)
                ):
                    pieces.append(text)
                    events.append(TextDelta(text))
                    continue
            except BROKEN:
                event = None
            self._read(event, payload, self._body.names[position], events)
            if self._ended:
                return events
            place, part, pieces = self._items.hot
        if fault := self._body.fault:
            self._stop(events, fault)
        return events

    def finish(self) -> list[AnyStreamEvent]:
        """Return what the end of the bytes means: an error, unless the answer has ended."""
        events: list[AnyStreamEvent] = []
        for position, payload in enumerate(self._body.end()):
            event = attempt(decode_event, payload)
            # An event cut in the middle, which its JSON shows, counts as not received.
            if not self._ended and (event is not None or read_value(payload) is not None):
                self._body.head = None
                self._read(event, payload, self._body.names[position], events)
        if self._ended:
            return events
        if fault := self._body.fault:
            self._stop(events, fault)
        elif self._body.head:
            self._read_head(bytes(self._body.head), events)
        else:
            self._stop(events, self._body.cut_off)
        return events

    def _read_head(self, head: bytes, events: list[AnyStreamEvent]) -> None:
        """Read a body that was not an event stream."""
        response = read_response(head)
        if response is not None and response.output is not None:
            self._end_document(response, events)
        else:
            self._stop(events, no_answer(head))

    def _end_document(self, response: Response, events: list[AnyStreamEvent]) -> None:
        status = response.status or "completed"
        if status in {"completed", "incomplete", *_FAILED}:
            self._end(status, response, events)
        else:
            status = plain_line(status, 100)
            self._fail(events, f"The provider sent an answer that is not complete ({status}).")

    def _read(
        self, event: WireEvent | None, payload: bytes, name: bytes, events: list[AnyStreamEvent]
    ) -> None:
        """Read any event, in the usual form or not."""
        if event is None:
            if payload.strip() in {b"[DONE]", b""}:
                return
            event = odd_event(payload)
        if event is None:
            self._fail_unread(events, payload)
            return
        kind = event.type or name.decode("utf-8", "replace")
        if kind in _TERMINAL:
            self._read_end(kind.removeprefix("response."), event, payload, events)
        elif kind in _ERRORS or not kind:
            self._read_error(payload, events, is_named=bool(kind))
        else:
            event.type = kind
            self._read_piece(event, events)
            if self._items.is_full:
                self._fail(
                    events, f"The answer has more than {MAX_ITEMS} items or {MAX_CALLS} calls."
                )

    def _read_piece(self, event: WireEvent, events: list[AnyStreamEvent]) -> None:
        items = self._items
        match event.type:
            case "response.output_text.delta":
                items.add_text(event, events)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                items.add_thinking(event, events)
            case "response.function_call_arguments.delta":
                items.add_arguments(event, FUNCTION, events)
            case "response.custom_tool_call_input.delta":
                items.add_arguments(event, CUSTOM, events)
            case "response.refusal.delta":
                items.add_refusal(event, events)
            case "response.output_item.added":
                items.begin(event, events)
            case "response.output_item.done":
                items.end(event, events)
            case "response.output_text.annotation.added":
                items.add_annotation(event)
            case "response.output_text.done":
                items.end_text(event, events)
            case "response.function_call_arguments.done":
                items.end_arguments(event, events)
            case _:
                pass  # progress of server-side tools, keep-alives, and unknown events

    def _read_end(
        self, status: str, event: WireEvent, payload: bytes, events: list[AnyStreamEvent]
    ) -> None:
        response = read_response(event.response) if bytes(event.response) else Response()
        if response is None:
            start = plain_line(payload.decode("utf-8", "replace"), 100)
            self._fail(events, f"The provider's answer ends unreadably: {start}")
            return
        if status == "done" or response.status in {"incomplete", *_FAILED}:
            status = response.status or status
        self._end(status, response, events)

    def _read_error(self, payload: bytes, events: list[AnyStreamEvent], *, is_named: bool) -> None:
        value = read_value(payload)
        if not is_named and isinstance(value, dict) and _ERROR_KEYS.isdisjoint(value):
            return  # an event without a type that is not an error has no meaning
        self._stop(events, read_error_event(value))

    def _end(self, status: str, response: Response, events: list[AnyStreamEvent]) -> None:
        """End an answer that is whole or has failed."""
        error = read_value(response.error) if bytes(response.error) else None
        if status in _FAILED or error:
            events += usage_events(response.usage)
            self._stop(events, read_error_event({"error": error or f"the answer was {status}"}))
            return
        # If the last event's own response says that it is in progress, only ended calls count.
        is_finished = response.status in {None, "", status}
        are_whole = self._items.finish(response.output or (), events, is_finished=is_finished)
        events += usage_events(response.usage)
        details = response.incomplete_details
        reason = (details.reason if details is not None else None) or status
        self._ended = True
        stop = self._stop_reason(status, reason, are_whole=are_whole)
        if isinstance(stop, StreamError):
            events.append(stop)
        else:
            events.append(Done(stop, plain_line(reason, 100)))

    def _stop_reason(
        self, status: str, reason: str, *, are_whole: bool
    ) -> StopReason | StreamError:
        has_calls = self._items.call_count > 0
        if status == "incomplete" and reason not in _REFUSALS:
            return StopReason.MAX_TOKENS
        if stop := read_stop(reason, has_calls=has_calls, are_whole=are_whole):
            return stop
        if has_calls:
            return StopReason.TOOL_CALLS
        if self._items.has_refused and not self._items.has_text:
            return StopReason.REFUSED
        return StopReason.END

"""The events of a turn as items of a response, the same as they happen and from the record.

Text is streamed as it comes; a message of which nothing was streamed, as from the record, is told by its parts.
So what a client reads later is what another one heard.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...embedding.turn import TurnEvent
from ...runtime.definitions import CallStatus
from ...runtime.events import (
    CallFinished,
    CallProposed,
    MessageCompleted,
    MessageDiscarded,
    TurnEnded,
)
from ...runtime.history import Refusal, Text, Thinking
from ...runtime.stream import RefusalDelta, TextDelta, ThinkingDelta
from ...runtime.text import excerpt
from .response_items import (
    ApprovalItem,
    FunctionCallItem,
    IncompleteWhy,
    McpCallItem,
    MessageItem,
    OutputItem,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ResponseBody,
    ResponseError,
    ResponseEvent,
    SummaryText,
)
from .turn_view import TurnView

MAX_OUTPUT_CHARS = 16 * 1024
"""Of the result of a call that was made here; the record has all of it."""

STATUSES = {
    "answered": "completed",
    "max_tokens": "incomplete",
    "budget": "incomplete",
    "loop_guard": "incomplete",
    "refused": "incomplete",
    "cancelled": "cancelled",
}
"""Of a response, by the outcome of its turn; others have failed."""

REASONS = {"refused": "content_filter"}
"""Why one is incomplete; else a limit was reached."""

ERROR_CODES = {"rate_limit": "rate_limit_exceeded", "validation": "invalid_prompt"}


class ResponseFold:
    """Makes one response of the events of its turn.

    Args:
        body: The response as it begins; filled as it goes on.
        view: Follows the turn.
        has_form: Whether the answer has a form: then its text is told at the end, as it was judged.
        shows_calls: Whether calls of callboard's own tools are items.
        asks: Whether the client answers questions about these calls.

    Attributes:
        body: The response so far.
        is_complete: Whether nothing more comes without the client.
    """

    def __init__(
        self,
        body: ResponseBody,
        view: TurnView,
        *,
        has_form: bool = False,
        shows_calls: bool = True,
        asks: bool = False,
    ) -> None:
        self.body = body
        self.view = view
        self.is_complete = False
        self._has_form = has_form
        self._shows_calls = shows_calls
        self._asks = asks
        self._events: list[ResponseEvent] = []
        self._number = self._count = 0
        self._places: dict[str, int] = {}
        self._open: MessageItem | ReasoningItem | None = None
        self._streamed: list[OutputItem] = []
        self._calls: dict[str, McpCallItem] = {}

    def begin(self) -> list[ResponseEvent]:
        """Return the first events."""
        self._tell("response.created", response=self._snapshot())
        self._tell("response.in_progress", response=self._snapshot())
        return self._told()

    def take(self, events: Iterable[TurnEvent], *, is_live: bool = True) -> list[ResponseEvent]:
        """Return what these events add, all that have come; on record it is not known which came together."""
        for event in events:
            self.view.take(event)
            self._take(event)
        if self.view.ended is not None:
            self._ended(self.view.ended)
        elif is_live and self.is_waiting:
            self._wait(asks=self._asks)
        return self._told()

    @property
    def is_waiting(self) -> bool:
        """Whether the turn waits for the client alone."""
        return bool(self.view.client_calls) or (self._asks and self.view.asked_alone)

    def has_waited(self) -> bool:
        """End the response if it has come to where it waited for its client; say whether it had."""
        if self.is_complete or not self._count:
            return self.is_complete
        self._wait(asks=bool(self.view.asks))
        return True

    def _wait(self, *, asks: bool) -> None:
        """End the response, which goes on in another one when the client has answered."""
        unfinished = [*self._calls.values()]
        self.body.output = [
            each for each in self.body.output if not any(each is call for call in unfinished)
        ]
        for asked in self.view.asks.values() if asks else ():
            self._whole(ApprovalItem(asked.approval_id, asked.name, asked.arguments))
        self._finish("completed")

    def fail(self, code: str, message: str) -> list[ResponseEvent]:
        """Return the end of a response that can't go on."""
        self.body.error = ResponseError("server_error", f"{code}: {message}")
        self._finish("failed")
        return self._told()

    # ── what the model says ──────────────────────────────────────────────────────────────────────

    def _take(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text):
                if not self._has_form:
                    self._say(text)
            case RefusalDelta(text=text):
                self._refuse(text)
            case ThinkingDelta(text=text):
                self._think(text)
            case MessageDiscarded():
                self._withdraw()
            case MessageCompleted():
                self._complete(event)
            case CallProposed():
                self._propose(event)
            case CallFinished():
                self._finished(event)
            case _:
                pass

    def _complete(self, event: MessageCompleted) -> None:
        """Close what was streamed of a message; tell it by its parts if nothing was."""
        if not self._streamed:
            for part in event.parts:
                match part:
                    case Text(text=text) if not self._has_form:
                        self._say(text)
                    case Refusal(text=text):
                        self._refuse(text)
                    case Thinking(text=text):
                        self._think(text)
                    case _:
                        pass
        is_last = event.stop_reason != "tool_calls" and not event.incomplete
        self._close("completed" if not event.incomplete else "incomplete", is_last=is_last)
        self._streamed = []

    def _message(self) -> MessageItem:
        if isinstance(self._open, MessageItem):
            return self._open
        self._close("completed")
        item = self._open = MessageItem(self._id("msg"), [])
        self._add(item)
        return item

    def _say(self, text: str) -> None:
        item = self._message()
        if not item.content or not isinstance(item.content[-1], OutputText):
            item.content.append(OutputText(""))
            part = OutputText("")
            at = len(item.content) - 1
            self._tell("response.content_part.added", item, content_index=at, part=part)
        last = item.content[-1]
        assert isinstance(last, OutputText)
        last.text += text
        at = len(item.content) - 1
        self._tell("response.output_text.delta", item, content_index=at, delta=text, logprobs=[])

    def _refuse(self, text: str) -> None:
        item = self._message()
        if not item.content or not isinstance(item.content[-1], OutputRefusal):
            item.content.append(OutputRefusal(""))
            part = OutputRefusal("")
            at = len(item.content) - 1
            self._tell("response.content_part.added", item, content_index=at, part=part)
        last = item.content[-1]
        assert isinstance(last, OutputRefusal)
        last.refusal += text
        self._tell("response.refusal.delta", item, content_index=len(item.content) - 1, delta=text)

    def _think(self, text: str) -> None:
        item = self._open
        if not isinstance(item, ReasoningItem):
            self._close("completed")
            item = self._open = ReasoningItem(self._id("rs"), [SummaryText("")])
            self._add(item, ReasoningItem(item.id, []))
            part = SummaryText("")
            self._tell("response.reasoning_summary_part.added", item, summary_index=0, part=part)
        item.summary[0].text += text
        self._tell("response.reasoning_summary_text.delta", item, summary_index=0, delta=text)

    def _close(self, status: str, *, is_last: bool | None = None) -> None:
        """End the item that is being said."""
        item, self._open = self._open, None
        match item:
            case None:
                return
            case ReasoningItem():
                text = item.summary[0].text
                self._tell("response.reasoning_summary_text.done", item, summary_index=0, text=text)
                part = item.summary[0]
                self._tell("response.reasoning_summary_part.done", item, summary_index=0, part=part)
            case MessageItem():
                if is_last is not None:
                    item.phase = "final_answer" if is_last else "commentary"
                self._close_parts(item)
        item.status = status
        self._done(item)

    def _close_parts(self, item: MessageItem) -> None:
        for at, part in enumerate(item.content):
            if isinstance(part, OutputText):
                self._tell(
                    "response.output_text.done",
                    item,
                    content_index=at,
                    text=part.text,
                    logprobs=[],
                )
            else:
                self._tell("response.refusal.done", item, content_index=at, refusal=part.refusal)
            self._tell("response.content_part.done", item, content_index=at, part=part)

    def _withdraw(self) -> None:
        """Take back what was streamed of a message whose model call has failed."""
        self._close("incomplete")
        gone, self._streamed = self._streamed, []
        self.body.output = [
            each for each in self.body.output if not any(each is item for item in gone)
        ]

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def _propose(self, call: CallProposed) -> None:
        name, arguments = call.name, call.arguments
        if self.view.is_clients(call):
            item = FunctionCallItem(self._id("fc"), call.call_id, name, arguments)
            self._add(item, msgspec.structs.replace(item, arguments=""))
            self._tell("response.function_call_arguments.delta", item, delta=arguments)
            self._tell("response.function_call_arguments.done", item, arguments=arguments)
            item.status = "completed"
            self._done(item)
        elif self._shows_calls:
            own = self._calls[call.call_id] = McpCallItem(self._id("mcp"), name, arguments)
            self._add(own)
            self._tell("response.mcp_call_arguments.done", own, arguments=arguments)
            self._tell("response.mcp_call.in_progress", own)

    def _finished(self, event: CallFinished) -> None:
        item = self._calls.pop(event.call_id, None)
        if item is None:
            if self.view.is_clients(event) or not self._shows_calls:
                return
            # It was asked for in the response before, which ended with the question about it.
            item = McpCallItem(self._id("mcp"), event.name, event.arguments or "{}")
            self._add(item)
        said = excerpt(event.result, MAX_OUTPUT_CHARS)
        if event.status is CallStatus.SUCCESS:
            item.output, item.status = said, "completed"
            self._tell("response.mcp_call.completed", item)
        else:
            item.error, item.status = said, "failed"
            self._tell("response.mcp_call.failed", item)
        self._done(item)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _ended(self, ended: TurnEnded) -> None:
        if self._has_form and ended.answer:
            self._say(ended.answer)
            self._close("completed", is_last=True)
        self._close("incomplete")
        status = STATUSES.get(ended.outcome, "failed")
        if status == "incomplete":
            self.body.incomplete_details = IncompleteWhy(
                REASONS.get(ended.outcome, "max_output_tokens")
            )
        elif status == "failed":
            code = ERROR_CODES.get(ended.error_type, "server_error")
            self.body.error = ResponseError(code, ended.message or ended.outcome)
        self._finish(status)

    def _finish(self, status: str) -> None:
        self.is_complete = True
        self.body.status = status
        self.body.usage = self.view.usage.of_response
        # OpenAI has no event for a cancelled response: its stream ends as one that failed.
        kind = "failed" if status == "cancelled" else status
        self._tell(f"response.{kind}", response=self.body)

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def _id(self, kind: str) -> str:
        return f"{kind}_{self.body.id.removeprefix('resp_')}_{self._count}"

    def _add(self, item: OutputItem, as_begun: OutputItem | None = None) -> None:
        self._places[item.id] = self._count
        self._count += 1
        self.body.output.append(item)
        if isinstance(item, MessageItem | ReasoningItem):
            self._streamed.append(item)
        begun = msgspec.structs.replace(item if as_begun is None else as_begun)
        if isinstance(begun, MessageItem):
            begun.content = []
        self._tell("response.output_item.added", place=item.id, item=begun)

    def _whole(self, item: OutputItem) -> None:
        self._add(item)
        self._done(item)

    def _done(self, item: OutputItem) -> None:
        self._tell("response.output_item.done", place=item.id, item=item)

    def _tell(
        self,
        kind: str,
        of: OutputItem | None = None,
        *,
        place: str = "",
        **fields: object,
    ) -> None:
        if of is not None:
            fields |= {"item_id": of.id, "output_index": self._places[of.id]}
        elif place:
            fields["output_index"] = self._places[place]
        self._events.append(
            ResponseEvent(type=kind, sequence_number=self._number, **fields)  # type: ignore[arg-type]
        )
        self._number += 1

    def _told(self) -> list[ResponseEvent]:
        events, self._events = self._events, []
        return events

    def _snapshot(self) -> ResponseBody:
        return msgspec.structs.replace(self.body, output=[*self.body.output])

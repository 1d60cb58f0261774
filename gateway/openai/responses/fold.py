"""The events of a turn as items of a response, the same as they happen and from the record.

Text is told as it comes, from the record in whole messages. What a client reads later is what another one heard,
with the same numbers: an event takes one, and a delta as many as it has characters, so they don't depend on how
the text was cut. An attempt of a model call that failed leaves room for what it said, which no record has.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from ....embedding.turn import TurnEvent
from ....runtime.definitions import CallStatus
from ....runtime.events import (
    AttemptCharged,
    AttemptFailed,
    CallFinished,
    CallProposed,
    MessageCompleted,
    MessageDiscarded,
    ModelSwitched,
    TurnEnded,
)
from ....runtime.stream import RefusalDelta, TextDelta, ThinkingDelta
from ....runtime.text import excerpt
from ..turn_view import TurnView
from .items import (
    ApprovalItem,
    CallError,
    CallErrorText,
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

NUMBERS_OF_ATTEMPT = 1 << 20
"""Left out for an attempt that failed: more than the characters that models say before that."""

ENDS = {f"response.{kind}" for kind in ("completed", "incomplete", "failed")}
"""The last events of streams."""

REASONS = {"refused": "content_filter"}
"""Why one is incomplete; else a limit was reached."""

DELTAS = (TextDelta, RefusalDelta, ThinkingDelta)

ERROR_CODES = {"rate_limit": "rate_limit_exceeded", "validation": "invalid_prompt"}


OutputPart = TypeVar("OutputPart", OutputText, OutputRefusal)


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
        self._number = -1
        self._number_before: int | None = None
        self._count = self._failed = 0
        self._places: dict[str, int] = {}
        self._open: MessageItem | ReasoningItem | None = None
        self._pieces: list[str] = []
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

    def wait(self) -> list[ResponseEvent]:
        """Return the end of a response that has come to where it waited for its client, as the record has it."""
        self._wait(asks=bool(self.view.asks))
        return self._told()

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
        if self._number_before is None and isinstance(event, DELTAS):
            self._number_before = self._number
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
            case AttemptFailed() | AttemptCharged() | ModelSwitched():
                self._fail_attempt()
            case MessageCompleted():
                self._complete(event)
            case CallProposed():
                self._propose(event)
            case CallFinished():
                self._finished(event)
            case _:
                pass

    def _complete(self, event: MessageCompleted) -> None:
        """Close what was told of a message."""
        is_last = event.stop_reason != "tool_calls" and not event.incomplete
        is_cut = event.incomplete or event.stop_reason == "max_tokens"
        self._close("incomplete" if is_cut else "completed", is_last=is_last)
        self._streamed, self._number_before, self._failed = [], None, 0

    def _fail_attempt(self) -> None:
        """Number what follows an attempt that failed, which is on record, as if it had said nothing."""
        before = self._number if self._number_before is None else self._number_before
        self._number = max(self._number, before + NUMBERS_OF_ATTEMPT)
        self._number_before = None
        self._failed += 1

    def _message(self) -> MessageItem:
        if isinstance(self._open, MessageItem):
            return self._open
        self._close("completed")
        item = self._open = MessageItem(self._id("msg"), [])
        self._add(item)
        return item

    def _say(self, text: str) -> None:
        item, at = self._part(OutputText)
        self._add_text("response.output_text.delta", text, item, content_index=at, logprobs=[])

    def _refuse(self, text: str) -> None:
        item, at = self._part(OutputRefusal)
        self._add_text("response.refusal.delta", text, item, content_index=at)

    def _part(self, kind: type[OutputPart]) -> tuple[MessageItem, int]:
        """Return the open message, and the place of its last part, which is of this kind."""
        item = self._message()
        at = len(item.content) - 1
        if item.content and isinstance(item.content[-1], kind):
            return item, at
        self._tell("response.content_part.added", item, content_index=at + 1, part=kind(""))
        item.content.append(kind(""))
        return item, at + 1

    def _think(self, text: str) -> None:
        item = self._open
        if not isinstance(item, ReasoningItem):
            self._close("completed")
            item = self._open = ReasoningItem(self._id("rs"), [SummaryText("")])
            self._add(item, ReasoningItem(item.id, []))
            part = SummaryText("")
            self._tell("response.reasoning_summary_part.added", item, summary_index=0, part=part)
        self._add_text("response.reasoning_summary_text.delta", text, item, summary_index=0)

    def _add_text(
        self, kind: str, text: str, item: MessageItem | ReasoningItem, **fields: Any
    ) -> None:
        """Tell a piece of the last part of the open item; nobody has read the one ahead of it: both are one event."""
        if self._pieces and self._events[-1].type == kind:
            self._number += max(1, len(text))
        else:
            self._tell(kind, item, delta=text, **fields)
        self._pieces.append(text)

    def _settle(self) -> None:
        """Put the pieces that have come together: one by one, each would copy all of the text."""
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        event = self._events[-1]
        event.delta, event.sequence_number = text, self._number
        match self._open:
            case MessageItem(content=[*_, OutputText() as part]):
                part.text += text
            case MessageItem(content=[*_, OutputRefusal() as part]):
                part.refusal += text
            case ReasoningItem(summary=[part]):
                part.text += text
            case _:
                pass  # there is text in nothing else

    def _close(self, status: str, *, is_last: bool | None = None) -> None:
        """End the item that is being said."""
        self._settle()
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
            item.error, item.status = CallError([CallErrorText(said)]), "failed"
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
        if status == "completed":
            self.body.completed_at = int(time.time())
        # OpenAI has no event for a cancelled response: its stream ends as one that failed.
        kind = "failed" if status == "cancelled" else status
        self._tell(f"response.{kind}", response=self.body)

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def _id(self, kind: str) -> str:
        again = f"r{self._failed}" if self._failed else ""
        return f"{kind}_{self.body.id.removeprefix('resp_')}_{len(self.body.output)}{again}"

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
        self._settle()
        delta = fields.get("delta")
        self._number += max(1, len(delta)) if isinstance(delta, str) else 1
        self._events.append(
            ResponseEvent(type=kind, sequence_number=self._number, **fields)  # type: ignore[arg-type]
        )

    def _told(self) -> list[ResponseEvent]:
        self._settle()
        events, self._events = self._events, []
        return events

    def _snapshot(self) -> ResponseBody:
        return msgspec.structs.replace(self.body, output=[*self.body.output])


def behind(events: Iterable[ResponseEvent], number: int) -> list[ResponseEvent]:
    """Return what of these events comes behind a number; of a delta that it is in, the rest. The end always does."""
    found = []
    for event in events:
        said = 0 if isinstance(event.delta, msgspec.UnsetType) else len(event.delta)
        if event.type in ENDS:
            event.sequence_number = max(event.sequence_number, number + 1)
        elif event.sequence_number <= number:
            continue
        elif said > event.sequence_number - number:
            assert isinstance(event.delta, str)
            event.delta = event.delta[number - event.sequence_number :]
        found.append(event)
    return found

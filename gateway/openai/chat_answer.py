"""The answer of a chat completion: whole, or in chunks as the turn goes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ...embedding.turn import TurnEvent
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
from .problems import error_body, problem_of_end
from .turn_view import TurnView
from .usage import ChatUsage

FINISH = {
    "answered": "stop",
    "max_tokens": "length",
    "budget": "length",
    "loop_guard": "length",
    "refused": "content_filter",
}
"""Why an answer is over, by the outcome of its turn; others are errors."""

BETWEEN = "\n\n"
"""Between the texts of two messages of one turn: the client sees one."""
WITHDRAWN = " [withdrawn]\n"
"""Behind text that was sent and is not part of the answer: its model call failed and is made again."""
Said = Literal["content", "reasoning_content", "refusal"]
"""Where a chunk has what was said."""

MAX_SHOWN = 200
"""Characters of a call's arguments, where a client reads of it."""


class FunctionCall(msgspec.Struct):
    """The function of a call."""

    name: str
    arguments: str


class ChatCall(msgspec.Struct):
    """A call that the client is to run."""

    id: str
    function: FunctionCall
    type: str = "function"


class ChatMessage(msgspec.Struct, omit_defaults=True):
    """All that a turn said."""

    content: str | None
    refusal: str | None
    annotations: list[str]
    role: str = msgspec.field(default_factory=lambda: "assistant")
    reasoning_content: str | None = None
    tool_calls: list[ChatCall] | None = None


class Choice(msgspec.Struct):
    """The only answer."""

    message: ChatMessage
    finish_reason: str
    index: int = 0
    logprobs: None = None


class ChatCompletion(msgspec.Struct):
    """A whole answer."""

    id: str
    model: str
    created: int
    choices: list[Choice]
    usage: ChatUsage
    object: str = "chat.completion"


class DeltaCall(msgspec.Struct):
    """A call in a chunk."""

    index: int
    id: str
    function: FunctionCall
    type: str = "function"


class Delta(msgspec.Struct, omit_defaults=True):
    """What a chunk adds."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    tool_calls: list[DeltaCall] | None = None


class ChunkChoice(msgspec.Struct):
    """The only answer, in a chunk."""

    delta: Delta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class Chunk(msgspec.Struct):
    """A piece of an answer."""

    id: str
    model: str
    created: int
    choices: list[ChunkChoice]
    usage: ChatUsage | None = None
    object: str = "chat.completion.chunk"


class ChatAnswer(msgspec.Struct, frozen=True):
    """What all pieces of an answer have in common."""

    input_id: str
    model: str
    created: int

    @property
    def name(self) -> str:
        """The id of the answer."""
        return f"chatcmpl-{self.input_id}"

    def whole(self, view: TurnView) -> ChatCompletion:
        """Return the answer of a turn that has ended, or that waits for the client; raise `ApiProblem`."""
        calls = [_call(each) for each in view.client_calls]
        if calls:
            finish = "tool_calls"
        else:
            assert view.ended is not None
            if view.ended.outcome not in FINISH:
                raise problem_of_end(view.ended)
            finish = FINISH[view.ended.outcome]
        texts, refusals, thoughts = (
            _said(view.messages, kind) for kind in (Text, Refusal, Thinking)
        )
        if view.ended is not None and view.ended.answer:
            texts = [view.ended.answer]
        message = ChatMessage(
            BETWEEN.join(texts) if texts or not calls else None,
            BETWEEN.join(refusals) or None,
            [],
            reasoning_content=BETWEEN.join(thoughts) or None,
            tool_calls=calls or None,
        )
        choices = [Choice(message, finish)]
        return ChatCompletion(self.name, self.model, self.created, choices, view.usage.of_chat)

    def chunk(self, delta: Delta, finish_reason: str | None = None) -> bytes:
        """Return a piece of the answer as an event."""
        choices = [ChunkChoice(delta, finish_reason)]
        return event_of(Chunk(self.name, self.model, self.created, choices))

    def usage(self, usage: ChatUsage) -> bytes:
        """Return the piece with the tokens, which is the last one."""
        return event_of(Chunk(self.name, self.model, self.created, [], usage))


class ChatStream:
    """Turns the events of a turn into chunks.

    Args:
        answer: What all chunks have.
        view: Follows the turn.
        has_form: Whether the answer has a form: then its text is sent at the end, as it was judged.
        shows_calls: Whether calls of callboard's own tools are told as reasoning.
        wants_usage: Whether the tokens are sent at the end.

    Attributes:
        is_complete: Whether all was said.
    """

    def __init__(
        self,
        answer: ChatAnswer,
        view: TurnView,
        *,
        has_form: bool,
        shows_calls: bool,
        wants_usage: bool,
    ) -> None:
        self.view = view
        self.is_complete = False
        self._answer = answer
        self._has_form = has_form
        self._shows_calls = shows_calls
        self._wants_usage = wants_usage
        self._has_text = self._is_between = False
        self._said = 0
        self._deltas: list[tuple[Said, list[str]]] = []

    def begin(self) -> bytes:
        """Return the first chunk."""
        return self._answer.chunk(Delta(role="assistant", content=""))

    def take(self, events: Iterable[TurnEvent]) -> bytes:
        """Return what these events add, in one piece."""
        for event in events:
            self.view.take(event)
            self._add(event)
        deltas, self._deltas = self._deltas, []
        data = [self._answer.chunk(_delta(*each)) for each in deltas]
        if calls := self.view.client_calls:
            data += self._calls(calls)
            data += self._end("tool_calls")
        elif self.view.ended is not None:
            data += self._ended(self.view.ended)
        return b"".join(data)

    def _add(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=text) if not self._has_form:
                if self._is_between and self._has_text:
                    text = BETWEEN + text
                self._is_between, self._has_text = False, True
                self._said += len(text)
                self._join("content", text)
            case ThinkingDelta(text=text):
                self._join("reasoning_content", text)
            case RefusalDelta(text=text):
                self._join("refusal", text)
            case MessageDiscarded() if self._said:
                self._said = 0
                self._join("content", WITHDRAWN)
            case MessageCompleted():
                self._is_between, self._said = True, 0
            case CallProposed() if self._shows_calls and not self.view.is_clients(event):
                self._join("reasoning_content", f"\n{event.name} {_line(event.arguments)}\n")
            case CallFinished() if self._shows_calls and not self.view.is_clients(event):
                line = f"{event.name}: {event.status} {_line(event.display)}\n"
                self._join("reasoning_content", line)
            case _:
                pass

    def _join(self, kind: Said, text: str) -> None:
        """Add a piece, to the last one if it is of its kind: each chunk costs the client 0.1 ms."""
        if not self._deltas or self._deltas[-1][0] != kind:
            self._deltas.append((kind, []))
        self._deltas[-1][1].append(text)

    def _calls(self, calls: list[CallProposed]) -> list[bytes]:
        return [
            self._answer.chunk(
                Delta(
                    tool_calls=[
                        DeltaCall(at, call.call_id, FunctionCall(call.name, call.arguments))
                    ]
                )
            )
            for at, call in enumerate(calls)
        ]

    def _ended(self, ended: TurnEnded) -> list[bytes]:
        if ended.outcome not in FINISH:
            self.is_complete = True
            return [event_of(error_body(problem_of_end(ended)))]
        text = []
        if self._has_form and ended.answer:
            text = [self._answer.chunk(Delta(content=ended.answer))]
        return text + self._end(FINISH[ended.outcome])

    def _end(self, finish: str) -> list[bytes]:
        self.is_complete = True
        usage = [self._answer.usage(self.view.usage.of_chat)] if self._wants_usage else []
        return [self._answer.chunk(Delta(), finish), *usage, b"data: [DONE]\n\n"]


def event_of(body: object) -> bytes:
    """Return a body as one event."""
    return b"data: %b\n\n" % msgspec.json.encode(body)


def _said(messages: Iterable[MessageCompleted], kind: type[Text | Refusal | Thinking]) -> list[str]:
    """Return the words of one kind, by message."""
    each = ("".join(part.text for part in it.parts if isinstance(part, kind)) for it in messages)
    return [text for text in each if text]


def _delta(kind: Said, pieces: list[str]) -> Delta:
    delta = Delta()
    setattr(delta, kind, "".join(pieces))
    return delta


def _call(call: CallProposed) -> ChatCall:
    return ChatCall(call.call_id, FunctionCall(call.name, call.arguments))


def _line(text: str) -> str:
    return excerpt(" ".join(text.split()), MAX_SHOWN)

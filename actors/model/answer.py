"""An answer while it streams: pieces in, parts out, and what it took.

`AnswerBuilder` folds stream events into parts, within bounds that hold whatever a provider sends:
its end is a `Done`, a `StreamError`, or an error that the builder sets itself.

Where a provider counts no tokens, or an answer was broken off before it did, tokens are estimated
for the budgets: four bytes of UTF-8 to a token. That is close for English and for code, and for
scripts whose characters take three bytes and most of a token each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import assert_never

import msgspec

from ...providers.provider import ModelRequest
from ...runtime.history import (
    Answer,
    Call,
    Input,
    Item,
    Opaque,
    Part,
    Refusal,
    Round,
    Text,
    Thinking,
)
from ...runtime.identity import new_id
from ...runtime.stream import (
    MAX_ARGUMENT_BYTES,
    AnyStreamEvent,
    Done,
    OpaquePart,
    RefusalDelta,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    text_alone,
)
from .compaction import ATTACHMENT_CHARS

BYTES_PER_TOKEN = 4

_SIZE = "size"
"""The key under which a round keeps its length, beside its encoded forms: it never changes."""

MAX_ANSWER_CHARS = 5 * 1024 * 1024
"""What an answer may hold, arguments included: ten times what the longest models say. Even if each is
escaped, it fits one event beside what a provider wants back."""
MAX_CALLS = 1024
"""Calls that one answer may propose; past 256 they only get an error result, and this many of
those are still a readable history."""
MAX_PARTS = 10_000
"""Parts of one answer, which may be text and thinking in turns: models write some dozens."""
MAX_NAME_CHARS = 256
"""Kept of the name of a tool: longer than any tool's, so that what was cut never names one."""
MAX_ID_CHARS = 64

_CALL_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ID_CHARS}}}")
"""An id that every provider takes back: Anthropic's pattern is the narrowest."""


class TokenCount(msgspec.Struct, frozen=True):
    """What an attempt took: what the provider counted, and an estimate of what it did not."""

    usage: Usage | None = None
    estimate: Usage | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is known to have been taken."""
        return self.usage is None and self.estimate is None


NOTHING_TAKEN = TokenCount()


class _CallPieces(msgspec.Struct):
    call_id: str
    name: str
    pieces: list[str]
    room: int
    """Bytes of arguments that it may still get; negative when they were cut."""


class _ThinkingPieces(msgspec.Struct):
    pieces: list[str]
    signature: str | None = None


class _RefusalPieces(msgspec.Struct):
    pieces: list[str]


class AnswerBuilder:
    """Folds the stream events of one attempt.

    Attributes:
        text_bytes: The length of the text so far in UTF-8, the offset of the next batch.
        usage: The last usage that came.
        done: The terminal event of a whole answer.
        error: The terminal event of a failed one.
        is_sent: Whether the request was handed over to be sent.
        taken: What the attempt took, once it is over.
        first_at: When the first of it had come.

    Args:
        max_argument_bytes: Where the arguments of a call are cut. One character more is kept, so
            that such a call is recognised by its length and refused alone.
        client_tools: Names of tools that a client runs. Their results come by the ids of their calls alone, so
            that these are our own: some servers of models count theirs from 0 in each answer.
    """

    def __init__(
        self, max_argument_bytes: int = MAX_ARGUMENT_BYTES, client_tools: Collection[str] = ()
    ) -> None:
        self._max_argument_bytes = max_argument_bytes
        self._client_tools = client_tools
        self.text_bytes = 0
        self.usage: Usage | None = None
        self.done: Done | None = None
        self.error: StreamError | None = None
        self.is_sent = False
        self.taken = NOTHING_TAKEN
        self.first_at: float | None = None
        self._parts: list[list[str] | _Pieces | Opaque] = []
        self._text: list[str] | None = None
        self._calls: dict[int, _CallPieces] = {}
        self._chars = 0

    def add(self, events: Sequence[AnyStreamEvent]) -> None:
        """Take one batch; what follows a terminal event is ignored."""
        if text := text_alone(events):
            events = [TextDelta(text)]
        for event in events:
            if self.done is not None or self.error is not None:
                return
            if type(event) is TextDelta:
                text = event.text
                if self._text is None:
                    self._text = []
                    self._parts.append(self._text)
                self._text.append(text)
                self._chars += len(text)
                self.text_bytes += len(text) if text.isascii() else len(_utf8(text))
            elif type(event) is ToolCallDelta:
                if (call := self._calls.get(event.index)) is not None and call.room >= 0:
                    self._add_arguments(call, event.arguments)
            elif type(event) is not ToolCallEnd:
                self._add_other(event)
        if len(self._parts) > MAX_PARTS:
            self._fail(f"The answer has more than {MAX_PARTS} parts; it was stopped.")
        if self._chars > MAX_ANSWER_CHARS:
            self._fail(f"The answer is longer than {MAX_ANSWER_CHARS} characters; it was stopped.")

    def _add_other(self, event: AnyStreamEvent) -> None:
        match event:
            case ToolCallEnd():
                pass
            case ToolCallStart():
                self._start_call(event)
            case TextDelta() | ToolCallDelta():
                self.add([event])
            case ThinkingDelta():
                self._thinking().pieces.append(event.text)
                self._chars += len(event.text)
            case ThinkingEnd():
                self._end_thinking(event)
            case RefusalDelta():
                self._add_refusal(event.text)
            case OpaquePart():
                self._add_part(Opaque(event.dialect, event.kind, event.data))
            case Usage():
                self.usage = event
            case StreamError():
                self.error = event
            case Done():
                self.done = event
            case _:
                assert_never(event)

    @property
    def is_empty(self) -> bool:
        """Whether nothing came that somebody could have seen."""
        return not self._parts

    def parts(self, taken_ids: Collection[str] = ()) -> tuple[Part, ...]:
        """Return the parts so far; call ids that are empty, malformed, taken or a client's are replaced."""
        own: set[str] = set()
        parts: list[Part] = []
        for piece in self._parts:
            match piece:
                case list():
                    if text := "".join(piece):
                        parts.append(Text(text))
                case _ThinkingPieces():
                    parts.append(Thinking("".join(piece.pieces), piece.signature))
                case _CallPieces():
                    call_id = piece.call_id
                    is_clients = piece.name in self._client_tools
                    is_taken = call_id in taken_ids or call_id in own
                    if is_clients or is_taken or not _CALL_ID.fullmatch(call_id):
                        call_id = new_id("call")
                    own.add(call_id)
                    parts.append(Call(call_id, piece.name, "".join(piece.pieces)))
                case _RefusalPieces():
                    parts.append(Refusal("".join(piece.pieces)))
                case Opaque():
                    parts.append(piece)
                case _:
                    assert_never(piece)
        return tuple(parts)

    def parts_without_calls(self) -> tuple[Part, ...]:
        """Return what is kept of a broken-off answer: half a call must never run."""
        return tuple(part for part in self.parts() if not isinstance(part, Call))

    def _add_part(self, part: _Pieces | Opaque) -> None:
        self._text = None
        self._parts.append(part)

    def _thinking(self) -> _ThinkingPieces:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _ThinkingPieces) and last.signature is None:
            return last
        fresh = _ThinkingPieces([])
        self._add_part(fresh)
        return fresh

    def _end_thinking(self, event: ThinkingEnd) -> None:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _ThinkingPieces) and last.signature is None:
            # An empty signature still closes the block, so that the next one is its own part.
            last.signature = event.signature or ""
        elif event.signature:
            self._add_part(_ThinkingPieces([], event.signature))

    def _add_refusal(self, text: str) -> None:
        self._chars += len(text)
        last = self._parts[-1] if self._parts else None
        if isinstance(last, _RefusalPieces):
            last.pieces.append(text)
        else:
            self._add_part(_RefusalPieces([text]))

    def _start_call(self, event: ToolCallStart) -> None:
        if len(self._calls) >= MAX_CALLS:
            self._fail(f"The model asked for more than {MAX_CALLS} tools in one answer.")
            return
        # One character too many shows that there were more.
        call_id, name = event.call_id[: MAX_ID_CHARS + 1], event.name[:MAX_NAME_CHARS]
        call = _CallPieces(call_id, name, [], self._max_argument_bytes)
        self._calls[event.index] = call
        self._chars += len(name)
        self._add_part(call)

    def _add_arguments(self, call: _CallPieces, arguments: str) -> None:
        size = len(arguments) if arguments.isascii() else len(_utf8(arguments))
        if size > call.room:
            fitting = _utf8(arguments)[: call.room].decode(errors="ignore")
            arguments = arguments[: len(fitting) + 1]
        call.room -= size
        call.pieces.append(arguments)
        self._chars += len(arguments)

    def _fail(self, message: str) -> None:
        self.error = StreamError(error_type="provider", message=message)


_Pieces = _ThinkingPieces | _CallPieces | _RefusalPieces


# ── what it took ─────────────────────────────────────────────────────────────────────────────────


def tokens_of_bytes(size: int) -> int:
    """Return how many tokens so many bytes are, at least one when there are any."""
    return -(-size // BYTES_PER_TOKEN)


def request_tokens(request: ModelRequest) -> int:
    """Return about how many tokens a model will read."""
    size = text_bytes(request.system) + sum(map(_round_bytes, request.rounds))
    for tool in request.tools:  # no more of a definition is sent
        size += len(tool.name) + text_bytes(tool.description)
        size += len(msgspec.json.encode(tool.parameters))
    return tokens_of_bytes(size)


def event_bytes(event: AnyStreamEvent) -> int:
    """Return the length of what one event adds to an answer."""
    match event:
        case TextDelta(text=text) | ThinkingDelta(text=text) | RefusalDelta(text=text):
            return text_bytes(text)
        case ToolCallDelta(arguments=arguments):
            return text_bytes(arguments)
        case ToolCallStart(name=name):
            return text_bytes(name)
        case OpaquePart(data=data):
            return len(bytes(data))
        case _:
            return 0


def tokens_taken(answer: AnswerBuilder, request: ModelRequest) -> TokenCount:
    """Return what an attempt took, once it is over.

    A whole answer took what its provider counted. The count of a broken-off answer may be from its
    beginning: then it holds for the input, and for the output only if it covers what has come. A
    request that was sent and broken off before any answer has been read nevertheless.
    """
    usage = _believable(answer, request)
    tokens_in = usage.input_tokens if usage is not None else None
    tokens_out = usage.output_tokens if usage is not None else None
    if answer.done is None:
        if usage is None and answer.is_empty and (answer.error is not None or not answer.is_sent):
            return NOTHING_TAKEN
        seen = _output_tokens(answer)
        if usage is not None and tokens_out is not None and tokens_out < seen:
            usage = msgspec.structs.replace(usage, output_tokens=None, reasoning_tokens=None)
            tokens_out = None
    if tokens_in is not None and tokens_out is not None:
        return TokenCount(usage, None)
    estimate = Usage(
        request_tokens(request) if tokens_in is None else None,
        _output_tokens(answer) if tokens_out is None else None,
    )
    return TokenCount(usage, estimate)


def _believable(answer: AnswerBuilder, request: ModelRequest) -> Usage | None:
    """Return the usage without what can't be: some servers say zero for what they don't count."""
    usage = answer.usage
    if usage is None or usage.input_tokens:
        return usage
    if usage.output_tokens == 0 and not answer.is_empty:
        return None
    if usage.input_tokens == 0 and request_tokens(request) > 0:
        counted = usage.output_tokens
        return Usage(None, counted, None, usage.reasoning_tokens) if counted else None
    return usage


def text_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _output_tokens(answer: AnswerBuilder) -> int:
    return tokens_of_bytes(sum(map(_part_bytes, answer.parts())))


def _round_bytes(each: Round) -> int:
    size = each.encoded.get(_SIZE)
    if size is None:
        size = each.encoded[_SIZE] = b"%d" % sum(map(_item_bytes, each.items))
    return int(size)


def _item_bytes(item: Item) -> int:
    match item:
        case Input():
            return text_bytes(item.text) + ATTACHMENT_CHARS * len(item.attachments)
        case Answer():
            return sum(map(_part_bytes, item.parts))
        case _:
            return text_bytes(item.content) + ATTACHMENT_CHARS * len(item.attachments)


def _part_bytes(part: Part) -> int:
    match part:
        case Opaque():
            return len(bytes(part.data))
        case Call():
            return text_bytes(part.name) + text_bytes(part.arguments)
        case _:
            return text_bytes(part.text)


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")

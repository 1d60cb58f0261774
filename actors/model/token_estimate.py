"""Tokens that nobody counted, estimated by the length of texts.

Four bytes of UTF-8 are taken for a token: close for English and for code, and for scripts whose
characters take three bytes and most of a token each. It is for budgets alone.
"""

from __future__ import annotations

import msgspec

from ...providers.provider import ModelRequest
from ...runtime.history import Answer, Call, Input, Item, Opaque, Part, Round
from ...runtime.stream import (
    AnyStreamEvent,
    OpaquePart,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from .answer import NOTHING_TAKEN, AnswerBuilder, Tokens
from .compaction import ATTACHMENT_CHARS

BYTES_PER_TOKEN = 4

_SIZE = "size"
"""Where a round keeps its length, beside its encoded forms: rounds never change."""


def tokens_of_bytes(size: int) -> int:
    """How many tokens so many bytes are, at least one when there are any."""
    return -(-size // BYTES_PER_TOKEN)


def request_tokens(request: ModelRequest) -> int:
    """What a model will read, about."""
    size = text_bytes(request.system) + sum(map(_round_bytes, request.rounds))
    for tool in request.tools:  # no more of a definition is sent
        size += len(tool.name) + text_bytes(tool.description)
        size += len(msgspec.json.encode(tool.parameters))
    return tokens_of_bytes(size)


def event_bytes(event: AnyStreamEvent) -> int:
    """The length of what one event adds to an answer."""
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


def tokens_taken(answer: AnswerBuilder, request: ModelRequest) -> Tokens:
    """What an attempt took, once it is over.

    A whole answer takes what its provider counted. One that was broken off may have been told a
    count that was true at its beginning: that holds for the input, and for the output when it
    covers what has come. One that was sent and broken off ahead of it has been read all the same.
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
        return Tokens(usage, None)
    estimate = Usage(
        request_tokens(request) if tokens_in is None else None,
        _output_tokens(answer) if tokens_out is None else None,
    )
    return Tokens(usage, estimate)


def _believable(answer: AnswerBuilder, request: ModelRequest) -> Usage | None:
    """The usage as told, without what can't be: some servers say zero for what they don't count."""
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
    """The length of a text in UTF-8."""
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
            return text_bytes(item.content)


def _part_bytes(part: Part) -> int:
    match part:
        case Opaque():
            return len(bytes(part.data))
        case Call():
            return text_bytes(part.name) + text_bytes(part.arguments)
        case _:
            return text_bytes(part.text)

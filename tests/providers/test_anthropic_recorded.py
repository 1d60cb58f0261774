"""Recorded Messages answers, read as their expected lines say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from callboard.providers.anthropic.decoder import AnthropicMessagesDecoder
from callboard.providers.anthropic.dialect import ANTHROPIC
from callboard.runtime.stream import AnyStreamEvent, OpaquePart, Usage
from support.providers.recordings import (
    AnswerPart,
    Format,
    Recording,
    add_opaque,
    expected_parts,
    recorded_tests,
)


def ends_answer(data: bytes) -> bool:
    return json.loads(data)["type"] in {"message_stop", "error"}


def add_own_opaque(part: OpaquePart, parts: list[AnswerPart]) -> None:
    """Citations are counted in expected lines, and are not among the parts."""
    if part.kind != "citations":
        add_opaque(part, parts)


def parse_arguments(text: str) -> Any:
    """Arguments that were cut off are in expected lines as far as they came."""
    # Comes with `anthropic`, whose reading they are.
    from jiter import from_json

    return from_json(text.encode() or b"{}", partial_mode=True)


def rejoin_late_pieces(parts: list[AnswerPart], recording: Recording) -> list[AnswerPart]:
    """Puts pieces of a block that came behind later blocks where expected lines have them.

    That is only so in bodies that were spliced from several messages: the pieces of the second
    count from 0 again, and so go on with blocks of the first. What was said can't be moved.
    """
    expected = iter(expected_parts(recording))
    kinds = [part["k"] for part in parts]
    if kinds == [part["k"] for part in expected_parts(recording)]:
        return parts
    joined: list[AnswerPart] = []
    awaited = next(expected, None)
    for part in parts:
        first = next((each for each in joined if each["k"] == part["k"]), None)
        if awaited is not None and awaited["k"] == part["k"]:
            joined.append(part)
            awaited = next(expected, None)
        elif first is not None and part["k"] in {"text", "thinking"}:
            first.update({**part, "t": first["t"] + part["t"]})
        else:
            joined.append(part)
    return joined


def count_tokens(usage: Usage, body: bytes) -> Mapping[str, int | None]:
    """Expected lines have the provider's count of input, which is without that of the cache, and
    never one of reasoning."""
    written = 0
    for line in body.splitlines():
        if line.startswith(b"data:") and b'"cache_creation_input_tokens"' in line:
            event = json.loads(line[5:])
            counts = event.get("usage") or event["message"]["usage"]
            written = counts.get("cache_creation_input_tokens") or 0
    read = usage.input_tokens
    assert read is not None
    return {
        "in": read - written - (usage.cached_tokens or 0),
        "out": usage.output_tokens,
        "cache_read": usage.cached_tokens,
        "reasoning": None,
    }


def count_citations(events: list[AnyStreamEvent]) -> int:
    lists = [e.data for e in events if isinstance(e, OpaquePart) and e.kind == "citations"]
    return sum(len(json.loads(bytes(data))["citations"]) for data in lists)


FORMAT = Format(
    name="anthropic",
    decoder=AnthropicMessagesDecoder,
    is_terminal=ends_answer,
    add_opaque=add_own_opaque,
    parse_arguments=parse_arguments,
    adapt=rejoin_late_pieces,
    count_tokens=count_tokens,
    count_citations=count_citations,
)
TestRecorded = recorded_tests(FORMAT, ANTHROPIC.read_error)

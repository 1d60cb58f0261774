"""Recorded Gemini answers, read as their expected lines say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from callboard.providers.gemini.decoder import GeminiDecoder
from callboard.providers.gemini.dialect import GEMINI
from callboard.runtime.stream import AnyStreamEvent, OpaquePart, ToolCallDelta, Usage
from support.providers.recordings import (
    AnswerPart,
    Format,
    Recording,
    body_of,
    expected_parts,
    recorded_tests,
)


def ends_answer(data: bytes) -> bool:
    value = json.loads(data)
    blocked = value.get("promptFeedback", {}).get("blockReason")
    candidates = value.get("candidates") or []
    return bool(blocked) or any(
        c.get("finishReason") and c.get("index", 0) == 0 for c in candidates
    )


def add_opaque(part: OpaquePart, parts: list[AnswerPart]) -> None:
    """Expected lines have signatures within the part, and no part for what came beside them."""
    data = json.loads(bytes(part.data))
    if part.kind == "function_call":
        if "thoughtSignature" in data:
            parts[-1]["sig"] = data["thoughtSignature"]
    elif part.kind == "text_signature":
        add_text_signature(data["chars"], data["thoughtSignature"], parts)
    elif part.kind in {"tool_call", "tool_response"}:
        # Those that were recorded have a signature, and nothing else that the reader knew.
        parts.append({"k": "text", "t": "", "sig": data["thoughtSignature"]})
    elif not part.kind.endswith("_metadata"):
        parts.append({"k": "server", "type": part.kind})


def add_text_signature(chars: int, signature: str, parts: list[AnswerPart]) -> None:
    text = parts.pop()["t"] if chars else ""
    if chars < len(text):
        parts.append({"k": "text", "t": text[: len(text) - chars]})
    parts.append({"k": "text", "t": text[len(text) - chars :], "sig": signature})


def without_pieces(parts: list[AnswerPart], recording: Recording) -> list[AnswerPart]:
    """Takes back what the reader of the expected lines did not do.

    It has no id where none came, and each piece of a streamed call as a call of its own, without
    its arguments; here the pieces are one call, whose arguments are looked at elsewhere.
    """
    for part in parts:
        if part["k"] == "tool":
            part["id"] = part["id"] or None
    if "partial_args" not in recording["expect"].get("note", []):
        return parts
    expected = expected_parts(recording)
    for part in parts:
        if part["k"] == "tool":
            part["args"] = {}
    whole = [part for part in expected if part["k"] != "tool" or part["name"] is not None]
    assert len(parts) == len(whole)
    pieces = iter(parts)
    return [
        next(pieces) if part in whole else {"k": "tool", "id": None, "name": None, "args": {}}
        for part in expected
    ]


def count_tokens(usage: Usage, body: bytes) -> Mapping[str, int | None]:
    """Expected lines have the tokens of thoughts beside those of the answer, as the format has."""
    out, reasoning = usage.output_tokens, usage.reasoning_tokens
    last = body.rstrip().splitlines()[-1]
    if out is not None and reasoning is not None:
        out = out - reasoning if b'"candidatesTokenCount"' in last else None
    return {
        "in": usage.input_tokens,
        "out": out,
        "cache_read": usage.cached_tokens,
        "reasoning": reasoning,
    }


def count_citations(events: list[AnyStreamEvent]) -> int:
    found = [e for e in events if isinstance(e, OpaquePart) and e.kind == "grounding_metadata"]
    lists = [json.loads(bytes(part.data)) for part in found]
    return sum(len(item.get("groundingChunks", [])) for items in lists for item in items)


def decoded_json(events: list[AnyStreamEvent]) -> list[Any]:
    """Events whose arguments are compared as values: white space came with the recording."""
    return [
        (event.index, json.loads(event.arguments)) if isinstance(event, ToolCallDelta) else event
        for event in events
    ]


FORMAT = Format(
    name="gemini",
    decoder=GeminiDecoder,
    is_terminal=ends_answer,
    add_opaque=add_opaque,
    adapt=without_pieces,
    count_tokens=count_tokens,
    count_citations=count_citations,
)
TestRecorded = recorded_tests(FORMAT, GEMINI.read_error)


@FORMAT.each_recording
def test_a_recording_as_a_list_is_read_the_same(recording: Recording) -> None:
    # Without `alt=sse` the same chunks come as one JSON list.
    body = body_of(recording)
    chunks = re.findall(rb"^data: ?(.*)$", body, re.MULTILINE)
    pretty = [json.dumps(json.loads(chunk), indent=2).encode() for chunk in chunks]
    listed = b"[" + b"\n,\n".join(pretty) + b"\n]"
    whole = decoded_json(FORMAT.decode(body))
    assert decoded_json(FORMAT.decode(listed)) == whole
    assert decoded_json(FORMAT.decode(listed, *range(0, len(listed), 97))) == whole

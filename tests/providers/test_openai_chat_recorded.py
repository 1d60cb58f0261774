"""Recorded Chat Completions answers, read as their expected lines say."""

from __future__ import annotations

import json

from callboard.providers.openai_chat.decoder import OpenAiChatDecoder
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.runtime.stream import AnyStreamEvent, OpaquePart
from support.providers.recordings import (
    AnswerPart,
    Format,
    Recording,
    expected_parts,
    length,
    recorded_tests,
)


def ends_answer(data: bytes) -> bool:
    if data == b"[DONE]":
        return True
    choices = json.loads(data).get("choices") or []
    return any(c.get("finish_reason") and c.get("index", 0) == 0 for c in choices)


def add_opaque(part: OpaquePart, parts: list[AnswerPart]) -> None:
    """Expected lines have neither citations nor encrypted reasoning among the parts."""
    assert part.kind in {"annotations", "reasoning_details"}


def count_citations(events: list[AnyStreamEvent]) -> int:
    lists = [e.data for e in events if isinstance(e, OpaquePart) and e.kind == "annotations"]
    return sum(len(json.loads(bytes(data))) for data in lists)


def cut_reasoning(parts: list[AnswerPart], recording: Recording) -> list[AnswerPart]:
    """Cuts blocks of reasoning where the expected line does.

    Gateways that send `reasoning_details` beside each piece have it as one block a piece there;
    to us one run of reasoning is one block. Same text, same order, and every piece is compared.
    """
    expected = expected_parts(recording)
    if "reasoning_details" not in recording["expect"].get("note", []):
        return parts
    cut: list[AnswerPart] = []
    for part in parts:
        text = part.get("t", "")
        while part["k"] == "thinking" and len(cut) < len(expected):
            size = length(expected[len(cut)].get("t", ""))
            if expected[len(cut)]["k"] != "thinking" or size >= len(text):
                break
            cut.append({"k": "thinking", "t": text[:size]})
            text = text[size:]
        cut.append({**part, "t": text} if "t" in part else part)
    return cut


FORMAT = Format(
    name="openai_chat",
    decoder=OpenAiChatDecoder,
    is_terminal=ends_answer,
    add_opaque=add_opaque,
    adapt=cut_reasoning,
    count_citations=count_citations,
)
TestRecorded = recorded_tests(FORMAT, OPENAI_CHAT.read_error)

"""Recorded Responses answers, read as their expected lines say."""

from __future__ import annotations

import json
from typing import Any

from callboard.providers.openai_responses.decoder import OpenAiResponsesDecoder
from callboard.providers.openai_responses.dialect import OPENAI_RESPONSES
from callboard.providers.openai_responses.items import ANNOTATIONS, PHASE
from callboard.runtime.stream import AnyStreamEvent, OpaquePart
from support.providers.recordings import AnswerPart, Format, Recording, body_of, recorded_tests
from support.providers.recordings import add_opaque as add_server_part


def ends_answer(data: bytes) -> bool:
    kinds = {"response.completed", "response.incomplete", "response.failed", "error"}
    return data != b"[DONE]" and json.loads(data)["type"] in kinds


def add_opaque(part: OpaquePart, parts: list[AnswerPart]) -> None:
    """Expected lines have neither citations nor phases among the parts."""
    if part.kind not in {ANNOTATIONS, PHASE}:
        add_server_part(part, parts)


def count_citations(events: list[AnyStreamEvent]) -> int:
    lists = [e.data for e in events if isinstance(e, OpaquePart) and e.kind == ANNOTATIONS]
    return sum(len(json.loads(bytes(data))) for data in lists)


def values_of(body: bytes) -> list[dict[str, Any]]:
    """The data of the events."""
    lines = (line[5:].strip() for line in body.splitlines() if line.startswith(b"data:"))
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def last_answer(body: bytes) -> bytes:
    """Two recordings hold several answers, joined; their expected lines tell of the last one."""
    blocks = body.split(b"\n\n")
    first = max(at for at, block in enumerate(blocks) if b'"response.created"' in block)
    return b"\n\n".join(blocks[first:])


class LastAnswer(Format):
    """Reads the last answer of a body."""

    def decode(self, data: bytes, *cuts: int) -> list[AnyStreamEvent]:
        return super().decode(last_answer(data), *cuts)


def like_last_event(parts: list[AnswerPart], recording: Recording) -> list[AnswerPart]:
    """Expected lines tell what the last event says, which may differ from what was streamed.

    Reasoning is encrypted anew in it: its documentation says to take it from `output_item.done`.
    Where the text differs, what was shown stays; one recording was made up so.
    """
    values = values_of(last_answer(body_of(recording)))
    ended = [v["item"] for v in values if v["type"] == "response.output_item.done"]
    final = values[-1].get("response", {}).get("output", [])
    renewed = dict(zip(signatures(ended), signatures(final), strict=True))
    streamed = "".join(v["delta"] for v in values if v["type"] == "response.output_text.delta")
    changed: list[AnswerPart] = []
    for part in parts:
        if part["k"] == "thinking":
            signature = part.get("sig") or ""
            changed.append({**part, "sig": renewed.get(signature, signature) or None})
        elif part == {"k": "text", "t": streamed} and "deltas!=final" in notes(recording):
            changed.append({"k": "text", "t": text_of(final)})
        else:
            changed.append(part)
    return changed


def signatures(items: list[dict[str, Any]]) -> list[str]:
    found = [item.get("encrypted_content") for item in items if item["type"] == "reasoning"]
    return [signature for signature in found if signature]


def text_of(items: list[dict[str, Any]]) -> str:
    contents = [item["content"] for item in items if item["type"] == "message"]
    return "".join(part["text"] for content in contents for part in content)


def notes(recording: Recording) -> list[str]:
    found: list[str] = recording["expect"].get("note", [])
    return found


FORMAT = Format(name="openai_responses", decoder=OpenAiResponsesDecoder, is_terminal=ends_answer)
LAST = LastAnswer(
    name="openai_responses",
    decoder=OpenAiResponsesDecoder,
    is_terminal=ends_answer,
    add_opaque=add_opaque,
    adapt=like_last_event,
    count_citations=count_citations,
)
TestRecorded = recorded_tests(FORMAT, OPENAI_RESPONSES.read_error, whole=LAST)

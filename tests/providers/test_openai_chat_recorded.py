"""Recorded answers of real servers, read as their expected lines say.

The recordings are not part of the project: `../shared/streams`, or `CALLBOARD_STREAMS`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from callboard.providers.openai_chat_decoder import OpenAiChatDecoder
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    OpaquePart,
    RefusalDelta,
    StreamError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("CALLBOARD_STREAMS", ROOT.parent / "shared" / "streams"))
LINES = FOLDER / "expected.jsonl"
RECORDINGS: list[dict[str, Any]] = (
    [
        line
        for line in map(json.loads, LINES.read_text(encoding="utf-8").splitlines())
        if line["file"].startswith("openai_chat/") and line["file"].endswith(".sse")
    ]
    if LINES.exists()
    else []
)

pytestmark = pytest.mark.skipif(
    not RECORDINGS, reason=f"no recordings in {FOLDER}; set CALLBOARD_STREAMS to their folder"
)
each_recording = pytest.mark.parametrize(
    "recording", RECORDINGS, ids=[Path(line["file"]).stem for line in RECORDINGS]
)


def body_of(recording: dict[str, Any]) -> bytes:
    path: Path = FOLDER / recording["file"]
    return path.read_bytes()


def decode(data: bytes, *cuts: int) -> list[AnyStreamEvent]:
    decoder = OpenAiChatDecoder()
    edges = [0, *sorted(cuts), len(data)]
    events: list[AnyStreamEvent] = []
    for start, end in itertools.pairwise(edges):
        events += decoder.feed(data[start:end])
    return events + decoder.finish()


def fold(events: list[AnyStreamEvent]) -> list[dict[str, Any]]:
    """The parts of an answer in the order in which they begin."""
    parts: list[dict[str, Any]] = []
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        match event:
            case TextDelta(text) | ThinkingDelta(text) | RefusalDelta(text):
                kind = {TextDelta: "text", ThinkingDelta: "thinking", RefusalDelta: "refusal"}[
                    type(event)
                ]
                if not parts or parts[-1]["k"] != kind:
                    parts.append({"k": kind, "t": ""})
                parts[-1]["t"] += text
            case ToolCallStart(index, call_id, name):
                calls[index] = {"k": "tool", "id": call_id, "name": name, "args": ""}
                parts.append(calls[index])
            case ToolCallDelta(index, arguments):
                calls[index]["args"] += arguments
            case ToolCallEnd(index):
                calls[index]["args"] = json.loads(calls[index]["args"] or "{}")
            case _:
                pass
    return parts


def shorten(value: Any, limit: int = 80) -> Any:
    """Long strings as the expected lines have them."""
    if isinstance(value, str) and len(value) > limit:
        return {"sha": hashlib.sha256(value.encode()).hexdigest()[:16], "n": len(value)}
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    return value


def shorten_part(part: dict[str, Any]) -> dict[str, Any]:
    short = {key: shorten(value) for key, value in part.items()}
    if part["k"] == "tool":
        text = json.dumps(short["args"], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        short["args"] = shorten(text, 160) if len(text) > 160 else short["args"]
    return short


def length(text: Any) -> int:
    return text["n"] if isinstance(text, dict) else len(text)


def cut_like(parts: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cuts blocks of reasoning where the expected line does.

    Gateways that send `reasoning_details` beside each piece have it as one block a piece there;
    to us one run of reasoning is one block. Same text, same order, and every piece is compared.
    """
    cut: list[dict[str, Any]] = []
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


def check(events: list[AnyStreamEvent], recording: dict[str, Any]) -> None:
    expect = recording["expect"]
    parts = fold(events)
    if "reasoning_details" in recording["expect"].get("note", []):
        parts = cut_like(parts, expect["parts"])
    assert [shorten_part(part) for part in parts] == expect["parts"]
    terminal = events[-1]
    assert sum(isinstance(event, Done | StreamError) for event in events) == 1
    if "error" in expect:
        assert isinstance(terminal, StreamError)
        return
    assert isinstance(terminal, Done)
    assert terminal.detail == expect.get("stop", "")
    usages = [event for event in events if isinstance(event, Usage)]
    if "usage" in expect:
        usage = usages[-1]
        assert expect["usage"] == {
            "in": usage.input_tokens,
            "out": usage.output_tokens,
            "cache_read": usage.cached_tokens,
            "reasoning": usage.reasoning_tokens,
        }
    else:
        assert usages == []
    if "citations" in expect:
        [part] = [e for e in events if isinstance(e, OpaquePart) and e.kind == "annotations"]
        assert len(json.loads(bytes(part.data))) == expect["citations"]


@each_recording
def test_a_recording_is_read_as_expected(recording: dict[str, Any]) -> None:
    check(decode(body_of(recording)), recording)


@each_recording
def test_a_recording_in_pieces_is_read_the_same(recording: dict[str, Any]) -> None:
    body = body_of(recording)
    whole = decode(body)
    chance = random.Random(recording["file"])
    for count in (1, 5, 40, 200):
        assert decode(body, *(chance.randrange(len(body) + 1) for _ in range(count))) == whole
    if len(body) < 20_000:
        assert decode(body, *range(len(body))) == whole


@each_recording
def test_other_line_ends_and_comments_change_nothing(recording: dict[str, Any]) -> None:
    body = body_of(recording)
    whole = decode(body)
    lines = body.splitlines()
    chance = random.Random(recording["file"])
    for end in (b"\r\n", b"\r", b"\n"):
        variant = b"\xef\xbb\xbf" + b"".join(
            line + end + (b": ping" + end + end if not line else b"") for line in lines
        )
        assert decode(variant) == whole
        cuts = [chance.randrange(len(variant) + 1) for _ in range(60)]
        assert decode(variant, *cuts) == whole


def end_of_terminal_event(body: bytes) -> int:
    """Where the data of the first terminal event ends; the whole length when there is none."""
    position = 0
    for line in body.splitlines(keepends=True):
        position += len(line)
        text = line.strip()
        if not text.startswith(b"data:"):
            continue
        data = text[5:].strip()
        if data == b"[DONE]":
            return position - (len(line) - len(line.rstrip()))
        choices = json.loads(data).get("choices") or []
        if any(c.get("finish_reason") and c.get("index", 0) == 0 for c in choices):
            return position - (len(line) - len(line.rstrip()))
    return len(body)


@each_recording
def test_a_recording_cut_short_is_an_error_and_never_an_answer(recording: dict[str, Any]) -> None:
    body = body_of(recording)
    end = end_of_terminal_event(body)
    chance = random.Random(recording["file"])
    edges = [at for at in range(2, end) if body[at - 2 : at] == b"\n\n"]
    chosen = chance.sample(edges, min(len(edges), 15)) + edges[-3:]
    places = [0, 1, end - 1, *chosen, *(chance.randrange(end) for _ in range(25))]
    for place in places:
        events = decode(body[:place])
        assert isinstance(events[-1], StreamError), place
        assert not any(isinstance(event, Done) for event in events)
    if "error" not in recording["expect"]:
        # The control: with the terminal event's data line whole, the answer is whole.
        assert isinstance(decode(body[:end])[-1], Done)

"""Recorded answers of real servers, and what it means to read them right.

The recordings are not part of the project: `../shared/streams`, or `CALLBOARD_STREAMS`. A module of
tests makes one `Format` for its wire format, and a class of tests of it:

    FORMAT = Format("openai_chat", decoder=OpenAiChatDecoder, is_terminal=ends_answer)
    TestRecorded = recorded_tests(FORMAT, OPENAI_CHAT.read_error)
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import random
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.model.stream import with_joined_arguments
from callboard.providers.provider import Decoder
from callboard.runtime.stream import (
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
)
from support.environment import TESTS

FOLDER = Path(os.environ.get("CALLBOARD_STREAMS", TESTS.parent.parent / "shared" / "streams"))

SMALL_BYTES = 20_000
"""Bodies up to here are also fed one byte at a time."""

BOM = b"\xef\xbb\xbf"

Recording = dict[str, Any]
"""A line of `expected.jsonl`."""

AnswerPart = dict[str, Any]
"""A part of an answer as expected lines have it, before long strings are shortened."""


def recordings(name: str, suffix: str) -> list[Recording]:
    """The lines of one wire format and kind of body; none when the folder is not there."""
    if not FOLDER.is_dir():
        return []
    lines = (FOLDER / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        line
        for line in map(json.loads, lines)
        if line["file"].startswith(f"{name}/") and line["file"].endswith(suffix)
    ]


def each(lines: list[Recording]) -> pytest.MarkDecorator:
    """A test of each, as `recording`; one skipped test that says why when there are none."""
    reason = f"no recordings in {FOLDER}; set CALLBOARD_STREAMS to their folder"
    missing = pytest.param({}, marks=pytest.mark.skip(reason), id="none")
    found = [pytest.param(line, id=Path(line["file"]).stem) for line in lines]
    return pytest.mark.parametrize("recording", found or [missing])


def body_of(recording: Recording) -> bytes:
    """The recorded bytes."""
    path: Path = FOLDER / recording["file"]
    return path.read_bytes()


def expected_parts(recording: Recording) -> list[AnswerPart]:
    """The parts of the expected line; an answer may have none."""
    parts: list[AnswerPart] = recording["expect"].get("parts", [])
    return parts


def add_opaque(part: OpaquePart, parts: list[AnswerPart]) -> None:
    """What an opaque part is to an expected line: redacted thinking, or a server's tool."""
    if part.kind == "redacted_thinking":
        parts.append({"k": part.kind, "sig": json.loads(bytes(part.data))["data"]})
    else:
        parts.append({"k": "server", "type": part.kind})


def parse_arguments(text: str) -> Any:
    """Arguments as values; none at all are no arguments."""
    return json.loads(text or "{}")


def unchanged(parts: list[AnswerPart], recording: Recording) -> list[AnswerPart]:
    """The parts as they are: this format has no differences to allow for."""
    return parts


def count_tokens(usage: Usage, body: bytes) -> Mapping[str, int | None]:
    """Usage in the words of expected lines, for formats that count as we do."""
    return {
        "in": usage.input_tokens,
        "out": usage.output_tokens,
        "cache_read": usage.cached_tokens,
        "reasoning": usage.reasoning_tokens,
    }


def no_citations(events: list[AnyStreamEvent]) -> int:
    """This format has none."""
    return 0


def is_terminal_event(event: AnyStreamEvent) -> bool:
    return isinstance(event, Done | StreamError)


@dataclass(frozen=True, kw_only=True)
class Format:
    """One wire format: how its decoder is made, and how its expected lines differ from events.

    Attributes:
        name: Its folder.
        decoder: Makes a decoder.
        is_terminal: Whether the data of an event ends the answer: cut before it, or within it, the
            answer is an error; cut behind it, it is whole.
        add_opaque: Adds to the parts what an opaque part is there. Called in the order of events,
            so it may also change the last part, as a signature does.
        parse_arguments: The value of a call's arguments.
        adapt: Cuts, joins or renames parts where the expected line does so on purpose.
        count_tokens: Usage as expected lines count; gets the body for counts that usage leaves out.
        count_citations: How many citations the events hold.
    """

    name: str
    decoder: Callable[[], Decoder]
    is_terminal: Callable[[bytes], bool]
    add_opaque: Callable[[OpaquePart, list[AnswerPart]], None] = add_opaque
    parse_arguments: Callable[[str], Any] = parse_arguments
    adapt: Callable[[list[AnswerPart], Recording], list[AnswerPart]] = unchanged
    count_tokens: Callable[[Usage, bytes], Mapping[str, int | None]] = count_tokens
    count_citations: Callable[[list[AnyStreamEvent]], int] = no_citations

    @property
    def each_recording(self) -> pytest.MarkDecorator:
        """Parametrises a test by the recorded streams."""
        return each(recordings(self.name, ".sse"))

    @property
    def each_error_answer(self) -> pytest.MarkDecorator:
        """Parametrises a test by the recorded error answers."""
        return each(recordings(self.name, ".json"))

    def decode(self, data: bytes, *cuts: int) -> list[AnyStreamEvent]:
        """The events of a body that arrives cut at these places."""
        edges = [0, *sorted(cuts), len(data)]
        return self.decode_pieces(data[start:end] for start, end in itertools.pairwise(edges))

    def decode_pieces(self, pieces: Iterable[bytes]) -> list[AnyStreamEvent]:
        """The events of a body that arrives in these pieces."""
        decoder = self.decoder()
        events: list[AnyStreamEvent] = []
        for piece in pieces:
            events += decoder.feed(piece)
        # Pieces of a call's arguments that came together may come out as one.
        return with_joined_arguments(events + decoder.finish())

    def check_whole(self, recording: Recording) -> None:
        """The parts, the stop reason, the usage, the error and the citations are as expected."""
        body = body_of(recording)
        events = self.decode(body)
        expect = recording["expect"]
        parts = self.adapt(fold(events, self), recording)
        assert [shorten_part(part) for part in parts] == expected_parts(recording)
        terminal = events[-1]
        assert [event for event in events if is_terminal_event(event)] == [terminal]
        if "error" in expect:
            assert isinstance(terminal, StreamError)
            return
        assert isinstance(terminal, Done)
        assert terminal.detail == expect.get("stop", "")
        usages = [event for event in events if isinstance(event, Usage)]
        assert bool(usages) == ("usage" in expect)
        if usages:
            assert self.count_tokens(usages[-1], body) == expect["usage"]
        assert self.count_citations(events) == expect.get("citations", 0)

    def check_pieces(self, recording: Recording) -> None:
        """Cut anywhere, a body gives the same events; a small one also byte by byte."""
        body = body_of(recording)
        whole = self.decode(body)
        chance = random.Random(recording["file"])
        for count in (1, 5, 40, 200):
            assert self.decode(body, *cuts_of(chance, body, count)) == whole
        if len(body) < SMALL_BYTES:
            assert self.decode(body, *range(len(body))) == whole

    def check_line_ends(self, recording: Recording) -> None:
        """CR, CRLF, a BOM first and comments between events change nothing."""
        body = body_of(recording)
        whole = self.decode(body)
        # Not `splitlines` of the text, which would cut at U+2028 and its like within a value.
        lines = body.splitlines()
        chance = random.Random(recording["file"])
        for end in (b"\r\n", b"\r", b"\n"):
            variant = BOM + b"".join(
                line + end + (b": ping" + end + end if not line else b"") for line in lines
            )
            assert self.decode(variant) == whole
            assert self.decode(variant, *cuts_of(chance, variant, 60)) == whole

    def check_gzip(self, recording: Recording) -> None:
        """A body whose pieces are what an inflater gives out is read the same."""
        body = body_of(recording)
        packed = gzip.compress(body, mtime=0)
        inflater = zlib.decompressobj(wbits=31)
        pieces = [inflater.decompress(packed[at : at + 100]) for at in range(0, len(packed), 100)]
        assert self.decode_pieces([*pieces, inflater.flush()]) == self.decode(body)

    def check_truncations(self, recording: Recording) -> None:
        """Cut before the end of its terminal event it is an error; behind that it is whole."""
        body = body_of(recording)
        end = self.end_of_answer(body)
        chance = random.Random(recording["file"])
        edges = [at for at in range(2, end) if body[at - 2 : at] == b"\n\n"]
        between = chance.sample(edges, min(len(edges), 15)) + edges[-3:]
        for place in [0, 1, end - 1, *between, *(chance.randrange(end) for _ in range(25))]:
            events = self.decode(body[:place])
            assert isinstance(events[-1], StreamError), place
            assert not any(isinstance(event, Done) for event in events), place
        if "error" not in recording["expect"]:
            assert isinstance(self.decode(body[:end])[-1], Done)

    def end_of_answer(self, body: bytes) -> int:
        """Where the data of the first terminal event ends; the length when there is none."""
        position = 0
        for line in body.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            if content.startswith(b"data:") and self.is_terminal(content[5:].strip()):
                return position + len(content.rstrip())
            position += len(line)
        return len(body)


def recorded_tests(
    form: Format,
    read_error: Callable[[int, Mapping[str, str], bytes], StreamError],
    whole: Format | None = None,
) -> type:
    """Return the tests of a wire format; `whole` compares with the expected lines, if another does."""

    class TestRecorded:
        @form.each_recording
        def test_a_recording_is_read_as_expected(self, recording: Recording) -> None:
            (whole or form).check_whole(recording)

        @form.each_recording
        def test_a_recording_in_pieces_is_read_the_same(self, recording: Recording) -> None:
            form.check_pieces(recording)

        @form.each_recording
        def test_other_line_ends_and_comments_change_nothing(self, recording: Recording) -> None:
            form.check_line_ends(recording)

        @form.each_recording
        def test_a_compressed_recording_is_read_the_same(self, recording: Recording) -> None:
            form.check_gzip(recording)

        @form.each_recording
        def test_a_recording_cut_short_is_no_answer(self, recording: Recording) -> None:
            form.check_truncations(recording)

        @form.each_error_answer
        def test_a_recorded_refusal_is_read(self, recording: Recording) -> None:
            check_error_answer(read_error, recording)

    return TestRecorded


def check_error_answer(
    read: Callable[[int, Mapping[str, str], bytes], StreamError], recording: Recording
) -> None:
    """An error answer keeps its status and the provider's own words, and says when to wait."""
    body = body_of(recording)
    error = read(recording["status"], {}, body)
    assert error.status == recording["expect"]["error"]["status"]
    assert error.retryable == (recording["status"] == 429)
    value = json.loads(body)
    value = value[0] if isinstance(value, list) else value
    inner = value.get("error", value) if isinstance(value, dict) else value
    said = inner.get("message") if isinstance(inner, dict) else inner
    if isinstance(said, str):
        start = " ".join(said.split())[:40]
        upstream = isinstance(inner, dict) and "metadata" in inner
        assert start in error.message or upstream
    assert ": " in error.message


def cuts_of(chance: random.Random, body: bytes, count: int) -> list[int]:
    """Places to cut at, some of them within characters and line ends."""
    return [chance.randrange(len(body) + 1) for _ in range(count)]


def fold(events: list[AnyStreamEvent], form: Format) -> list[AnswerPart]:  # ruff: ignore[complex-structure]  one case a kind
    """The parts of an answer in the order in which they begin."""
    parts: list[AnswerPart] = []
    calls: dict[int, AnswerPart] = {}
    thinking: AnswerPart | None = None
    for event in events:
        match event:
            case TextDelta(text):
                _extend(parts, "text", text)
            case RefusalDelta(text):
                _extend(parts, "refusal", text)
            case ThinkingDelta(text):
                if thinking is None:
                    thinking = {"k": "thinking", "t": ""}
                    parts.append(thinking)
                thinking["t"] += text
            case ThinkingEnd(signature):
                if thinking is None:
                    thinking = {"k": "thinking", "t": ""}
                    parts.append(thinking)
                if signature is not None:
                    thinking["sig"] = signature
                thinking = None
            case ToolCallStart(index, call_id, name):
                assert index not in calls
                calls[index] = {"k": "tool", "id": call_id, "name": name, "args": ""}
                parts.append(calls[index])
            case ToolCallDelta(index, arguments):
                calls[index]["args"] += arguments
            case ToolCallEnd(index):
                calls[index]["args"] = form.parse_arguments(calls[index]["args"])
            case OpaquePart():
                form.add_opaque(event, parts)
            case _:
                pass
    return parts


def _extend(parts: list[AnswerPart], kind: str, text: str) -> None:
    """Adds text to the last part, unless that is another kind or is signed as it is."""
    if not parts or parts[-1]["k"] != kind or "sig" in parts[-1]:
        parts.append({"k": kind, "t": ""})
    parts[-1]["t"] += text


def shorten(value: Any, limit: int = 80) -> Any:
    """Long strings as the expected lines have them."""
    if isinstance(value, str) and len(value) > limit:
        return {"sha": hashlib.sha256(value.encode()).hexdigest()[:16], "n": len(value)}
    if isinstance(value, dict):
        return {key: shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shorten(item) for item in value]
    return value


def shorten_part(part: AnswerPart) -> AnswerPart:
    """A part with its long strings, and long arguments as a whole, shortened."""
    short = {key: shorten(value) for key, value in part.items()}
    if part["k"] == "tool":
        text = json.dumps(short["args"], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        short["args"] = shorten(text, 160) if len(text) > 160 else short["args"]
    return short


def length(text: Any) -> int:
    """Of a string in an expected line."""
    return text["n"] if isinstance(text, dict) else len(text)

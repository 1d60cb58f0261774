"""What a hostile answer makes of memory: a small multiple of what came, whatever its shape.

Each answer goes through decoder and answer as a turn's does, in reads of 64 KiB. The factors are
twice what was measured; what they catch are shapes that cost fifty or a thousand times their size.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from callboard.actors.model.answer import MAX_NAME_CHARS, MAX_PARTS, AnswerBuilder
from callboard.providers import lenient_json
from callboard.providers.error_answer import read_error_answer
from callboard.providers.openai_chat.dialect import OPENAI_CHAT
from callboard.providers.sse import SseParser
from callboard.runtime.history import Call
from callboard.runtime.http.connection import READ_BYTES
from callboard.runtime.stream import Done, StreamError

MIB = 1024 * 1024
SLACK_BYTES = 512 * 1024
"""Caches of first calls, and reads in flight."""


def chunk(delta: bytes) -> bytes:
    return b'data: {"choices":[{"delta":' + delta + b"}]}\n\n"


def call(number: int, call_id: bytes = b"c", name: bytes = b"f") -> bytes:
    return b'{"index":%d,"id":"%b","function":{"name":"%b"}}' % (number, call_id, name)


def calls(count: int, call_id: bytes = b"c", name: bytes = b"f") -> bytes:
    return b"".join(
        chunk(b'{"tool_calls":[%b]}' % call(at, call_id + b"%d" % at, name)) for at in range(count)
    )


def repeated(pattern: bytes, size: int) -> bytes:
    return pattern * (size // len(pattern))


ANSWERS: dict[str, tuple[float, Callable[[], bytes]]] = {
    "one line": (8, lambda: b"data: " + b"x" * (8 * MIB)),
    "one text": (6, lambda: chunk(b'{"content":"%b"}' % (b"x" * (8 * MIB)))),
    "one text in utf-8": (6, lambda: chunk(b'{"content":"%b"}' % ("é" * (4 * MIB)).encode())),
    "comments": (20, lambda: repeated(b": ping\n", MIB // 8)),
    "empty data lines": (20, lambda: repeated(b"data\n", MIB // 8)),
    "blank lines": (20, lambda: b"\n" * (MIB // 4)),
    "events of a byte": (3, lambda: b"data:{}\n\n" * 5_000),
    "texts of a byte": (3, lambda: chunk(b'{"content":"x"}') * 4_000),
    "refusals of a byte": (3, lambda: chunk(b'{"refusal":"x"}') * 3_000),
    "arguments of a byte": (
        4,
        lambda: (
            calls(1) + chunk(b'{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}') * 2_000
        ),
    ),
    "text and thinking": (
        8,
        lambda: (chunk(b'{"reasoning":"x"}') + chunk(b'{"content":"x"}')) * 1_500,
    ),
    "nested": (8, lambda: chunk(b"[" * 100_000)),
    "nested and closed": (8, lambda: b"data: " + b"[" * 100_000 + b"]" * 100_000 + b"\n\n"),
    "nested objects": (8, lambda: b'data: {"choices":' + b'{"a":' * 100_000 + b"\n\n"),
    "many digits": (8, lambda: chunk(b'{"content":%b}' % (b"9" * MIB))),
    "many digits of tokens": (
        8,
        lambda: b'data: {"choices":[],"usage":{"prompt_tokens":%b}}\n\n' % (b"9" * MIB),
    ),
    "a million calls": (3, lambda: calls(5_000)),
    "calls in one event": (
        24,
        lambda: chunk(b'{"tool_calls":[' + repeated(b'{"index":1},', MIB // 4) + b'{"index":1}]}'),
    ),
    "long names": (4, lambda: calls(8, name=b"n" * MIB)),
    "long ids": (4, lambda: calls(8, call_id=b"i" * MIB)),
    "empty details": (
        60,
        lambda: chunk(b'{"reasoning_details":[' + repeated(b"{},", 90_000) + b"{}]}"),
    ),
}


def peak_of(use: Callable[[], object]) -> int:
    """The memory that something needs beside what there was, which is not traced."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        use()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def read_whole(data: bytes) -> AnswerBuilder:
    """What a turn makes of an answer."""
    decoder, answer = OPENAI_CHAT.decoder(), AnswerBuilder()
    for at in range(0, len(data), READ_BYTES):
        answer.add(decoder.feed(data[at : at + READ_BYTES]))
    answer.add(decoder.finish())
    answer.parts()
    return answer


@pytest.mark.parametrize("shape", ANSWERS)
def test_an_answer_takes_a_small_multiple_of_its_size(shape: str) -> None:
    factor, make = ANSWERS[shape]
    data = make()
    assert peak_of(lambda: read_whole(data)) < factor * len(data) + SLACK_BYTES


def test_the_measure_sees_what_is_held() -> None:
    """The control: a list of what arrived would be found."""
    assert peak_of(lambda: b"data\n" * (8 * MIB // 5)) > 7 * MIB
    lines = b"data: x\n" * 50_000
    assert peak_of(lambda: [line.partition(b":") for line in lines.splitlines()]) > 8 * len(lines)


def test_a_million_calls_are_given_up_at_the_first_too_many() -> None:
    answer = read_whole(calls(2_000))
    assert answer.error is not None
    assert "1024" in answer.error.message


def test_names_and_ids_are_kept_no_longer_than_they_mean_something() -> None:
    parts = read_whole(calls(3, b"i" * 10_000, b"n" * 10_000)).parts()
    assert [len(part.name) for part in parts if isinstance(part, Call)] == [MAX_NAME_CHARS] * 3


def test_an_answer_of_too_many_parts_is_stopped() -> None:
    turns = chunk(b'{"reasoning":"x"}') + chunk(b'{"content":"x"}')
    most = read_whole(turns * (MAX_PARTS // 2) + chunk(b'{},"finish_reason":"stop"'))
    assert (type(most.done), len(most.parts())) == (Done, MAX_PARTS)
    more = read_whole(turns * (MAX_PARTS // 2) + chunk(b'{"reasoning":"x"}'))
    assert more.error is not None
    assert "parts" in more.error.message


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_an_odd_event_is_read_up_to_its_bound(monkeypatch: pytest.MonkeyPatch, over: int) -> None:
    """Text as a list of parts: the usual decoder refuses it, the lenient one reads it."""
    payload = b'{"choices":[{"delta":{"content":["hello"]}}]}'
    monkeypatch.setattr(lenient_json, "MAX_ODD_BYTES", len(payload) - over)
    [event, *_] = OPENAI_CHAT.decoder().feed(b"data: " + payload + b"\n\n")
    assert isinstance(event, StreamError) is (over > 0)


@pytest.mark.parametrize(
    "body", [b"[" * MIB, b'{"error":' * 100_000, b"[" + b"[]," * 20_000 + b"[]]", b"9" * MIB]
)
def test_an_error_body_takes_a_small_multiple_of_its_size(body: bytes) -> None:
    peak = peak_of(lambda: read_error_answer(500, {}, body))
    assert peak < 60 * min(len(body), 65_536) + 4 * len(body)


@pytest.mark.parametrize("line", [b"data\n", b"data: x\n", b":\n", b"id\n"])
def test_an_event_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr("callboard.providers.sse.MAX_EVENT_BYTES", READ_BYTES // 2)
    parser = SseParser()

    def flood() -> None:
        for _ in range(6):
            parser.feed(line * (READ_BYTES // 4 // len(line)))

    # A read of short lines is split at once; what is kept beyond it is bounded.
    assert peak_of(flood) < MIB
    assert parser.overflowed is line.startswith(b"data")

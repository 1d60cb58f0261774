"""The SSE parser: what is an event, whichever way the bytes arrive."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.providers import sse
from callboard.providers.sse import SseParser


def parse_named(data: bytes, *cuts: int) -> list[tuple[bytes, bytes]]:
    """Names and payloads of a stream that arrives in pieces."""
    parser = SseParser(with_names=True)
    events: list[tuple[bytes, bytes]] = []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        payloads = parser.feed(data[start:end])
        events += zip(parser.names, payloads, strict=True)
    payloads = parser.end()
    return events + list(zip(parser.names, payloads, strict=True))


def parse(data: bytes, *cuts: int) -> list[bytes]:
    """All payloads of a stream that arrives in pieces."""
    parser = SseParser()
    payloads: list[bytes] = []
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        payloads += parser.feed(data[start:end])
    return payloads + parser.end()


SHAPES: dict[str, tuple[bytes, list[bytes]]] = {
    "usual blocks": (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "cr": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "mixed line ends": (b"data: a\n\r\ndata: b\r\n\rdata: c\r\n\n", [b"a", b"b", b"c"]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "bom only once": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "half a bom": (b"\xef\xbbdata: a\n\ndata: b\n\n", [b"b"]),
    "comments": (b": hi\n\ndata: a\n: between\n\n:\n\ndata: b\n\n", [b"a", b"b"]),
    "no space": (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
    "many lines": (b"data: a\ndata: b\ndata\ndata: c\n\n", [b"a\nb\n\nc"]),
    "other fields": (b"event: x\nid: 1\ndata: a\nretry: 5\n\nevent: y\n\n", [b"a"]),
    "empty data": (b"data:\n\ndata: \n\n", [b"", b""]),
    "more blank lines": (b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [b"a", b"b"]),
    "like a field": (b"database: a\n\n data: b\n\nDATA: c\n\n", []),
    "no blank line at the end": (b"data: a\n\ndata: b\n", [b"a", b"b"]),
    "no line end at the end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "nothing": (b"", []),
    "utf-8": ("data: é\n\ndata: 😀\n\n".encode(), ["é".encode(), "😀".encode()]),
    "other separators of str": (b"data: a\x0b\x0c\x1c\x85\n\n", [b"a\x0b\x0c\x1c\x85"]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_event_is_what_the_standard_says_at_every_cut(shape: str) -> None:
    data, payloads = SHAPES[shape]
    assert parse(data) == payloads
    for first in range(len(data) + 1):
        assert parse(data, first) == payloads
        assert parse(data, first, first + 1) == payloads
    assert parse(data, *range(len(data))) == payloads


PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"\n",
        b"\r",
        b"\n\n",
        b"\r\n",
        b": c",
        b"event: e",
        b"x",
        b"{}",
        b"\xef\xbb\xbf",
        b" ",
        b"data: {}\n\n",
        b"\n\ndata: ",
        b"event: e\ndata: {}\n\n",
    ]
)


@given(st.lists(PIECES, max_size=30).map(b"".join), st.data())
def test_any_split_gives_the_same_events(data: bytes, cuts: st.DataObject) -> None:
    places = cuts.draw(st.lists(st.integers(0, len(data)), max_size=8))
    assert parse(data, *places) == parse(data)
    assert parse(data, *range(len(data))) == parse(data)
    named = parse_named(data)
    assert [payload for _, payload in named] == parse(data)
    assert parse_named(data, *places) == named
    assert parse_named(data, *range(len(data))) == named


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_an_event_comes_out_with_the_byte_that_completes_it(data: bytes) -> None:
    whole, pieces = SseParser(), SseParser()
    events = [payload for at in range(len(data)) for payload in pieces.feed(data[at : at + 1])]
    assert whole.feed(data) == events


def test_an_event_without_a_name_comes_out_behind_named_ones() -> None:
    data = b"event: x\ndata: a\n\ndata: b\n\n"
    assert SseParser().feed(data) == [b"a", b"b"]


NAMED: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = {
    "usual blocks": (b"event: x\ndata: a\n\nevent: y\ndata: b\n\n", [(b"x", b"a"), (b"y", b"b")]),
    "no names": (b"data: a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
    "some names": (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
    "a name behind its data": (b"data: a\nevent: x\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
    "a name without data": (b"event: x\n\ndata: a\n\n", [(b"", b"a")]),
    "two names": (b"event: x\nevent: y\ndata: a\n\n", [(b"y", b"a")]),
    "crlf": (b"event: x\r\ndata: a\r\n\r\n", [(b"x", b"a")]),
    "more lines": (b"event: x\nid: 1\ndata: a\ndata: b\n\n", [(b"x", b"a\nb")]),
    "no space": (b"event:x\ndata:a\n\n", [(b"x", b"a")]),
    "no blank line at the end": (b"event: x\ndata: a", [(b"x", b"a")]),
}


@pytest.mark.parametrize("shape", NAMED)
def test_a_name_stays_with_its_event_at_every_cut(shape: str) -> None:
    data, events = NAMED[shape]
    assert parse_named(data) == events
    for first in range(len(data) + 1):
        assert parse_named(data, first) == events
    assert parse_named(data, *range(len(data))) == events


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_are_taken(pieces: list[bytes]) -> None:
    parser = SseParser()
    for piece in pieces:
        parser.feed(piece)
    parser.end()
    assert not parser.overflowed


@given(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b and b"\r" not in b)))
def test_what_is_written_as_blocks_is_read_back(payloads: list[bytes]) -> None:
    assert parse(b"".join(b"data: " + payload + b"\n\n" for payload in payloads)) == payloads


@pytest.mark.parametrize("piece", [1, 7, 64, 10_000])
@pytest.mark.parametrize(
    "data",
    [
        b"data: " + b"x" * 200,
        b": " + b"x" * 200,
        b"data: 12345678\n" * 20,
        b"data: " + b"x" * 200 + b"\n\n",
        b"data: " + b"x" * 200 + b"\r\n\r\n",
    ],
    ids=["line", "comment", "many lines", "block", "crlf"],
)
def test_an_event_over_the_bound_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, data: bytes, piece: int
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    parser = SseParser()
    stream = b"data: first\n\n" + data + b"\n\ndata: after\n\n"
    payloads = [
        payload
        for start in range(0, len(stream), piece)
        for payload in parser.feed(stream[start : start + piece])
    ]
    assert parser.overflowed
    assert payloads == [b"first"]
    assert parser.end() == []


def test_an_event_at_the_bound_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    payload = b"x" * (100 - len(b"data: "))
    stream = b"data: " + payload + b"\n\n"
    assert parse(stream * 3) == [payload] * 3
    assert parse(stream * 3, *range(len(stream) * 3)) == [payload] * 3


ERRORS = [
    b"event: error\ndata: oh\n\n",
    b"event:error\ndata:oh\n\n",
    b"error: oh\n",
    b"error:oh\n\n",
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_error_by_name_ends_the_stream_wherever_it_is_cut(
    error: bytes, named: bool, end: bytes
) -> None:
    before = b"event: a\ndata: 1\n\n" if named else b"data: 1\n\n"
    body = (before * 2 + error + before).replace(b"\n", end)
    for cut in range(len(body)):
        parser = SseParser(with_names=named)
        payloads = parser.feed(body[:cut]) + parser.feed(body[cut:]) + parser.end()
        assert (payloads, parser.error) == ([b"1", b"1"], b"oh")


def test_an_event_or_a_text_that_only_mentions_an_error_does_not() -> None:
    body = b"event: errors\ndata: error: a\n\n: error: b\n\nid: error\ndata: b\n\nerror:\n\n"
    parser = SseParser()
    assert (parser.feed(body), parser.error, parser.stray) == ([b"error: a", b"b"], None, b"")


def test_lines_that_are_no_field_are_kept_up_to_a_bound() -> None:
    parser = SseParser()
    assert parser.feed(b'data: a\n\n{"error":\n "x"}\n\ndat') == [b"a"]
    parser.end()
    assert parser.stray == b'{"error":\n "x"}\n'
    flood = SseParser()
    for _ in range(100):
        flood.feed(b"x: " + b"y" * 1000 + b"\n")
    assert len(flood.stray) == sse.MAX_STRAY_BYTES

"""HTTP/1.1 responses as bytes, with h11 as the judge: the same result, or an error.

Generated streams are valid, odd or hostile. `CALLBOARD_SOAK=1` has 100,000 of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.http.http1 import (
    MAX_CHUNK_LINE_BYTES,
    MAX_HEAD_BYTES,
    MAX_INFORMATIONAL,
    ProtocolError,
    ResponseReader,
    UnexpectedEnd,
)

CASES = 100_000 if os.environ.get("CALLBOARD_SOAK") else 2_000
BLOCKS = 20

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
COUNTED = OK + b"content-length: 2\r\n"


class Result(NamedTuple):
    """What a stream says; `is_reusable` when another request may follow, `surplus` if bytes follow."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    is_reusable: bool
    surplus: bool


def read(pieces: Sequence[bytes], method: str = "POST") -> Result | None:
    """What our reader finds in a connection that brings these pieces and ends; `None` for an error."""
    reader = ResponseReader()
    reader.begin(method)
    head = None
    body: list[bytes] = []
    try:
        for piece in (*pieces, b""):
            if head is not None and reader.is_done and not piece:
                break
            reader.receive(piece)
            if head is None:
                head = reader.read_head()
            if head is not None:
                body.append(reader.read_body())
    except ProtocolError:
        return None
    assert head is not None
    assert reader.is_done
    reusable = reader.keeps_alive and not reader.has_surplus
    # h11 gives a coding in lower case.
    headers = [(n, v.lower() if n == b"transfer-encoding" else v) for n, v in head.headers]
    status, reason, _ = head
    return Result(status, reason, headers, b"".join(body), reusable, reader.has_surplus)


def judge(pieces: Sequence[bytes], method: str = "POST") -> Result | None:
    """What h11 finds in the same."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
    connection.send(h11.Request(method=method, target="/", headers=[("host", "a.test")]))
    connection.send(h11.EndOfMessage())
    head = None
    body: list[bytes] = []
    is_done = False
    try:
        for piece in (*pieces, b""):
            if is_done and not piece:
                break
            connection.receive_data(piece)
            while not is_done and (event := connection.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body.append(bytes(event.data))
                elif not isinstance(event, h11.InformationalResponse):
                    is_done = True
    except h11.RemoteProtocolError:
        return None
    assert head is not None
    surplus = bool(connection.trailing_data[0])
    return Result(
        head.status_code,
        bytes(head.reason),
        [(bytes(name), bytes(value)) for name, value in head.headers],
        b"".join(body),
        connection.their_state is h11.DONE and not surplus,
        surplus,
    )


def check(stream: bytes, cut: Callable[[bytes], list[bytes]], method: str = "POST") -> bool:
    """Judge a stream whole and in pieces; return whether it was read."""
    ours = read([stream], method)
    assert read(cut(stream), method) == ours, (method, stream)
    if ours is None:
        return False
    theirs = judge([stream], method)
    assert theirs is not None, (method, stream)
    # We use a connection less often, after heads that are folded.
    assert ours.is_reusable <= theirs.is_reusable, (method, stream)
    assert ours._replace(is_reusable=False) == theirs._replace(is_reusable=False), (method, stream)
    return True


# ── the generated streams ────────────────────────────────────────────────────────────────────────

STATUS_LINES = [b"HTTP/1.1 200 OK", b"HTTP/1.1 404 Not Found", b"HTTP/1.1 200 ", b"HTTP/1.1 200",
                b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified",
                b"HTTP/1.1 599 \xe9t\xe9\t!"]  # fmt: skip
ODD_STATUS_LINES = [b"HTTP/2.0 200 OK", b"HTTP/1.2 200 OK", b"HTTP/1.1 99 X", b"HTTP/1.1 099 X",
                    b"HTTP/1.1 2000 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 200\tOK", b"http/1.1 200 OK",
                    b"HTTP/1.1 101 Switching", b"HTTP/1.1 100 Continue", b"RTSP/1.0 200 OK",
                    b"HTTP/1.1 200 O\x01K", b"HTTP/1.1 200 O\x00K", b" HTTP/1.1 200 OK", b""]  # fmt: skip
FIELDS = [b"date: Mon, 01 Jan 2024 00:00:00 GMT", b"X-Long: " + b"y" * 300, b"set-cookie: a=b; c",
          b"Set-Cookie:d=e", b"x-empty:", b"x-empty:  ", b"x-tab:\ta\tb\t", b"x-\xc3: no", b"x: \xff\x80",
          b"Connection: keep-alive", b"connection: close", b"Connection: Upgrade, CLOSE", b"x:a:b",
          b"connection:", b"connection: ,\tclose\t,"]  # fmt: skip
ODD_FIELDS = [b" folded", b"\tfolded: too", b"name : value", b"na me: value", b": value", b"nothing", b"",
              b"x: a\rb", b"x: a\nb", b"x: a\x00b", b"x: a\x7fb", b"x\x0b: a", b"x: \x0ba",
              b"(x): a", b"upgrade: websocket"]  # fmt: skip
CODINGS = [
    b"transfer-encoding: chunked",
    b"Transfer-Encoding:CHUNKED",
    b"transfer-encoding: \tchunked ",
]
ODD_CODINGS = [b"transfer-encoding: gzip, chunked", b"transfer-encoding: chunked, gzip", b"te: chunked",
               b"transfer-encoding: identity", b"transfer-encoding: xchunked", b"transfer-encoding:",
               b"transfer-encoding: \x0bchunked", b"transfer-encoding : chunked",
               b"transfer-encoding:\r\n chunked", b"transfer-encoding: chunked\r\n\t, gzip",
               b"transfer-encoding: \"chunked\"", b"transfer-encoding: chunked;q=1"]  # fmt: skip
LENGTHS = [b"%d", b" %d ", b"0%d"]
ODD_LENGTHS = [b"+%d", b"-%d", b"0x%d", b"%d,%d", b"%d, %d", b"%d 1", b"%d.0", b"1%d", b"",
               b"99999999999999999999%d", b"%d;", b"\r\n %d", b"\xb2%d"]  # fmt: skip
SIZES = [b"%x", b"%X", b"0%x", b"000%x", b"%x;a=b", b"%x ", b'%x;a="b;c"']
ODD_SIZES = [b" %x", b"0x%x", b"+%x", b"-%x", b"%x_", b"_%x", b"%xg", b"", b"%x\x00", b"%x;\n", b"%x;\r", b"\t%x",
             b"%x;a\x01", b"000000000000000000000%x", b"fffffffffffffffff%x", b"%x ;a", b"%x\n"]  # fmt: skip
PAYLOADS = [b"x", b"data: hello\n\n", b"data: " + b"y" * 300 + b"\n\n", b"a\r\nb", b"\r\n", b"\n", b"\r",
            b"0\r\n\r\n", b"5\r\nhello\r\n", b"z" * 5000, b"\r\n\r\n"]  # fmt: skip
TRAILERS = [b"x: y", b"expires: 0", b"connection: close", *FIELDS[:3]]
ODD_TRAILERS = [*ODD_FIELDS, b"content-length: 3", b"transfer-encoding: chunked"]
SURPLUS = [b"\r\n", b"\n", b"HTTP/1.1 200 OK\r\n\r\n", b"x"]


class Streams:
    """Makes streams; `odds` is how often a part is odd or hostile."""

    def __init__(self, chance: random.Random, odds: float) -> None:
        self._chance = chance
        self._odds = odds

    def stream(self) -> bytes:
        """One response, perhaps with others before and behind it."""
        parts = [self._head([], b"HTTP/1.1 103 Early Hints") for _ in range(self._few(0.2))]
        payloads = self._chance.choices(PAYLOADS, k=self._chance.randrange(6))
        kind = self._chance.random()
        fields = [self._one(FIELDS, ODD_FIELDS) for _ in range(self._few(0.6))]
        framing: list[bytes] = []
        body = b"".join(payloads)
        if kind < 0.55:
            framing.append(self._one(CODINGS, ODD_CODINGS))
            body = self._chunks(payloads)
        elif kind < 0.85:
            framing.append(b"Content-Length:" + self._length(len(body)))
        while self._is_odd():
            more = (self._one(CODINGS, ODD_CODINGS), b"content-length: " + self._length(len(body)))
            framing.append(self._chance.choice([*more, *framing]))
        fields += framing
        self._chance.shuffle(fields)
        parts += [self._head(fields, self._one(STATUS_LINES, ODD_STATUS_LINES)), body]
        if self._chance.random() < 0.1:
            parts.append(self._chance.choice(SURPLUS))
        return self._broken(b"".join(parts))

    def cut(self, stream: bytes) -> list[bytes]:
        """The stream in pieces: of one byte, of a few, or cut at some places."""
        chance = self._chance
        if chance.random() < 0.2 and len(stream) < 2000:
            return [stream[at : at + 1] for at in range(len(stream))]
        places = sorted(chance.randrange(len(stream) + 1) for _ in range(chance.randrange(1, 9)))
        ends = [*places, len(stream)]
        pieces = [stream[a:b] for a, b in zip([0, *places], ends, strict=True)]
        return [piece for piece in pieces if piece]

    def _head(self, fields: list[bytes], line: bytes) -> bytes:
        end = self._one([b"\r\n"], [b"\n", b"\r", b"\r\r\n", b"\n\r"])
        return end.join([line, *fields, b"", b""]) if self._is_odd() else b"\r\n".join(
            [line, *fields, b"", b""]
        )  # fmt: skip

    def _chunks(self, payloads: list[bytes]) -> bytes:
        parts = []
        for payload in payloads * self._chance.choice([1, 1, 1, 40]):
            size = self._one(SIZES, ODD_SIZES)
            line = size % len(payload) if b"%" in size else size
            parts.append(
                line
                + b"\r\n"
                + payload
                + self._one([b"\r\n"], [b"\n", b"", b"\r", b"XX", b"\r\n\r\n"])
            )
        trailers = [self._one(TRAILERS, ODD_TRAILERS) for _ in range(self._few(0.2))]
        last = self._one([b"0", b"0", b"000", b"0;a"], [b"", b"-0", b"0x0", b"0\n"])
        return b"".join(
            [*parts, last, b"\r\n", *(trailer + b"\r\n" for trailer in trailers), b"\r\n"]
        )

    def _length(self, size: int) -> bytes:
        form = self._one(LENGTHS, ODD_LENGTHS)
        return form.replace(b"%d", b"%d" % size)

    def _broken(self, stream: bytes) -> bytes:
        """The stream as it is, or cut off, or with a few other bytes."""
        chance = self._chance
        if self._is_odd():
            stream = stream[: chance.randrange(len(stream) + 1)]
        while self._is_odd():
            at = chance.randrange(len(stream) + 1)
            new = chance.choice(
                [b"", b"\r", b"\n", b"\r\n", b" ", b"\t", b"\x00", b"0", b":", b"\xff", b";", b","]
            )
            stream = stream[:at] + new + stream[at + chance.randrange(3) :]
        return stream

    def _one(self, usual: Sequence[bytes], odd: Sequence[bytes]) -> bytes:
        return self._chance.choice(odd if self._is_odd() else usual)

    def _few(self, chance: float) -> int:
        count = 0
        while count < 5 and self._chance.random() < chance:
            count += 1
        return count

    def _is_odd(self) -> bool:
        return self._chance.random() < self._odds


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_result_is_that_of_h11_or_an_error(block: int) -> None:
    chance = random.Random(block)
    # From streams in which a part is odd now and then to streams that are hardly HTTP.
    streams = Streams(chance, odds=(0.0, 0.01, 0.04, 0.15)[block % 4])
    read_whole = 0
    for _ in range(CASES // BLOCKS):
        method = chance.choice(["POST", "POST", "GET", "HEAD"])
        read_whole += check(streams.stream(), streams.cut, method)
    if block % 4 < 2:
        assert read_whole > CASES // BLOCKS // 3


def cut_everywhere(stream: bytes) -> list[list[bytes]]:
    return [[stream[:at], stream[at:]] for at in range(1, len(stream))]


@pytest.mark.parametrize(
    "stream",
    [
        COUNTED + b"\r\nok",
        COUNTED + b"\r\nok surplus",
        CHUNKED + b"2\r\nok\r\n3;x=y\r\nb\r\n\r\n0\r\nx: y\r\n\r\n",
        CHUNKED + b"2\r\nok\r\n" * 4 + b"10\r\n0\r\n\r\n5\r\nhello\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + COUNTED + b"\r\nok",
        OK + b"\r\nuntil the end",
        OK + b"x: a\r\n\tb\r\ncontent-length: 2\r\n\r\nok",
        CHUNKED + b"2\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-le",
    ],
)  # fmt: skip
def test_a_stream_is_the_same_wherever_it_is_cut(stream: bytes) -> None:
    whole = read([stream])
    assert whole is None or judge([stream]) is not None
    for pieces in [*cut_everywhere(stream), [stream[at : at + 1] for at in range(len(stream))]]:
        assert read(pieces) == whole


SHAPES: list[tuple[str, bytes, bytes | None, bool | None]] = [
    # What it is; the stream; the body that is read or None for an error; the same of h11, reusable
    ("length beside a coding", OK + b"content-length: 4\r\n" + CHUNKED[17:] + b"5\r\nhello\r\n0\r\n\r\n", None, None),
    ("coding beside a length", CHUNKED[:-2] + b"content-length: 4\r\n\r\n5\r\nhello\r\n0\r\n\r\n", None, None),
    ("the same length twice", COUNTED + b"content-length: 2\r\n\r\nok", None, None),
    ("two lengths", COUNTED + b"content-length: 3\r\n\r\nokk", None, None),
    ("a list of lengths", OK + b"content-length: 2, 2\r\n\r\nok", None, None),
    ("a length with a sign", OK + b"content-length: +2\r\n\r\nok", None, None),
    ("a coding before chunked", OK + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", None, None),
    ("a coding behind chunked", OK + b"transfer-encoding: chunked, gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n", None, None),
    ("chunked twice", CHUNKED[:-2] + CHUNKED[17:] + b"2\r\nok\r\n0\r\n\r\n", None, None),
    ("an unknown coding", OK + b"transfer-encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", None, None),
    ("a space before the colon", OK + b"transfer-encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", None, None),
    ("a vertical tab", OK + b"transfer-encoding: \x0bchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", None, None),
    ("a folded field", OK + b"x: a\r\n b\r\ncontent-length: 2\r\n\r\nok", b"ok", False),
    ("a folded coding", OK + b"transfer-encoding:\r\n chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok", False),
    ("a fold without a field", OK + b" x: a\r\ncontent-length: 2\r\n\r\nok", None, None),
    ("bare LF", b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", None, None),
    ("LF among CRLF", OK + b"x: y\ncontent-length: 2\r\n\r\nok", None, None),
    ("bare CR", OK + b"x: a\rb\r\ncontent-length: 2\r\n\r\nok", None, None),
    ("NUL", OK + b"x: a\0b\r\ncontent-length: 2\r\n\r\nok", None, None),
    ("a chunk extension", CHUNKED + b"2;a=b\r\nok\r\n0\r\n\r\n", b"ok", True),
    ("LF in a chunk extension", CHUNKED + b"2;a\nb\r\nok\r\n0\r\n\r\n", None, None),
    ("CR in a chunk extension", CHUNKED + b"2;a\rb\r\nok\r\n0\r\n\r\n", None, None),
    ("LF behind a size", CHUNKED + b"2\nok\r\n0\r\n\r\n", None, None),
    ("LF behind a chunk", CHUNKED + b"2\r\nok\n0\r\n\r\n", None, None),
    ("more than the size says", CHUNKED + b"2\r\nokXX0\r\n\r\n", None, None),
    ("spaces behind a size", CHUNKED + b"2  \r\nok\r\n0\r\n\r\n", b"ok", True),
    ("0x before a size", CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n", None, None),
    ("an underscore in a size", CHUNKED + b"0_2\r\nok\r\n0\r\n\r\n", None, None),
    ("trailers", CHUNKED + b"2\r\nok\r\n0\r\nx: y\r\n\r\n", b"ok", True),
    ("a length in trailers", CHUNKED + b"2\r\nok\r\n0\r\ncontent-length: 9\r\n\r\n", None, None),
    ("trailers with bare LF", CHUNKED + b"2\r\nok\r\n0\r\nx: y\n\n", None, None),
    ("a switch of protocols", b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n" + COUNTED + b"\r\nok", None, None),
    ("a length before the response", b"HTTP/1.1 103 X\r\ncontent-length: 5\r\n\r\n" + COUNTED + b"\r\nok", None, None),
    ("no body with a length", b"HTTP/1.1 204 No\r\ncontent-length: 2\r\n\r\n", b"", True),
    ("no body, and a body", b"HTTP/1.1 204 No\r\ncontent-length: 2\r\n\r\nok", b"", False),
    ("chunks of HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + CHUNKED[17:] + b"2\r\nok\r\n0\r\n\r\n", b"ok", False),
    ("another version", b"HTTP/2.0 200 OK\r\ncontent-length: 2\r\n\r\nok", None, None),
    ("an empty line first", b"\r\n" + COUNTED + b"\r\nok", None, None),
    ("no length", OK + b"\r\nok", b"ok", False),
    ("close", COUNTED + b"connection: x, Close\r\n\r\nok", b"ok", False),
    ("another response behind", COUNTED + b"\r\nok" + COUNTED + b"\r\nok", b"ok", False),
    ("a line end behind", COUNTED + b"\r\nok\r\n", b"ok", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("stream", "body", "is_reusable"), [shape[1:] for shape in SHAPES], ids=[s[0] for s in SHAPES]
)
def test_a_shape_is_read_or_refused(
    stream: bytes, body: bytes | None, is_reusable: bool | None
) -> None:
    result = read([stream])
    assert (result and result.body) == body
    assert (result and result.is_reusable) == is_reusable
    check(stream, lambda it: [it[at : at + 1] for at in range(len(it))])


def test_chunks_of_a_known_size_are_checked_like_the_first() -> None:
    """The third chunk begins as the second did, and is shorter, longer, or not the last of its bytes."""
    good = b"3\r\nabc\r\n" * 3
    assert read([CHUNKED + good + b"0\r\n\r\n"]) == judge([CHUNKED + good + b"0\r\n\r\n"])
    for third in (b"3\r\nabcd\r\n", b"3\r\nab\r\n", b"3\r\nabc\n", b"3\r\nabc\rX", b"3\r\nabc"):
        assert read([CHUNKED + b"3\r\nabc\r\n" * 2 + third + b"0\r\n\r\n"]) is None


def test_what_a_connection_remembers_of_chunks_is_bounded() -> None:
    reader = ResponseReader()
    for _ in range(2):
        reader.begin("POST")
        reader.receive(CHUNKED)
        assert reader.read_head() is not None
        for size in range(1, 2000):
            reader.receive(b"1\r\na\r\n%x\r\n%b\r\n" % (size, b"x" * size))
            assert len(reader.read_body()) == size + 1
        reader.receive(b"0\r\n\r\n")
        assert reader.read_body() == b""
        assert reader.is_done
        assert len(reader._known) <= 256


@pytest.mark.parametrize(
    "stream",
    [
        OK + b"x: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
        OK + b"x: y\r\n" * MAX_HEAD_BYTES,
        CHUNKED + b"0\r\nx: " + b"y" * MAX_HEAD_BYTES + b"\r\n\r\n",
        CHUNKED + b"1;" + b"y" * 2 * MAX_CHUNK_LINE_BYTES,
        CHUNKED + b"0" * 17 + b"\r\n",
        OK + b"content-length: 1000000000000000000\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * (MAX_INFORMATIONAL + 1) + COUNTED + b"\r\nok",
    ],
)
def test_what_is_too_large_is_refused(stream: bytes) -> None:
    assert read([stream]) is None
    assert read([stream[at : at + 999] for at in range(0, len(stream), 999)]) is None


@pytest.mark.parametrize(
    "start", [b"<html>", b"\x16\x03\x01", b"HTTP/2", b"HTTP/1.1 200 OK\nx: y\n"]
)
def test_what_can_not_become_a_head_is_refused_before_it_ends(start: bytes) -> None:
    reader = ResponseReader()
    reader.receive(start)
    with pytest.raises(ProtocolError):
        reader.read_head()


def test_an_end_in_the_middle_is_told_from_nonsense() -> None:
    for stream in (
        b"",
        OK,
        COUNTED + b"\r\no",
        CHUNKED + b"2\r\nok\r\n",
        CHUNKED + b"0\r\nx: y\r\n",
    ):
        reader = ResponseReader()
        reader.begin("POST")
        reader.receive(stream)
        reader.receive(b"")
        with pytest.raises(UnexpectedEnd):
            assert reader.read_head() is not None and reader.read_body() is not None  # ruff: ignore[pytest-composite-assertion]


def test_a_response_to_head_has_no_body() -> None:
    for stream in (COUNTED + b"\r\n", CHUNKED, OK + b"\r\n"):
        assert read([stream], "HEAD") == judge([stream], "HEAD")
        result = read([stream], "HEAD")
        assert result is not None
        assert (result.body, result.is_reusable) == (b"", True)


def test_one_response_after_another_is_read_on_one_connection() -> None:
    reader = ResponseReader()
    for number in range(3):
        reader.begin("POST")
        reader.receive(COUNTED + b"x-number: %d\r\n\r\nok" % number)
        head = reader.read_head()
        assert head is not None
        assert head.headers[-1] == (b"x-number", b"%d" % number)
        assert reader.read_body() == b"ok"
        assert reader.is_done
        assert reader.keeps_alive
        assert not reader.has_surplus


@given(st.binary(max_size=200), st.integers(1, 200))
def test_any_bytes_are_a_response_or_a_protocol_error(data: bytes, size: int) -> None:
    for stream in (data, OK + data, CHUNKED + data):
        check(stream, lambda it: [it[at : at + size] for at in range(0, len(it), size)])

"""Answers that are too much: bombs, endless ones, drips; and small honest ones of each kind."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import trio

from support.web.web_server import Answer

DEADLINE_SECONDS = 1.0

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
HONEST = ("/", "/bye", "/gzip", "/deflate", "/chunked", "/unsized")
"""Of the answers of `bodies` and the server of the scenes."""


def bomb(wbits: int = zlib.MAX_WBITS | 16) -> bytes:
    """About 1 MB that decompresses to 1 GiB (and has no end)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    start = packer.compress(b"")
    # Each flush makes what follows independent of what came before: so it can be repeated.
    zeros = packer.compress(b"\0" * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + zeros * 1024


def encoded(body: bytes, *encodings: str) -> bytes:
    """An answer with a `content-encoding` header for each."""
    lines = "".join(f"content-encoding: {encoding}\r\n" for encoding in encodings)
    head = HEAD + f"content-length: {len(body)}\r\n{lines}\r\n".encode()
    return head + body


def endless(start: bytes, piece: bytes) -> Answer:
    async def answer(stream: Any) -> None:
        await stream.send_all(start)
        while True:
            await stream.send_all(piece)

    return answer


def dripping(start: bytes, piece: bytes, times: int | None = None) -> Answer:
    async def answer(stream: Any) -> None:
        await stream.send_all(start)
        while times is None:
            await stream.send_all(piece)
            await trio.sleep(0.02)
        for _ in range(times):
            await stream.send_all(piece)
            await trio.sleep(0.02)

    return answer


def bodies() -> dict[str, Answer]:
    """For a bound on bytes and memory."""
    inner = bomb()
    nested = gzip.compress(inner)
    assert len(nested) < 10_000
    assert len(inner) < 1_200_000
    return {
        # Honest ones.
        "/gzip": encoded(gzip.compress(b"fine"), "gzip"),
        "/deflate": encoded(zlib.compress(b"fine"), "deflate"),
        "/chunked": CHUNKED + b"4\r\nfine\r\n0\r\n\r\n",
        "/unsized": dripping(HEAD + b"\r\n", b"fine", 1),
        # Bombs.
        "/gzip_bomb": encoded(inner, "gzip"),
        "/deflate_bomb": encoded(bomb(zlib.MAX_WBITS), "deflate"),
        "/nested_bomb": encoded(nested, "gzip, gzip"),
        "/nested_bomb_in_two_lines": encoded(nested, "gzip", "gzip"),
        "/half_told_bomb": encoded(nested, "gzip"),
        "/brotli": encoded(b"\x0b\x02\x80fine\x03", "br"),
        # Without end.
        "/endless": endless(HEAD + b"\r\n", b"x" * 65536),
        "/endless_chunks": endless(CHUNKED, b"8000\r\n" + b"x" * 0x8000 + b"\r\n"),
        "/endless_of_a_size": endless(HEAD + b"content-length: 5000000000\r\n\r\n", b"x" * 65536),
        "/endless_nothing": endless(
            HEAD + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10],
            b"\x00\x00\x00\xff\xff" * 10_000,
        ),
        "/endless_after_the_end": endless(
            HEAD + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"fine"), b"x" * 65536
        ),
        "/endless_head": endless(HEAD + b"x-a: ", b"x" * 65536),
        "/endless_headers": endless(HEAD, b"x-a: b\r\n" * 1000),
        "/endless_chunk_line": endless(CHUNKED + b"4;a=", b"x" * 65536),
        "/endless_trailers": endless(CHUNKED + b"0\r\n", b"x-a: b\r\n" * 1000),
    }


def drips() -> dict[str, Answer]:
    """For a bound on time: each read is quick."""
    return {
        "/slow": dripping(HEAD + b"content-length: 8\r\n\r\n", b"fi", 4),
        "/drip": dripping(HEAD + b"\r\n", b"x"),
        "/drip_of_a_head": dripping(b"HTTP/1.1 200 OK\r\nx-a: ", b"x"),
        "/drip_of_chunks": dripping(CHUNKED, b"1\r\nx\r\n"),
        "/drip_of_nothing": dripping(
            HEAD + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"")[:10],
            b"\x00\x00\x00\xff\xff",
        ),
        "/drip_of_promises": dripping(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        "/silent": dripping(b"", b""),
    }

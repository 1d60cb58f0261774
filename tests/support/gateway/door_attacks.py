"""Shapes of bad requests, with the answer of the door to each; and the routes that take a body."""

from __future__ import annotations

from typing import Any

import msgspec

from support.gateway.door_scene import chunked

KIB = 1024
MAX_BODY = 64 * KIB
ACCEPT = "application/json, text/event-stream"

TARGETS: dict[str, bytes] = {
    "/v1/chat/completions": msgspec.json.encode(
        {"model": "general", "messages": [{"role": "user", "content": "Hello."}]}
    ),
    "/v1/responses": msgspec.json.encode({"model": "general", "input": "Hello."}),
    "/ag-ui/general": msgspec.json.encode(
        {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "1", "role": "user", "content": "Hello."}],
        }
    ),
    "/mcp": msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
    ),
}
"""The routes that take a body, with one that is right."""

SMUGGLED = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"

HEADS: tuple[tuple[list[str], int], ...] = (
    (["content-length: 2", "content-length: 2"], 400),
    (["content-length: 2", "Content-Length: 40"], 400),
    (["content-length: 2, 2"], 400),
    (["content-length: +2"], 400),
    (["content-length : 2"], 400),
    (["content-length: 2", "transfer-encoding: chunked"], 400),
    (["transfer-encoding: chunked", "content-length: 2"], 400),
    (["transfer-encoding: xchunked"], 501),
    (["transfer-encoding: gzip, chunked"], 501),
    (["transfer-encoding: chunked", "transfer-encoding: identity"], 501),
    (["transfer-encoding:\x0bchunked"], 400),
    (["content-length: 2", "x: 1", " folded: 1"], 400),
    (["content-length: 2\nx: 1"], 400),
    (["content-length: 2", "content-encoding: gzip"], 415),
    (["content-length: 2", "expect: a surprise"], 417),
    ([f"content-length: {24 * KIB * KIB}"], 413),
    (["content-length: 2", f"x: {'x' * 20 * KIB}"], 431),
    (["content-length: 2", *["x: 1"] * 200], 431),
)
"""Lines of a head about its body, and the answer."""

CHUNKS: tuple[tuple[bytes, int], ...] = (
    (b"0x2\r\n{}\r\n0\r\n\r\n", 400),
    (b"+2\r\n{}\r\n0\r\n\r\n", 400),
    (b"-2\r\n{}\r\n0\r\n\r\n", 400),
    (b"2 2\r\n{}\r\n0\r\n\r\n", 400),
    (b"2\r\n{}x\r\n0\r\n\r\n", 400),
    (b"fffffffffffffffffffff\r\n{}\r\n0\r\n\r\n", 400),
    (b"2;" + b"x" * 200 * KIB + b"\r\n{}\r\n0\r\n\r\n", 431),
    (chunked(*[b"1"] * 100), 400),
    (chunked(b" " * MAX_BODY, b"{}"), 413),
)
"""Bodies in chunks, and the answer."""

CHANGES: tuple[tuple[dict[str, Any], int], ...] = (
    ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ({"content_type": "multipart/form-data; boundary=x"}, 415),
    ({"content_type": "text/plain"}, 415),
    ({"content_type": "text/plain; application/json"}, 415),
    ({"content_type": None}, 415),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"sec_fetch_site": "cross-site"}, 403),
    ({"host": "evil.example"}, 421),
    ({"host": "127.0.0.1:1"}, 421),
    ({"host": "127.0.0.1.evil.example"}, 421),
    ({"host": None}, 400),
    ({"authorization": None}, 401),
    ({"authorization": "Bearer cb_wrong"}, 401),
    ({"x_api_key": "cb_another"}, 401),
)
"""Headers of forms, of foreign pages, of names that were bent to this machine, and of no token; and the answer."""

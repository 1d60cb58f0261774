"""The clients of `gateway.py`, in a process of their own: raw bytes, and nothing of callboard.

`python benchmarks/door/readers.py JSON`, with the arguments of `read_all` in a list.
"""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

import trio

STAMP = re.compile(rb"@(\d+)@")


async def read_all(port: int, token: str, count: int, subscribe: dict[str, Any], end: str) -> None:
    """Opens so many websockets, says `ready`, and tells when each has read the end."""
    stamps: list[float] = []
    opened = trio.CapacityLimiter(64)
    left, is_ready, started = count, trio.Event(), 0.0

    async def one() -> None:
        nonlocal left, started
        async with opened:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(_handshake(port, token))
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some()
            if b" 101 " not in head:
                raise SystemExit(head.decode())
            if token:
                hello = {"protocol": {"min": 1, "max": 1}}
                await stream.send_all(_request("initialize", hello))
                await stream.receive_some()
        left -= 1
        if not left:
            started = time.perf_counter()
            print("ready", flush=True)
            is_ready.set()
        await is_ready.wait()
        if subscribe:
            await stream.send_all(_request("session/subscribe", subscribe))
        tail, latest = b"", 0
        while data := bytes(await stream.receive_some(1 << 16)):
            now = time.monotonic_ns()
            for stamp in map(int, STAMP.findall(data)):
                if stamp > latest:  # the whole message comes once more at the end
                    latest = stamp
                    stamps.append((now - stamp) / 1e6)
            if end.encode() in tail + data:
                return
            tail = data[-len(end) :]
        raise SystemExit(f"cut off behind {tail!r}")

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one)
    print(json.dumps([stamps, time.perf_counter() - started]), flush=True)


def _handshake(port: int, token: str) -> bytes:
    lines = [
        "GET /ws HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: c2l4dGVlbiBieXRlcy4uLg==",
        f"Authorization: Bearer {token}", "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode()


def _request(method: str, params: dict[str, Any]) -> bytes:
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    text = text.ljust(126)  # so that the length of the frame has two bytes
    return bytes((0x81, 0x80 | 126)) + len(text).to_bytes(2) + bytes(4) + text


if __name__ == "__main__":
    trio.run(read_all, *json.loads(sys.argv[1]))

"""Before recovery is done the daemon is alive and not ready, and then it is."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import trio

import callboard
from callboard.config.sections import ServerSettings
from callboard.gateway.door.not_ready import MAX_WAITING, answer_not_ready
from callboard.gateway.gateway import listen, open_gateway


async def asked(port: int, path: str, host: str | None = None) -> tuple[int, str]:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        name = host or f"127.0.0.1:{port}"
        await stream.send_all(
            f"GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b""
        async for data in stream:
            answer += data
    head, _, body = answer.decode().partition("\r\n\r\n")
    return int(head.split(" ")[1]), body.strip()


async def test_it_is_ready_when_the_runtime_is(tmp_path: Path) -> None:
    settings = ServerSettings(port=0)
    listeners = await listen(settings)
    port = listeners[0].socket.getsockname()[1]
    async with answer_not_ready(listeners, settings) as let_in:
        assert await asked(port, "/healthz") == (200, "ok")
        status, words = await asked(port, "/readyz")
        assert (status, words.partition(":")[0]) == (503, "starting")
        assert (await asked(port, "/ws"))[0] == 503
        assert (await asked(port, "/healthz", host="evil.example"))[0] == 421
        async with callboard.open_runtime(model="rehearsal") as runtime:
            await let_in()
            async with open_gateway(runtime, settings, tmp_path, listeners=listeners) as gateway:
                assert gateway.port == port
                assert await asked(port, "/readyz") == (200, "ready")
                gateway.announce_end()
                assert await asked(port, "/readyz") == (503, "stopping")


async def test_a_start_that_fails_frees_the_port() -> None:
    settings = ServerSettings(port=0)
    listeners = await listen(settings)
    port = listeners[0].socket.getsockname()[1]
    try:
        async with answer_not_ready(listeners, settings):
            raise KeyError("the runtime")
    except KeyError:
        pass
    again = await listen(ServerSettings(port=port))
    for listener in again:
        await listener.aclose()


async def test_connections_that_say_nothing_keep_nobody_out_while_it_starts() -> None:
    settings = ServerSettings(port=0, head_seconds=60)
    listeners = await listen(settings)
    port = listeners[0].socket.getsockname()[1]
    async with answer_not_ready(listeners, settings), AsyncExitStack() as idle:
        for _ in range(MAX_WAITING + 20):
            await idle.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
        assert await asked(port, "/healthz") == (200, "ok")

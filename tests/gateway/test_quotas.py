"""No token can use up what all need: memory, connections, uploads, the way to /healthz."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

import callboard
from callboard.config.sections import ServerSettings
from callboard.gateway.quotas import OWN_BYTES, Holding, Quota, Quotas
from callboard.runtime.wire.fields import Role
from support.gateway.configured_daemon import served
from support.gateway.daemon_scene import Daemon, open_client, open_daemon, open_raw
from support.gateway.raw_door import (
    answer_to,
    are_left,
    close_code,
    frame,
    handshake,
    head_of,
    open_frames,
    open_stream,
    read_end,
    upgrade,
)
from support.waits import until

KIB = 1024
LARGE = 256 * KIB
SETTINGS = ServerSettings(
    port=0,
    max_frame_bytes=LARGE,
    max_outbox_bytes=LARGE,
    max_buffered_bytes=1024 * KIB,
    send_seconds=600,  # no message is too slow, on however busy a machine
)
PART = SETTINGS.max_buffered_bytes // 2
READ = 8 * KIB
"""What one read may bring beyond a bound, and what it costs beside."""


def request(method: str, size: int = 0, **params: object) -> bytes:
    asked = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    return frame(msgspec.json.encode(asked).ljust(size))


HELLO = request("initialize", protocol={"min": 1, "max": 1})
STATUS = request("runtime/status")
LARGE_STATUS = request("runtime/status", LARGE)


async def greeted(daemon: Daemon, stack: AsyncExitStack, token: str = "") -> trio.SocketStream:
    stream = await stack.enter_async_context(open_frames(daemon, token))
    await stream.send_all(HELLO)
    assert b'"initialize"' in await stream.receive_some()
    return stream


def quotas(daemon: Daemon) -> Quotas:
    return daemon.gateway.daemon.quotas


# ── memory ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tokens", [1, 4])
async def test_case_41_unfinished_messages_hold_a_bounded_part_of_memory(tokens: int) -> None:
    async with open_daemon(settings=SETTINGS) as daemon, AsyncExitStack() as stack:
        names = [daemon.new_token(f"observer{each}", Role.OBSERVER) for each in range(tokens)]
        bound = PART if tokens == 1 else 2 * PART
        held = [await greeted(daemon, stack, names[each % tokens]) for each in range(12)]
        for stream in held:
            await stream.send_all(LARGE_STATUS[: LARGE - KIB])  # 3 MiB in all
            assert quotas(daemon).size <= bound + READ
        await until(lambda: quotas(daemon).size <= bound)
        await until(lambda: len(daemon.gateway.daemon.connections) < 12)
        # Ordinary requests of the same token, and large ones of others, have room.
        for token, sent in ((names[0], STATUS), ("", LARGE_STATUS)):
            stream = await greeted(daemon, stack, token)
            await stream.send_all(sent)
            assert b'"result"' in await stream.receive_some()
        codes: list[int | None] = []

        async def end(stream: trio.SocketStream) -> None:
            codes.append(close_code(await read_end(stream)))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for stream in held:
                nursery.start_soon(end, stream)
        assert codes[0] == 1013  # who gave way was told so


async def test_memory_is_given_back_with_the_request_and_with_the_connection() -> None:
    async with open_daemon(settings=SETTINGS) as daemon:
        async with AsyncExitStack() as stack:
            stream = await greeted(daemon, stack)
            for _ in range(3):
                await stream.send_all(LARGE_STATUS)
                assert b'"result"' in await stream.receive_some()
                assert quotas(daemon).size == 0
            await stream.send_all(LARGE_STATUS[: LARGE - KIB])
            await until(lambda: quotas(daemon).size > OWN_BYTES)
        await until(lambda: quotas(daemon).size == 0)


async def test_large_requests_one_after_the_other_wait_for_their_turn() -> None:
    async with open_daemon(settings=SETTINGS) as daemon, AsyncExitStack() as stack:
        stream = await greeted(daemon, stack)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, LARGE_STATUS * 12)  # six times its token's part
            received = b""
            while received.count(b'"result"') < 12:
                received += await stream.receive_some()


async def test_a_message_that_is_begun_goes_on_or_ends_its_connection() -> None:
    settings = msgspec.structs.replace(SETTINGS, send_seconds=0.2)
    async with open_daemon(settings=settings) as daemon, AsyncExitStack() as stack:
        idle = await greeted(daemon, stack)
        for sent in (STATUS[:1], STATUS[:20], LARGE_STATUS[: LARGE - KIB], frame(b"", 9)[:3]):
            stream = await greeted(daemon, stack)
            await stream.send_all(sent)
            assert close_code(await read_end(stream)) == 1008
        await idle.send_all(STATUS)  # it has said nothing for longer
        assert b'"result"' in await idle.receive_some()


async def test_case_41_answers_that_nobody_reads_hold_a_bounded_part_of_memory() -> None:
    model = callboard.ScriptedModel([callboard.reply("x" * 30_000) for _ in range(6)])
    async with open_daemon(model, settings=SETTINGS) as daemon, AsyncExitStack() as stack:
        session = await daemon.runtime.create_session()
        for _ in range(6):
            await session.run("Go on.")
        observer = daemon.new_token("observer", Role.OBSERVER)
        asked = request("session/messages", session_id=session.session_id, limit=1000)
        deaf = [await greeted(daemon, stack, observer) for _ in range(15)]
        connections = list(daemon.gateway.daemon.connections)
        is_over = trio.Event()
        for connection in connections:
            send = connection._stream.send_all  # type: ignore[attr-defined]

            async def send_late(
                data: bytes, send: Callable[[bytes], Awaitable[None]] = send
            ) -> None:
                await is_over.wait()
                await send(data)

            connection._stream.send_all = send_late  # type: ignore[attr-defined]
        async with open_client(daemon) as other:
            for stream in deaf:
                await stream.send_all(asked)
                await other.session(session.session_id)
                assert quotas(daemon).size <= PART
            await until(lambda: sum(each._ended.is_set() for each in connections))  # type: ignore[attr-defined]
            assert not all(each._ended.is_set() for each in connections)  # type: ignore[attr-defined]
            assert await other.messages(session.session_id, limit=1000)
            is_over.set()
        heard = await greeted(daemon, stack, observer)
        await heard.send_all(asked)
        assert len(await heard.receive_some(KIB)) > 0


async def test_who_holds_most_gives_way_and_longest_first(
    mock_clock: trio.testing.MockClock,
) -> None:
    all_quotas = Quotas(SETTINGS)
    gone: list[str] = []

    def holding(quota: Quota, name: str, size: int) -> Holding:
        held = Holding(quota, lambda: gone.append(name))
        held.begin()
        held.set(size + OWN_BYTES)
        mock_clock.jump(1.0)
        return held

    one, two, three = (Quota(all_quotas, is_local=False) for _ in range(3))
    all_quotas._quotas.update({"1": one, "2": two, "3": three})
    local = Quota(all_quotas, is_local=True)
    holding(one, "one", PART)
    holding(two, "two", PART - KIB)
    mine = holding(local, "local", PART)
    assert not mine.is_over  # which is beside all others
    late = holding(three, "three", 10 * KIB)
    assert late.is_over
    assert late.make_room()
    assert gone == ["one"]
    assert not late.is_over
    more = holding(two, "more", 10 * KIB)
    assert more.is_over  # more than its part, though there is room
    assert more.make_room()
    assert gone == ["one", "two"]
    assert all_quotas.size == 20 * KIB


# ── connections ──────────────────────────────────────────────────────────────────────────────────


async def test_a_token_has_so_many_connections(tmp_path: Path) -> None:
    async with served(tmp_path) as (daemon, local):
        few = ServerSettings(port=0, max_token_connections=2)
        daemon.gateway.daemon.take_settings(few)
        observer = daemon.new_token("observer", Role.OBSERVER)
        bearer = f"Bearer {observer}"
        async with open_raw(daemon, observer), open_raw(daemon, observer) as second:
            refused = await answer_to(daemon, head_of(handshake(daemon, authorization=bearer)))
            assert refused.status == 503
            assert "max_token_connections" in refused.body
            assert await upgrade(daemon) == 101
            async with open_client(daemon, local) as own:
                await second.socket.aclose()
                await are_left(own, 2)
        assert await upgrade(daemon, authorization=bearer) == 101


async def test_case_41_a_full_address_answers_health_checks_and_its_own_users_commands(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (daemon, local), AsyncExitStack() as stack:
        few = ServerSettings(port=0, max_peer_connections=3, head_seconds=60)
        daemon.gateway.daemon.take_settings(few)
        observer = daemon.new_token("observer", Role.OBSERVER)
        for _ in range(3):
            await stack.enter_async_context(open_raw(daemon, observer))
        for _ in range(100):  # who says nothing keeps nobody out of the places that are left
            await stack.enter_async_context(open_stream(daemon))
        host = [("host", f"127.0.0.1:{daemon.gateway.port}")]
        for path in ("/healthz", "/readyz"):
            assert (await answer_to(daemon, head_of(host, path))).status == 200
        assert await upgrade(daemon) == 503
        own = await stack.enter_async_context(open_client(daemon, local))
        for _ in range(100):
            await stack.enter_async_context(open_stream(daemon))
        assert (await own.status()).connections == 4


async def test_slow_requests_of_a_token_are_bounded_over_all_its_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callboard.gateway.connection.connection.MAX_TOKEN_REQUESTS", 0)
    async with open_daemon() as daemon, open_raw(daemon) as raw:
        await raw.hello()
        error = (await raw.call("session/search", query="x"))["error"]
        assert error["data"]["type"] == "overloaded"
        monkeypatch.undo()
        assert "result" in await raw.call("session/search", query="x")

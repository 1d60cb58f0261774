"""The protocol as a client speaks it that shares no code with us: the `websockets` library, in a thread."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import trio
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

import callboard
from callboard.config.sections import ServerSettings
from callboard.runtime.wire.topics import Snapshot, Update
from support.gateway.daemon_scene import Daemon, View, open_client, open_daemon
from support.gateway.raw_door import frame

PATIENCE = 10.0


class Foreign:
    """A client in a thread of its own."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[dict[str, Any]] = []
        self._last_id = 0

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last_id += 1
        self.socket.send(
            msgspec.json.encode(
                {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
            ).decode()
        )
        while (answer := self.receive()).get("id") != self._last_id:
            self.heard.append(answer)
        return answer

    def receive(self) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.json.decode(self.socket.recv(timeout=PATIENCE))
        return told

    def hello(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.call("initialize", protocol={"min": 1, "max": 1})["result"]
        return answer


async def in_thread(work: Callable[..., Any], *args: Any) -> Any:
    return await trio.to_thread.run_sync(work, *args, abandon_on_cancel=True)


@contextmanager
def foreign(daemon: Daemon, **options: Any) -> Generator[Foreign]:
    bearer = {"Authorization": f"Bearer {daemon.token}"}
    with connect(daemon.url, **{"additional_headers": bearer, "proxy": None, **options}) as socket:
        yield Foreign(socket)


async def test_a_foreign_client_prompts_and_hears_everything() -> None:
    script = [
        callboard.reply("One moment.", calls=[("get_current_time", {})]),
        callboard.reply("It is late."),
    ]

    def converse(daemon: Daemon) -> tuple[str, View]:
        view = View()
        with foreign(daemon) as client:
            welcome = client.hello()
            assert welcome["server"]["name"] == "callboard"
            announced = set(welcome["events"])
            session = client.call("session/new", title="from afar")["result"]["session_id"]
            client.call("session/subscribe", session_id=session, after_seq=0)
            client.call("session/prompt", session_id=session, content="What time is it?")
            while not view.has_ended:
                heard = client.heard.pop(0) if client.heard else client.receive()
                params = msgspec.json.encode(heard["params"])
                if heard["method"] == "session/update":
                    assert heard["params"]["event"]["type"] in announced
                    view.take(msgspec.json.decode(params, type=Update).known())
                else:
                    assert heard["method"] == "session/snapshot"
                    view.take(msgspec.json.decode(params, type=Snapshot))
            assert client.socket.ping().wait(PATIENCE)
        return session, view

    async with open_daemon(callboard.ScriptedModel(script)) as daemon:
        session, view = await in_thread(converse, daemon)
        assert view.stored == await daemon.runtime.store.events(session)


async def test_compression_is_offered_and_declined() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    small = bomb.compress(b" " * 50_000_000) + bomb.flush(zlib.Z_SYNC_FLUSH)

    def offer(daemon: Daemon) -> None:
        with foreign(daemon, compression="deflate") as client:
            assert client.socket.protocol.extensions == []
            client.hello()
            assert "result" in client.call("runtime/status")
            # Compressed all the same: the bit is none that was agreed on.
            client.socket.socket.sendall(frame(small[:-4], reserved=0x40))
            with pytest.raises(ConnectionClosedError):
                client.receive()

    async with open_daemon() as daemon, open_client(daemon) as other:
        await in_thread(offer, daemon)
        assert (await other.status()).connections >= 1


async def test_a_token_may_be_a_subprotocol() -> None:
    def connect_as(daemon: Daemon, token: str) -> str | None:
        names = [Subprotocol("callboard"), Subprotocol(f"callboard.token.{token}")]
        with foreign(daemon, additional_headers=None, subprotocols=names) as client:
            client.hello()
            return client.socket.subprotocol

    async with open_daemon() as daemon:
        assert await in_thread(connect_as, daemon, daemon.token) == "callboard"
        with pytest.raises(InvalidStatus, match="401"):
            await in_thread(connect_as, daemon, "cb_wrong")


async def test_refusals_are_told_to_a_foreign_client() -> None:
    def refused(daemon: Daemon, **options: Any) -> tuple[int, str]:
        with pytest.raises(InvalidStatus) as caught, foreign(daemon, **options):
            pass
        response = caught.value.response
        return response.status_code, bytes(response.body or b"").decode()

    async with open_daemon() as daemon:
        status, told = await in_thread(lambda: refused(daemon, additional_headers={}))
        assert (status, "token create" in told) == (401, True)
        status, told = await in_thread(lambda: refused(daemon, origin="http://evil.test"))
        assert (status, "allowed_origins" in told) == (403, True)
        big = {"X-Pad": "y" * 20_000}
        status, told = await in_thread(lambda: refused(daemon, additional_headers=big))
        assert status == 431


async def test_a_message_in_pieces_is_one_request() -> None:
    def speak(daemon: Daemon) -> None:
        with foreign(daemon) as client:
            client.hello()
            text = '{"jsonrpc":"2.0","id":99,"method":"runtime/status"}'
            client.socket.send(iter([text[:7], "", text[7:20], text[20:]]))
            answer = client.receive()
            assert answer["id"] == 99
            assert "result" in answer

    async with open_daemon() as daemon:
        await in_thread(speak, daemon)


async def test_close_codes_tell_why() -> None:
    settings = ServerSettings(port=0, max_frame_bytes=64 * 1024)

    def closed_by(daemon: Daemon, act: Callable[[Foreign], object]) -> int | None:
        with foreign(daemon, max_size=None) as client:
            try:
                act(client)
                while True:
                    client.receive()
            except ConnectionClosed as closed:
                return None if closed.rcvd is None else closed.rcvd.code

    def too_large(client: Foreign) -> None:
        client.hello()
        client.socket.send(" " * 100_000)

    def hello_twice(client: Foreign) -> None:
        client.hello()
        client.hello()

    def no_hello(client: Foreign) -> None:
        client.call("runtime/status")

    def revoke_itself(client: Foreign) -> None:
        client.hello()
        client.call("token/revoke", name="test")

    async with open_daemon(settings=settings) as daemon:
        assert await in_thread(closed_by, daemon, too_large) == 1009
        assert await in_thread(closed_by, daemon, hello_twice) == 1008
        assert await in_thread(closed_by, daemon, no_hello) == 1008
        assert await in_thread(closed_by, daemon, revoke_itself) == 1008

"""Answers are bounded in bytes, and who does not read them is told why it has to leave."""

from __future__ import annotations

import base64
import threading
from typing import Any

import msgspec
import pytest
import trio
from trio_websocket import ConnectionClosed

import callboard
from callboard.config.sections import ServerSettings
from callboard.gateway.connection.incoming import LARGE_FRAME
from callboard.gateway.feeds.frames import LARGE_EVENT, update_frame
from callboard.gateway.shared.idempotency import _key
from callboard.gateway.shared.pages import PAGE_BYTES
from callboard.runtime.store.feeds import StoredBytes
from support.gateway.daemon_scene import RawClient, View, open_client, open_daemon, open_greeted

LONG = "y" * 300_000


async def read_to_the_end(raw: RawClient) -> None:
    while True:
        await raw.receive()


async def test_a_page_of_messages_ends_at_a_size() -> None:
    model = callboard.ScriptedModel([callboard.reply(LONG) for _ in range(5)])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session = await daemon.runtime.create_session()
        for _ in range(5):
            await session.run("Go on.")
        async with open_greeted(daemon) as raw:
            after, sizes, texts = 0, [], []
            has_more = True
            while has_more:
                page = (
                    await raw.call(
                        "session/messages", session_id=session.session_id, after=after, limit=1000
                    )
                )["result"]
                sizes.append(len(msgspec.json.encode(page)))
                texts += [row["content"] for row in page["messages"]]
                after, has_more = page["messages"][-1]["position"], page["has_more"]
        assert len(sizes) > 1
        assert max(sizes) < PAGE_BYTES + 1000
        assert texts == ["Go on.", LONG] * 5
        rows = await client.messages(session.session_id, limit=1000)
        assert [row.content for row in rows] == texts
        assert len(await client.messages(session.session_id, limit=9)) == 9


async def test_who_does_not_read_is_told_why_the_connection_ends() -> None:
    model = callboard.ScriptedModel([callboard.reply(LONG) for _ in range(3)])
    settings = ServerSettings(port=0, max_outbox_bytes=64 * 1024)
    async with open_daemon(model, settings=settings) as daemon:
        session = await daemon.runtime.create_session()
        for _ in range(3):
            await session.run("Go on.")
        async with open_greeted(daemon) as raw:
            (connection,) = daemon.gateway.daemon.connections
            send = connection._stream.send_all  # type: ignore[attr-defined]
            is_reading = trio.Event()

            async def send_late(data: bytes) -> None:
                await is_reading.wait()
                await send(data)

            connection._stream.send_all = send_late  # type: ignore[attr-defined]
            for number in range(4):
                params = {"session_id": session.session_id, "limit": 1000}
                frame = {"id": number, "method": "session/messages", "params": params}
                await raw.send({"jsonrpc": "2.0", **frame})
            with trio.fail_after(20):
                await connection._ended.wait()  # type: ignore[attr-defined]
                assert connection.waiting_size == 0
                is_reading.set()
                with pytest.raises(ConnectionClosed) as closed:
                    await read_to_the_end(raw)
        assert closed.value.reason is not None
        assert closed.value.reason.code == 1013


async def test_what_is_large_is_read_searched_and_told_off_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, framed, keyed = threading.get_ident(), [], []

    def frame_of(session_id: str, stored: StoredBytes) -> bytes:
        frame = update_frame(session_id, stored)
        framed.append((len(frame) > LARGE_EVENT, threading.get_ident() == loop))
        return frame

    def key_of(*given: Any) -> object:
        keyed.append((len(bytes(given[2])) > LARGE_FRAME, threading.get_ident() == loop))
        return _key(*given)

    monkeypatch.setattr("callboard.gateway.feeds.session_feed.update_frame", frame_of)
    monkeypatch.setattr("callboard.gateway.shared.idempotency._key", key_of)
    file = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(LARGE_EVENT)).decode()
    model = callboard.ScriptedModel([callboard.reply("a"), callboard.reply("b")])
    async with (
        open_daemon(model) as daemon,
        open_client(daemon) as client,
        open_greeted(daemon) as raw,
    ):
        session_id = (await raw.call("session/new", idempotency_key="one"))["result"]["session_id"]
        async with client.events(session_id, after_seq=0) as events:
            picture = {"media_type": "image/png", "data": file, "name": "a.png"}
            for attachments in ([picture], []):
                await raw.call(
                    "session/prompt",
                    session_id=session_id,
                    content="Look.",
                    attachments=attachments,
                    idempotency_key=f"k{len(attachments)}",
                )
            view = View()
            with trio.fail_after(20):
                await view.read(events, turns=2)
    seqs = [each.seq for each in view.stored]
    assert seqs == list(range(1, len(seqs) + 1))
    assert set(keyed) == {(True, False), (False, True)}
    assert (True, False) in framed
    assert (True, True) not in framed


async def test_a_title_is_short() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        assert "result" in await raw.call("session/new", title="a" * 200)
        error = (await raw.call("session/new", title="a" * 201))["error"]
        assert (error["data"]["type"], error["data"]["field"]) == ("validation", "title")

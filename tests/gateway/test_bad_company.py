"""Who breaks the rules of the wire beside others costs them no answer, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
from contextlib import AsyncExitStack, suppress

import msgspec
import trio
import trio.testing

from callboard.config.sections import ServerSettings
from callboard.gateway.connection.connection import Connection
from callboard.gateway.feeds.outbox import Outbox
from support.gateway.daemon_scene import Daemon, open_client, open_daemon
from support.gateway.raw_door import are_left, frame, open_frames

SOAK = bool(os.environ.get("CALLBOARD_SOAK"))
ROUNDS = 200 if SOAK else 2
IDLE = 200 if SOAK else 12
ASKED = 10

SETTINGS = ServerSettings(
    port=0,
    max_frame_bytes=64 * 1024,
    max_outbox_bytes=64 * 1024,
    send_seconds=600,  # in which a message that was begun has to go on
)
HELLO, BAD_HELLO = (
    frame(
        msgspec.json.encode(
            {
                "jsonrpc": "2.0",
                "id": "hello",
                "method": "initialize",
                "params": {"protocol": {"min": 1, "max": 1}, "subscribe": topics},
            }
        )
    )
    for topics in (["sessions"], ["sessions"] * 4000)
)
PING, CONTINUATION = 9, 0

BAD = (
    BAD_HELLO,
    HELLO + frame(b"{}", is_masked=False),
    HELLO + frame(b"{}", reserved=0x20),
    HELLO + frame(b"x" * 126, PING),
    HELLO + frame(b"\xff\xfe"),
    HELLO + frame(b" " * (SETTINGS.max_frame_bytes + 1)),
    HELLO + frame(b"", is_last=False) + 1100 * frame(b"", CONTINUATION, is_last=False),
    HELLO + 300 * frame(b"", PING),
)
HALF = HELLO + frame(b" " * 60_000)[:30_000]
"""It is never whole, and never wrong."""


def kept() -> tuple[int, int, int]:
    """What there is of the daemon's connections: they and their outboxes, and all tasks."""
    gc.collect()
    alive = [type(each) for each in gc.get_objects()]
    tasks = trio.lowlevel.current_statistics().tasks_living
    return alive.count(Connection), alive.count(Outbox), tasks


async def be_bad(daemon: Daemon, sent: bytes) -> None:
    """Says it, until the farewell comes or the connection breaks."""
    async with open_frames(daemon) as stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(sent)
            received = b""
            while b"\x88" not in received and (data := await stream.receive_some()):
                received += data


async def test_case_41_others_have_their_answers_and_nothing_is_left_behind() -> None:
    answered = 0
    async with (
        open_daemon(settings=SETTINGS) as daemon,
        open_client(daemon) as other,
        AsyncExitStack() as idle,
    ):
        session_id = (await other.create_session()).session_id

        async def hold(sent: bytes) -> None:
            stream = await idle.enter_async_context(open_frames(daemon))
            await stream.send_all(sent)

        async def one_round() -> None:
            nonlocal answered
            async with trio.open_nursery() as nursery:
                for sent in BAD:
                    nursery.start_soon(be_bad, daemon, sent)
                for _ in range(ASKED):
                    assert (await other.session(session_id)).session_id == session_id
                    answered += 1
            await are_left(other, 1 + IDLE)  # those who do no harm are still there

        for number in range(IDLE):
            await hold(HALF if number % 2 else HELLO)
        await one_round()
        await trio.testing.wait_all_tasks_blocked(0.05)
        before = kept()
        for _ in range(ROUNDS):
            await one_round()
        with trio.fail_after(30):
            while True:
                await trio.sleep(0.01)
                # Nothing tells when the last of it is gone, of the first round neither.
                settled = kept()
                if all(now <= then for now, then in zip(settled, before, strict=True)):
                    break
        for _ in range(IDLE):  # the control of the measure: more than may still be going
            await hold(HALF)
        await are_left(other, 1 + 2 * IDLE)
        assert all(later > earlier for later, earlier in zip(kept(), settled, strict=True))
    assert answered == (1 + ROUNDS) * ASKED

"""What goes wrong in one part of the daemon ends that part's work, and nothing else."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

import callboard
from callboard.gateway.connection.subscriptions import ConnectionEnded
from callboard.gateway.feeds.frames import wire_json
from callboard.gateway.restart import restart_on_crash
from callboard.runtime.events import CallProgress
from callboard.runtime.stream import AnyStreamEvent, TextDelta
from callboard.runtime.turns.live_state import whole_events
from support.gateway.daemon_scene import open_client, open_daemon, open_greeted
from support.waits import until


async def test_half_a_character_in_what_is_told_live_ends_nothing() -> None:
    @callboard.tool
    async def odd(context: callboard.ToolContext) -> str:
        """Reads a file whose name is not UTF-8."""
        context.progress("caf\udce9")
        await trio.sleep(0.05)
        return "done"

    model = callboard.ScriptedModel(
        [callboard.reply("half \ud800.", calls=[("odd", {})]), callboard.reply("The end.")]
    )
    async with (
        open_daemon(model, tools=[odd], on_approval="allow") as daemon,
        open_client(daemon) as client,
    ):
        session = await client.create_session()
        progress: list[str] = []
        async with open_greeted(daemon) as raw:
            await raw.call("session/subscribe", session_id=session.session_id)
            await client.prompt(session.session_id, "Go.")
            with trio.fail_after(20):
                while True:
                    frame = await raw.receive()
                    event = frame["params"].get("event", {})
                    if event.get("type") == "call_progress":
                        progress.append(event["text"])
                    if event.get("type") == "turn_ended":
                        break
        assert progress == ["caf\ufffd"]
        assert (await client.session(session.session_id)).head_seq > 5


def test_what_goes_out_is_encoded_whatever_it_holds() -> None:
    assert wire_json({"a\ud800": ["\udcff", ("x", 1)]}) == '{"a\ufffd":["\ufffd",["x",1]]}'.encode()
    assert wire_json(CallProgress("c", "\ud83d")) == (
        wire_json(CallProgress("c", "\ufffd"))  # the type stays
    )


def test_events_with_whole_texts_are_left_alone() -> None:
    whole: list[AnyStreamEvent] = [TextDelta("a"), TextDelta("é")]
    assert whole_events(whole) is whole
    assert whole_events([TextDelta("\ud800"), *whole]) == [TextDelta("\ufffd"), *whole]


async def test_a_part_that_crashes_begins_anew(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="callboard.gateway.restart")
    times: list[float] = []

    async def part() -> None:
        await trio.lowlevel.checkpoint()
        times.append(trio.current_time())
        if len(times) < 4:
            raise RuntimeError("a bug")

    with trio.fail_after(100):
        await restart_on_crash("a part", part)
    assert len(times) == 4
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]


async def test_a_feed_that_crashes_hears_its_session_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="callboard.gateway.feeds.session_feed")
    model = callboard.ScriptedModel([callboard.reply("One."), callboard.reply("Two.")])
    async with open_daemon(model) as daemon, open_client(daemon) as client:
        session = await client.create_session()
        async with open_greeted(daemon) as raw:
            await raw.call("session/subscribe", session_id=session.session_id)
            while (await raw.receive()).get("method") != "session/snapshot":
                pass
            ((feed, _),) = daemon.gateway.daemon.feeds._feeds.values()
            publish = feed._publish
            crashed: list[object] = []

            def crash_once(update: object) -> None:
                if not crashed:
                    crashed.append(update)
                    raise RuntimeError("a bug")
                publish(update)  # type: ignore[arg-type]

            monkeypatch.setattr(feed, "_publish", crash_once)
            await client.prompt(session.session_id, "Go.")
            with trio.fail_after(20):
                seqs: list[int] = []
                while True:
                    params = (await raw.receive())["params"]
                    if "seq" in params and "event" in params:
                        seqs.append(params["seq"])
                        if params["event"]["type"] == "turn_ended":
                            break
            assert crashed
            assert seqs == list(range(seqs[0], seqs[-1] + 1))
            assert seqs[0] == 2


async def test_a_connection_that_has_ended_hears_nothing_more() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        async with open_greeted(daemon) as raw:
            await raw.call("session/subscribe", session_id=session.session_id)
            feeds = daemon.gateway.daemon.feeds
            ((feed, _),) = feeds._feeds.values()
            (subscriber,) = feed._subscribers
            hearing = subscriber._falls_behind.__closure__
            assert hearing is not None
        with trio.fail_after(20):
            await until(lambda: not feeds._feeds)
        subscriber.fall_behind()  # an update that was on its way; its nursery is closed
        (owner,) = [
            cell.cell_contents for cell in hearing if hasattr(cell.cell_contents, "subscribe_topic")
        ]
        with pytest.raises(ConnectionEnded):
            owner.subscribe(session.session_id, 0)

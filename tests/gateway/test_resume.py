"""Who joins in the middle, or comes back, has missed nothing and sees nothing twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.actors.session.subscribers import Subscribers
from callboard.client.client import connect
from callboard.config.sections import ServerSettings
from callboard.gateway.connection.subscriptions import Subscriptions
from callboard.gateway.feeds.session_feed import SessionFeeds
from callboard.providers.testing.script import events_of, fail, reply
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.events import Stored, StreamBatch
from callboard.runtime.store.feeds import Topic
from callboard.runtime.stream import (
    AnyStreamEvent,
    Done,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from callboard.runtime.wire.topics import TopicCurrent
from support.gateway.daemon_scene import Daemon, open_client, open_daemon, open_raw
from support.gateway.gated_model import GatedModel
from support.gateway.kept_daemon import open_kept
from support.gateway.witness import Witness, hear
from support.waits import until

LONG: list[AnyStreamEvent] = [
    ThinkingDelta("What do "),
    ThinkingDelta("they want? "),
    ThinkingEnd(None),
    TextDelta("Grüß "),
    TextDelta("dich, "),
    TextDelta("🌍! "),
    TextDelta("日本"),
    ToolCallStart(0, "call_1", "get_current_time"),
    ToolCallDelta(0, '{"timezone":'),
    ToolCallDelta(0, '"Asia/'),
    ToolCallDelta(0, 'Tokyo"}'),
    ToolCallEnd(0),
    Done(StopReason.TOOL_CALLS, "tool_calls"),
]
SHORT = events_of(reply("It is late."))


async def test_who_joins_at_any_point_of_an_answer_comes_to_the_same() -> None:
    model = GatedModel(LONG, SHORT)
    witnesses: list[Witness] = []
    async with open_daemon(model) as daemon, trio.open_nursery() as nursery:
        async with open_client(daemon) as client:
            session = await client.create_session()
            await client.prompt(session.session_id, "Hello?")
        for pieces in range(len(LONG)):
            witness = Witness()
            witnesses.append(witness)
            nursery.start_soon(_join, daemon, session.session_id, witness)
            await until(partial(_has_joined, witness))
            assert witness.live == witnesses[0].live == live_after(pieces)
            if pieces < len(LONG) - 1:
                model.let()
                await until(partial(_has_heard, witnesses[0], pieces + 1))
        model.let_all()
    record = witnesses[0].stored
    assert len(witnesses[0].whole) == 2
    for witness in witnesses:
        assert witness.stored == record
        for live, said in witness.whole:
            assert live == said


def live_after(pieces: int) -> tuple[str, str, str]:
    """What the first pieces of the long answer come to."""
    so_far = LONG[:pieces]
    return (
        "".join(event.text for event in so_far if isinstance(event, TextDelta)),
        "".join(event.text for event in so_far if isinstance(event, ThinkingDelta)),
        "".join(event.arguments for event in so_far if isinstance(event, ToolCallDelta)),
    )


def _has_joined(witness: Witness) -> bool:
    return witness.snapshots > 0


def _has_heard(witness: Witness, batches: int) -> bool:
    return witness.batches >= batches


async def _join(daemon: Daemon, session_id: str, witness: Witness) -> None:
    async with open_client(daemon) as client:
        await hear(client, session_id, witness, 1)


async def test_who_joins_while_a_tool_prints_sees_all_that_it_printed() -> None:
    goes_on = trio.Event()

    @callboard.tool(tier="read_only")
    async def count(context: callboard.ToolContext) -> str:
        """Counts aloud."""
        for number in range(5):
            context.progress(f"{number}\n")
        await goes_on.wait()
        context.progress("done\n")
        return "counted"

    model = callboard.ScriptedModel([reply(calls=[("count", {})]), reply("Five.")])
    early, late = Witness(), Witness()
    async with open_daemon(model, tools=[count]) as daemon, trio.open_nursery() as nursery:
        async with open_client(daemon) as client:
            session = await client.create_session()
        nursery.start_soon(_join, daemon, session.session_id, early)
        await until(lambda: early.snapshots)
        async with open_client(daemon) as client:
            await client.prompt(session.session_id, "Count.")
        printed = "0\n1\n2\n3\n4"
        await until(lambda: list(early.outputs.values()) == [printed])
        nursery.start_soon(_join, daemon, session.session_id, late)
        await until(lambda: late.snapshots)
        assert late.outputs == early.outputs
        goes_on.set()
    assert late.stored == early.stored
    assert late.outputs == early.outputs == {}


async def test_an_attempt_that_is_withdrawn_is_nobodys_text() -> None:
    model = callboard.ScriptedModel(
        [fail("network", text="Half of it", retryable=True), reply("All of it.")]
    )
    witness = Witness()
    async with open_daemon(model) as daemon, trio.open_nursery() as nursery:
        async with open_client(daemon) as client:
            session = await client.create_session()
            nursery.start_soon(_join, daemon, session.session_id, witness)
            await until(lambda: witness.snapshots)
            await client.prompt(session.session_id, "Say it.")
    assert [live for live, _ in witness.whole] == [("All of it.", "", "")]
    assert witness.batches >= 2


async def test_a_session_whose_actor_crashes_is_heard_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crashes = [True]
    publish = Subscribers.publish

    def crash_once(self: Subscribers, update: Any) -> None:
        publish(self, update)
        if isinstance(update, StreamBatch) and crashes:
            crashes.clear()
            raise RuntimeError("a fault in the session")

    monkeypatch.setattr(Subscribers, "publish", crash_once)
    model = callboard.ScriptedModel([reply("Lost."), reply("Kept.")])
    witness = Witness()
    async with open_daemon(model) as daemon, trio.open_nursery() as nursery:
        async with open_client(daemon) as client:
            session = await client.create_session()

            async def join() -> None:
                async with open_client(daemon) as other:
                    await hear(other, session.session_id, witness, 2)

            nursery.start_soon(join)
            await until(lambda: witness.snapshots)
            await client.prompt(session.session_id, "One.")
            await until(lambda: witness.snapshots > 1)
            await client.prompt(session.session_id, "Two.")
        await until(lambda: witness.ended == 2)
        assert witness.stored == await daemon.runtime.store.events(session.session_id)
    assert witness.whole[-1][1] == ("Kept.", "", "")


async def test_a_client_goes_on_over_a_restart_of_the_daemon(tmp_path: Path) -> None:
    witness = Witness()
    async with open_kept(tmp_path, callboard.ScriptedModel([reply("One.")])) as daemon:
        port, token, url = daemon.gateway.port, daemon.token, daemon.url
        first_epoch = daemon.gateway.daemon.epoch
        async with open_client(daemon) as client:
            session = await client.create_session()
            await client.prompt(session.session_id, "1?")
            await hear(client, session.session_id, witness, 1)
            seq = witness.stored[-1].seq
    answers = callboard.ScriptedModel([reply("Two."), reply("Three.")])
    async with trio.open_nursery() as nursery:
        async with open_kept(tmp_path, answers, port=port, token=token) as daemon:
            assert daemon.gateway.daemon.epoch == first_epoch
            client = await nursery.start(_keep, url, token)
            events = client.events(session.session_id, after_seq=seq, epoch=first_epoch)
            await events.__aenter__()
            await client.prompt(session.session_id, "2?")
            while witness.ended < 2:
                witness.take(await anext(events))
        answers = callboard.ScriptedModel([reply("Three.")])
        async with open_kept(tmp_path, answers, port=port, token=token) as daemon:
            await client.prompt(session.session_id, "3?")
            while witness.ended < 3:
                witness.take(await anext(events))
            record = await daemon.runtime.store.events(session.session_id)
        nursery.cancel_scope.cancel()
    assert witness.stored == record


async def test_who_begins_to_listen_while_the_daemon_is_away_is_sent_the_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions: list[int | None] = []
    subscribe = SessionFeeds.subscribe

    def counted(feeds: SessionFeeds, name: str, outbox: Any, position: int, begin: Any) -> Any:
        positions.append(position)
        return subscribe(feeds, name, outbox, position, begin)

    monkeypatch.setattr(SessionFeeds, "subscribe", counted)
    witness, heard = Witness(), trio.Event()

    async def listen(client: Any, session_id: str, epoch: str) -> None:
        async with client.events(session_id, after_seq=0, epoch=epoch) as events:
            witness.take(await anext(events))
            await client.session(session_id)  # no frame behind the answer was on its way to another
            heard.set()

    async with trio.open_nursery() as nursery:
        async with open_kept(tmp_path, callboard.ScriptedModel([])) as first:
            port, token, epoch = first.gateway.port, first.token, first.gateway.daemon.epoch
            client = await nursery.start(_keep, first.url, token)  # noqa: ASYNC111  it outlives that one
            session_id = (await client.create_session()).session_id
        await until(lambda: not client.is_connected)
        nursery.start_soon(listen, client, session_id, epoch)
        async with open_kept(tmp_path, callboard.ScriptedModel([]), port=port, token=token):
            await heard.wait()
        nursery.cancel_scope.cancel()
    assert positions == [0]


async def test_a_subscription_at_the_end_of_a_connection_is_made_over_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscribe = Subscriptions.subscribe_topic
    ended: list[Subscriptions] = []

    def ending(subscriptions: Subscriptions, topic: Topic, position: int) -> Any:
        if not ended:
            ended.append(subscriptions)
            subscriptions.end()
            [connection] = daemon.gateway.daemon.connections
            connection.close(1001, "the daemon is stopping")
        return subscribe(subscriptions, topic, position)

    monkeypatch.setattr(Subscriptions, "subscribe_topic", ending)
    async with open_daemon(callboard.ScriptedModel([])) as daemon, open_client(daemon) as client:
        async with client.topic(Topic.SESSIONS, after_seq=0) as topic:
            session_id = (await client.create_session()).session_id
            update = await anext(topic)
            while isinstance(update, TopicCurrent):
                update = await anext(topic)
            assert update.update.session_id == session_id
    assert ended


async def _keep(url: str, token: str, *, task_status: trio.TaskStatus[Any]) -> None:
    async with connect(url, token) as client:
        task_status.started(client)
        await trio.sleep_forever()


async def test_another_store_voids_what_a_client_has_seen(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        async with open_kept(tmp_path, "rehearsal") as daemon:
            port, token = daemon.gateway.port, daemon.token
            client = await nursery.start(_keep, daemon.url, token)  # noqa: ASYNC111
            session = await client.create_session()
            events = await client.events(session.session_id, after_seq=0).__aenter__()
            topic = await client.topic("sessions", after_seq=0).__aenter__()
        (tmp_path / "other").mkdir(mode=0o700)
        (tmp_path / "other" / "tokens.json").write_bytes(
            (tmp_path / "data" / "tokens.json").read_bytes()
        )
        (tmp_path / "other" / "tokens.json").chmod(0o600)
        async with open_kept(tmp_path, "rehearsal", port=port, token=token, data="other"):
            for feed in (events, topic):
                with pytest.raises(ConflictError, match="another store") as refused:
                    await _to_the_end(feed)
                assert refused.value.kind == "seq"
            assert await client.sessions() == []
            await events.__aexit__(None, None, None)
            with pytest.raises(ConflictError, match="Start over") as refused:
                await client.events(
                    session.session_id, after_seq=1, epoch=events.epoch
                ).__aenter__()
            assert refused.value.kind == "seq"
            await topic.__aexit__(None, None, None)
            with pytest.raises(ConflictError, match="Start over"):
                await client.topic("sessions", after_seq=1, epoch=topic.epoch).__aenter__()
            async with client.topic("sessions", after_seq=0) as anew:  # nothing is known of it
                assert anew.epoch == client.welcome.epoch != topic.epoch
        nursery.cancel_scope.cancel()


async def test_a_seq_is_nothing_without_its_epoch() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        with pytest.raises(ValidationError, match="after_seq=1 counts in one store"):
            client.events(session.session_id, after_seq=1)
        with pytest.raises(ValidationError, match="after_seq=1 counts in one store"):
            client.topic("sessions", after_seq=1)
        async with client.events(session.session_id, after_seq=0) as events:
            kept = await anext(events)
            assert isinstance(kept, Stored)
        async with client.events(
            session.session_id, after_seq=events.seq, epoch=events.epoch
        ) as again:
            await client.rename(session.session_id, "Kept")
            while not isinstance(event := await anext(again), Stored):
                pass
            assert event.seq == kept.seq + 1


async def _to_the_end(feed: Any) -> None:
    async for _ in feed:
        pass


async def test_a_seq_that_nobody_has_given_is_refused() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        session = await client.create_session()
        epoch = client.welcome.epoch
        with pytest.raises(ConflictError, match="after_seq=7 is of another") as refused:
            async with client.events(session.session_id, after_seq=7, epoch=epoch):
                pass
        assert refused.value.kind == "seq"
        with pytest.raises(ConflictError, match="after_seq=70 is of another") as refused:
            async with client.topic("sessions", after_seq=70, epoch=epoch):
                pass
        assert refused.value.kind == "seq"
        async with open_raw(daemon) as raw:
            epoch = (await raw.hello())["result"]["epoch"]
            asked = {"session_id": session.session_id, "after_seq": 0}
            assert "result" in await raw.call("session/subscribe", **asked, epoch=epoch)
            refusal = await raw.call("session/subscribe", **asked, epoch="another")
            assert refusal["error"]["data"]["kind"] == "seq"
            refusal = await raw.call("topic/subscribe", topic="sessions", epoch="another")
            assert refusal["error"]["data"]["kind"] == "seq"


async def test_a_long_record_comes_in_pages_to_a_small_outbox() -> None:
    model = callboard.ScriptedModel([reply("x" * 2000) for _ in range(60)])
    settings = ServerSettings(port=0, max_outbox_bytes=64 * 1024)
    async with open_daemon(model, settings=settings) as daemon, open_client(daemon) as client:
        session = await client.create_session()
        own = await daemon.runtime.get_session(session.session_id)
        for number in range(60):
            await own.run(f"{number}?")
        witness = Witness()
        await hear(client, session.session_id, witness, 60)
        assert witness.stored == await daemon.runtime.store.events(session.session_id)


async def test_an_unknown_session_is_not_heard() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        with pytest.raises(NotFoundError):
            async with client.events("session_none"):
                pass
        session = await client.create_session()
        async with client.events(session.session_id, after_seq=0) as events:
            first = await anext(events)
            assert isinstance(first, Stored)
            assert first.seq == 1

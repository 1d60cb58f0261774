"""Topics: what happens in all sessions, with the guarantee that a session has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

import callboard
from callboard.client.client import connect
from callboard.client.subscriptions import RemoteTopic
from callboard.config.sections import ServerSettings
from callboard.providers.testing.script import reply
from callboard.runtime.events import ApprovalAnswered, ApprovalAsked, QuestionAsked, SessionCreated
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.topics import TopicCurrent, TopicUpdate
from support.gateway.daemon_scene import open_client, open_daemon, open_raw
from support.gateway.kept_daemon import open_kept
from support.waits import until

ASK = reply(calls=[("delete_file", {"path": "old.txt"})])


async def updates(topic: RemoteTopic, count: int) -> list[TopicUpdate]:
    """The next so many events."""
    found: list[TopicUpdate] = []
    while len(found) < count:
        event = await anext(topic)
        if isinstance(event, TopicUpdate):
            found.append(event)
    return found


def kinds(found: list[TopicUpdate]) -> list[str]:
    return [type(each.update.event).__name__ for each in found]


async def test_questions_of_all_sessions_are_heard_in_one_place() -> None:
    model = callboard.ScriptedModel([ASK, reply("It stays."), ASK, reply("It stays.")])
    async with (
        open_daemon(model) as daemon,
        open_client(daemon) as client,
        client.topic("approvals") as topic,
    ):
        for _ in range(2):
            session = await client.create_session()
            await client.prompt(session.session_id, "Delete old.txt.")
            (asked,) = await updates(topic, 1)
            question = asked.update.event
            assert isinstance(question, ApprovalAsked)
            assert asked.update.session_id == session.session_id
            await client.answer(question.approval_id, "deny")
            (answered,) = await updates(topic, 1)
            assert isinstance(answered.update.event, ApprovalAnswered)
            assert answered.seq > asked.seq
            record = await daemon.runtime.store.events(
                session.session_id, after_seq=asked.update.seq - 1, limit=1
            )
            assert record == [asked.update]


async def test_a_topic_is_resumed_behind_what_was_seen(tmp_path: Path) -> None:
    async with open_kept(tmp_path, callboard.ScriptedModel([reply("One.")])) as daemon:
        port, token = daemon.gateway.port, daemon.token
        async with open_client(daemon) as client:
            async with client.topic("sessions", after_seq=0) as topic:
                first = await client.create_session(title="one")
                (created,) = await updates(topic, 1)
                assert isinstance(created.update.event, SessionCreated)
            await client.prompt(first.session_id, "1?")
            async with client.topic(
                "sessions", after_seq=created.seq, epoch=client.welcome.epoch
            ) as topic:
                turn = await updates(topic, 2)
    assert kinds(turn) == ["TurnStarted", "TurnEnded"]
    async with (
        open_kept(tmp_path, "rehearsal", port=port, token=token) as daemon,
        open_client(daemon) as client,
    ):
        second = await client.create_session(title="two")
        async with client.topic(
            "sessions", after_seq=created.seq, epoch=client.welcome.epoch
        ) as topic:
            again = await updates(topic, 3)
            assert again[:2] == turn
            assert again[2].update.session_id == second.session_id
            current = await anext(topic)
            assert current == TopicCurrent(topic.topic, again[2].seq)


async def test_a_topic_goes_on_over_a_restart(tmp_path: Path) -> None:
    heard: list[TopicUpdate] = []
    async with trio.open_nursery() as nursery:
        async with open_kept(tmp_path, "rehearsal") as daemon:
            port, token = daemon.gateway.port, daemon.token

            async def hear(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
                async with connect(daemon.url, token) as client, client.topic("sessions") as topic:
                    task_status.started()
                    heard.extend(await updates(topic, 3))

            await nursery.start(hear)
            made = [await daemon.runtime.create_session()]
        async with open_kept(tmp_path, "rehearsal", port=port, token=token) as daemon:
            made += [await daemon.runtime.create_session() for _ in range(2)]
            await until(lambda: len(heard) == 3)
    assert [each.update.session_id for each in heard] == [each.session_id for each in made]


async def test_a_limited_token_hears_of_its_own_sessions_alone() -> None:
    async with open_daemon() as daemon, open_client(daemon) as admin:
        mine, other = await admin.create_session(), await admin.create_session()
        token = daemon.new_token("guest", Role.OPERATOR, sessions=(mine.session_id,))
        async with open_client(daemon, token) as guest, guest.topic("sessions") as topic:
            for session in (other, mine):
                await admin.prompt(session.session_id, "What is 2 + 2?")
                async with admin.topic("sessions", after_seq=0) as everything:
                    while True:
                        (update,) = await updates(everything, 1)
                        ended = type(update.update.event).__name__ == "TurnEnded"
                        if ended and update.update.session_id == session.session_id:
                            break
            live = await updates(topic, 2)
            assert {each.update.session_id for each in live} == {mine.session_id}
        async with (
            open_client(daemon, token) as guest,
            guest.topic("sessions", after_seq=0) as topic,
        ):
            behind = await updates(topic, 3)
            assert {each.update.session_id for each in behind} == {mine.session_id}


async def test_a_limited_token_hears_of_questions_in_its_own_sessions_alone() -> None:
    question = reply(calls=[("ask_user", {"question": "Which door?", "options": ["left"]})])
    model = callboard.ScriptedModel([question, reply("So."), question, reply("So.")])
    async with open_daemon(model) as daemon, open_client(daemon) as admin:
        mine, other = await admin.create_session(), await admin.create_session()
        token = daemon.new_token("guest", Role.APPROVER, sessions=(mine.session_id,))
        async with (
            open_client(daemon, token) as guest,
            guest.topic("approvals") as heard,
            admin.topic("approvals") as everything,
        ):
            for session in (other, mine):
                await admin.prompt(session.session_id, "Ask me.")
                (asked,) = await updates(everything, 1)
                assert isinstance(asked.update.event, QuestionAsked)
                assert asked.update.session_id == session.session_id
                listed = await guest.questions()
                assert {each.session_id for each in listed} <= {mine.session_id}
                await admin.answer_question(asked.update.event.question_id, option=0)
                assert kinds(await updates(everything, 1)) == ["QuestionAnswered"]
            found = await updates(heard, 2)
            assert kinds(found) == ["QuestionAsked", "QuestionAnswered"]
            assert {each.update.session_id for each in found} == {mine.session_id}
        async with (
            open_client(daemon, token) as guest,
            guest.topic("approvals", after_seq=0) as behind,
        ):
            again = await updates(behind, 2)
            assert [each.update for each in again] == [each.update for each in found]


async def test_a_topic_with_more_than_an_outbox_holds_comes_whole() -> None:
    settings = ServerSettings(port=0, max_outbox_bytes=64 * 1024)
    async with open_daemon(settings=settings) as daemon, open_client(daemon) as client:
        made = [
            (await daemon.runtime.create_session(title="x" * 200)).session_id for _ in range(400)
        ]
        async with client.topic("sessions", after_seq=0) as topic:
            found = await updates(topic, 400)
        assert [each.update.session_id for each in found] == made
        seqs = [each.seq for each in found]
        assert seqs == sorted(set(seqs))


async def test_topics_are_heard_from_the_first_request_on() -> None:
    async with open_daemon() as daemon, open_raw(daemon) as raw:
        hello: dict[str, Any] = {"min": 1, "max": 1}
        answer = await raw.call("initialize", protocol=hello, subscribe=["sessions"])
        assert answer["result"]["seq"] == 0
        assert (await raw.receive())["params"] == {"topic": "sessions", "seq": 0}
        session = await daemon.runtime.create_session()
        update = await raw.receive()
        assert update["method"] == "topic/update"
        assert update["params"]["update"]["session_id"] == session.session_id
        assert "result" in await raw.call("topic/unsubscribe", topic="sessions")
        await daemon.runtime.create_session()
        assert "result" in await raw.call("runtime/status")
        assert raw.heard == []


async def test_a_purge_is_heard_live_and_by_who_was_away(tmp_path: Path) -> None:
    model = callboard.ScriptedModel([reply("One."), reply("Two.")])
    async with open_kept(tmp_path, model) as daemon:
        port, token = daemon.gateway.port, daemon.token
        async with open_client(daemon) as client, client.topic("sessions", after_seq=0) as topic:
            gone = (await client.create_session(title="gone")).session_id
            await deleted(daemon.runtime, gone)
            told = await updates(topic, 2)  # a purge takes away what nobody has read yet
            await daemon.runtime.purge([gone])
            told += await updates(topic, 1)
            assert kinds(told) == ["SessionCreated", "SessionDeleted", "SessionPurged"]
            assert [each.update.session_id for each in told] == [gone] * 3
            assert [each.update.seq for each in told] == [1, 2, 3]
        later = await daemon.runtime.create_session(title="later")  # may get the key of the first
        await daemon.runtime.purge(await deleted(daemon.runtime, later.session_id))
    async with (
        open_kept(tmp_path, "rehearsal", port=port, token=token) as daemon,
        open_client(daemon) as client,
        client.topic("sessions", after_seq=told[1].seq, epoch=client.welcome.epoch) as topic,
    ):
        again = await updates(topic, 2)
        assert again[0] == told[2]
        assert kinds(again) == ["SessionPurged", "SessionPurged"]
        assert again[1].update.session_id == later.session_id
        kept = await client.create_session(title="kept")
        (created,) = await updates(topic, 1)
        assert created.update.session_id == kept.session_id


async def test_a_purge_is_told_only_who_may_know_of_the_session(tmp_path: Path) -> None:
    async with open_kept(tmp_path, "rehearsal") as daemon:
        mine = await daemon.runtime.create_session(title="mine")
        other = await daemon.runtime.create_session(title="other")
        token = daemon.new_token("one", Role.OPERATOR, sessions=(mine.session_id,))
        async with connect(daemon.url, token) as client, client.topic("sessions") as topic:
            for session in (other, mine):
                await deleted(daemon.runtime, session.session_id)
            told = await updates(topic, 1)
            for session in (other, mine):
                await daemon.runtime.purge([session.session_id])
            told += await updates(topic, 1)
    assert kinds(told) == ["SessionDeleted", "SessionPurged"]
    assert {each.update.session_id for each in told} == {mine.session_id}


async def deleted(runtime: callboard.Runtime, session_id: str) -> list[str]:
    """A session, deleted as a purge wants it."""
    await (await runtime.get_session(session_id)).delete()
    return [session_id]

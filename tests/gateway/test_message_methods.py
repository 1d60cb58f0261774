"""Messages over the websocket: pages from both ends, forks, and what is deleted."""

from __future__ import annotations

import base64

import pytest

import callboard
from callboard.gateway.methods.session_files import FILE_PART_BYTES
from callboard.providers.testing.script import Step, reply
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.events import MessagesDeleted
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.rpc import NOT_AUTHORIZED, NOT_FOUND
from support.gateway.daemon_scene import View, open_client, open_daemon, open_greeted


def answers(count: int) -> callboard.ScriptedModel:
    steps: list[Step] = [reply(f"Answer {n}.") for n in range(count)]
    return callboard.ScriptedModel(steps)


async def test_pages_are_read_from_both_ends() -> None:
    async with open_daemon(answers(5)) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        for n in range(5):
            await client.ask(session_id, f"Question {n}.")
        everything = await client.messages(session_id)
        assert [row.position for row in everything] == [*range(1, 11)]
        end = await client.messages(session_id, latest_first=True, limit=3)
        assert [row.content for row in end] == ["Answer 4.", "Question 4.", "Answer 3."]
        earlier = await client.messages(
            session_id, before=end[-1].position, latest_first=True, limit=3
        )
        assert [row.position for row in earlier] == [7, 6, 5]
        between = await client.messages(session_id, after=2, before=5)
        assert [row.position for row in between] == [3, 4]
        assert await client.messages(session_id, before=1, latest_first=True) == []


async def test_a_page_begins_with_a_message_wherever_it_stands() -> None:
    async with open_daemon(answers(4)) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        for n in range(4):
            await client.ask(session_id, f"Question {n}.")
        sixth = (await client.messages(session_id))[5].message_id
        for is_up, wanted in ((False, [6, 7, 8]), (True, [6, 5, 4])):
            rows = await client.messages(
                session_id, from_message=sixth, latest_first=is_up, limit=3
            )
            assert [row.position for row in rows] == wanted
        # A page that ends at its size goes on behind its last message, and not with the first one again.
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("callboard.gateway.shared.pages.PAGE_BYTES", 1)
            rows = await client.messages(session_id, from_message=sixth)
            assert [row.position for row in rows] == [6, 7, 8]
        other = (await client.create_session()).session_id
        with pytest.raises(NotFoundError, match=f"{other} has no message {sixth}"):
            await client.messages(other, from_message=sixth)
        limited = daemon.new_token("limited", Role.OBSERVER, sessions=(other,))
        async with open_greeted(daemon, limited) as raw:
            refused = await raw.call("session/messages", session_id=session_id, from_message=sixth)
            assert refused["error"]["code"] == NOT_FOUND


async def test_files_that_came_with_an_input_are_read_in_parts_behind_a_restart_of_the_page() -> (
    None
):
    large = callboard.Attachment(
        "application/pdf", b"%PDF-" + bytes(range(256)) * 8000, name="large.pdf"
    )
    small = callboard.Attachment("text/plain", b"Milk.", name="list.txt")
    async with open_daemon(answers(2)) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, "Read these.", attachments=[large, small])
        asked, answered = await client.messages(session_id)
        assert [file.name for file in asked.files] == ["large.pdf", "list.txt"]
        assert asked.files[0].size_bytes == len(large.data) > 2 * FILE_PART_BYTES
        assert await client.attachment(session_id, asked.message_id) == large
        assert await client.attachment(session_id, asked.message_id, 1) == small
        with pytest.raises(NotFoundError, match="has no file 2"):
            await client.attachment(session_id, asked.message_id, 2)
        with pytest.raises(NotFoundError, match="has no file 0"):
            await client.attachment(session_id, answered.message_id)
        async with open_greeted(daemon, daemon.new_token("eye", Role.OBSERVER)) as raw:
            wanted = {"session_id": session_id, "message_id": asked.message_id, "number": 1}
            part = await raw.call("session/attachment", **wanted, offset=2)
            assert part["result"]["data"] == base64.b64encode(b"lk.").decode()
            refused = await raw.call("session/attachment", **wanted, offset=6)
            assert refused["error"]["data"]["field"] == "offset"
        other = daemon.new_token("other", Role.OBSERVER, sessions=("session_of_others",))
        async with open_greeted(daemon, other) as raw:
            refused = await raw.call("session/attachment", **wanted)
            assert refused["error"]["code"] == NOT_FOUND
        fork = await client.fork(session_id, answered.message_id)
        copied = (await client.messages(fork.session_id))[0]
        assert await client.attachment(fork.session_id, copied.message_id, 1) == small
        await client.delete_messages(session_id, [asked.message_id])
        with pytest.raises(NotFoundError, match="has no file 0"):
            await client.attachment(session_id, asked.message_id)


async def test_a_client_forks_a_session_and_both_go_on() -> None:
    async with open_daemon(answers(3)) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        for n in range(2):
            await client.ask(session_id, f"Question {n}.")
        asked = (await client.messages(session_id))[2]
        fork = await client.fork(session_id, asked.message_id, title="Other")
        assert (fork.title, fork.forked_from) == ("Other", session_id)
        assert await client.ask(fork.session_id, "Another question.") == "Answer 2."
        assert [row.content for row in await client.messages(fork.session_id)] == [
            *("Question 0.", "Answer 0.", "Another question.", "Answer 2."),
        ]
        with pytest.raises(NotFoundError, match="no message nothing"):
            await client.fork(session_id, "nothing")


async def test_a_fork_is_made_once_however_often_it_is_asked_for() -> None:
    async with open_daemon(answers(1)) as daemon, open_greeted(daemon) as raw:
        new = await raw.call("session/new")
        session_id = new["result"]["session_id"]
        wanted = {"session_id": session_id, "idempotency_key": "once"}
        first = await raw.call("session/fork", **wanted)
        again = await raw.call("session/fork", **wanted)
        other = await raw.call("session/fork", session_id=session_id)
        names = [each["result"]["session_id"] for each in (first, again, other)]
        assert names[0] == names[1] != names[2]


async def test_subscribers_read_placeholders_with_the_same_seq() -> None:
    async with open_daemon(answers(2)) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, "The word is marzipan.")
        first = (await client.messages(session_id))[0]

        async def record() -> list[str]:
            view = View()
            async with client.events(session_id, after_seq=0, epoch=client.welcome.epoch) as events:
                await view.read(events)
            return [str(each) for each in view.stored]

        before = await record()
        assert "marzipan" in str(before)
        assert await client.delete_messages(session_id, [first.message_id]) == (first.message_id,)
        await client.ask(session_id, "And now?")
        after = await record()
        assert len(after) == len(before)  # up to the end of the first turn
        assert "marzipan" not in str(after)
        assert b"marzipan" not in await client.export_session(session_id)
        stored = await daemon.runtime.store.events(session_id)
        assert sum(isinstance(each.event, MessagesDeleted) for each in stored) == 1


async def test_who_may_only_look_neither_forks_nor_deletes() -> None:
    async with open_daemon(answers(1)) as daemon, open_client(daemon) as client:
        session_id = (await client.create_session()).session_id
        await client.ask(session_id, "Go.")
        first = (await client.messages(session_id))[0]
        async with open_greeted(daemon, daemon.new_token("eye", Role.OBSERVER)) as raw:
            asked = {"session_id": session_id, "message_ids": [first.message_id]}
            refused = await raw.call("session/delete_messages", **asked)
            assert refused["error"]["code"] == NOT_AUTHORIZED
            refused = await raw.call("session/fork", session_id=session_id)
            assert refused["error"]["code"] == NOT_AUTHORIZED
        await client.delete_messages(session_id, [first.message_id])
        await client.delete_sessions([session_id])
        with pytest.raises(ConflictError, match="restore it first"):
            await client.fork(session_id)

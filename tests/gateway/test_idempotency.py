"""A request with a key is done once, however often it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.runtime.events import InputAccepted
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import (
    Daemon,
    RawClient,
    open_client,
    open_daemon,
    open_greeted,
    open_raw,
)
from support.gateway.kept_daemon import open_kept


async def inputs(daemon: Daemon, session_id: str) -> list[str]:
    """The inputs on record."""
    record = await daemon.runtime.store.events(session_id)
    return [each.event.text for each in record if isinstance(each.event, InputAccepted)]


async def asked(raw: RawClient, method: str, **params: Any) -> Any:
    """The result of a request, or what the error says of itself."""
    answer = await raw.call(method, **params)
    return answer["result"] if "result" in answer else answer["error"]["data"]


async def test_a_repeated_prompt_gets_the_first_answer_and_is_stored_once() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        session_id = (await asked(raw, "session/new", title="one"))["session_id"]
        prompt = {"session_id": session_id, "content": "What is 2 + 2?"}
        first = await asked(raw, "session/prompt", **prompt, idempotency_key="a")
        assert await asked(raw, "session/prompt", **prompt, idempotency_key="a") == first
        assert await asked(raw, "session/prompt", **prompt, idempotency_key="b") != first
        assert await asked(raw, "session/prompt", **prompt) != first
        assert await inputs(daemon, session_id) == ["What is 2 + 2?"] * 3


async def test_a_key_of_another_request_is_refused() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        session_id = (await asked(raw, "session/new", idempotency_key="n"))["session_id"]
        prompt = {"session_id": session_id, "idempotency_key": "a"}
        await asked(raw, "session/prompt", **prompt, content="One.")
        refused = await asked(raw, "session/prompt", **prompt, content="Two.")
        assert (refused["type"], refused["kind"]) == ("conflict", "key")
        refused = await asked(raw, "session/new", idempotency_key="n", title="another")
        assert refused["kind"] == "key"
        assert await inputs(daemon, session_id) == ["One."]
        assert len(await daemon.runtime.sessions()) == 1
        for key in ("", "x" * 129, "a\nb", 7):
            refused = await asked(raw, "session/new", idempotency_key=key)
            assert refused["type"] == "validation"


async def test_a_key_is_of_one_credential() -> None:
    async with open_daemon() as daemon, open_raw(daemon) as first:
        other = daemon.new_token("other", Role.OPERATOR)
        async with open_raw(daemon, other) as second:
            await first.hello()
            await second.hello()
            made = [
                (await asked(raw, "session/new", idempotency_key="same"))["session_id"]
                for raw in (first, second, first)
            ]
        assert made[0] == made[2] != made[1]


async def test_a_key_holds_after_a_restart(tmp_path: Path) -> None:
    prompt: dict[str, Any] = {"content": "Once.", "idempotency_key": "a"}
    answers: list[Any] = []
    token, port = "", 0
    for _ in range(2):
        model = callboard.ScriptedModel([reply("Once.")])
        async with open_kept(tmp_path, model, token=token, port=port) as daemon:
            token, port = daemon.token, daemon.gateway.port
            async with open_greeted(daemon) as raw:
                session = await asked(raw, "session/new", idempotency_key="n")
                prompt["session_id"] = session["session_id"]
                answers.append(await asked(raw, "session/prompt", **prompt))
                assert await inputs(daemon, session["session_id"]) == ["Once."]
    assert answers[0] == answers[1]


async def test_the_same_request_at_the_same_time_on_many_connections_is_done_once() -> None:
    results: list[Any] = []
    async with open_daemon() as daemon:
        async with open_client(daemon) as client:
            session = await client.create_session()

        async def ask() -> None:
            async with open_greeted(daemon) as raw:
                results.append(
                    await asked(
                        raw,
                        "session/prompt",
                        session_id=session.session_id,
                        content="Once.",
                        idempotency_key="a",
                    )
                )

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
        assert await inputs(daemon, session.session_id) == ["Once."]
    assert len(results) == 20
    assert all(each == results[0] for each in results)


async def test_a_prompt_whose_sender_was_cut_off_is_stored_once() -> None:
    async with open_daemon() as daemon:
        async with open_client(daemon) as client:
            session = await client.create_session()
        prompt = {"session_id": session.session_id, "content": "Once.", "idempotency_key": "a"}
        for _ in range(20):
            async with open_greeted(daemon) as raw:
                request = {"jsonrpc": "2.0", "id": 9, "method": "session/prompt"}
                await raw.send({**request, "params": prompt})
        async with open_greeted(daemon) as raw:
            ticket = await asked(raw, "session/prompt", **prompt)
        assert ticket["seq"] == 2
        assert await inputs(daemon, session.session_id) == ["Once."]


async def test_other_methods_repeat_their_answer_too() -> None:
    model = callboard.ScriptedModel(
        [reply(calls=[("delete_file", {"path": "old.txt"})]), reply("It stays.")]
    )
    async with open_daemon(model) as daemon, open_greeted(daemon) as raw:
        async with open_client(daemon) as client, client.topic("approvals") as topic:
            session = await client.create_session()
            await client.prompt(session.session_id, "Delete old.txt.")
            while not (waiting := await client.approvals()):
                await anext(topic)
        answer = {"approval_id": waiting[0].approval_id, "decision": "deny"}
        assert await asked(raw, "approval/resolve", **answer, idempotency_key="a") == {}
        assert await asked(raw, "approval/resolve", **answer, idempotency_key="a") == {}
        assert (await asked(raw, "approval/resolve", **answer))["type"] == "conflict"


async def test_a_token_is_told_once_and_a_repeat_says_so() -> None:
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        wanted = {"name": "cron", "role": "operator"}
        made = await asked(raw, "token/create", **wanted, idempotency_key="a")
        again = await asked(raw, "token/create", **wanted, idempotency_key="a")
        assert (again["type"], again["kind"]) == ("conflict", "told")
        rotated = await asked(raw, "token/rotate", name="cron", idempotency_key="a")
        twice = await asked(raw, "token/rotate", name="cron", idempotency_key="a")
        assert twice["kind"] == "told"
        tokens = made["token"], rotated["token"]
        kept = str(vars(daemon.gateway.daemon.idempotency))
        assert "token/rotate" in kept
        assert not any(token in kept for token in tokens)
        assert daemon.gateway.daemon.credentials.find(tokens[1]) is not None
        other = await asked(raw, "token/create", **wanted, idempotency_key="b")
        assert other == {"type": "conflict"}  # another request, whose name is taken


async def test_keys_that_are_too_many_are_forgotten_from_the_oldest_on(monkeypatch: Any) -> None:
    monkeypatch.setattr("callboard.runtime.store.tables.requests.MAX_REQUESTS", 2)
    async with open_daemon() as daemon, open_greeted(daemon) as raw:
        made = [
            (await asked(raw, "session/new", idempotency_key=key))["session_id"] for key in "abc"
        ]
        again = [
            (await asked(raw, "session/new", idempotency_key=key))["session_id"] for key in "cb"
        ]
        assert again == [made[2], made[1]]
        new = (await asked(raw, "session/new", idempotency_key="a"))["session_id"]
        assert new not in made

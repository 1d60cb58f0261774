"""What holds at all nodes of a cluster: keys of requests, answers of people, budgets, tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.client.client import Client, connect
from callboard.gateway.relays.accepted import NodeConnection
from callboard.providers.testing.script import reply
from callboard.runtime.budget import Budget
from callboard.runtime.errors import AuthError, CallboardError, ConflictError
from callboard.runtime.events import ApprovalAnswered, InputAccepted, TurnEnded
from callboard.runtime.store.rows import SessionRow
from callboard.runtime.wire.fields import Role
from callboard.runtime.wire.sessions import NewSession, Prompt, Ticket
from support.cluster.served_node import node_of, open_served, relays_of
from support.gateway.daemon_scene import Daemon
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0
AT_ONCE = 8


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


async def all_at_once(*asks: Callable[[], Awaitable[Any]]) -> list[Any]:
    """Ask all of it side by side; return the answers, or the errors in their place."""
    answers: list[Any] = [None] * len(asks)

    async def ask(number: int) -> None:
        try:
            answers[number] = await asks[number]()
        except CallboardError as error:
            answers[number] = error

    async with trio.open_nursery() as nursery:
        for number in range(len(asks)):
            nursery.start_soon(ask, number)
    return answers


async def know_each_other(*nodes: Daemon) -> None:
    await until(lambda: all(len(node_of(each).members.live) == len(nodes) for each in nodes))
    await until(lambda: all(each.credentials.find(nodes[0].token) for each in nodes))


async def test_a_key_that_comes_to_two_nodes_at_once_is_done_once(url: str, tmp_path: Path) -> None:
    async with open_served(url, "a", tmp_path) as a, open_served(url, "b", tmp_path) as b:
        with trio.fail_after(WAIT_SECONDS):
            await know_each_other(a, b)
            async with connect(a.url, a.token) as at_a, connect(b.url, a.token) as at_b:

                def asker(client: Client, params: Any, method: str, result: Any) -> Any:
                    async def ask() -> Any:
                        return await client.request(method, params, result, key="the-key")

                    return ask

                both = [at_a, at_b] * AT_ONCE
                new = NewSession(title="Once")
                made = await all_at_once(
                    *(asker(each, new, "session/new", SessionRow) for each in both)
                )
                assert {type(each) for each in made} == {SessionRow}
                (session,) = {each.session_id for each in made}
                assert len(await at_a.sessions()) == 1
                wanted = Prompt(session_id=session, content="Once.")
                tickets = await all_at_once(
                    *(asker(each, wanted, "session/prompt", Ticket) for each in both)
                )
                assert {type(each) for each in tickets} == {Ticket}
                assert len({each.input_id for each in tickets}) == 1
                events = await a.runtime.store.events(session)
                assert sum(isinstance(each.event, InputAccepted) for each in events) == 1
                other = Prompt(session_id=session, content="Something else.")
                for client in (at_a, at_b):
                    with pytest.raises(ConflictError, match="was used for another"):
                        await client.request("session/prompt", other, Ticket, key="the-key")


@callboard.tool(approval="always")
def launch(what: str) -> str:
    """Launches something."""
    return f"launched {what}"


async def test_a_question_that_is_answered_at_two_nodes_at_once_is_answered_once(
    url: str, tmp_path: Path
) -> None:
    steps = [reply(calls=[("launch", {"what": "it"})]), reply("Done.")]
    options: Any = {"tools": [launch], "policy": "balanced"}
    async with (
        open_served(url, "a", tmp_path, **options) as a,
        open_served(url, "b", tmp_path, steps=steps, **options) as b,
    ):
        with trio.fail_after(WAIT_SECONDS):
            await know_each_other(a, b)
            async with connect(a.url, a.token) as at_a, connect(b.url, a.token) as at_b:
                session = (await at_b.create_session()).session_id
                await at_b.prompt(session, "Launch it.")
                while not (asked := await at_a.approvals()):  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
                    await trio.sleep(0.02)
                name = asked[0].approval_id
                said = await all_at_once(
                    lambda: at_a.answer(name, "allow"), lambda: at_b.answer(name, "deny")
                )
                assert sum(isinstance(each, ConflictError) for each in said) == 1

                async def has_ended() -> bool:
                    events = await a.runtime.store.events(session)
                    return any(isinstance(each.event, TurnEnded) for each in events)

                while not await has_ended():  # noqa: ASYNC110  # ruff: ignore[async-busy-wait]
                    await trio.sleep(0.02)
                stored = await a.runtime.store.events(session)
                answers = [e.event for e in stored if isinstance(e.event, ApprovalAnswered)]
                assert len(answers) == 1
                won = "deny" if isinstance(said[0], ConflictError) else "allow"
                assert str(answers[0].decision) == won
                assert await at_a.approvals() == []


async def test_what_a_session_used_at_one_node_is_gone_at_the_next(
    url: str, tmp_path: Path
) -> None:
    async with open_served(url, "b", tmp_path) as b:
        async with open_served(url, "a", tmp_path) as a:
            session = await a.runtime.create_session(budget=Budget(model_calls=3))
            for _ in range(2):
                assert await session.run("Again.") == "By a."
        with trio.fail_after(WAIT_SECONDS):
            same = await b.runtime.get_session(session.session_id)
            assert await same.run("Again.") == "By b."
            with pytest.raises(CallboardError, match="3 of 3 calls"):
                await same.run("Again.")
            await same.set_budget(Budget(model_calls=4))
            assert await same.run("Again.") == "By b."


async def test_a_token_that_is_revoked_at_one_node_ends_what_hangs_on_it_at_others(
    url: str, tmp_path: Path
) -> None:
    """Its connections to any node end, and so does what those have running at the session's owner."""
    begun, gate = trio.Event(), trio.Event()

    @callboard.tool
    async def hold() -> str:
        """Ends when it is let."""
        begun.set()
        with trio.CancelScope(shield=True):
            await gate.wait()
        return "held"

    steps = [reply(calls=[("hold", {})]), *[reply("By b.")] * 3]
    errors: list[CallboardError] = []
    async with (
        open_served(url, "a", tmp_path) as a,
        open_served(url, "b", tmp_path, steps=steps, tools=[hold]) as b,
        open_served(url, "c", tmp_path) as c,
    ):
        with trio.fail_after(WAIT_SECONDS):
            await know_each_other(a, b, c)
            token = c.new_token("guest", Role.OPERATOR)
            await until(lambda: a.credentials.find(token) and b.credentials.find(token))
            async with connect(b.url, b.token) as at_b:
                session = (await at_b.create_session()).session_id

            async def cancel(client: Client) -> None:
                try:
                    await client.cancel(session)  # which waits for the end of the call
                except CallboardError as error:
                    errors.append(error)

            async with connect(a.url, token) as guest, trio.open_nursery() as nursery:
                await guest.prompt(session, "Hold.")
                await begun.wait()
                nursery.start_soon(cancel, guest)
                (accepted,) = relays_of(b).accepted
                assert isinstance(accepted, NodeConnection)
                await until(lambda: bool(accepted._relayed))
                c.credentials.revoke("guest")
                await until(lambda: len(errors) == 1)
                with pytest.raises(AuthError):
                    await guest.prompt(session, "Go on.")
            await until(lambda: not accepted._relayed)
            gate.set()

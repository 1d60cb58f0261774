"""What changes something of a session that another node has, or nobody: it is done by its owner, or refused with the owner's name."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import callboard
from callboard.client.client import connect
from callboard.config.managed import load_managed
from callboard.embedding.runtime import host_of
from callboard.gateway.methods.all import all_methods
from callboard.runtime.errors import ConflictError, NotFoundError
from callboard.runtime.wire.fields import Role
from support.cluster.served_node import node_of, open_served
from support.gateway.daemon_scene import Daemon
from support.gateway.door_scene import request
from support.gateway.raw_door import Answer, answer_to
from support.postgres.databases import new_database
from support.postgres.server import needs_postgres
from support.waits import until

WAIT_SECONDS = 60.0

WITHOUT_OWNER = {
    "it begins a session, which is this node's": "session/new session/fork session/import",
    "it has keys of the command's own environment, and hangs on its connection": "session/give_options",
    "it changes no session": """
        policy/check memory/list memory/search provider/list key/list token/list agent/preview skill/list skill/get hook/list
        hook/get hook/test hook/dead mcp/get mcp/look mcp/prompts mcp/prompt mcp/complete log/tail store/backup settings/get
        root/list
    """,
    "it is about the configuration, keys or tokens of a node": """
        provider/create provider/update provider/delete provider/test provider/set_key model/refresh model/lend
        model/set_default model/add model/remove key/place key/remove token/create token/rotate token/revoke agent/create
        agent/update agent/clone skill/allow skill/revoke hook/create hook/update hook/delete hook/resend mcp/accept mcp/add
        mcp/update mcp/remove mcp/login mcp/finish_login mcp/restart runtime/shutdown config/reload settings/set root/add
        schedule/create schedule/update schedule/pause schedule/resume schedule/delete
    """,
    "it names a schedule, and no session": "schedule/run",
    "it names an agent: each of its sessions is given another one by `session/set_agent`": "agent/delete",
}
"""The methods of who may change something that no other node is asked for, by why."""


def test_each_method_that_may_change_a_session_is_done_by_its_owner_or_says_why_not() -> None:
    changing = {each.name for each in all_methods() if each.role is not Role.OBSERVER}
    relayed = {each.name for each in all_methods() if each.about}
    named = [name for names in WITHOUT_OWNER.values() for name in names.split()]
    assert len(named) == len(set(named))
    assert changing - relayed == set(named)
    for each in all_methods():
        assert not each.about or each.about in each.params.__struct_fields__


@pytest.fixture
def url() -> Iterator[str]:
    needs_postgres()
    with new_database() as made:
        yield made


@asynccontextmanager
async def two_nodes(
    url: str, folder: Path, of_b: Mapping[str, Any] | None = None, **of_a: Any
) -> AsyncGenerator[tuple[Daemon, Daemon]]:
    """Nodes a and b, which know each other."""
    async with (
        open_served(url, "a", folder, **of_a) as a,
        open_served(url, "b", folder, **(of_b or {})) as b,
    ):
        with trio.fail_after(WAIT_SECONDS):
            await until(lambda: all(len(node_of(each).members.live) == 2 for each in (a, b)))
            yield a, b


async def test_memories_of_sessions_of_other_nodes_and_of_nobody_are_stored_and_deleted(
    url: str, tmp_path: Path
) -> None:
    async with open_served(url, "a", tmp_path) as a, connect(a.url, a.token) as client:
        nobodys = (await client.create_session()).session_id
        kept = (await client.memories.store(nobodys, "The kettle is red.")).memory_id
    async with two_nodes(url, tmp_path, token=a.token) as (a, b):
        async with connect(a.url, a.token) as at_a, connect(b.url, b.token) as at_b:
            theirs = (await at_b.create_session()).session_id
            stored = await at_a.memories.store(theirs, "The kettle is blue.")
            assert stored.session_id == theirs
            await at_b.memories.forget(kept)  # no session was asked for since node a began again
            assert [each.memory_id for each in await at_b.memories.list()] == [stored.memory_id]
            await at_a.memories.forget(stored.memory_id)
            assert await at_b.memories.list() == []
            with pytest.raises(NotFoundError, match="there is no memory"):
                await at_a.memories.forget(stored.memory_id)
            assert not node_of(a).owns(theirs)


async def test_a_runtime_claims_what_nobody_has_and_names_the_owner_of_the_rest(
    url: str, tmp_path: Path
) -> None:
    """Without a door: as a program does that embeds a node, or a command that opens one for itself."""
    async with open_served(url, "a", tmp_path) as a:
        first = await a.runtime.create_session()
    async with two_nodes(url, tmp_path, token=a.token) as (a, b):
        await (await a.runtime.get_session(first.session_id)).set_budget(callboard.Budget(tokens=9))
        assert node_of(a).owns(first.session_id)
        theirs = await b.runtime.create_session()
        there = await a.runtime.get_session(theirs.session_id)
        where = f"runs on node b, at http://127.0.0.1:{b.gateway.port}"
        with pytest.raises(ConflictError, match=where):
            await there.set_budget(callboard.Budget(tokens=9))
        with pytest.raises(ConflictError, match=where):
            await host_of(a.runtime).keeping.rename(theirs.session_id, "Tea")


async def test_a_response_of_another_node_is_not_deleted_and_its_owner_is_named(
    url: str, tmp_path: Path
) -> None:
    async with two_nodes(url, tmp_path) as (a, b):
        await until(lambda: b.credentials.find(a.token) is not None)
        body = msgspec.json.encode({"model": "general", "input": "Hello."})
        begun = await asked(b, a.token, "/v1/responses", body)
        name = msgspec.json.decode(begun.body)["id"]
        refused = await asked(a, a.token, f"/v1/responses/{name}", method="DELETE")
        assert refused.status == 409
        assert f"runs on node b, at http://127.0.0.1:{b.gateway.port}" in refused.body
        done = await asked(b, a.token, f"/v1/responses/{name}", method="DELETE")
        assert done.status == 200


async def asked(
    daemon: Daemon, token: str, target: str, body: bytes | None = None, *, method: str = "POST"
) -> Answer:
    bearer = f"Bearer {token}"
    sent = request(daemon, target, body, method=method, connection="close", authorization=bearer)
    return await answer_to(daemon, sent)


async def test_the_sessions_of_a_deleted_agent_go_on_with_general_assistant_at_all_nodes(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "config"
    config, reader = folder / "callboard.toml", callboard.Agent(name="reader", prompt="Read.")
    async with open_served(url, "a", tmp_path, config=config) as a:
        await a.runtime.agents.create(reader)
        nobodys = (await a.runtime.create_session(agent="reader")).session_id
    of_a = {"token": a.token, "config": config}
    async with two_nodes(url, tmp_path, of_b={"agents": [reader]}, **of_a) as (a, b):
        theirs = [await b.runtime.create_session(agent="reader") for _ in range(2)]
        async with connect(a.url, a.token) as client:
            await client.delete_sessions([theirs[0].session_id])  # it may be restored
            assert (await client.agents.delete("reader")).moved_sessions == 3
        for session_id in (nobodys, *(each.session_id for each in theirs)):
            row = await a.runtime.store.session(session_id)
            assert row is not None
            assert row.agent == "general"
        assert load_managed(folder).deleted_agents == ()
        assert node_of(b).owns(theirs[0].session_id)


async def test_a_deleted_agent_is_noted_while_another_node_has_sessions_of_it(
    url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "config"
    config, reader = folder / "callboard.toml", callboard.Agent(name="reader", prompt="Read.")
    async with two_nodes(url, tmp_path, of_b={"agents": [reader]}, config=config) as (a, b):
        await a.runtime.agents.create(reader)
        first = await b.runtime.create_session(agent="reader")
        mine = await a.runtime.create_session(agent="reader")
        gone = await a.runtime.agents.delete("reader")  # a runtime reaches no other node
        assert gone.moved_sessions == 1
        assert load_managed(folder).deleted_agents == ("reader",)
        rows = [await a.runtime.store.session(each.session_id) for each in (first, mine)]
        assert [row.agent for row in rows if row is not None] == ["reader", "general"]
    async with open_served(url, "a", tmp_path, config=config, token=a.token):
        assert load_managed(folder).deleted_agents == ()

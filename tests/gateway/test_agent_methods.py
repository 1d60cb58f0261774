"""The agents that sessions may have, for who may know of them."""

from __future__ import annotations

import pytest

import callboard
from callboard.runtime.definitions import Agent
from callboard.runtime.errors import NotFoundError
from callboard.runtime.wire.daemon import Agents, OneAgent
from callboard.runtime.wire.fields import Nothing, Role
from support.gateway.daemon_scene import open_client, open_daemon

READER = callboard.Agent(name="reader", prompt="You read.", tools=("read_file",))


async def test_agents_are_listed_as_they_are() -> None:
    async with open_daemon(agents=[READER]) as daemon, open_client(daemon) as client:
        found = (await client.request("agent/list", Nothing(), Agents)).agents
        assert [agent.name for agent in found] == ["general", "reader"]
        assert await client.request("agent/get", OneAgent("reader"), Agent) == READER
        with pytest.raises(NotFoundError):
            await client.request("agent/get", OneAgent("nobody"), Agent)


async def test_a_token_for_one_agent_knows_no_other() -> None:
    async with open_daemon(agents=[READER]) as daemon:
        token = daemon.new_token("limited", Role.OBSERVER, agents=("reader",))
        async with open_client(daemon, token) as client:
            found = (await client.request("agent/list", Nothing(), Agents)).agents
            assert [agent.name for agent in found] == ["reader"]
            with pytest.raises(NotFoundError):
                await client.request("agent/get", OneAgent("general"), Agent)

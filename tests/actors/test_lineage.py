from __future__ import annotations

import pytest

from callboard.actors.people.lineage import Channels, Lineage, narrowed
from callboard.runtime.channel import Channel
from callboard.runtime.definitions import Agent, SessionKind
from callboard.runtime.errors import NotFoundError
from callboard.runtime.events import AgentSwitched, SessionCreated
from callboard.runtime.store.interface import Store
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.store.rows import Append

GENERAL = Agent()
FEW = Agent(name="few", tools=("read_file", "delegate"))


async def tree_of(*agents: Agent) -> tuple[Store, Lineage]:
    """A main session `s0`, a branch `s1` of it and a worker `s2` of that."""
    store = open_memory_store()
    kinds = (SessionKind.MAIN, SessionKind.BRANCH, SessionKind.WORKER)
    tools = (None, ("read_file", "write_file", "delegate"), ("read_file", "write_file"))
    for level, (kind, has) in enumerate(zip(kinds, tools, strict=True)):
        created = SessionCreated(
            agent="general", workspace="/work", kind=kind, tools=has,
            parent_id=f"s{level - 1}" if level else None, parent_call_id=f"c{level}",
        )  # fmt: skip
        await store.commit([Append(f"s{level}", (created,))])
    return store, Lineage(store, {agent.name: agent for agent in agents}, Channels(Channel()))


async def test_the_parents_come_first_with_their_channels_and_what_they_have() -> None:
    store, tree = await tree_of(GENERAL)
    above = await tree.above("s1")
    assert [each.session_id for each in above] == ["s1", "s0"]
    assert [each.kind for each in above] == [SessionKind.BRANCH, SessionKind.MAIN]
    assert [each.channel for each in above] == [None, "application"]
    assert [each.agent.tools for each in above] == [("read_file", "write_file", "delegate"), None]
    row = await store.session("s2")
    assert row is not None
    assert (await tree.agent_of(row, above)).tools == ("read_file", "write_file")
    assert await tree.above(None) == ()


async def test_what_a_parent_loses_is_lost_below() -> None:
    """The agent above is another one since, which has less."""
    store, tree = await tree_of(GENERAL, FEW)
    await store.commit([Append("s0", (AgentSwitched(agent="few"),))])
    above = await tree.above("s1")
    assert [each.agent.tools for each in above] == [("read_file", "delegate"), FEW.tools]
    row = await store.session("s2")
    assert row is not None
    assert (await tree.agent_of(row, above)).tools == ("read_file",)


async def test_an_agent_that_is_gone_is_named() -> None:
    _, tree = await tree_of(FEW)
    with pytest.raises(NotFoundError, match="no agent 'general'; there are: few"):
        await tree.above("s1")


@pytest.mark.parametrize(
    ("has", "given", "left"),
    [
        (None, None, None),
        (None, ("a",), ("a",)),
        (("a", "b"), None, ("a", "b")),
        (("a", "b"), ("b", "c"), ("b",)),
        (("a",), (), ()),
    ],
)
def test_tools_only_ever_get_fewer(
    has: tuple[str, ...] | None, given: tuple[str, ...] | None, left: tuple[str, ...] | None
) -> None:
    assert narrowed(Agent(tools=has), given).tools == left

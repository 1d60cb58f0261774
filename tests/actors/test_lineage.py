"""Who stands above a session: its agents with their tools, and the channel that serves it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from callboard.actors.conversation.inputs import Given, GivenOptions
from callboard.actors.people.lineage import Channels, Lineage
from callboard.runtime.channel import Channel
from callboard.runtime.definitions import Agent, Preset, SessionKind
from callboard.runtime.events import AgentSwitched, SessionCreated
from callboard.runtime.messages import Ancestor, CallPlace
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


async def test_what_a_parent_loses_is_lost_below() -> None:
    """The agent above is another one since, which has less."""
    store, tree = await tree_of(GENERAL, FEW)
    await store.commit([Append("s0", (AgentSwitched(agent="few"),))])
    above = await tree.above("s1")
    assert [each.agent.tools for each in above] == [("read_file", "delegate"), FEW.tools]
    row = await store.session("s2")
    assert row is not None
    assert (await tree.agent_of(row, above)).tools == ("read_file",)


async def test_below_an_agent_that_is_gone_nothing_is_allowed() -> None:
    """General Assistant, which has every tool, does not stand in for it."""
    store, tree = await tree_of(GENERAL)
    await store.commit([Append("s0", (AgentSwitched(agent="few"),))])
    above = await tree.above("s1")
    assert [(each.agent.name, each.agent.tools) for each in above] == [("general", ()), ("few", ())]
    assert above[-1].agent.policy is Preset.STRICT
    row = await store.session("s2")
    assert row is not None
    assert (await tree.agent_of(row, above)).tools == ()


async def test_an_agent_that_is_gone_bounds_as_it_did_where_that_is_known() -> None:
    store, _ = await tree_of()
    await store.commit([Append("s0", (AgentSwitched(agent="few"),))])
    tree = Lineage(store, {"general": GENERAL}, Channels(Channel()), {"few": FEW})
    above = await tree.above("s1")
    assert [each.agent.tools for each in above] == [("read_file", "delegate"), FEW.tools]


MAIN, BRANCH, WORKER = SessionKind.MAIN, SessionKind.BRANCH, SessionKind.WORKER


class Desk(Channel):
    """A channel with a name of its own."""

    name = "desk"


def above(session_id: str, kind: SessionKind, channel: str | None = None) -> Ancestor:
    return Ancestor(session_id=session_id, agent=Agent(), kind=kind, channel=channel)


HOME = above("main", MAIN, "desk")


def place_in(
    kind: SessionKind, lineage: Sequence[Ancestor] = (), channel: str | None = None
) -> CallPlace:
    return CallPlace(
        session_id="s1", turn_id="t", agent=Agent(), session_kind=kind, workspace="/work",
        channel=channel, lineage=tuple(lineage), task="Count the doors.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "session_id"),
    [
        (place_in(MAIN, channel="desk"), "s1"),
        (place_in(MAIN), None),
        (place_in(MAIN, channel="another"), None),
        (place_in(BRANCH, [HOME]), "main"),
        (place_in(BRANCH, [above("middle", BRANCH), HOME]), "main"),
        (place_in(BRANCH, [above("middle", MAIN, "desk"), HOME]), "middle"),
        (place_in(BRANCH, [above("main", MAIN)]), None),
        (place_in(BRANCH), None),
        (place_in(WORKER, [HOME]), None),
        (place_in(WORKER, [HOME], channel="desk"), None),
    ],
)
def test_the_nearest_channel_serves(place: CallPlace, session_id: str | None) -> None:
    channels = Channels(Desk())
    served = channels.serving(place)
    assert (served.session_id if served is not None else None) == session_id
    assert Channels().serving(place) is None
    names = [each.channel.name for each in channels.reachable(place)]
    assert names == (["desk"] if session_id is not None else [])


def test_only_main_sessions_have_a_channel_of_their_own() -> None:
    given = GivenOptions()
    channels = Channels(Desk(), given.people)
    assert [channels.own(kind) for kind in (MAIN, BRANCH, WORKER)] == ["desk", None, None]
    assert Channels().own(MAIN) is None
    command = given.begin("s", Given())
    assert [channels.own(MAIN, each) for each in (command, "", "gone")] == [None, "desk", "desk"]

"""Under which agents, preset and channel a question on record was asked, as far as is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import msgspec

from ...actors.calls.preparation import CallPreparation
from ...actors.handles.open_handles import OpenHandles
from ...actors.people.channels import Channels
from ...actors.people.lineage import Lineage
from ...actors.permissions.policy import SessionPolicies
from ...actors.permissions.record import BrokerServices
from ...config.policy.policy import PolicyBook
from ...config.search_engines import search_places
from ...config.settings import Settings
from ...embedding.options import agents_of
from ...runtime.channel import Channel
from ...runtime.definitions import Agent, Preset
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.messages import CallPlace, JournalMessage, PermissionQuestion
from ...runtime.store.interface import ApprovalRow, SessionRow, StoreReader
from ...tools.registry import ToolRegistry
from ..ask.terminal_channel import TerminalChannel

CHANNELS = (TerminalChannel.name, Channel.name, None)
"""Of a runtime: the one of `callboard run`, the one of a program that names none, none."""


class AskedUnder(msgspec.Struct, frozen=True, kw_only=True):
    """Whose question it was.

    Attributes:
        agents: By name; those that are not configured here, with nothing but their names.
        channel: Where the people of its runtime are.
        unknown: Names of agents that are not configured here.
        is_known: Whether the policy is that the question names.
        preset: What `--policy` must say for it, when that is not what is configured.
    """

    agents: Mapping[str, Agent]
    channel: str | None = TerminalChannel.name
    unknown: tuple[str, ...] = ()
    is_known: bool = False
    preset: str = ""

    @property
    def problem(self) -> str:
        """Why other arguments can't be judged here; empty when they can."""
        if self.unknown:
            return f"the agent {self.unknown[0]!r} is not configured here"
        return "" if self.is_known else "it was asked under other rules than those configured here"

    @property
    def warning(self) -> str:
        """What to say to whoever allows it; may be empty."""
        if self.unknown or self.is_known:
            return ""
        return (
            "It was asked under other rules than those configured here: if the session goes on under "
            "these, it is asked again."
        )


def configured(settings: Settings) -> AskedUnder:
    """What is configured here, for what is about no question."""
    return AskedUnder(agents=agents_of(settings, (), None))


async def asked_under(
    reader: StoreReader, settings: Settings, row: ApprovalRow, line: Sequence[SessionRow]
) -> AskedUnder:
    """Looks for what makes the policy that the question names.

    Args:
        reader: The record.
        settings: The configuration.
        row: The question.
        line: Its session, and those above it in their order.
    """
    agents = agents_of(settings, (), None)
    unknown = tuple(each.agent for each in line if each.agent not in agents)
    if unknown:
        bare = {name: Agent(name=name) for name in unknown}
        return AskedUnder(agents={**agents, **bare}, unknown=unknown)
    own = agents[line[-1].agent].policy
    presets = (None, *(preset for preset in Preset if preset is not own))
    for preset, channel in product(presets, CHANNELS):
        agents = agents_of(settings, (), preset)
        if await _version(reader, settings, agents, channel, row, line[0]) == row.policy_version:
            said = "" if preset is None else preset.value
            return AskedUnder(agents=agents, channel=channel, is_known=True, preset=said)
    return AskedUnder(agents=agents_of(settings, (), None))


def desk_services(
    store: StoreReader,
    settings: Settings,
    registry: ToolRegistry,
    asked: AskedUnder,
    forbidden: Sequence[Path],
) -> BrokerServices:
    """What the broker needs to take an answer: everything as it was, and nobody to ask."""
    # Calls are checked here and never run: their handles need to be there, and lead nowhere.
    unserved: Mailbox[JournalMessage] = Mailbox("journal of calls that do not run", 1)
    handles = OpenHandles(store, forbidden, journal=unserved)
    return BrokerServices(
        store=store,
        preparation=CallPreparation(registry, handles, settings.limits),
        agents=asked.agents,
        policies=PolicyBook(settings.rules, search_places(settings.search)),
        channels=_channels(asked.channel),
        approval_seconds=settings.limits.approval_seconds,
        deferred_seconds=settings.limits.deferred_seconds,
    )


async def _version(
    reader: StoreReader,
    settings: Settings,
    agents: Mapping[str, Agent],
    channel: str | None,
    row: ApprovalRow,
    session: SessionRow,
) -> str:
    """The version of the policy that holds for the question's session under these."""
    channels = _channels(channel)
    tree = Lineage(reader, agents, channels)
    lineage = await tree.above(session.parent_id)
    place = CallPlace(
        session_id=row.session_id,
        turn_id=row.turn_id,
        agent=await tree.agent_of(session, lineage),
        session_kind=session.kind,
        workspace=session.workspace,
        channel=channels.own(session.kind),
        lineage=lineage,
    )
    question = PermissionQuestion(
        call_id=row.call_id,
        name=row.tool,
        tier=row.tier,
        arguments=row.arguments,
        approval_reason=row.reason,
    )
    policies = SessionPolicies(PolicyBook(settings.rules, search_places(settings.search)))
    return policies.of(place).decision(question).policy_version


def _channels(name: str | None) -> Channels:
    """A channel of this name, with nobody there: what is asked meanwhile waits on record."""
    if name is None:
        return Channels()
    channel = Channel()
    channel.name, channel.is_connected = name, False
    return Channels(channel)

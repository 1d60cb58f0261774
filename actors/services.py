"""What every session of a runtime shares: the addresses of the other actors, and their services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio

from ..config.settings import Limits
from ..providers.provider import ModelTarget
from ..providers.recording import Recorder
from ..runtime.definitions import GENERAL_AGENT, Agent
from ..runtime.errors import ConflictError
from ..runtime.events import AgentSwitched, DurableEvent, Stored
from ..runtime.http.client import HttpClient
from ..runtime.kernel.delivery import EventInboxes
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.messages import Ancestor, AppendEvents, DispatcherMessage, JournalMessage
from ..runtime.store.interface import Store
from ..runtime.taint.marked_files import MarkedFiles
from ..runtime.turns.activity import Activity
from ..tools.registry import ToolRegistry
from ..tools.skills.shelf import SkillShelf
from .budget.budgets import BudgetBook
from .conversation.conversation import Conversation
from .conversation.inputs import GivenOptions
from .delegation.tree import SessionTree
from .model.choice import ProviderHealth
from .model.stream import ModelStream, StartModelCall
from .people.lineage import Channels, Lineage, allows_no_more

if TYPE_CHECKING:
    from ..runtime.kernel.lease_gate import LeaseGate
    from ..runtime.telemetry.context import Tracing


class Programs(Protocol):
    """Runs the programs of sessions: the sandbox, or `NoPrograms`."""

    async def ready(self) -> None:
        """Wait until it is known whether tools that run programs may be offered."""
        ...

    async def tested(self) -> None:
        """Wait until it is known whether programs may be started."""
        ...

    async def end_session(self, session_id: str) -> None:
        """End what a session has started; return when nothing of it is left."""
        ...

    def knows(self, session_id: str, process_id: str) -> bool:
        """Whether a background process was started here, and the session has not ended since."""
        ...


class NoPrograms:
    """The programs of a runtime in which none may be started."""

    async def ready(self) -> None:
        """See `Programs`."""

    async def tested(self) -> None:
        """See `Programs`."""

    async def end_session(self, session_id: str) -> None:
        """See `Programs`."""

    def knows(self, session_id: str, process_id: str) -> bool:
        """See `Programs`."""
        return False


class AgentHost(Protocol):
    """A session, as far as its agent is concerned."""

    session_id: str
    conversation: Conversation
    lineage: tuple[Ancestor, ...]

    async def append(self, *events: DurableEvent) -> object:
        """Store events and fold what was committed; raises `StorageError`."""
        ...


class Models(Protocol):
    """Finds the model of a turn; its implementation knows the settings and the keys."""

    def target(self, choice: str | None, preferred: str | None = None) -> ModelTarget:
        """Return the session's own model, the program's, the agent's, or the default, in this order."""
        ...

    def fallback(self, name: str) -> ModelTarget:
        """Return the model of this `PROVIDER/MODEL`, for when another one fails."""
        ...


class Owners(Protocol):
    """Which sessions this node owns, where several nodes share a record."""

    def owns(self, session_id: str) -> bool:
        """Whether this node runs the session."""
        ...

    async def claim(self, session_id: str) -> None:
        """Make this node the owner, if there is none.

        Raises:
            ConflictError: Another node owns the session, or may own it, and this one not; or none may.
            NotFoundError: There is no such session.
        """
        ...

    def place_of(self, folder: str) -> str:
        """Return what is on record for a folder of this node; raise `ValidationError` if no session may work there."""
        ...

    async def folder_of(self, session_id: str, place: str) -> str:
        """Return the folder of a session's place on record; raise `CallboardError` if none may work there."""
        ...

    def is_confined(self, folder: str) -> bool:
        """Whether a folder that `folder_of` gave is a real path in a root, and no link may lead out of that."""
        ...


async def append_as_owner(
    journal: Mailbox[JournalMessage], owners: Owners | None, session_id: str, event: DurableEvent
) -> tuple[Stored, ...]:
    """Store an event of a session, which this node claims first if nobody has it; return what was stored.

    Raises:
        ConflictError: Another node of the cluster has the session.
    """
    if owners is not None and not owners.owns(session_id):
        await owners.claim(session_id)
    return await journal.ask(AppendEvents(session_id=session_id, events=(event,)))


class SessionServices(msgspec.Struct, frozen=True, kw_only=True):
    """What every session of a runtime shares.

    With `is_policy_given`, the program has given the preset of all agents, and turns that go on get it
    too. `gone_agents` are those that a change of the settings took away. Without `wakes`, an input that waits on record, or comes from another session, begins its turn only
    while its session is in use. `given` has the options of commands for the turns of their inputs. Without `owners`, every session
    is this runtime's, and without a `gate` models are asked at any time.
    """

    journal: Mailbox[JournalMessage]
    dispatcher: Mailbox[DispatcherMessage]
    store: Store
    inboxes: EventInboxes
    http: HttpClient
    limits: Limits
    models: Models
    tools: ToolRegistry
    agents: Mapping[str, Agent]
    gone_agents: Mapping[str, Agent] = {}
    tree: SessionTree
    budgets: BudgetBook
    programs: Programs = msgspec.field(default_factory=NoPrograms)
    activity: Activity = msgspec.field(default_factory=Activity)
    channels: Channels = msgspec.field(default_factory=Channels)
    health: ProviderHealth = msgspec.field(default_factory=ProviderHealth)
    given: GivenOptions = msgspec.field(default_factory=GivenOptions)
    recorder: Recorder | None = None
    strict: bool = False
    wakes: bool = True
    is_policy_given: bool = False
    skills: SkillShelf = msgspec.field(default_factory=lambda: SkillShelf(None))
    marked_files: MarkedFiles = msgspec.field(default_factory=MarkedFiles)
    tracing: Tracing | None = None
    owners: Owners | None = None
    gate: LeaseGate | None = None

    async def locate(self, session_id: str, conversation: Conversation) -> tuple[Ancestor, ...]:
        """Return the sessions above a conversation, which works in this node's folder for its place from here on.

        Raises `ConflictError` if the place leads out of its root here.
        """
        if self.owners is not None:
            conversation.workspace = await self.owners.folder_of(session_id, conversation.workspace)
        return await self.lineage.above(conversation.parent_id)

    async def silent_window(self, target: ModelTarget) -> int | None:
        """Return the window to which the server of a model cuts off requests in silence, as far as that is known."""
        if target.endpoint is None or not target.endpoint.cuts_off:
            await trio.lowlevel.checkpoint()
            return None
        from ..providers.catalog.windows import silent_window  # few models are on such a server

        return await silent_window(self.http, target.endpoint, target.model)

    def model_stream(self, session_id: str, mailbox: Mailbox[StartModelCall]) -> ModelStream:
        """Return the model stream actor of a session."""
        return ModelStream(mailbox, self.http, self.limits, session_id, self.recorder, self.gate)

    async def settle_agent(self, host: AgentHost) -> None:
        """Wait until it is known with which agent a session goes on, and which tools that is offered.

        One whose agent is gone goes on with General Assistant, and says so on record, once, where that is allowed no
        more than the agent was. Otherwise, and where nobody knows that any more, a person gives it another agent:
        whoever asks nobody would get more tools than the session ever had. Some tools depend on the sandbox's test.

        The same holds for the sessions above: their agents bound what it may do.

        Raises:
            ConflictError: Its agent is gone, and General Assistant may do more; or one above is, and nobody knows what
                it was allowed.
        """
        conversation, session_id = host.conversation, host.session_id
        if conversation.is_deleted:  # nothing of it runs
            return
        gone = conversation.agent
        if gone not in self.agents and GENERAL_AGENT in self.agents:
            was = self.gone_agents.get(gone)
            if was is None or not allows_no_more(self.agents[GENERAL_AGENT], was):
                raise ConflictError(
                    f"{session_id} had the agent {gone!r}, which is gone, and {GENERAL_AGENT} may do more than that "
                    f"did. {_another_agent(session_id)}{_may_end(conversation)}"
                )
            await host.append(
                AgentSwitched(agent=GENERAL_AGENT, reason=f"there is no agent {gone!r} now")
            )
        if self._unknown_above(host) is not None:  # somebody may have given it another by now
            host.lineage = await self.lineage.above(conversation.parent_id)
        if (above := self._unknown_above(host)) is not None:
            raise ConflictError(
                f"{session_id} may do no more than {above.session_id}, which delegated to it and had the agent "
                f"{above.agent.name!r}, which is gone. {_another_agent(above.session_id)}{_may_end(conversation)}"
            )
        known = self.agents.get(conversation.agent)
        if known is None or self.tools.runs_programs(known.tools):
            await self.programs.ready()

    def _unknown_above(self, host: AgentHost) -> Ancestor | None:
        """Return the nearest session above whose agent is gone, and of which nobody knows what it was allowed."""
        known = self.agents.keys() | self.gone_agents.keys()
        return next((each for each in host.lineage if each.agent.name not in known), None)

    @property
    def lineage(self) -> Lineage:
        """Finds the sessions above one."""
        return Lineage(self.store, self.agents, self.channels, self.gone_agents)


def _another_agent(session_id: str) -> str:
    return (
        f"`callboard session agent {session_id} {GENERAL_AGENT}` goes on with it; or put the agent back into "
        "callboard.toml."
    )


def _may_end(conversation: Conversation) -> str:
    return "" if conversation.turn_id is None else " Its turn waits until then, or is cancelled."

"""What every session of a runtime shares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

import msgspec

from ..config.settings import Limits
from ..providers.provider import ModelTarget
from ..providers.recording import Recorder
from ..runtime.definitions import Agent, SessionKind, ToolDefinition
from ..runtime.http.client import HttpClient
from ..runtime.kernel.delivery import EventInboxes
from ..runtime.kernel.mailbox import Mailbox
from ..runtime.messages import DispatcherMessage, JournalMessage
from ..runtime.store.interface import Store
from ..runtime.turns.activity import Activity
from ..tools.skills.shelf import SkillShelf
from .budget.budgets import BudgetBook
from .delegation.tree import SessionTree
from .model.provider_health import ProviderHealth
from .model.stream import ModelStream, StartModelCall
from .people.lineage import Channels, Lineage


class Programs(Protocol):
    """What runs beside the calls of sessions."""

    async def ready(self) -> None:
        """Waits until it is known whether any may be started."""
        ...

    async def end_session(self, session_id: str) -> None:
        """Ends what a session has started; returns when nothing of it is left."""
        ...


class NoPrograms:
    """Where none may be started."""

    async def ready(self) -> None:
        """See `Programs`."""

    async def end_session(self, session_id: str) -> None:
        """See `Programs`."""


class Models(Protocol):
    """Finds the model for a turn."""

    def target(self, choice: str | None, preferred: str | None = None) -> ModelTarget:
        """The session's own model, the program's, the agent's, or the default, in this order."""
        ...

    def fallback(self, name: str) -> ModelTarget:
        """The model of this `PROVIDER/MODEL`, for when another one fails."""
        ...


class Tools(Protocol):
    """Finds the tools for a model."""

    def definitions(
        self, names: tuple[str, ...] | None, kind: SessionKind
    ) -> tuple[ToolDefinition, ...]:
        """What an agent may use in a session of this kind."""
        ...


class SessionServices(msgspec.Struct, frozen=True, kw_only=True):
    """What every session of a runtime shares.

    Without `wakes`, an input that waits on record, or that others gave a session, begins its turn only
    while that session is in use.
    """

    journal: Mailbox[JournalMessage]
    dispatcher: Mailbox[DispatcherMessage]
    store: Store
    inboxes: EventInboxes
    http: HttpClient
    limits: Limits
    models: Models
    tools: Tools
    agents: Mapping[str, Agent]
    tree: SessionTree
    budgets: BudgetBook
    programs: Programs = msgspec.field(default_factory=NoPrograms)
    activity: Activity = msgspec.field(default_factory=Activity)
    channels: Channels = msgspec.field(default_factory=Channels)
    health: ProviderHealth = msgspec.field(default_factory=ProviderHealth)
    recorder: Recorder | None = None
    strict: bool = False
    wakes: bool = True
    skills: SkillShelf = msgspec.field(default_factory=lambda: SkillShelf(None))

    def model_stream(self, session_id: str, mailbox: Mailbox[StartModelCall]) -> ModelStream:
        """A session's own way to its model."""
        recorder = self.recorder
        record = partial(recorder.recording, session_id) if recorder is not None else None
        return ModelStream(mailbox, self.http, self.limits, record)

    @property
    def lineage(self) -> Lineage:
        """Finds the parents of a session."""
        return Lineage(self.store, self.agents, self.channels)

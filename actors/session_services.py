"""What every session of a runtime shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ..config.settings import Limits
from ..providers.provider import ModelTarget
from ..providers.recording import Recorder
from ..runtime.definitions import Agent, SessionKind, ToolDefinition
from ..runtime.http import HttpClient
from ..runtime.inbox import EventInboxes
from ..runtime.mailbox import Mailbox
from ..runtime.messages import DispatcherMessage, JournalMessage
from ..runtime.store import Store
from .provider_health import ProviderHealth


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
    """What every session of a runtime shares."""

    journal: Mailbox[JournalMessage]
    dispatcher: Mailbox[DispatcherMessage]
    store: Store
    inboxes: EventInboxes
    http: HttpClient
    limits: Limits
    models: Models
    tools: Tools
    agents: Mapping[str, Agent]
    health: ProviderHealth = msgspec.field(default_factory=ProviderHealth)
    recorder: Recorder | None = None
    strict: bool = False

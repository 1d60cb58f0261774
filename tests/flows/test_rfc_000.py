"""RFC-000: where each method and field of its repositories is, in the protocol and at the client."""

from __future__ import annotations

import msgspec

from callboard.client.administration import (
    ClientAgents,
    ClientModels,
    ClientProviders,
    ClientSettings,
)
from callboard.client.client import Client
from callboard.embedding.agents import RuntimeAgents
from callboard.embedding.settable import RuntimeSettings
from callboard.gateway.methods.all import all_methods
from callboard.runtime.kernel.live_lists import ListName
from callboard.runtime.store.rows import SessionRow
from callboard.runtime.wire.agents import AgentRow
from callboard.runtime.wire.providers import ProviderRow

METHODS: dict[str, tuple[str, str]] = {
    "AgentRepository.getAllAgents": ("agent/list", "agents.list"),
    "AgentRepository.getAgentById": ("agent/get", "agents.get"),
    "AgentRepository.createAgent": ("agent/create", "agents.create"),
    "AgentRepository.updateAgent": ("agent/update", "agents.update"),
    "AgentRepository.deleteAgent": ("agent/delete", "agents.delete"),
    "AgentRepository.getBuiltInAgents": ("agent/list", "agents.list"),  # built_in
    "CloneAgentUseCase": ("agent/clone", "agents.clone"),
    "GetAgentToolsUseCase": ("agent/get", "agents.get"),  # tools
    "ProviderRepository.getAllProviders": ("provider/list", "providers.list"),
    "ProviderRepository.getActiveProviders": ("provider/list", "providers.list"),  # is_active
    "ProviderRepository.getProviderById": ("provider/list", "providers.list"),
    "ProviderRepository.createProvider": ("provider/create", "providers.create"),
    "ProviderRepository.updateProvider": ("provider/update", "providers.update"),
    "ProviderRepository.deleteProvider": ("provider/delete", "providers.delete"),
    "ProviderRepository.setProviderActive": ("provider/update", "providers.update"),
    "ProviderRepository.getModelsForProvider": ("model/list", "models.list"),
    "ProviderRepository.fetchModelsFromApi": ("model/refresh", "models.list"),
    "ProviderRepository.addManualModel": ("model/add", "models.add"),
    "ProviderRepository.deleteManualModel": ("model/remove", "models.remove"),
    "ProviderRepository.testConnection": ("provider/test", "providers.test"),
    "ProviderRepository.getGlobalDefaultModel": ("model/default", "models.default"),
    "ProviderRepository.setGlobalDefaultModel": ("model/set_default", "models.choose"),
    "SessionRepository.getAllSessions": ("session/list", "sessions"),
    "SessionRepository.getSessionById": ("session/get", "session"),
    "SessionRepository.createSession": ("session/new", "create_session"),
    "SessionRepository.updateSession": ("session/rename", "rename"),
    "SessionRepository.softDeleteSessions": ("session/delete", "delete_sessions"),
    "SessionRepository.restoreSessions": ("session/restore", "restore_sessions"),
    "SessionRepository.hardDeleteSession": ("session/purge", "purge_sessions"),
    "SessionRepository.updateAgentForSessions": ("agent/delete", "agents.delete"),
    "SessionRepository.updateTitle": ("session/rename", "rename"),
    "SessionRepository.updateCurrentAgent": ("session/set_agent", "set_agent"),
    "MessageRepository.getMessagesForSession": ("session/messages", "messages"),
    "SettingsRepository.getString": ("settings/get", "settings.get"),
    "SettingsRepository.setString": ("settings/set", "settings.set"),
}
"""By the RFC's name: the method of the protocol, and that of `Client`."""

FIELDS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "Agent.id": (AgentRow, "name"),
    "Agent.name": (AgentRow, "name"),
    "Agent.description": (AgentRow, "description"),
    "Agent.systemPrompt": (AgentRow, "prompt"),
    "Agent.toolIds": (AgentRow, "tools"),
    "Agent.preferredProviderId": (AgentRow, "model"),
    "Agent.preferredModelId": (AgentRow, "model"),
    "Agent.isBuiltIn": (AgentRow, "built_in"),
    "Agent.createdAt": (AgentRow, "created_at_ms"),
    "Agent.updatedAt": (AgentRow, "updated_at_ms"),
    "Provider.id": (ProviderRow, "name"),
    "Provider.type": (ProviderRow, "dialect"),
    "Provider.apiBaseUrl": (ProviderRow, "base_url"),
    "Provider.isPreConfigured": (ProviderRow, "source"),
    "Provider.isActive": (ProviderRow, "is_active"),
    "Session.id": (SessionRow, "session_id"),
    "Session.title": (SessionRow, "title"),
    "Session.currentAgentId": (SessionRow, "agent"),
    "Session.messageCount": (SessionRow, "message_count"),
    "Session.lastMessagePreview": (SessionRow, "last_message_preview"),
    "Session.isActive": (SessionRow, "is_active"),
    "Session.deletedAt": (SessionRow, "deleted_at_ms"),
    "Session.createdAt": (SessionRow, "created_at_ms"),
    "Session.updatedAt": (SessionRow, "updated_at_ms"),
}

FLOWS = {
    "AgentRepository.getAllAgents": ListName.AGENTS,
    "ProviderRepository.getAllProviders": ListName.PROVIDERS,
    "ProviderRepository.getGlobalDefaultModel": ListName.DEFAULT_MODEL,
}
"""What the RFC has as a Flow, beside the sessions, which have a topic of events: the list to follow."""


def test_each_method_is_there() -> None:
    groups = {
        "agents": (ClientAgents, RuntimeAgents),
        "settings": (ClientSettings, RuntimeSettings),
        "providers": (ClientProviders,),
        "models": (ClientModels,),
    }
    for name, (method, short) in METHODS.items():
        assert all_methods().get(method) is not None, name
        group, _, rest = short.rpartition(".")
        for kind in groups[group] if group else (Client,):
            assert callable(getattr(kind, rest)), name


def test_each_field_is_there() -> None:
    for name, (kind, field) in FIELDS.items():
        assert field in kind.__struct_fields__, name


def test_what_flows_can_be_followed() -> None:
    assert set(FLOWS) <= set(METHODS)
    assert set(FLOWS.values()) <= set(ListName)

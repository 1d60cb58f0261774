"""RFC-000: where each method and field of its interfaces is: in the protocol, at the client, in the package."""

from __future__ import annotations

import functools
import importlib

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
from callboard.runtime.definitions import ToolDefinition
from callboard.runtime.events import CallFinished
from callboard.runtime.kernel.live_lists import ListName
from callboard.runtime.store.rows import MessageRow, SessionRow
from callboard.runtime.turns.called_tool import CalledTool
from callboard.runtime.wire.agents import AgentRow
from callboard.runtime.wire.providers import ModelList, OfferedModel, ProviderRow, SelectedModel

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
    "SessionRepository.softDeleteSession": ("session/delete", "delete_sessions"),
    "SessionRepository.restoreSession": ("session/restore", "restore_sessions"),
    "SessionRepository.hardDeleteAllSoftDeleted": ("session/purge", "purge_sessions"),
    "SessionRepository.updateMessageStats": ("session/get", "session"),  # message_count, preview
    "SessionRepository.setActive": ("session/get", "session"),  # is_active
    "MessageRepository.addMessage": ("session/prompt", "prompt"),
    "MessageRepository.updateMessage": (
        "session/fork",
        "fork",
    ),  # what was said stays: a copy goes on
    "MessageRepository.deleteMessage": ("session/delete_messages", "delete_messages"),
    "MessageRepository.deleteMessagesForSession": ("session/purge", "purge_sessions"),
    "MessageRepository.getMessageCount": ("session/get", "session"),  # message_count
    "MessageRepository.getMessagesSnapshot": ("session/messages", "messages"),
    "RegenerateUseCase": ("session/regenerate", "regenerate"),
    "SettingsRepository.getBoolean": ("settings/get", "settings.get"),
    "SettingsRepository.setBoolean": ("settings/set", "settings.set"),
    "ModelApiAdapter.formatToolDefinitions": ("tool/definitions", "definitions_for"),
    "ModelApiAdapter.testConnection": ("provider/test", "providers.test"),
    "ToolRegistry.getAllTools": ("tool/list", "tools"),
    "ToolExecutionEngine.executeTool": ("session/prompt", "call_tool"),
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
    "AiModel.id": (OfferedModel, "choice"),
    "AiModel.displayName": (OfferedModel, "title"),
    "AiModel.providerId": (ModelList, "provider"),
    "AiModel.isDefault": (SelectedModel, "model"),
    "AiModel.source": (OfferedModel, "source"),
    "Message.id": (MessageRow, "message_id"),
    "Message.sessionId": (MessageRow, "session_id"),
    "Message.type": (MessageRow, "type"),
    "Message.content": (MessageRow, "content"),
    "Message.thinkingContent": (MessageRow, "thinking"),
    "Message.toolCallId": (MessageRow, "call_id"),
    "Message.toolName": (MessageRow, "tool_name"),
    "Message.toolInput": (MessageRow, "tool_input"),
    "Message.toolOutput": (MessageRow, "tool_output"),
    "Message.toolStatus": (MessageRow, "tool_status"),
    "Message.toolDurationMs": (MessageRow, "tool_duration_ms"),
    "Message.tokenCountInput": (MessageRow, "input_tokens"),
    "Message.tokenCountOutput": (MessageRow, "output_tokens"),
    "Message.modelId": (MessageRow, "model"),
    "Message.providerId": (MessageRow, "provider"),
    "Message.createdAt": (MessageRow, "created_at_ms"),
    "ToolDefinition.name": (ToolDefinition, "name"),
    "ToolDefinition.description": (ToolDefinition, "description"),
    "ToolDefinition.parametersSchema": (ToolDefinition, "parameters"),
    "ToolDefinition.requiredPermissions": (ToolDefinition, "needs"),
    "ToolDefinition.timeoutSeconds": (ToolDefinition, "timeout_seconds"),
    "ToolResult.status": (CallFinished, "status"),
    "ToolResult.result": (CallFinished, "result"),
    "ToolResult.errorType": (CalledTool, "error"),
    "ToolResult.errorMessage": (CalledTool, "error"),
}

INSIDE = {
    "SessionRepository.setGeneratedTitle": "runtime.events:TitleSet",
    "GenerateTitleUseCase": "actors.upkeep.titles:Titles",
    "CleanupSoftDeletedUseCase": "embedding.runtime:Runtime.purge",
    "ResolveModelUseCase": "providers.catalog.catalog:resolve_model",
    "ResolvedModel.model": "providers.catalog.catalog:ResolvedModel",
    "ModelApiAdapter.sendMessageStream": "providers.provider:Dialect.build",
    "ModelApiAdapter.listModels": "providers.provider:Dialect.list_models",
    "ModelApiAdapter.generateSimpleCompletion": "actors.upkeep.titles:title_request",
    "ModelApiAdapterFactory.getAdapter": "providers.dialects:dialect_named",
    "StreamEvent.TextDelta": "runtime.stream:TextDelta",
    "StreamEvent.ThinkingDelta": "runtime.stream:ThinkingDelta",
    "StreamEvent.ToolCallStart": "runtime.stream:ToolCallStart",
    "StreamEvent.ToolCallDelta": "runtime.stream:ToolCallDelta",
    "StreamEvent.ToolCallEnd": "runtime.stream:ToolCallEnd",
    "StreamEvent.Usage": "runtime.stream:Usage",
    "StreamEvent.Error": "runtime.stream:StreamError",
    "StreamEvent.Done": "runtime.stream:Done",
    "Tool.definition": "tools.tool:Tool",
    "Tool.execute": "tools.tool:Tool.execute",
    "ToolRegistry.register": "embedding.tools:RuntimeTools.register",
    "ToolRegistry.getTool": "tools.registry:ToolRegistry.get",
    "ToolRegistry.getToolsByIds": "tools.registry:ToolRegistry.definitions",
    "PermissionChecker.requestPermissions": "actors.permissions.broker:PermissionBroker",
    "ProviderType.OPENAI": "config.settings:DialectName.OPENAI_CHAT",
    "ProviderType.ANTHROPIC": "config.settings:DialectName.ANTHROPIC",
    "ProviderType.GEMINI": "config.settings:DialectName.GEMINI",
    "ToolCallStatus.PENDING": "runtime.definitions:CallStatus.PENDING",
    "ToolCallStatus.EXECUTING": "runtime.definitions:CallStatus.RUNNING",
    "ToolCallStatus.SUCCESS": "runtime.definitions:CallStatus.SUCCESS",
    "ToolCallStatus.ERROR": "runtime.definitions:CallStatus.ERROR",
    "ToolCallStatus.TIMEOUT": "runtime.definitions:CallStatus.TIMEOUT",
    "ModelSource.DYNAMIC": "runtime.wire.providers:ModelSource.LISTED",
    "ModelSource.PRESET": "runtime.wire.providers:ModelSource.KNOWN",
    "ModelSource.MANUAL": "runtime.wire.providers:ModelSource.MANUAL",
    "ErrorCode.NETWORK_ERROR": "runtime.errors:NetworkError",
    "ErrorCode.AUTH_ERROR": "runtime.errors:AuthError",
    "ErrorCode.TIMEOUT_ERROR": "runtime.errors:DeadlineError",
    "ErrorCode.VALIDATION_ERROR": "runtime.errors:ValidationError",
    "ErrorCode.STORAGE_ERROR": "runtime.errors:StorageError",
    "ErrorCode.PERMISSION_ERROR": "runtime.errors:PermissionRefused",
    "ErrorCode.PROVIDER_ERROR": "runtime.errors:ProviderError",
    "ErrorCode.TOOL_ERROR": "runtime.errors:ToolError",
    "ErrorCode.UNKNOWN": "runtime.errors:InternalError",
}
"""What is no request of a client, but done or said by callboard itself: module and name."""

LEFT_OUT = {
    "Provider.createdAt": "a provider is a table of the configuration, whose file has a time",
    "Provider.updatedAt": "a provider is a table of the configuration, whose file has a time",
}
"""What callboard has not, and why."""

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


def test_what_callboard_does_itself_is_there() -> None:
    for name, place in INSIDE.items():
        module, _, path = place.partition(":")
        found = functools.reduce(
            getattr, path.split("."), importlib.import_module(f"callboard.{module}")
        )
        assert found is not None, name


def test_each_name_stands_in_one_table_only() -> None:
    tables: list[set[str]] = [{*METHODS}, {*FIELDS}, {*INSIDE}, {*LEFT_OUT}]
    assert len(set().union(*tables)) == sum(map(len, tables))


def test_what_flows_can_be_followed() -> None:
    assert set(FLOWS) <= set(METHODS)
    assert set(FLOWS.values()) <= set(ListName)

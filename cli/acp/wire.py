"""The messages of the Agent Client Protocol, version 1, that the bridge says or hears; `scripts/acp-types` wrote this."""

from __future__ import annotations

import msgspec


class AcpMessage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A message, or a part of one; unknown fields are ignored."""


class Supported(AcpMessage, frozen=True):
    """An object without fields: where it stands, something can be done."""


class InitializeRequest(AcpMessage, frozen=True):
    """Request parameters for the initialize method."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None


class ClientCapabilities(AcpMessage, frozen=True):
    """Capabilities supported by the client."""

    fs: FileSystemCapabilities | None = None
    terminal: bool = False
    auth: AuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None


class FileSystemCapabilities(AcpMessage, frozen=True):
    """File system capabilities that a client may support."""

    read_text_file: bool = False
    write_text_file: bool = False


class AuthCapabilities(AcpMessage, frozen=True):
    """Authentication capabilities supported by the client."""

    terminal: bool = False


class ElicitationCapabilities(AcpMessage, frozen=True):
    """Elicitation capabilities supported by the client."""

    form: Supported | None = None
    url: Supported | None = None


class Implementation(AcpMessage, frozen=True):
    """Metadata about the implementation of the client or agent."""

    name: str
    version: str
    title: str | None = None


class InitializeResponse(AcpMessage, frozen=True):
    """Response to the `initialize` method."""

    protocol_version: int
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: tuple[AuthMethod, ...] | None = None
    agent_info: Implementation | None = None


class AgentCapabilities(AcpMessage, frozen=True):
    """Capabilities supported by the agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None


class PromptCapabilities(AcpMessage, frozen=True):
    """Prompt capabilities supported by the agent in `session/prompt` requests."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(AcpMessage, frozen=True):
    """MCP capabilities supported by the agent."""

    http: bool = False
    sse: bool = False


class SessionCapabilities(AcpMessage, frozen=True):
    """Session capabilities supported by the agent."""

    list: Supported | None = None
    delete: Supported | None = None
    additional_directories: Supported | None = None
    resume: Supported | None = None
    close: Supported | None = None


class AuthMethod(AcpMessage, frozen=True):
    """Describes an available authentication method."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    args: tuple[str, ...] | None = None
    env: dict[str, str] | None = None
    type: str | None = None


class AuthenticateRequest(AcpMessage, frozen=True):
    """Request parameters for the authenticate method."""

    method_id: str


class NewSessionRequest(AcpMessage, frozen=True):
    """Request parameters for creating a new session."""

    cwd: str
    mcp_servers: tuple[McpServer, ...] | None
    additional_directories: tuple[str, ...] | None = None


class McpServer(AcpMessage, frozen=True):
    """Configuration for connecting to an MCP (Model Context Protocol) server."""

    name: str | None = None
    url: str | None = None
    headers: tuple[HttpHeader, ...] | None = None
    type: str | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVariable, ...] | None = None


class HttpHeader(AcpMessage, frozen=True):
    """An HTTP header to set when making requests to the MCP server."""

    name: str
    value: str


class EnvVariable(AcpMessage, frozen=True):
    """An environment variable to set when launching an MCP server."""

    name: str
    value: str


class NewSessionResponse(AcpMessage, frozen=True):
    """Response from creating a new session."""

    session_id: str
    modes: SessionModeState | None = None
    config_options: tuple[SessionConfigOption, ...] | None = None


class SessionModeState(AcpMessage, frozen=True):
    """The set of modes and the one currently active."""

    current_mode_id: str
    available_modes: tuple[SessionMode, ...]


class SessionMode(AcpMessage, frozen=True):
    """A mode the agent can operate in."""

    id: str
    name: str
    description: str | None = None


class SessionConfigOptionSelect(AcpMessage, frozen=True, tag_field="type", tag="select"):
    """Single-value selector (dropdown)."""

    id: str
    name: str
    current_value: str
    options: tuple[SessionConfigSelectOption, ...]
    description: str | None = None
    category: str | None = None


class SessionConfigSelectOption(AcpMessage, frozen=True):
    """A possible value for a session configuration option."""

    value: str
    name: str
    description: str | None = None


class LoadSessionRequest(AcpMessage, frozen=True):
    """Request parameters for loading an existing session."""

    mcp_servers: tuple[McpServer, ...] | None
    cwd: str
    session_id: str
    additional_directories: tuple[str, ...] | None = None


class LoadSessionResponse(AcpMessage, frozen=True):
    """Response from loading an existing session."""

    modes: SessionModeState | None = None
    config_options: tuple[SessionConfigOption, ...] | None = None


class ResumeSessionRequest(AcpMessage, frozen=True):
    """Request parameters for resuming an existing session."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] | None = None
    mcp_servers: tuple[McpServer, ...] | None = None


class ResumeSessionResponse(AcpMessage, frozen=True):
    """Response from resuming an existing session."""

    modes: SessionModeState | None = None
    config_options: tuple[SessionConfigOption, ...] | None = None


class ListSessionsRequest(AcpMessage, frozen=True):
    """Request parameters for listing existing sessions."""

    cwd: str | None = None
    cursor: str | None = None


class ListSessionsResponse(AcpMessage, frozen=True):
    """Response from listing sessions."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class SessionInfo(AcpMessage, frozen=True):
    """Information about a session returned by session/list."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] | None = None
    title: str | None = None
    updated_at: str | None = None


class DeleteSessionRequest(AcpMessage, frozen=True):
    """Request parameters for deleting an existing session from `session/list`."""

    session_id: str


class CloseSessionRequest(AcpMessage, frozen=True):
    """Request parameters for closing an active session."""

    session_id: str


class SetSessionModeRequest(AcpMessage, frozen=True):
    """Request parameters for setting a session mode."""

    session_id: str
    mode_id: str


class SetSessionConfigOptionRequest(AcpMessage, frozen=True):
    """Request parameters for setting a session configuration option."""

    session_id: str
    config_id: str
    type: str | None = None
    value: bool | str | None = None


class SetSessionConfigOptionResponse(AcpMessage, frozen=True):
    """Response to `session/set_config_option` method."""

    config_options: tuple[SessionConfigOption, ...]


class PromptRequest(AcpMessage, frozen=True):
    """Request parameters for sending a user prompt to the agent."""

    session_id: str
    prompt: tuple[ContentBlock, ...]
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw(b"null"))


class ContentBlockText(AcpMessage, frozen=True, tag_field="type", tag="text"):
    """Text content."""

    text: str


class ContentBlockImage(AcpMessage, frozen=True, tag_field="type", tag="image"):
    """Images for visual context or analysis."""

    data: str
    mime_type: str
    uri: str | None = None


class ContentBlockAudio(AcpMessage, frozen=True, tag_field="type", tag="audio"):
    """Audio data for transcription or analysis."""

    data: str
    mime_type: str


class ContentBlockResourceLink(AcpMessage, frozen=True, tag_field="type", tag="resource_link"):
    """References to resources that the agent can access."""

    name: str
    uri: str
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    title: str | None = None


class ContentBlockResource(AcpMessage, frozen=True, tag_field="type", tag="resource"):
    """Complete resource contents embedded directly in the message."""

    resource: EmbeddedResourceResource


class EmbeddedResourceResource(AcpMessage, frozen=True):
    """Resource content that can be embedded in a message."""

    mime_type: str | None = None
    text: str | None = None
    uri: str | None = None
    blob: str | None = None


class PromptResponse(AcpMessage, frozen=True):
    """Response from processing a user prompt."""

    stop_reason: str


class RequestPermissionRequest(AcpMessage, frozen=True):
    """Request for user permission to execute a tool call."""

    session_id: str
    tool_call: ToolCallUpdate
    options: tuple[PermissionOption, ...]


class ToolCallUpdate(AcpMessage, frozen=True):
    """An update to an existing tool call."""

    tool_call_id: str
    kind: str | None = None
    status: str | None = None
    title: str | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: msgspec.Raw | None = None
    raw_output: msgspec.Raw | None = None


class ToolCallContentContent(AcpMessage, frozen=True, tag_field="type", tag="content"):
    """Standard content block (text, images, resources)."""

    content: ContentBlock


class ToolCallContentDiff(AcpMessage, frozen=True, tag_field="type", tag="diff"):
    """File modification shown as a diff."""

    path: str
    new_text: str
    old_text: str | None = None


class ToolCallLocation(AcpMessage, frozen=True):
    """A file location being accessed or modified by a tool."""

    path: str
    line: int | None = None


class PermissionOption(AcpMessage, frozen=True):
    """An option presented to the user when requesting permission."""

    option_id: str
    name: str
    kind: str


class RequestPermissionResponse(AcpMessage, frozen=True):
    """Response to a permission request."""

    outcome: RequestPermissionOutcome


class RequestPermissionOutcomeCancelled(
    AcpMessage, frozen=True, tag_field="outcome", tag="cancelled"
):
    """The prompt turn was cancelled before the user responded."""


class RequestPermissionOutcomeSelected(
    AcpMessage, frozen=True, tag_field="outcome", tag="selected"
):
    """The user selected one of the provided options."""

    option_id: str


class CreateElicitationRequestForm(AcpMessage, frozen=True, tag_field="mode", tag="form"):
    """Form-based elicitation where the client renders a form from the provided schema."""

    message: str
    requested_schema: ElicitationSchema
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None


class ElicitationSchema(AcpMessage, frozen=True):
    """Type-safe elicitation schema for requesting structured user input."""

    type: str | None = None
    title: str | None = None
    properties: dict[str, ElicitationPropertySchema] | None = None
    required: tuple[str, ...] | None = None
    description: str | None = None


class ElicitationPropertySchemaString(AcpMessage, frozen=True, tag_field="type", tag="string"):
    """String property (or single-select enum when `enum`/`oneOf` is set)."""

    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    default: str | None = None
    enum: tuple[str, ...] | None = None
    one_of: tuple[EnumOption, ...] | None = None


class EnumOption(AcpMessage, frozen=True):
    """A titled enum option with a const value, human-readable title, and optional description."""

    const: str
    title: str
    description: str | None = None


class ElicitationPropertySchemaNumber(AcpMessage, frozen=True, tag_field="type", tag="number"):
    """Number (floating-point) property."""

    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None


class ElicitationPropertySchemaInteger(AcpMessage, frozen=True, tag_field="type", tag="integer"):
    """Integer property."""

    title: str | None = None
    description: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None


class ElicitationPropertySchemaBoolean(AcpMessage, frozen=True, tag_field="type", tag="boolean"):
    """Boolean property."""

    title: str | None = None
    description: str | None = None
    default: bool | None = None


class ElicitationPropertySchemaArray(AcpMessage, frozen=True, tag_field="type", tag="array"):
    """Multi-select array property."""

    items: MultiSelectItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: tuple[str, ...] | None = None


class MultiSelectItems(AcpMessage, frozen=True):
    """Items for a multi-select (array) property schema."""

    enum: tuple[str, ...] | None = None
    type: str | None = None
    any_of: tuple[EnumOption, ...] | None = None


class CreateElicitationRequestUrl(AcpMessage, frozen=True, tag_field="mode", tag="url"):
    """URL-based elicitation where the client directs the user to a URL."""

    message: str
    elicitation_id: str
    url: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None


class CreateElicitationResponseAccept(AcpMessage, frozen=True, tag_field="action", tag="accept"):
    """The user accepted and provided content."""

    content: dict[str, str | int | float | bool | tuple[str, ...]] | None = None


class CreateElicitationResponseDecline(AcpMessage, frozen=True, tag_field="action", tag="decline"):
    """The user declined the elicitation."""


class CreateElicitationResponseCancel(AcpMessage, frozen=True, tag_field="action", tag="cancel"):
    """The elicitation was cancelled."""


class ReadTextFileRequest(AcpMessage, frozen=True):
    """Request to read content from a text file."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(AcpMessage, frozen=True):
    """Response containing the contents of a text file."""

    content: str


class SessionNotification(AcpMessage, frozen=True):
    """Notification containing a session update from the agent."""

    session_id: str
    update: SessionUpdate


class SessionUpdateUserMessageChunk(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"
):
    """A chunk of the user's message being streamed."""

    content: ContentBlock
    message_id: str | None = None


class SessionUpdateAgentMessageChunk(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"
):
    """A chunk of the agent's response being streamed."""

    content: ContentBlock
    message_id: str | None = None


class SessionUpdateAgentThoughtChunk(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"
):
    """A chunk of the agent's internal reasoning being streamed."""

    content: ContentBlock
    message_id: str | None = None


class SessionUpdateToolCall(AcpMessage, frozen=True, tag_field="sessionUpdate", tag="tool_call"):
    """Notification that a new tool call has been initiated."""

    tool_call_id: str
    title: str
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: msgspec.Raw | None = None
    raw_output: msgspec.Raw | None = None


class SessionUpdateToolCallUpdate(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"
):
    """Update on the status or results of a tool call."""

    tool_call_id: str
    kind: str | None = None
    status: str | None = None
    title: str | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: msgspec.Raw | None = None
    raw_output: msgspec.Raw | None = None


class SessionUpdatePlan(AcpMessage, frozen=True, tag_field="sessionUpdate", tag="plan"):
    """The agent's execution plan for complex tasks."""

    entries: tuple[PlanEntry, ...]


class PlanEntry(AcpMessage, frozen=True):
    """A single entry in the execution plan."""

    content: str
    priority: str
    status: str


class SessionUpdateAvailableCommandsUpdate(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    """Available commands are ready or have changed."""

    available_commands: tuple[AvailableCommand, ...]


class AvailableCommand(AcpMessage, frozen=True):
    """Information about a command."""

    name: str
    description: str
    input: AvailableCommandInput | None = None


class AvailableCommandInput(AcpMessage, frozen=True):
    """The input specification for a command."""

    hint: str | None = None


class SessionUpdateCurrentModeUpdate(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="current_mode_update"
):
    """The current mode of the session has changed."""

    current_mode_id: str


class SessionUpdateConfigOptionUpdate(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="config_option_update"
):
    """Session configuration options have been updated."""

    config_options: tuple[SessionConfigOption, ...]


class SessionUpdateSessionInfoUpdate(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="session_info_update"
):
    """Session metadata has been updated (title, timestamps, custom metadata)."""

    title: str | None = None
    updated_at: str | None = None


class SessionUpdateUsageUpdate(
    AcpMessage, frozen=True, tag_field="sessionUpdate", tag="usage_update"
):
    """Context window and cost update for the session."""

    used: int
    size: int
    cost: Cost | None = None


class Cost(AcpMessage, frozen=True):
    """Cost information for a session."""

    amount: float
    currency: str


class CancelNotification(AcpMessage, frozen=True):
    """Notification to cancel ongoing operations for a session."""

    session_id: str


class CancelRequestNotification(AcpMessage, frozen=True):
    """Notification to cancel an ongoing request."""

    request_id: int | str | None


SessionConfigOption = SessionConfigOptionSelect
ContentBlock = (
    ContentBlockText
    | ContentBlockImage
    | ContentBlockAudio
    | ContentBlockResourceLink
    | ContentBlockResource
)
ToolCallContent = ToolCallContentContent | ToolCallContentDiff
RequestPermissionOutcome = RequestPermissionOutcomeCancelled | RequestPermissionOutcomeSelected
ElicitationPropertySchema = (
    ElicitationPropertySchemaString
    | ElicitationPropertySchemaNumber
    | ElicitationPropertySchemaInteger
    | ElicitationPropertySchemaBoolean
    | ElicitationPropertySchemaArray
)
CreateElicitationRequest = CreateElicitationRequestForm | CreateElicitationRequestUrl
CreateElicitationResponse = (
    CreateElicitationResponseAccept
    | CreateElicitationResponseDecline
    | CreateElicitationResponseCancel
)
SessionUpdate = (
    SessionUpdateUserMessageChunk
    | SessionUpdateAgentMessageChunk
    | SessionUpdateAgentThoughtChunk
    | SessionUpdateToolCall
    | SessionUpdateToolCallUpdate
    | SessionUpdatePlan
    | SessionUpdateAvailableCommandsUpdate
    | SessionUpdateCurrentModeUpdate
    | SessionUpdateConfigOptionUpdate
    | SessionUpdateSessionInfoUpdate
    | SessionUpdateUsageUpdate
)

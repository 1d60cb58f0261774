"""The names of attributes, operations and metrics: all that the outside sees, in one place.

The GenAI conventions are still in development and change. These are those of PyPI's `opentelemetry-semantic-conventions`
0.66b2 and `opentelemetry-util-genai` 1.3b0 (which writes `cache_write`, where the former still has `cache_creation`);
a test compares each with these packages. What begins with `callboard.` is our own.
"""

from __future__ import annotations

# ── operations, and what spans are called ────────────────────────────────────────────────────────

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
APPROVAL = "callboard.approval"

DETAILS = "gen_ai.client.inference.operation.details"
"""The event with what was said in a call of a model."""

# ── attributes ───────────────────────────────────────────────────────────────────────────────────

OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
SESSION = "session.id"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
TEMPERATURE = "gen_ai.request.temperature"
REASONING_LEVEL = "gen_ai.request.reasoning.level"
STREAM = "gen_ai.request.stream"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_DESCRIPTION = "gen_ai.tool.description"
TOKEN_TYPE = "gen_ai.token.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
MCP_METHOD = "mcp.method.name"
MCP_VERSION = "mcp.protocol.version"
TRANSPORT = "network.transport"
STATUS_CODE = "rpc.response.status_code"
ERROR = "error.type"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"

OUTCOME = "callboard.outcome"
STATUS = "callboard.status"
TIER = "callboard.tier"
DECISION = "callboard.decision"
SCOPE = "callboard.scope"
TURN = "callboard.turn.id"
ATTEMPT = "callboard.attempt"

# ── values ───────────────────────────────────────────────────────────────────────────────────────

CALL_TOOL = "tools/call"
METHODS = {"mcp_resources": "resources/list", "mcp_read": "resources/read"}
"""What our own tools ask servers, by their names; those of servers are called."""
FUNCTION, EXTENSION = "function", "extension"
PROVIDERS = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Providers that the conventions call otherwise; any other has its own name."""
FINISHED = {
    "end": "stop",
    "tool_calls": "tool_call",
    "max_tokens": "length",
    "refused": "content_filter",
}
"""Why a model stopped, by `stream.StopReason`."""
OTHER = "other"
"""In the place of a name that is not known here, or is one too many."""

# ── metrics ──────────────────────────────────────────────────────────────────────────────────────

OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"
FIRST_CHUNK_DURATION = "gen_ai.client.operation.time_to_first_chunk"
TOOL_DURATION = "gen_ai.execute_tool.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
MCP_DURATION = "mcp.client.operation.duration"
APPROVAL_DURATION = "callboard.approval.duration"

"""A daemon's door with the fixtures of `@modelcontextprotocol/conformance` behind it, in place of callboard's own tools.

`python -m support.mcp.conformance`, in the folder tests, prints its URL and serves until it is ended. What is tested is
what is callboard's: the door, the bridge and the package that speaks behind it. The suite has no token, so the door asks for none.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    CompleteResult,
    EmptyResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from callboard.gateway.asgi import answer_by
from callboard.gateway.door.exchange import Route
from support.gateway.door_scene import open_door

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
MAX_BYTES = 4 * 1024 * 1024

Context = ServerRequestContext[Any, Any]
Params = CallToolRequestParams | GetPromptRequestParams
bus = InMemorySubscriptionBus()


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def resource(uri: str, said: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
CONTENT: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        resource("test://embedded-resource", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        ),
    ],
}


def form(message: str, **fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sample(prompt: str, max_tokens: int = 100) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(prompt)}]
    return {
        "method": "sampling/createMessage",
        "params": {"messages": messages, "maxTokens": max_tokens},
    }


ROOTS = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", name={"type": "string"})
ASKS: dict[str, list[dict[str, Any]]] = {
    "test_input_required_result_elicitation": [{"user_name": NAME}],
    "test_streaming_elicitation": [{"user_name": NAME}],
    "test_input_required_result_sampling": [
        {"capital_question": sample("What is the capital of France?")}
    ],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [
        {"confirm": form("Please confirm", ok={"type": "boolean"})}
    ],
    "test_input_required_result_tampered_state": [
        {"confirm": form("Please confirm", ok={"type": "boolean"})}
    ],
    "test_input_required_result_multiple_inputs": [
        {"user_name": NAME, "greeting": sample("Generate a greeting", 50), "client_roots": ROOTS}
    ],
    "test_input_required_result_multi_round": [
        {"step1": form("Step 1: What is your name?", name={"type": "string"})},
        {"step2": form("Step 2: What is your favorite color?", color={"type": "string"})},
    ],
    "test_input_required_result_capabilities": [
        {"user_name": NAME, "capital_question": sample("What is the capital of France?")}
    ],
    "test_input_required_result_prompt": [
        {"user_context": form("What context should the prompt use?", context={"type": "string"})}
    ],
}
"""What a tool or prompt asks for, by its rounds."""


def asked(context: Context, params: Params) -> InputRequiredResult | str:
    """What is still to be asked, or what was answered."""
    rounds = ASKS[params.name]
    step = int(params.request_state or 0)
    given = params.input_responses or {}
    if step < len(rounds) and rounds[step].keys() <= given.keys():
        step += 1
        if step == len(rounds):
            said = {key: each.model_dump(mode="json") for key, each in given.items()}
            return f"state-ok {said}"
    has = context.session.client_capabilities
    wanted = {
        key: its
        for key, its in rounds[step].items()
        if its is ROOTS or getattr(has, its["method"].partition("/")[0], None) is not None
    }
    return InputRequiredResult.model_validate({"inputRequests": wanted, "requestState": str(step)})


async def log(context: Context) -> str:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", said, related_request_id=context.request_id)  # pyright: ignore[reportDeprecated]
        await trio.sleep(0.05)
    return "logged"


async def progress(context: Context) -> str:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await trio.sleep(0.05)
    return "done"


async def ask(context: Context, message: str, schema: dict[str, Any]) -> str:
    answer = await context.session.elicit_form(
        message, schema, related_request_id=context.request_id
    )
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


async def think(context: Context, prompt: str) -> str:
    from mcp_types import SamplingMessage, TextContent

    message = SamplingMessage(role="user", content=TextContent(text=prompt))
    answer = await context.session.create_message(  # pyright: ignore[reportDeprecated]
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return f"LLM response: {answer.content}"


def words(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


def titled(*names: str) -> list[dict[str, str]]:
    return [{"const": name, "title": name.title()} for name in names]


PERSON = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {**words("active", "inactive", "pending"), "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
CHOICES = {
    "untitledSingle": words("option1", "option2", "option3"),
    "titledSingle": {"type": "string", "oneOf": titled("value1", "value2", "value3")},
    "legacyEnum": {**words("opt1", "opt2", "opt3"), "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": words("option1", "option2", "option3")},
    "titledMulti": {"type": "array", "items": {"anyOf": titled("value1", "value2", "value3")}},
}
USER = {"username": {"type": "string"}, "email": {"type": "string"}}


async def changed(kind: Any, context: Context, given: dict[str, Any]) -> str:
    await bus.publish(kind)
    return "changed"


async def need_sampling(context: Context, given: dict[str, Any]) -> str:
    has = context.session.client_capabilities
    if has is None or has.sampling is None:
        data: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this takes sampling", data)
    return "sampled"


def object_of(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


DOES: dict[str, Callable[[Context, dict[str, Any]], Awaitable[str]]] = {
    "test_tool_with_logging": lambda context, _: log(context),
    "test_logging_tool": lambda context, _: log(context),
    "test_tool_with_progress": lambda context, _: progress(context),
    "test_sampling": lambda context, given: think(context, given["prompt"]),
    "test_elicitation": lambda context, given: ask(context, given["message"], object_of(USER)),
    "test_elicitation_sep1034_defaults": lambda context, _: ask(context, "Who?", object_of(PERSON)),
    "test_elicitation_sep1330_enums": lambda context, _: ask(context, "Which?", object_of(CHOICES)),
    "test_missing_capability": need_sampling,
    "test_trigger_tool_change": partial(changed, ToolsListChanged()),
    "test_trigger_prompt_change": partial(changed, PromptsListChanged()),
}
FAILS = "test_error_handling"


async def list_tools(context: Context, params: object) -> ListToolsResult:
    names = [*CONTENT, *(name for name in ASKS if not name.endswith("_prompt")), *DOES, FAILS]
    tools = [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in names]
    return ListToolsResult.model_validate({"tools": tools})


async def call_tool(
    context: Context, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult:
    name, content = params.name, CONTENT.get(params.name)
    if name in ASKS:
        found = asked(context, params)
        if isinstance(found, InputRequiredResult):
            return found
        content = [text(found)]
    elif name in DOES:
        content = [text(await DOES[name](context, params.arguments or {}))]
    elif name == FAILS:
        content = [text("This tool intentionally returns an error for testing")]
    if content is None:
        raise MCPError(INVALID_PARAMS, f"there is no tool {name}")
    return CallToolResult.model_validate({"content": content, "isError": name == FAILS})


READS = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}


async def list_resources(context: Context, params: object) -> ListResourcesResult:
    rows = [{"uri": uri, "name": uri, "description": uri} for uri in READS]
    return ListResourcesResult.model_validate({"resources": rows})


async def list_templates(context: Context, params: object) -> ListResourceTemplatesResult:
    row = {"uriTemplate": "test://template/{id}/data", "name": "data", "description": "data"}
    return ListResourceTemplatesResult.model_validate({"resourceTemplates": [row]})


async def read_resource(context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
    uri = str(params.uri)
    found = READS.get(uri)
    if uri.startswith("test://template/") and uri.endswith("/data"):
        name = uri.split("/")[3]
        said = f'{{"id":"{name}","templateTest":true,"data":"Data for ID: {name}"}}'
        found = {"mimeType": "application/json", "text": said}
    if found is None:
        raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})
    return ReadResourceResult.model_validate({"contents": [{"uri": uri, **found}]})


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(context: Context, params: object) -> ListPromptsResult:
    rows = [
        {
            "name": name,
            "description": name,
            "arguments": [{"name": each, "required": True} for each in takes],
        }
        for name, takes in PROMPTS.items()
    ]
    return ListPromptsResult.model_validate({"prompts": rows})


async def get_prompt(
    context: Context, params: GetPromptRequestParams
) -> GetPromptResult | InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            said = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            said = [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            part = resource(given["resourceUri"], "Embedded resource content for testing.")
            said = [part, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            said = [IMAGE, text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            found = asked(context, params)
            if isinstance(found, InputRequiredResult):
                return found
            said = [text(found)]
        case _:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name}")
    rows = [{"role": "user", "content": each} for each in said]
    return GetPromptResult.model_validate({"messages": rows})


async def nothing(context: Context, params: object) -> EmptyResult:
    return EmptyResult()


async def complete(context: Context, params: object) -> CompleteResult:
    return CompleteResult.model_validate({"completion": {"values": [], "hasMore": False}})


def fixtures() -> Server[Any]:
    hint = CacheHint(ttl_ms=1000, scope="public")
    methods: Any = (
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "server/discover",
    )
    server: Server[Any] = Server(  # pyright: ignore[reportDeprecated]
        "conformance",
        version="1",
        cache_hints=dict.fromkeys(methods, hint),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_subscriptions_listen=ListenHandler(bus),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=nothing,
    )
    boundary = RequestStateBoundary(
        RequestStateSecurity.ephemeral(), default_audience="conformance"
    )
    server.middleware.append(boundary)
    return server


async def main() -> None:
    manager = StreamableHTTPSessionManager(fixtures())
    answer = partial(answer_by, manager.asgi_app)
    route = Route(
        answer=lambda exchange: answer(exchange, MAX_BYTES, MAX_BYTES),
        methods=("GET", "POST", "DELETE"),
        token="none",
    )
    # A receiver, not KeyboardInterrupt: that is lost where SIGINT was ignored at the start, as in the background of
    # a shell, and where it comes in the middle of what swallows it.
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with manager.run(), open_door({"/mcp": route}) as daemon:
            sys.stdout.write(f"http://127.0.0.1:{daemon.gateway.port}/mcp\n")
            sys.stdout.flush()
            async for _ in signals:
                return


if __name__ == "__main__":
    trio.run(main)

"""What a client of MCP asks for, as the package `mcp` reads and writes it.

Beside it, `listening`, `http_app` and `stdio` speak to that package. Importing it takes a second of
processor time: it is imported with the first request, in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Literal

import msgspec
import trio
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from mcp_types import Prompt as PromptOffer
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...runtime.approval import ApprovalRequest
from ...runtime.definitions import CallStatus
from ...runtime.errors import CallboardError, ConflictError, NotFoundError, ValidationError
from ...runtime.identity import VERSION, TraceContext
from ...runtime.kernel.service_nursery import open_service_nursery
from ...runtime.redaction import redacting_logger
from ...runtime.wire.approvals import OneApproval, Resolve
from ...runtime.wire.fields import Nothing
from ...runtime.wire.sessions import Prompt
from ..feeds.frames import wire_json
from .desk import Desk
from .listening import REFUSED, Context, Listening
from .prompts import list_skills, read_skill
from .resources import SCHEME, TEMPLATE, list_sessions, transcript
from .shares import Shares
from .tools import (
    RESULT,
    STATUS,
    AskArguments,
    OwnSessions,
    SessionArguments,
    UnknownTool,
    agent_of,
    is_offered,
    offers,
    prompt_of,
    read_arguments,
    session_result,
    session_state,
)
from .turn import Asked, AskedTurn, Place

MARKDOWN = "text/markdown"
MAX_CURSOR_CHARS = 19
"""Of a number of 64 bits."""
MAX_CALLS = 256
"""Calls of all clients at once: each may be a turn that waits for a person; a token has its share of them."""
PROGRESS_SECONDS = 0.5
"""Between two messages about how far a call is."""
MAX_SHOWN = 4000
"""Characters of a call's arguments, and of its preview, in a question; the console has the whole."""
ROUNDS_STATE_BYTES = 16 * 1024
"""Of the place of a turn that a client comes back to."""

logger = redacting_logger(__name__)

# The package logs what clients do wrong, and what they ask for; callboard logs what its own methods do.
logging.getLogger("mcp.server").setLevel(logging.CRITICAL)


class _Server(Server[Any]):
    """The package's server, which says what it tells of: changes of resources, and of no list."""

    def get_capabilities(self, *given: Any, **named: Any) -> ServerCapabilities:
        """See the package, which takes whoever serves a stream for one that tells of lists."""
        found = super().get_capabilities(*given, **named)
        for each in (found.tools, found.prompts, found.resources):
            if each is not None:
                each.list_changed = False
        return found


class McpHandlers:
    """The handlers of one server.

    Args:
        find_desk: Where a request is done, and by which rights.
    """

    def __init__(self, find_desk: Callable[[Context], Desk]) -> None:
        self._find_desk = find_desk
        self._calls = Shares(MAX_CALLS, "calls")
        self._own = OwnSessions()
        listening = Listening(find_desk)
        self.server: Server[Any] = _Server(
            "callboard",
            version=VERSION,
            title="callboard",
            # None of the tools wants arguments in headers; without this, each call lists the tools to find out.
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_subscriptions_listen=listening.listen,
            on_subscribe_resource=listening.subscribe,
            on_unsubscribe_resource=listening.unsubscribe,
            lifespan=listening.lifespan,
        )

    async def _list_tools(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        desk = self._find_desk(context)
        try:
            found = await offers(desk)
        except CallboardError as error:
            raise MCPError(REFUSED, str(error)) from None
        return ListToolsResult(
            tools=[
                Tool(
                    name=each.name,
                    description=each.description,
                    input_schema=each.parameters,
                    output_schema=each.output,
                    annotations=ToolAnnotations.model_validate(each.annotations),
                )
                for each in found
            ]
        )

    async def _list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        cursor = None if params is None else params.cursor
        if cursor is not None and not (cursor.isdecimal() and len(cursor) < MAX_CURSOR_CHARS):
            raise MCPError(INVALID_PARAMS, "the cursor is not one of this server")
        try:
            page = await list_sessions(self._find_desk(context), int(cursor) if cursor else None)
        except CallboardError as error:
            raise MCPError(REFUSED, str(error)) from None
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=f"{SCHEME}{row.session_id}",
                    name=row.session_id,
                    title=row.title or None,
                    description=f"What was said in a session of the agent {row.agent!r}",
                    mime_type=MARKDOWN,
                )
                for row in page.sessions
            ],
            next_cursor=None if page.next_before is None else str(page.next_before),
        )

    async def _list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        await trio.lowlevel.checkpoint()
        said = "What was said in a session"
        its = ResourceTemplate(
            uri_template=TEMPLATE, name="session", description=said, mime_type=MARKDOWN
        )
        return ListResourceTemplatesResult(resource_templates=[its])

    async def _read_resource(
        self, context: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        uri = str(params.uri)
        try:
            text = await transcript(self._find_desk(context), uri)
        except CallboardError as error:
            raise MCPError(INVALID_PARAMS, str(error), {"uri": uri}) from None
        its = TextResourceContents(uri=uri, mime_type=MARKDOWN, text=text)
        return ReadResourceResult(contents=[its])

    async def _list_prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        try:
            found = await list_skills(self._find_desk(context))
        except CallboardError as error:
            raise MCPError(REFUSED, str(error)) from None
        return ListPromptsResult(
            prompts=[PromptOffer(name=each.name, description=each.description) for each in found]
        )

    async def _get_prompt(
        self, context: Context, params: GetPromptRequestParams
    ) -> GetPromptResult:
        try:
            found = await read_skill(self._find_desk(context), params.name)
        except CallboardError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        said = PromptMessage(role="user", content=TextContent(text=found.text))
        return GetPromptResult(description=found.skill.description, messages=[said])

    async def _call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        desk = self._find_desk(context)
        try:
            with self._calls.place(desk.owner), desk.at_work():
                return await self._called(desk, context, params)
        except UnknownTool as error:
            raise MCPError(INVALID_PARAMS, str(error)) from None
        except CallboardError as error:
            return _failed(error)
        except MCPError:
            raise
        except Exception:
            logger.exception("a call of MCP failed")
            raise MCPError(INTERNAL_ERROR, "this failed; the server's log says why") from None

    async def _called(
        self, desk: Desk, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        name, given = params.name, params.arguments
        if name == STATUS:
            wanted = read_arguments(SessionArguments, given)
            return _structured(await session_state(desk, wanted.session_id))
        if name == RESULT:
            wanted = read_arguments(SessionArguments, given)
            return _answered(await session_result(desk, wanted.session_id))
        is_direct, waits = is_offered(desk, name), True
        begins: Prompt | Place
        if params.request_state is not None:
            begins = await _come_back(desk, params)
        elif is_direct:
            begins = await self._own.prompt(desk, client_name(context), name, given or {})
        else:
            agent, asked = await agent_of(desk, name), read_arguments(AskArguments, given)
            begins, waits = await prompt_of(desk, agent, asked), asked.wait
        if isinstance(begins, Prompt):
            begins = msgspec.structs.replace(begins, trace=_trace(context))
        async with AsyncExitStack() as stack:
            try:
                turn = await stack.enter_async_context(AskedTurn(desk, begins))
            except (ConflictError, NotFoundError):
                if not is_direct or isinstance(begins, Place):
                    raise
                # Its session was deleted: that is seldom, and here each call would have to ask for it.
                self._own.forget(desk, client_name(context), begins.session_id)
                other = await self._own.prompt(desk, client_name(context), name, given or {})
                begins = msgspec.structs.replace(begins, session_id=other.session_id)
                turn = await stack.enter_async_context(AskedTurn(desk, begins))
            turn.goes_on = not waits
            if waits and (question := await _wait(desk, context, turn)) is not None:
                return question
            return _called(turn) if is_direct else _answered(turn.result)
        raise AssertionError


async def _wait(desk: Desk, context: Context, turn: AskedTurn) -> InputRequiredResult | None:
    """Wait for the end of a turn; return what the client must ask its person first, if it may ask.

    Clients of earlier revisions are asked meanwhile.
    """
    can_ask = desk.may("approval/resolve") and _has_forms(context)
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    async with open_service_nursery("the call is over") as nursery:
        nursery.start_soon(_tell_progress, context, turn, name="progress of a call")
        while (question_id := await turn.wait()) is not None:
            if not can_ask or question_id in turn.place.left:
                continue
            request = await _waiting(desk, question_id)
            if request is None:
                continue
            if is_modern:
                turn.goes_on = True
                return InputRequiredResult(
                    input_requests={question_id: ElicitRequest(params=_form(request))},
                    request_state=msgspec.json.encode(turn.place).decode(),
                )
            nursery.start_soon(_ask, desk, context, turn, request, name=question_id)
        return None


async def _tell_progress(context: Context, turn: AskedTurn) -> None:
    """Tell the client how far the turn is, now and then; a slow client holds nothing else up."""
    while True:
        await turn.moved.wait()
        turn.moved = trio.Event()
        with suppress(NoBackChannelError):
            await context.session.report_progress(turn.steps, None, turn.line)
        await trio.sleep(PROGRESS_SECONDS)


# ── questions to a person ────────────────────────────────────────────────────────────────────────


def _has_forms(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    its = None if capabilities is None else capabilities.elicitation
    return its is not None and (its.form is not None or its.url is None)


async def _waiting(desk: Desk, approval_id: str) -> ApprovalRequest | None:
    """Return a question if it still waits, and is one about a call."""
    try:
        wanted = OneApproval(approval_id=approval_id)
        return await desk.request("approval/get", wanted, ApprovalRequest)
    except CallboardError:
        return None


def _form(request: ApprovalRequest) -> ElicitRequestFormParams:
    lines = [
        f"May {request.tool} run? ({request.tier})",
        f"Because: {request.reason}",
        f"Arguments: {request.arguments[:MAX_SHOWN]}",
    ]
    if request.origin:
        lines.insert(1, request.origin)
    if len(request.arguments) > MAX_SHOWN or len(request.preview) > MAX_SHOWN:
        lines.append("(cut: `callboard approvals` shows the whole)")
    if request.preview:
        lines += ["", request.preview[:MAX_SHOWN]]
    return ElicitRequestFormParams(
        message="\n".join(lines),
        requested_schema={
            "type": "object",
            "properties": {
                "decision": {"type": "string", "enum": ["allow", "deny"], "title": "Decision"},
                "reason": {
                    "type": "string",
                    "title": "Reason, for the model",
                    "maxLength": MAX_SHOWN,
                },
            },
            "required": ["decision"],
        },
    )


async def _ask(desk: Desk, context: Context, turn: AskedTurn, request: ApprovalRequest) -> None:
    """Put a question to the client's person, until somebody has answered it."""
    form = _form(request)
    with turn.asking(request.approval_id), suppress(MCPError, CallboardError):
        answer = await context.session.elicit_form(
            form.message, form.requested_schema, related_request_id=context.request_id
        )
        await _resolve(desk, request.approval_id, answer)


async def _resolve(desk: Desk, approval_id: str, answer: ElicitResult) -> bool:
    """Answer a question as the client's person did; return whether they did."""
    content = answer.content or {}
    decision: Literal["allow", "deny"]
    match answer.action, content.get("decision"):
        case "accept", "allow":
            decision = "allow"
        case ("accept", "deny") | ("decline", _):
            decision = "deny"
        case _:
            return False
    reason = str(content.get("reason") or "")[:MAX_SHOWN]
    resolve = Resolve(approval_id=approval_id, decision=decision, reason=reason)
    await desk.request("approval/resolve", resolve, Nothing)
    return True


async def _come_back(desk: Desk, params: CallToolRequestParams) -> Place:
    """Take the answers that a client brings, and return where its turn is.

    What it brings is its own word: it names a session, which it must be let to see, and answers as any client of
    its rights could.
    """
    state = params.request_state or ""
    try:
        if len(state) > ROUNDS_STATE_BYTES:
            raise msgspec.ValidationError("it is too long")
        place = msgspec.json.decode(state, type=Place)
    except msgspec.MsgspecError as error:
        raise ValidationError(f"requestState is not one of this server: {error}") from None
    left = list(place.left)
    for approval_id, answer in (params.input_responses or {}).items():
        is_answered = False
        if isinstance(answer, ElicitResult):
            with suppress(CallboardError):  # another was faster, or it is over
                is_answered = await _resolve(desk, approval_id, answer)
        if not is_answered:
            left.append(approval_id)
    return msgspec.structs.replace(place, left=tuple(left))


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def client_name(context: Context) -> str:
    """Return what a client says that it is called."""
    params = context.session.client_params
    return "" if params is None else params.client_info.name[:100]


def _trace(context: Context) -> TraceContext | None:
    """Return where the request stands in a trace of its client, if it says so."""
    meta: Mapping[str, Any] = context.meta or {}
    parent, state = meta.get("traceparent"), meta.get("tracestate", "")
    if not isinstance(parent, str) or not isinstance(state, str):
        return None
    return TraceContext(parent, state)


def _structured(found: msgspec.Struct) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=wire_json(found).decode())],
        structured_content=msgspec.to_builtins(found),
    )


def _answered(asked: Asked) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=asked.text or f"({asked.outcome})")],
        structured_content=msgspec.to_builtins(asked),
        is_error=asked.outcome not in {"answered", "running", "none"},
    )


def _called(turn: AskedTurn) -> CallToolResult:
    called = turn.called.result()[0]
    is_error = called.status is not CallStatus.SUCCESS
    found = called.error if is_error else called.output
    text = found if isinstance(found, str) else wire_json(found).decode()
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def _failed(error: CallboardError) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

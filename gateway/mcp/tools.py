"""The tools that a client of MCP is offered: agents that it may ask, its sessions, and tools that it may call itself."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from itertools import starmap
from typing import Annotated, Any, TypeVar

import msgspec
import trio

from ...runtime.definitions import Attachment, Effect, Tier, ToolDefinition
from ...runtime.errors import NotFoundError, ValidationError
from ...runtime.history import MAX_ATTACHMENTS, checked_attachments
from ...runtime.store.rows import MessageRow, SessionRow
from ...runtime.text import in_json_words
from ...runtime.turn_options import TurnOptions
from ...runtime.turns.called_tool import given_calls, text_of_calls
from ...runtime.wire.agents import AgentList, AgentRow
from ...runtime.wire.approvals import Approvals, ListApprovals, ListQuestions, QuestionList
from ...runtime.wire.daemon import ToolList
from ...runtime.wire.fields import Nothing, PromptText, Word
from ...runtime.wire.sessions import ListMessages, Messages, NewSession, OneSession, Prompt
from .desk import Desk
from .turn import Asked

ASK = "ask_"
STATUS, RESULT = "session_status", "session_result"
MAX_OWN_SESSIONS = 1000
"""Kept in mind; a client whose session is not gets another one."""
LAST_MESSAGES = 50
"""Looked through for the last answer of a session: behind it stand calls and results of one turn."""

Arguments = TypeVar("Arguments", bound=msgspec.Struct)


class GivenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file beside a prompt: its text, or its bytes with what they are."""

    name: Annotated[str, msgspec.Meta(description="The file's name.")] = ""
    text: Annotated[str | None, msgspec.Meta(description="What is in it, of a text.")] = None
    data: Annotated[
        bytes | None,
        msgspec.Meta(description="Its bytes in base64, of an image or a PDF, with media_type."),
    ] = None
    media_type: Annotated[
        str, msgspec.Meta(description="Such as image/png; of a text it may be left out.")
    ] = ""


class AskArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an agent is asked."""

    prompt: Annotated[PromptText, msgspec.Meta(description="What the agent is asked to do.")]
    session_id: Annotated[
        Word | None,
        msgspec.Meta(description="A session to go on with; left out, a new one begins."),
    ] = None
    files: Annotated[
        tuple[GivenFile, ...],
        msgspec.Meta(max_length=MAX_ATTACHMENTS, description="Files for the agent to look at."),
    ] = ()
    wait: Annotated[
        bool,
        msgspec.Meta(
            description="Whether to wait for the answer. If false, the session's id is returned at once, and "
            "session_result has the answer later."
        ),
    ] = True


class SessionArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session."""

    session_id: Annotated[Word, msgspec.Meta(description="The session's id, as ask_… returned it.")]


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for a person."""

    id: str
    what: str


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """How a session is."""

    session_id: str
    title: str
    agent: str
    is_active: bool
    waits_for: list[Waiting]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as clients see it.

    Attributes:
        annotations: Hints of the protocol, by their names there.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    output: dict[str, Any] | None = None
    annotations: dict[str, bool] = {}


async def offers(desk: Desk) -> list[Offer]:
    """Return the tools that a client may call, in the same order each time."""
    found: list[Offer] = []
    if desk.may("session/prompt"):
        found += [_ask(row.name, row.description) for row in await _agents(desk)]
    found += [_STATUS, _RESULT]
    if desk.may("session/prompt") and desk.settings.tools:
        known = await desk.request("tool/list", Nothing(), ToolList)
        found += [_direct(tool) for tool in known.tools if is_offered(desk, tool.name)]
    return found


def is_offered(desk: Desk, tool: str) -> bool:
    """Return whether clients may call one of callboard's own tools; one named `ask_…` would seem to be an agent."""
    return tool in desk.settings.tools and not tool.startswith((ASK, STATUS, RESULT))


async def new_session(desk: Desk, agent: str, title: str = "") -> str:
    """Begin a session for a client; return its id."""
    wanted = NewSession(agent=agent, title=title, workspace=desk.settings.workspace)
    return (await desk.request("session/new", wanted, SessionRow)).session_id


async def prompt_of(desk: Desk, agent: str, given: AskArguments) -> Prompt:
    """Return the prompt for an agent, in the session that was named or a new one."""
    files = checked_attachments(starmap(_attached, enumerate(given.files)))
    session_id = given.session_id
    if session_id is None:
        session_id = await new_session(desk, agent)
    else:
        row = await desk.request("session/get", OneSession(session_id), SessionRow)
        if row.agent != agent:
            raise ValidationError(
                f"{session_id} is a session of the agent {row.agent!r}: ask that one, or leave session_id out",
                field="session_id",
            )
    return Prompt(session_id=session_id, content=given.prompt, attachments=files)


def _attached(at: int, file: GivenFile) -> Attachment:
    if file.text is not None and file.data is None:
        return Attachment(file.media_type or "text/plain", file.text.encode(), name=file.name)
    if file.text is None and file.data is not None and file.media_type:
        return Attachment(file.media_type, file.data, name=file.name)
    why = "a file has either text, or data and a media_type"
    raise ValidationError(f"arguments: files[{at}]: {why}", field="files")


class OwnSessions:
    """The session in which each client calls tools itself: one for each token and name of a client."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._beginning = trio.Lock()

    async def prompt(self, desk: Desk, client: str, tool: str, arguments: dict[str, Any]) -> Prompt:
        """Return the input that makes a call."""
        calls = given_calls([(tool, arguments)])
        async with self._beginning:
            session_id = await self._find(desk, client)
        options = TurnOptions(calls=calls)
        return Prompt(session_id=session_id, content=text_of_calls(calls), options=options)

    async def _find(self, desk: Desk, client: str) -> str:
        key = desk.owner, client
        if (session_id := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return session_id
        title = f"Tools of {client or 'a client'} via MCP"
        self._known[key] = session_id = await new_session(desk, desk.settings.agent, title)
        if len(self._known) > MAX_OWN_SESSIONS:
            self._known.popitem(last=False)
        return session_id

    def forget(self, desk: Desk, client: str, session_id: str) -> None:
        """Begin another session for a client: this one takes no calls any more."""
        if self._known.get((desk.owner, client)) == session_id:
            del self._known[desk.owner, client]


async def session_state(desk: Desk, session_id: str) -> SessionState:
    """Return how a session is, and what it waits for."""
    row = await desk.request("session/get", OneSession(session_id), SessionRow)
    asked = ListApprovals(session_id=session_id, state="waiting")
    approvals = (await desk.request("approval/list", asked, Approvals)).approvals
    questions = await desk.request(
        "question/list", ListQuestions(session_id=session_id), QuestionList
    )
    waits = [Waiting(id=each.approval_id, what=f"may {each.tool} run?") for each in approvals]
    waits += [Waiting(id=each.question_id, what=each.question) for each in questions.questions]
    return SessionState(
        session_id=session_id,
        title=row.title,
        agent=row.agent,
        is_active=row.is_active,
        waits_for=waits,
    )


async def session_result(desk: Desk, session_id: str) -> Asked:
    """Return the last answer of a session, or that one is being made."""
    row = await desk.request("session/get", OneSession(session_id), SessionRow)
    if row.is_active:
        return Asked(session_id=session_id, outcome="running")
    wanted = ListMessages(session_id, latest_first=True, limit=LAST_MESSAGES)
    page = await desk.request("session/messages", wanted, Messages)
    for message in page.messages:
        if (found := _answer(session_id, message)) is not None:
            return found
    return Asked(session_id=session_id, outcome="none")


def _answer(session_id: str, message: MessageRow) -> Asked | None:
    if message.is_set_aside or message.is_deleted:
        return None
    if message.type == "error":
        return Asked(session_id=session_id, outcome="failed", text=message.content)
    if message.type == "assistant":
        outcome = "cancelled" if message.stop_reason == "incomplete" else "answered"
        return Asked(session_id=session_id, outcome=outcome, text=message.content)
    return None


def read_arguments(kind: type[Arguments], given: dict[str, Any] | None) -> Arguments:
    """Return a call's arguments; raise `ValidationError`."""
    try:
        return msgspec.convert(given or {}, kind)
    except msgspec.ValidationError as error:
        raise ValidationError(f"arguments: {in_json_words(str(error))}") from None


class UnknownTool(NotFoundError):
    """A client has called a tool that it was not offered."""


async def agent_of(desk: Desk, tool: str) -> str:
    """Return the agent that a tool asks; raise `UnknownTool`."""
    for row in await _agents(desk):
        if f"{ASK}{row.name}" == tool:
            return row.name
    raise UnknownTool(f"there is no tool {tool!r:.200}")


async def _agents(desk: Desk) -> list[AgentRow]:
    """Return the agents that a client may ask."""
    only = desk.settings.agents
    rows = (await desk.request("agent/list", Nothing(), AgentList)).agents
    return [row for row in rows if not only or row.name in only]


@cache
def _schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a type, with its parts in place of references."""
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")

    def whole(part: Any) -> Any:
        if isinstance(part, list):
            return [whole(each) for each in part]
        if not isinstance(part, dict):
            return part
        if isinstance(name := part.get("$ref"), str):
            return whole(parts[name])
        kept = {key: its for key, its in part.items() if key != "title" or isinstance(its, dict)}
        return {key: whole(its) for key, its in kept.items()}

    found: dict[str, Any] = whole(parts[kind.__name__])
    return found


def _ask(agent: str, description: str) -> Offer:
    said = description.strip() or "An agent of callboard."
    return Offer(
        name=f"{ASK}{agent}",
        description=f"Ask the agent {agent!r}, which works with tools of its own. {said}",
        parameters=_schema(AskArguments),
        output=_schema(Asked),
        annotations={"openWorldHint": True},
    )


_ONLY_READS = {"readOnlyHint": True, "openWorldHint": False}
_STATUS = Offer(
    name=STATUS,
    description="Say whether a session works, and which questions of it wait for a person.",
    parameters=_schema(SessionArguments),
    output=_schema(SessionState),
    annotations=_ONLY_READS,
)
_RESULT = Offer(
    name=RESULT,
    description="Return the last answer of a session, or that it still works.",
    parameters=_schema(SessionArguments),
    output=_schema(Asked),
    annotations=_ONLY_READS,
)


def _direct(tool: ToolDefinition) -> Offer:
    hints = {"readOnlyHint": tool.tier is Tier.READ_ONLY and tool.effect is Effect.READ}
    if tool.effect is Effect.IDEMPOTENT:
        hints["idempotentHint"] = True
    if tool.tier is Tier.ELEVATED:
        hints["destructiveHint"] = True
    return Offer(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        annotations=hints,
    )

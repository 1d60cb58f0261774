"""A request for a chat completion: read, checked, and turned into what a session gets."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec

from ...runtime.definitions import MAX_OUTPUT_TOKENS, MAX_TEMPERATURE, Attachment, ThinkingEffort
from ...runtime.history import Answer, Call, Input, Item, Part, Result, Text, checked_attachments
from ...runtime.text import without_surrogates
from ...runtime.turn_options import MAX_CLIENT_TOOLS, GivenTool, TurnOptions
from .content import NO_WORDS, Content, read_content
from .problems import ApiProblem

MAX_MESSAGES = 30_000
"""Messages of one request: hundreds of times what a model reads."""

EFFORTS = {
    "none": ThinkingEffort.OFF,
    "minimal": ThinkingEffort.LOW,
    "low": ThinkingEffort.LOW,
    "medium": ThinkingEffort.MEDIUM,
    "high": ThinkingEffort.HIGH,
    "xhigh": ThinkingEffort.HIGH,
}

Read = TypeVar("Read")


class CalledFunction(msgspec.Struct):
    """The function of a call."""

    name: str
    arguments: str = ""


class ToolCall(msgspec.Struct):
    """A call of a message that the client has from us, or from somebody else."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class SystemMessage(msgspec.Struct, tag_field="role", tag="system"):
    """Instructions."""

    content: Content


class DeveloperMessage(msgspec.Struct, tag_field="role", tag="developer"):
    """Instructions, by their newer name."""

    content: Content


class UserMessage(msgspec.Struct, tag_field="role", tag="user"):
    """What a person says."""

    content: Content


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant"):
    """What a model is said to have said."""

    content: Content = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool"):
    """The result of a call of a client's tool."""

    tool_call_id: str
    content: Content


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(msgspec.Struct):
    """A tool of the client."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ChatTool(msgspec.Struct):
    """The same, as it is wrapped."""

    function: Function
    type: Literal["function"] = "function"


class JsonSchema(msgspec.Struct):
    """The form of an answer."""

    schema: dict[str, Any]
    name: str = ""


class ResponseFormat(msgspec.Struct):
    """Whether an answer has a form."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None


class StreamOptions(msgspec.Struct):
    """What a stream has beside the answer."""

    include_usage: bool | None = None


Tokens = Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)]


class ChatRequest(msgspec.Struct):
    """A request for a chat completion; what is not named here is passed over."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    reasoning_effort: str | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[ChatTool], msgspec.Meta(max_length=MAX_CLIENT_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    modalities: list[str] | None = None
    audio: Any = None
    functions: Any = None
    function_call: Any = None
    web_search_options: Any = None
    prediction: Any = None
    seed: Any = None
    stop: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logit_bias: Any = None
    top_p: Any = None
    service_tier: Any = None
    prompt_cache_key: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Any = None
    store: Any = None
    user: Any = None
    metadata: Any = None
    verbosity: Any = None

    def check(self) -> None:
        """Raise `ApiProblem` for what would change the answer and can't be had."""
        if self.n not in {None, 1}:
            raise ApiProblem("there is one answer: leave n out", "n")
        if self.logprobs or self.top_logprobs:
            raise ApiProblem("there are no log probabilities here", "logprobs")
        for name in ("audio", "functions", "function_call", "web_search_options"):
            if getattr(self, name) is not None:
                raise ApiProblem(f"{name} can't be had here: leave it out", name)
        if self.modalities not in (None, ["text"]):
            raise ApiProblem("answers are texts: leave modalities out", "modalities")
        check_tool_choice(self.tool_choice)

    @property
    def ignored(self) -> list[str]:
        """The parameters that were given and are passed over."""
        return [name for name in IGNORED if getattr(self, name) not in (None, [], {})]

    @property
    def options(self) -> TurnOptions:
        """The options of its turn, without a model."""
        return TurnOptions(
            temperature=self.temperature,
            max_output_tokens=self.max_completion_tokens or self.max_tokens,
            thinking=effort_of(self.reasoning_effort, "reasoning_effort"),
            answer_schema=self._schema,
        )

    @property
    def _schema(self) -> str | None:
        form = self.response_format
        if form is None or form.type == "text":
            return None
        if form.type == "json_object":
            return '{"type":"object"}'
        if form.json_schema is None:
            raise ApiProblem("json_schema is missing", "response_format")
        return msgspec.json.encode(form.json_schema.schema).decode()

    @property
    def client_tools(self) -> tuple[GivenTool, ...]:
        """The client's tools, unless it wants none of them called."""
        if self.tool_choice == "none":
            return ()
        return tuple(
            GivenTool(
                each.function.name,
                each.function.description or "",
                msgspec.json.encode(each.function.parameters or NO_PARAMETERS).decode(),
            )
            for each in self.tools or ()
        )


IGNORED = (
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "top_p",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prediction",
    "safety_identifier",
    "parallel_tool_calls",
    "verbosity",
    "user",
)

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class ChatInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a request brings.

    Attributes:
        given: What was said up to the last answer, its results included.
        results: Results of calls of the last answer, by call.
        text: What is new; empty if nothing but results is.
        attachments: Files beside that.
        instructions: Of the system and the developer.
    """

    given: tuple[Item, ...]
    results: dict[str, str]
    text: str
    attachments: tuple[Attachment, ...]
    instructions: str


def conversation_of(messages: list[Message]) -> ChatInput:
    """Return what a request brings; raise `ApiProblem`."""
    instructions: list[str] = []
    items: list[Item] = []
    names: dict[str, str] = {}
    results: dict[str, str] = {}
    last_answer = -1
    for number, message in enumerate(messages):
        param = f"messages[{number}]"
        match message:
            case SystemMessage() | DeveloperMessage():
                instructions.append(read_content(message.content, param).text)
            case UserMessage():
                read = read_content(message.content, param)
                text = read.text if read.text.strip() else NO_WORDS
                items.append(Input(text, checked_attachments(read.attachments)))
            case AssistantMessage():
                last_answer = len(items)
                results.clear()
                items.append(_answer(message, param))
                names |= {each.id: each.function.name for each in message.tool_calls or ()}
            case ToolMessage():
                text = read_content(message.content, param).text
                name = names.get(message.tool_call_id)
                if name is None:
                    raise ApiProblem(
                        f"there is no call {message.tool_call_id!r:.100} ahead of it", param
                    )
                items.append(Result(message.tool_call_id, name, result_text(text)))
                results[message.tool_call_id] = text
    return _split(items, last_answer, results, "\n\n".join(filter(None, instructions)))


def _split(
    items: list[Item], last_answer: int, results: dict[str, str], instructions: str
) -> ChatInput:
    behind = items[last_answer + 1 :]
    new = [each for each in behind if isinstance(each, Input)]
    if not behind:
        raise ApiProblem("the last message is what is asked, or the result of a call", "messages")
    files = tuple(file for each in new for file in each.attachments)
    return ChatInput(
        given=(
            *items[: last_answer + 1],
            *(each for each in behind if isinstance(each, Result)),
        ),
        results=results,
        text="\n\n".join(each.text for each in new),
        attachments=checked_attachments(files),
        instructions=instructions,
    )


def _answer(message: AssistantMessage, param: str) -> Answer:
    read = read_content(message.content, param)
    said = "\n".join(filter(None, (read.text, message.refusal)))
    parts: list[Part] = [Text(without_surrogates(said))] if said else []
    parts += [
        Call(each.id, each.function.name, each.function.arguments or "{}")
        for each in message.tool_calls or ()
    ]
    return Answer(tuple(parts))


def result_text(text: str) -> str:
    """Return the result of a client's tool as models read results."""
    return msgspec.json.encode({"status": "success", "result": text}).decode()


def effort_of(word: str | None, param: str) -> ThinkingEffort | None:
    """Return how much the model is to reason; raise `ApiProblem` for an unknown word."""
    if word is None:
        return None
    if word not in EFFORTS:
        raise ApiProblem(f"it is one of {', '.join(EFFORTS)}", param)
    return EFFORTS[word]


def check_tool_choice(choice: object) -> None:
    """Raise `ApiProblem` for a choice that no model here can be held to."""
    if choice not in (None, "auto", "none"):
        raise ApiProblem("it is auto or none: no model is made to call a tool here", "tool_choice")


def decoded(body: bytes, kind: type[Read]) -> Read:
    """Return a body as a request; raise `ApiProblem` with the parameter that is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        why, _, place = str(error).partition(" - at `$")
        raise ApiProblem(why, place.rstrip("`").lstrip(".") or None) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiProblem(f"the body is not JSON: {error}") from error
    except RecursionError:
        raise ApiProblem("the body is nested too deeply") from None

"""A request for a chat completion: read, checked, and turned into what a session gets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, ClassVar, Literal

import msgspec

from ...runtime.definitions import MAX_OUTPUT_TOKENS, MAX_TEMPERATURE, Attachment, ThinkingEffort
from ...runtime.history import Answer, Call, Input, Item, Part, Result, Text, checked_attachments
from ...runtime.text import without_surrogates
from ...runtime.turn_options import (
    ANY_TOOL,
    MAX_CLIENT_TOOLS,
    ClientContext,
    GivenTool,
    TurnOptions,
)
from .content import (
    MAX_TOOLS_CHARS,
    NO_WORDS,
    NULL,
    Content,
    checked_schema,
    decoded,
    decoded_items,
    is_given,
    read_content,
)
from .problems import ApiProblem

MAX_MESSAGES = 10_000
"""Messages, or items, of one request: a million tokens are as many short ones. A turn looks at each of them while
nobody else has a turn: of 30,000, it took 80 ms."""

MAX_METADATA = 16
"""Pairs of metadata, as many as OpenAI takes."""

SERVER = "callboard"
"""The label of the server whose tools are the agent's."""

EFFORTS = {
    "none": ThinkingEffort.OFF,
    "minimal": ThinkingEffort.LOW,
    "low": ThinkingEffort.LOW,
    "medium": ThinkingEffort.MEDIUM,
    "high": ThinkingEffort.HIGH,
    "xhigh": ThinkingEffort.HIGH,
}


class CalledFunction(msgspec.Struct, gc=False):
    """The function of a call."""

    name: str
    arguments: str = ""


class ToolCall(msgspec.Struct, gc=False):
    """A call of a message that the client has from us, or from somebody else."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class SystemMessage(msgspec.Struct, tag_field="role", tag="system", gc=False):
    """Instructions."""

    content: Content


class DeveloperMessage(msgspec.Struct, tag_field="role", tag="developer", gc=False):
    """Instructions, by their newer name."""

    content: Content


class UserMessage(msgspec.Struct, tag_field="role", tag="user", gc=False):
    """What a person says."""

    content: Content


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant", gc=False):
    """What a model is said to have said."""

    content: Content = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", gc=False):
    """The result of a call of a client's tool."""

    tool_call_id: str
    content: Content


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class Function(msgspec.Struct):
    """A tool of the client."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = NULL


class ChatTool(msgspec.Struct):
    """The same, as it is wrapped."""

    function: Function
    type: Literal["function"] = "function"


class JsonSchema(msgspec.Struct):
    """The form of an answer."""

    schema: msgspec.Raw
    name: str = ""


class ResponseFormat(msgspec.Struct):
    """Whether an answer has a form."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None


class StreamOptions(msgspec.Struct):
    """What a stream has beside the answer."""

    include_usage: bool | None = None


Tokens = Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)]


MetadataKey = Annotated[str, msgspec.Meta(max_length=64)]
MetadataText = Annotated[str, msgspec.Meta(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataText], msgspec.Meta(max_length=MAX_METADATA)]
"""As much as OpenAI takes."""


class CommonRequest(msgspec.Struct, kw_only=True):
    """What requests of both kinds have; what is not named is passed over."""

    model: str
    stream: bool | None = False
    temperature: Annotated[float, msgspec.Meta(ge=0, le=MAX_TEMPERATURE)] | None = None
    tool_choice: msgspec.Raw = NULL
    metadata: Metadata | None = None
    top_logprobs: int | None = None
    top_p: msgspec.Raw = NULL
    parallel_tool_calls: msgspec.Raw = NULL
    service_tier: msgspec.Raw = NULL
    prompt_cache_key: msgspec.Raw = NULL
    prompt_cache_retention: msgspec.Raw = NULL
    prompt_cache_options: msgspec.Raw = NULL
    moderation: msgspec.Raw = NULL
    safety_identifier: msgspec.Raw = NULL
    user: msgspec.Raw = NULL

    passes_over: ClassVar[tuple[str, ...]] = (
        "top_p",
        "parallel_tool_calls",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
        "moderation",
        "safety_identifier",
        "user",
    )
    """Parameters that change no answer, or none that could be had; each is given as text."""
    refuses: ClassVar[tuple[str, ...]] = ()
    """Parameters that would change the answer; each is given as text."""

    def check(self) -> None:
        """Raise `ApiProblem` for what would change the answer and can't be had."""
        for name in self.refuses:
            if is_given(getattr(self, name)):
                raise ApiProblem(f"{name} can't be had here: leave it out", name)
        if self.top_logprobs:
            raise ApiProblem("there are no log probabilities here: leave it out", "top_logprobs")

    @property
    def ignored(self) -> list[str]:
        """The parameters that were given and are passed over."""
        return [name for name in self.passes_over if is_given(getattr(self, name))]

    def tools_wanted(
        self, tools: Iterable[tuple[str, str | None, msgspec.Raw]]
    ) -> tuple[GivenTool, ...]:
        """Return the client's tools, unless it wants none of them called; raise `ApiProblem`."""
        return () if is_word(self.tool_choice, "none") else given_tools(tools)

    def wanted_calls(self, tools: Iterable[GivenTool]) -> WantedCalls:
        """Return what it says of calls of the client's tools; raise `ApiProblem`."""
        return wanted_calls(self.tool_choice, {each.name for each in tools})


class ChatRequest(CommonRequest, kw_only=True):
    """A request for a chat completion."""

    messages: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MAX_MESSAGES)]
    stream_options: StreamOptions | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    reasoning_effort: str | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[ChatTool], msgspec.Meta(max_length=MAX_CLIENT_TOOLS)] | None = None
    n: int | None = None
    logprobs: bool | None = None
    modalities: list[str] | None = None
    audio: msgspec.Raw = NULL
    functions: msgspec.Raw = NULL
    function_call: msgspec.Raw = NULL
    web_search_options: msgspec.Raw = NULL
    prediction: msgspec.Raw = NULL
    seed: msgspec.Raw = NULL
    stop: msgspec.Raw = NULL
    frequency_penalty: msgspec.Raw = NULL
    presence_penalty: msgspec.Raw = NULL
    logit_bias: msgspec.Raw = NULL
    verbosity: msgspec.Raw = NULL
    store: bool | None = None

    passes_over: ClassVar[tuple[str, ...]] = (
        "seed",
        "stop",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "prediction",
        "verbosity",
        *CommonRequest.passes_over,
    )
    refuses: ClassVar[tuple[str, ...]] = (
        "audio",
        "functions",
        "function_call",
        "web_search_options",
    )

    def check(self) -> None:
        """Raise `ApiProblem` for what would change the answer and can't be had."""
        if self.n not in {None, 1}:
            raise ApiProblem("there is one answer: leave n out", "n")
        if self.logprobs:
            raise ApiProblem("there are no log probabilities here: leave it out", "logprobs")
        if self.modalities not in (None, ["text"]):
            raise ApiProblem("answers are texts: leave modalities out", "modalities")
        super().check()

    @property
    def ignored(self) -> list[str]:
        """The parameters that were given and are passed over."""
        names = super().ignored
        if self.store:
            names.append("store")
        return names

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
            return ANY_OBJECT
        if form.json_schema is None:
            raise ApiProblem("json_schema is missing", "response_format")
        return checked_schema(form.json_schema.schema, "response_format")

    @property
    def client_tools(self) -> tuple[GivenTool, ...]:
        """The client's tools, as far as they are wanted."""
        functions = (each.function for each in self.tools or ())
        return self.tools_wanted(
            (each.name, each.description, each.parameters) for each in functions
        )


class ChatStyle(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of its answer.

    Attributes:
        model: Its model.
        stream: Whether it comes as a stream.
        has_form: Whether a form is given for it.
        wants_usage: Whether a stream ends with the tokens.
        wants_call: Whether it is the call of one named tool, and nothing comes behind that.
        ignored: The parameters that were given and are passed over.
    """

    model: str
    stream: bool
    has_form: bool
    wants_usage: bool
    wants_call: bool
    ignored: list[str]


def read_chat(body: bytes) -> tuple[ChatStyle, TurnOptions, ClientContext, ChatInput]:
    """Return what a body asks for, of which nothing refers to the body; raise `ApiProblem`."""
    request = decoded(body, ChatRequest)
    request.check()
    said = conversation_of(decoded_items(request.messages, Message, "messages"))  # type: ignore[arg-type]
    form, wants = request.response_format, request.stream_options
    tools = request.client_tools
    calls = request.wanted_calls(tools)
    style = ChatStyle(
        model=request.model,
        stream=bool(request.stream),
        has_form=form is not None and form.type != "text",
        wants_usage=wants is not None and bool(wants.include_usage),
        wants_call=calls.must_call not in ("", ANY_TOOL),
        ignored=request.ignored,
    )
    client = ClientContext(
        said.instructions,
        tools,
        request.metadata or {},
        must_call=calls.must_call,
        allowed=calls.allowed,
    )
    return style, request.options, client, said


def given_tools(
    tools: Iterable[tuple[str, str | None, msgspec.Raw]],
) -> tuple[GivenTool, ...]:
    """Return tools of a client by name, description and parameters; raise `ApiProblem`."""
    given: list[GivenTool] = []
    size = 0
    for number, (name, description, parameters) in enumerate(tools):
        param = f"tools[{number}]"
        schema = checked_schema(parameters, param) if is_given(parameters) else NO_PARAMETERS
        given.append(GivenTool(name, description or "", schema))
        size += len(schema) + len(given[-1].description)
        if size > MAX_TOOLS_CHARS:
            raise ApiProblem(f"all tools together have {MAX_TOOLS_CHARS} bytes at most", param)
    return tuple(given)


ANY_OBJECT = '{"type":"object"}'
"""The schema of an answer that is JSON and no more."""

NO_PARAMETERS = '{"type":"object","properties":{}}'


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


class WantedCalls(msgspec.Struct, frozen=True):
    """What a request says of calls of the client's tools, as in `ClientContext`."""

    must_call: str = ""
    allowed: tuple[str, ...] | None = None


class _Named(msgspec.Struct):
    name: str = ""
    function: CalledFunction | None = None

    @property
    def its_name(self) -> str:
        """The name, which a chat has in a function around it."""
        return self.name if self.function is None else self.function.name


class NamedTool(_Named):
    """A tool among those that may be called."""

    type: str = "function"
    server_label: str = ""


class AllowedTools(msgspec.Struct):
    """The tools that may be called, and whether one must be."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], msgspec.Meta(max_length=MAX_CLIENT_TOOLS)]


class ChosenTool(_Named, tag_field="type", tag="function"):
    """The tool that a request wants called."""


class AllowedForChat(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """The tools that may be called, as a chat wraps them."""

    allowed_tools: AllowedTools


class AllowedForResponse(AllowedTools, tag_field="type", tag="allowed_tools"):
    """The tools that may be called, as a response has them."""


_CHAT_CHOICE = msgspec.json.Decoder(ChosenTool | AllowedForChat)
_RESPONSE_CHOICE = msgspec.json.Decoder(ChosenTool | AllowedForResponse)


def wanted_calls(choice: msgspec.Raw, names: Collection[str]) -> WantedCalls:
    """Return what a choice says of these tools; raise `ApiProblem`."""
    if not is_given(choice) or is_word(choice, "auto") or is_word(choice, "none"):
        return WantedCalls()
    if is_word(choice, "required"):
        return WantedCalls(_any_of(names))
    chosen = _chosen(choice)
    if isinstance(chosen, ChosenTool):
        return WantedCalls(_one_of(names, chosen.its_name))
    allowed = tuple(
        _one_of(names, each.its_name) for each in chosen.tools if not _is_of_agent(each)
    )
    return WantedCalls(_any_of(allowed) if chosen.mode == "required" else "", allowed)


def _chosen(choice: msgspec.Raw) -> ChosenTool | AllowedTools:
    for decoder in (_CHAT_CHOICE, _RESPONSE_CHOICE):
        try:
            found = decoder.decode(choice)
        except msgspec.MsgspecError:
            continue
        return found.allowed_tools if isinstance(found, AllowedForChat) else found
    why = "it is auto, none, required, the function of one of your tools, or allowed_tools with a mode and tools"
    raise ApiProblem(why, "tool_choice")


def _is_of_agent(tool: NamedTool) -> bool:
    """Whether it means callboard's own tools, which are the agent's matter; raise `ApiProblem` for tools that can't be had."""
    if tool.type == "function":
        return False
    if tool.type == "mcp" and tool.server_label == SERVER:
        return True
    raise ApiProblem(f"tools of the type {tool.type!r:.50} can't be had here", "tool_choice")


def _any_of(names: Collection[str]) -> str:
    if not names:
        raise ApiProblem("there are no tools to call: give some, or leave it out", "tool_choice")
    return ANY_TOOL


def _one_of(names: Collection[str], name: str) -> str:
    if name not in names:
        raise ApiProblem(f"none of your tools is named {name!r:.100}", "tool_choice")
    return name


def is_word(text: msgspec.Raw, word: str) -> bool:
    """Whether a parameter is this word."""
    return len(text) == len(word) + 2 and bytes(text).decode() == f'"{word}"'

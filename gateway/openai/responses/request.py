"""A request for a response: read, checked, and turned into what a session gets."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from ....actors.conversation.conversation import SUMMARY_HEADING
from ....runtime.approval import ApprovalAnswer
from ....runtime.budget import Budget
from ....runtime.definitions import MAX_OUTPUT_TOKENS, Attachment
from ....runtime.history import Answer, Call, Input, Item, Part, Result, Text, checked_attachments
from ....runtime.text import without_surrogates
from ....runtime.turn_options import MAX_CLIENT_TOOLS, ClientContext, GivenTool, TurnOptions
from ..asked import WantedTurn
from ..chat_request import (
    ANY_OBJECT,
    MAX_MESSAGES,
    SERVER,
    CommonRequest,
    effort_of,
    is_word,
    result_text,
)
from ..content import NO_WORDS, NULL, checked_schema, data_url, decoded, decoded_items, is_given
from ..problems import ApiProblem

COMPACTED = "callboard:"
"""What the content of an item of the type `compaction` begins with; `KeptTalk` follows, as JSON."""
LOGPROBS = "message.output_text.logprobs"
"""What `include` names if it asks for probabilities."""


class InputPart(msgspec.Struct, gc=False):
    """A part of a content; which fields it has depends on its type."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    file_data: str | None = None
    filename: str = ""


class InputItem(msgspec.Struct, gc=False):
    """An item of an input; a message may leave its type out."""

    type: str = "message"
    role: str = ""
    content: str | list[InputPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[InputPart] = ""
    approval_request_id: str = ""
    approve: bool = False
    reason: str | None = None
    encrypted_content: str | None = None


class KeptTalk(msgspec.Struct):
    """What is left of a conversation that was summed up: the summary, and behind it what was said last, as it was.

    A client has it as the content of an item, and may change it as it may change any message: so it is read as those are.
    """

    summary: str
    items: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_MESSAGES)]


class ResponseTool(msgspec.Struct):
    """A tool of the client, or callboard itself as a server of tools."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: msgspec.Raw = NULL
    server_label: str = ""
    require_approval: msgspec.Raw = NULL


class Reasoning(msgspec.Struct):
    """How much the model reasons."""

    effort: str | None = None


class TextFormat(msgspec.Struct):
    """Whether an answer has a form."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: msgspec.Raw = NULL


class TextOptions(msgspec.Struct):
    """How the answer is written."""

    format: TextFormat | None = None
    verbosity: msgspec.Raw = NULL


GivenInput = str | Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_MESSAGES)] | None
"""A text, or items."""


class ResponseRequest(CommonRequest, kw_only=True):
    """A request for a response."""

    input: GivenInput = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    background: bool | None = False
    store: bool | None = True
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_OUTPUT_TOKENS)] | None = None
    max_tool_calls: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    reasoning: Reasoning | None = None
    text: TextOptions | None = None
    tools: Annotated[list[ResponseTool], msgspec.Meta(max_length=MAX_CLIENT_TOOLS)] | None = None
    conversation: msgspec.Raw = NULL
    prompt: msgspec.Raw = NULL
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    stream_options: msgspec.Raw = NULL
    presence_penalty: msgspec.Raw = NULL
    frequency_penalty: msgspec.Raw = NULL
    context_management: msgspec.Raw = NULL
    background_options: msgspec.Raw = NULL
    access_programs: msgspec.Raw = NULL
    image: msgspec.Raw = NULL

    passes_over: ClassVar[tuple[str, ...]] = (
        "context_management",
        "background_options",
        "access_programs",
        "image",
        "stream_options",
        "presence_penalty",
        "frequency_penalty",
        *CommonRequest.passes_over,
    )
    refuses: ClassVar[tuple[str, ...]] = ("conversation", "prompt")

    def check(self) -> None:
        """Raise `ApiProblem` for what would change the answer and can't be had."""
        super().check()
        if LOGPROBS in (self.include or ()):
            raise ApiProblem("there are no log probabilities here: leave it out", "include")
        for number, tool in enumerate(self.tools or ()):
            if tool.type == "mcp" and tool.server_label == SERVER:
                continue
            if tool.type != "function":
                why = (
                    f"tools of the type {tool.type!r:.50} can't be had here: the agent has its own"
                )
                raise ApiProblem(why, f"tools[{number}]")
        if self.background and self.client_tools:
            raise ApiProblem("nobody hears the calls of tools of yours: leave it out", "background")
        if self.background and self.store is False:
            raise ApiProblem("what goes on alone is stored: leave store out", "background")

    @property
    def ignored(self) -> list[str]:
        """The parameters that were given and are passed over."""
        names = super().ignored
        if self.include:
            names.append("include")
        if self.truncation == "disabled":
            names.append("truncation")
        if self.text is not None and is_given(self.text.verbosity):
            names.append("text.verbosity")
        return names

    @property
    def wants_approvals(self) -> bool:
        """Whether the client answers questions about calls of the agent's tools."""
        return any(
            each.type == "mcp" and not is_word(each.require_approval, "never")
            for each in self.tools or ()
        )

    @property
    def client_tools(self) -> tuple[GivenTool, ...]:
        """The client's tools, as far as they are wanted."""
        functions = (each for each in self.tools or () if each.type == "function")
        return self.tools_wanted(
            (each.name, each.description, each.parameters) for each in functions
        )

    @property
    def options(self) -> TurnOptions:
        """The options of its turn, without a model."""
        return TurnOptions(
            temperature=self.temperature,
            max_output_tokens=self.max_output_tokens,
            thinking=effort_of(
                None if self.reasoning is None else self.reasoning.effort, "reasoning"
            ),
            answer_schema=self._schema,
        )

    @property
    def budget(self) -> Budget | None:
        """What its turn may use."""
        most = self.max_tool_calls
        return None if most is None else Budget(tool_calls=most)

    @property
    def _schema(self) -> str | None:
        form = None if self.text is None else self.text.format
        if form is None or form.type == "text":
            return None
        if is_given(form.schema):
            return checked_schema(form.schema, "text.format")
        if form.type == "json_schema":
            raise ApiProblem("schema is missing", "text.format")
        return ANY_OBJECT

    @property
    def style(self) -> ResponseStyle:
        """What it says of its answer, of which nothing refers to its body."""
        return ResponseStyle(
            model=self.model,
            options=self.options,
            budget=self.budget,
            previous_response_id=self.previous_response_id,
            stream=bool(self.stream),
            background=bool(self.background),
            store=self.store is not False,
            wants_approvals=self.wants_approvals,
            ignored=self.ignored,
        )


class CompactRequest(msgspec.Struct, kw_only=True):
    """A request to sum a conversation up; what is not named is passed over."""

    model: str
    input: GivenInput = None
    previous_response_id: str | None = None
    instructions: msgspec.Raw = NULL
    service_tier: msgspec.Raw = NULL
    image: msgspec.Raw = NULL
    prompt_cache_key: msgspec.Raw = NULL
    prompt_cache_options: msgspec.Raw = NULL
    prompt_cache_retention: msgspec.Raw = NULL

    passes_over: ClassVar[tuple[str, ...]] = (
        "instructions",
        "service_tier",
        "image",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
    )
    """Parameters that change no summary."""

    @property
    def ignored(self) -> list[str]:
        """The parameters that were given and are passed over."""
        return [name for name in self.passes_over if is_given(getattr(self, name))]


class CountRequest(CommonRequest, kw_only=True):
    """A request for the number of tokens that a model would read; what is not named is passed over."""

    input: GivenInput = None
    previous_response_id: str | None = None
    instructions: str | None = None
    tools: Annotated[list[ResponseTool], msgspec.Meta(max_length=MAX_CLIENT_TOOLS)] | None = None

    @property
    def client_tools(self) -> tuple[GivenTool, ...]:
        """The client's tools, as far as they are wanted."""
        functions = (each for each in self.tools or () if each.type == "function")
        return self.tools_wanted(
            (each.name, each.description, each.parameters) for each in functions
        )


class ResponseStyle(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of its answer."""

    model: str
    options: TurnOptions
    budget: Budget | None
    previous_response_id: str | None
    stream: bool
    background: bool
    store: bool
    wants_approvals: bool
    ignored: list[str]


def asked_of(request: ResponseRequest, session_id: str, by: str) -> WantedTurn:
    """Return what a request asks for, of which nothing refers to its body. Raise `ApiProblem`.

    `by` is who answers its questions.
    """
    said = conversation_of(request.input, by)
    instructions = [request.instructions] if request.instructions else []
    tools = request.client_tools
    calls = request.wanted_calls(tools)
    new = said.new
    if not (new or said.results or said.approvals):
        raise ApiProblem("the last item is what is asked, or the result of a call", "input")
    files = tuple(file for each in new for file in each.attachments)
    return WantedTurn(
        model=request.model,
        options=request.options,
        given=said.given,
        text="\n\n".join(each.text for each in new),
        attachments=checked_attachments(files),
        results=said.results,
        client=ClientContext(
            "\n\n".join(filter(None, [*instructions, *said.instructions])),
            tools,
            request.metadata or {},
            request.wants_approvals,
            calls.must_call,
            calls.allowed,
        ),
        session_id=session_id,
        budget=request.budget,
        approvals=said.approvals,
        is_alone=request.store is False,
        is_private=request.store is False,
    )


class SaidItems:
    """What the items of an input say.

    Attributes:
        results: Of calls of the client's tools, behind the last answer.
        approvals: Answers to questions about calls, by their ids.
        instructions: Of the system and the developer.
    """

    def __init__(self) -> None:
        self.results: dict[str, str] = {}
        self.approvals: dict[str, ApprovalAnswer] = {}
        self.instructions: list[str] = []
        self._brought: list[Item | list[Part]] = []  # parts of an answer, until all of it has come
        self._names: dict[str, str] = {}
        self._last_answer = -1
        self._is_compacted = False

    @property
    def items(self) -> list[Item]:
        """The conversation, in order."""
        return [Answer(tuple(each)) if isinstance(each, list) else each for each in self._brought]

    @property
    def new(self) -> list[Input]:
        """What is said behind the last answer."""
        behind = self._brought[self._last_answer + 1 :]
        return [each for each in behind if isinstance(each, Input)]

    @property
    def given(self) -> tuple[Item, ...]:
        """What was said up to the last answer, its results included."""
        if self._last_answer < 0:
            return ()
        brought = self.items
        behind = (each for each in brought[self._last_answer + 1 :] if isinstance(each, Result))
        return (*brought[: self._last_answer + 1], *behind)

    def take(self, item: InputItem, param: str, by: str) -> None:
        """Take the next item; raise `ApiProblem`."""
        match item.type, item.role:
            case "message", "system" | "developer":
                self.instructions.append(_read(item.content, param)[0])
            case "message", "user":
                text, files = _read(item.content, param)
                words = text if text.strip() else NO_WORDS
                self._brought.append(Input(words, checked_attachments(files)))
            case "message", "assistant":
                self._answered([Text(_read(item.content, param)[0])])
            case "compaction", _:
                self._compacted(item, param, by)
            case "function_call", _:
                self._called(item)
            case "function_call_output", _:
                text = _read(item.output, param)[0]
                self.results[item.call_id] = text
                name = self._names.get(item.call_id, "")
                self._brought.append(Result(item.call_id, name, result_text(text)))
            case "mcp_approval_response", _:
                self.approvals[item.approval_request_id] = ApprovalAnswer(
                    decision="allow" if item.approve else "deny",
                    reason=item.reason or "",
                    answered_by=by,
                )
            case "reasoning" | "mcp_call" | "mcp_list_tools" | "mcp_approval_request", _:
                pass  # what callboard said itself; its session has it
            case _:
                raise ApiProblem(f"a {item.type!r:.50} of {item.role!r:.50} is not known", param)

    def _compacted(self, item: InputItem, param: str, by: str) -> None:
        if self._is_compacted:  # each may hold as much as a body
            why = "send the last compaction alone: it has in it what was ahead of it"
            raise ApiProblem(why, param)
        self._is_compacted = True
        kept = _kept_in(item.encrypted_content or "", param)
        self._brought.append(Input(SUMMARY_HEADING))
        self._answered(Answer((Text(without_surrogates(kept.summary)),)))
        for each in decoded_items(kept.items, InputItem, param):
            self.take(each, param, by)

    def _answered(self, answer: Answer | list[Part]) -> None:
        self._last_answer = len(self._brought)
        self.results.clear()
        self._brought.append(answer)

    def _called(self, item: InputItem) -> None:
        call = Call(item.call_id, item.name, item.arguments)
        if self._brought and isinstance(answer := self._brought[-1], list):
            answer.append(call)
        else:
            self._last_answer = len(self._brought)
            self._brought.append([call])
        self._names[item.call_id] = item.name
        self.results.pop(item.call_id, None)


def conversation_of(said: GivenInput, by: str = "") -> SaidItems:
    """Return what an input says; raise `ApiProblem`. `by` is who answers the questions in it."""
    found = SaidItems()
    if said is None:
        return found
    if isinstance(said, str):
        items = [InputItem(role="user", content=said)]
    else:
        items = decoded_items(said, InputItem, "input")
    for number, item in enumerate(items):
        found.take(item, f"input[{number}]", by)
    return found


def _kept_in(content: str, param: str) -> KeptTalk:
    why = "this compaction is not callboard's, or was changed: send the messages themselves"
    if not content.startswith(COMPACTED):
        raise ApiProblem(why, param)
    try:
        return decoded(content.removeprefix(COMPACTED).encode(), KeptTalk)
    except (ApiProblem, UnicodeEncodeError) as problem:
        raise ApiProblem(why, param) from problem


def _read(content: str | list[InputPart] | None, param: str) -> tuple[str, tuple[Attachment, ...]]:
    if content is None or isinstance(content, str):
        return without_surrogates(content or ""), ()
    words: list[str] = []
    files: list[Attachment] = []
    for part in content:
        match part.type:
            case "input_text" | "output_text" | "text" | "summary_text":
                words.append(part.text)
            case "refusal":
                words.append(part.refusal)
            case "input_image" if part.image_url is not None:
                files.append(data_url(part.image_url, param))
            case "input_file" if part.file_data is not None:
                files.append(data_url(part.file_data, param, part.filename))
            case _:
                raise ApiProblem(f"a part {part.type!r:.50} can't be taken here", param)
    return without_surrogates("\n".join(words)), tuple(files)

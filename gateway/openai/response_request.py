"""A request for a response: read, checked, and turned into what a session gets."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from ...runtime.approval import ApprovalAnswer
from ...runtime.budget import Budget
from ...runtime.definitions import MAX_OUTPUT_TOKENS, Attachment
from ...runtime.history import Answer, Call, Input, Item, Part, Result, Text, checked_attachments
from ...runtime.text import without_surrogates
from ...runtime.turn_options import MAX_CLIENT_TOOLS, ClientContext, GivenTool, TurnOptions
from .asked import WantedTurn
from .chat_request import (
    ANY_OBJECT,
    MAX_MESSAGES,
    SERVER,
    CommonRequest,
    effort_of,
    is_word,
    result_text,
)
from .content import NO_WORDS, NULL, checked_schema, data_url, decoded_items, is_given
from .problems import ApiProblem

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


class ResponseRequest(CommonRequest, kw_only=True):
    """A request for a response."""

    input: str | Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_MESSAGES)] = ""
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

    passes_over: ClassVar[tuple[str, ...]] = (
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
    if isinstance(request.input, str):
        items = [InputItem(role="user", content=request.input)]
    else:
        items = decoded_items(request.input, InputItem, "input")
    brought: list[Item | list[Part]] = []  # parts of an answer, until all of it has come
    instructions = [request.instructions] if request.instructions else []
    results: dict[str, str] = {}
    approvals: dict[str, ApprovalAnswer] = {}
    names: dict[str, str] = {}
    tools = request.client_tools
    calls = request.wanted_calls(tools)
    last_answer = -1
    for number, item in enumerate(items):
        param = f"input[{number}]"
        match item.type, item.role:
            case "message", "system" | "developer":
                instructions.append(_read(item.content, param)[0])
            case "message", "user":
                text, files = _read(item.content, param)
                brought.append(
                    Input(text if text.strip() else NO_WORDS, checked_attachments(files))
                )
            case "message", "assistant":
                last_answer = len(brought)
                results.clear()
                brought.append([Text(_read(item.content, param)[0])])
            case "function_call", _:
                call = Call(item.call_id, item.name, item.arguments)
                if brought and isinstance(answer := brought[-1], list):
                    answer.append(call)
                else:
                    last_answer = len(brought)
                    brought.append([call])
                names[item.call_id] = item.name
                results.pop(item.call_id, None)
            case "function_call_output", _:
                text = _read(item.output, param)[0]
                name = names.get(item.call_id, "")
                results[item.call_id] = text
                brought.append(Result(item.call_id, name, result_text(text)))
            case "mcp_approval_response", _:
                approvals[item.approval_request_id] = ApprovalAnswer(
                    decision="allow" if item.approve else "deny",
                    reason=item.reason or "",
                    answered_by=by,
                )
            case "reasoning" | "mcp_call" | "mcp_list_tools" | "mcp_approval_request", _:
                pass  # what callboard said itself; its session has it
            case _:
                raise ApiProblem(f"a {item.type!r:.50} of {item.role!r:.50} is not known", param)
    new = [each for each in brought[last_answer + 1 :] if isinstance(each, Input)]
    if not (new or results or approvals):
        raise ApiProblem("the last item is what is asked, or the result of a call", "input")
    files = tuple(file for each in new for file in each.attachments)
    return WantedTurn(
        model=request.model,
        options=request.options,
        given=_given(
            [Answer(tuple(each)) if isinstance(each, list) else each for each in brought],
            last_answer,
        ),
        text="\n\n".join(each.text for each in new),
        attachments=checked_attachments(files),
        results=results,
        client=ClientContext(
            "\n\n".join(filter(None, instructions)),
            tools,
            request.metadata or {},
            request.wants_approvals,
            calls.must_call,
            calls.allowed,
        ),
        session_id=session_id,
        budget=request.budget,
        approvals=approvals,
        is_alone=request.store is False,
        is_private=request.store is False,
    )


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


def _given(brought: list[Item], last_answer: int) -> tuple[Item, ...]:
    """Return what was said up to the last answer, its results included."""
    behind = (each for each in brought[last_answer + 1 :] if isinstance(each, Result))
    return (*brought[: last_answer + 1], *behind) if last_answer >= 0 else ()

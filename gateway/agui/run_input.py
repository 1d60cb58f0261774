"""A request for a run: read, checked, and parted into what the thread has already and what is new."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from ...runtime.history import Answer, Call, Input, Item, Part, Result, Text, checked_attachments
from ...runtime.identity import MAX_KEY_LENGTH
from ...runtime.text import without_surrogates
from ...runtime.turn_options import MAX_CLIENT_TOOLS, ClientContext
from ..openai.chat_request import MAX_MESSAGES, given_tools, result_text
from ..openai.content import NO_WORDS, NULL, Read, data_url, decoded, decoded_items, is_given
from ..openai.problems import ApiProblem

MAX_CONTEXTS = 1000
"""Pieces of context of one run."""
MAX_RESUMED = 1000
"""Answers in one run: more than there can be questions."""
LAST_MESSAGE = "ag-ui message"
"""In the metadata of an input: the id of the last message that came with it."""


class DataSource(msgspec.Struct, tag_field="type", tag="data", rename="camel", gc=False):
    """Bytes in the request."""

    value: str
    mime_type: str


class UrlSource(msgspec.Struct, tag_field="type", tag="url", gc=False):
    """Bytes at an address."""

    value: str


class FileSource(msgspec.Struct, tag_field="type", tag="file", gc=False):
    """Bytes at a provider."""

    value: str


Source = DataSource | UrlSource | FileSource


class TextContent(msgspec.Struct, tag_field="type", tag="text", gc=False):
    """Words."""

    text: str


class ImageContent(msgspec.Struct, tag_field="type", tag="image", gc=False):
    """An image."""

    source: Source


class DocumentContent(msgspec.Struct, tag_field="type", tag="document", gc=False):
    """A file."""

    source: Source
    metadata: Any = None


class AudioContent(msgspec.Struct, tag_field="type", tag="audio", gc=False):
    """Sound."""


class VideoContent(msgspec.Struct, tag_field="type", tag="video", gc=False):
    """Moving pictures."""


ContentPart = TextContent | ImageContent | DocumentContent | AudioContent | VideoContent
Content = str | Annotated[list[ContentPart], msgspec.Meta(max_length=10_000)] | None


class Function(msgspec.Struct, gc=False):
    """The function of a call."""

    name: str
    arguments: str = ""


class ToolCall(msgspec.Struct, gc=False):
    """A call that a message holds."""

    id: str
    function: Function


class SystemMessage(msgspec.Struct, tag_field="role", tag="system", gc=False):
    """Instructions."""

    id: str
    content: Content


class DeveloperMessage(msgspec.Struct, tag_field="role", tag="developer", gc=False):
    """Instructions, of the program."""

    id: str
    content: Content


class UserMessage(msgspec.Struct, tag_field="role", tag="user", gc=False):
    """What a person says."""

    id: str
    content: Content


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant", rename="camel", gc=False):
    """What the model said, or is said to have said."""

    id: str
    content: Content = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", rename="camel", gc=False):
    """The result of a call."""

    id: str
    tool_call_id: str
    content: Content
    error: str | None = None


class ReasoningMessage(msgspec.Struct, tag_field="role", tag="reasoning", gc=False):
    """What the model thought."""

    id: str


class ActivityMessage(msgspec.Struct, tag_field="role", tag="activity", gc=False):
    """What a front end shows beside the conversation."""

    id: str


Message = (
    SystemMessage
    | DeveloperMessage
    | UserMessage
    | AssistantMessage
    | ToolMessage
    | ReasoningMessage
    | ActivityMessage
)


class FrontEndTool(msgspec.Struct):
    """A tool of the client."""

    name: str
    description: str = ""
    parameters: msgspec.Raw = NULL


class Context(msgspec.Struct):
    """What a front end knows of its surroundings."""

    description: str
    value: str


class Resume(msgspec.Struct, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: msgspec.Raw = NULL


Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY_LENGTH)]


class RunAgentInput(msgspec.Struct, rename="camel"):
    """A request for a run; what is not named here is passed over."""

    thread_id: Name
    run_id: Name
    messages: Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MAX_MESSAGES)]
    tools: Annotated[list[FrontEndTool], msgspec.Meta(max_length=MAX_CLIENT_TOOLS)] | None = None
    context: Annotated[list[Context], msgspec.Meta(max_length=MAX_CONTEXTS)] | None = None
    state: msgspec.Raw = NULL
    forwarded_props: msgspec.Raw = NULL
    parent_run_id: str | None = None
    resume: Annotated[list[Resume], msgspec.Meta(max_length=MAX_RESUMED)] | None = None

    @property
    def ignored(self) -> list[str]:
        """What was given and changes nothing here."""
        names = ["forwardedProps"] if is_given(self.forwarded_props) else []
        return [*names, "parentRunId"] if self.parent_run_id else names


NOTHING: frozenset[str] = frozenset()
"""Shared: each empty set of its own would take 216 bytes of an open run."""


class KnownIds(msgspec.Struct, frozen=True):
    """What the client has already: messages, calls, and calls with a result."""

    messages: frozenset[str]
    calls: frozenset[str]
    results: frozenset[str]


class NewWords(msgspec.Struct, frozen=True, kw_only=True):
    """What a request brings that the thread does not have.

    Attributes:
        given: What was said before, for a thread that is new here.
        results: Results of calls, by call.
        inputs: What people say.
        last_id: The id of the last message.
    """

    given: tuple[Item, ...]
    results: dict[str, str]
    inputs: tuple[Input, ...]
    last_id: str

    @property
    def text(self) -> str:
        """What is said, as one text."""
        return "\n\n".join(each.text for each in self.inputs)


class RunRequest:
    """A request for a run, of which all is known to be readable, and nothing refers to its body.

    Attributes:
        thread_id, run_id: As the client has them.
        digest: Of the whole body: the same run asked for again has the same.
        client: What the client gives the turn beside words.
        resume: The answers to interrupts.
        state: The client's, if it is an object.
        known: What the client has already.
        ignored: What was given and changes nothing here.
    """

    def __init__(self, body: bytes) -> None:
        asked = decoded(body, RunAgentInput)
        self.digest = hashlib.sha256(body).hexdigest()
        self.thread_id, self.run_id = asked.thread_id, asked.run_id
        for name, text in (("threadId", asked.thread_id), ("runId", asked.run_id)):
            if not text.isprintable():
                raise ApiProblem("an id has printable characters alone", name)
        self._messages: list[Message] = decoded_items(asked.messages, Message, "messages")  # type: ignore[arg-type]
        self._items = _items_of(self._messages)
        given = given_tools(
            (each.name, each.description, each.parameters) for each in asked.tools or ()
        )
        self.client = ClientContext(_instructions(self._messages, asked.context or ()), given)
        self.resume = [
            msgspec.structs.replace(each, payload=each.payload.copy())
            for each in asked.resume or ()
        ]
        self.state: dict[str, msgspec.Raw] = {}
        if bytes(memoryview(asked.state)[:1]) == b"{":
            state = msgspec.json.decode(asked.state, type=dict[str, msgspec.Raw])
            self.state = {name: each.copy() for name, each in state.items()}
        self.known = self._known()
        self.ignored = asked.ignored

    def forget(self) -> None:
        """Keep no messages any more: a run may take long."""
        self._messages, self._items = [], []

    def _known(self) -> KnownIds:
        messages = self._messages
        calls = (call.id for each in messages for call in _calls(each))
        results = (each.tool_call_id for each in messages if isinstance(each, ToolMessage))
        return KnownIds(
            frozenset(each.id for each in messages),
            frozenset(calls) or NOTHING,
            frozenset(results) or NOTHING,
        )

    def behind(self, last_id: str) -> NewWords:
        """Return what is new behind the last answer, and behind this message, where the client still has it."""
        messages = self._messages
        new = 0
        for number, message in enumerate(messages):
            if message.id == last_id or isinstance(message, AssistantMessage):
                new = number + 1
        results = {
            each.tool_call_id: _result(each, number)
            for number, each in enumerate(messages[new:], new)
            if isinstance(each, ToolMessage) and each.id != result_id(each.tool_call_id)
        }
        late = self._items[new:]
        return NewWords(
            given=tuple(
                each
                for number, each in enumerate(self._items)
                if each is not None and (number < new or isinstance(each, Result))
            ),
            results=results,
            inputs=tuple(each for each in late if isinstance(each, Input)),
            last_id=messages[-1].id if messages else "",
        )


def result_id(call_id: str) -> str:
    """Return the id of the message that a result told here becomes."""
    return f"{call_id}-result"


def _calls(message: Message) -> Iterable[ToolCall]:
    return (message.tool_calls or ()) if isinstance(message, AssistantMessage) else ()


def _items_of(messages: list[Message]) -> list[Item | None]:
    """Return each message as a history has it; raise `ApiProblem`."""
    items: list[Item | None] = []
    names: dict[str, str] = {}
    for number, message in enumerate(messages):
        param = f"messages[{number}]"
        match message:
            case UserMessage():
                read = _read(message.content, param)
                text = read.text if read.text.strip() else NO_WORDS
                items.append(Input(text, checked_attachments(read.attachments)))
            case AssistantMessage():
                said = _words(message.content, param)
                parts: list[Part] = [Text(said)] if said else []
                for call in message.tool_calls or ():
                    names[call.id] = call.function.name
                    parts.append(Call(call.id, call.function.name, call.function.arguments or "{}"))
                items.append(Answer(tuple(parts)))
            case ToolMessage(tool_call_id=call_id):
                if (name := names.get(call_id)) is None:
                    raise ApiProblem(f"there is no call {call_id!r:.100} ahead of it", param)
                items.append(Result(call_id, name, result_text(_result(message, number))))
            case _:
                items.append(None)
    return items


def _result(message: ToolMessage, number: int) -> str:
    text = _words(message.content, f"messages[{number}]")
    return f"{text}\n{message.error}".lstrip() if message.error else text


def _instructions(messages: Iterable[Message], contexts: Iterable[Context]) -> str:
    said = [
        _words(each.content, f"messages[{number}]")
        for number, each in enumerate(messages)
        if isinstance(each, SystemMessage | DeveloperMessage)
    ]
    said += [without_surrogates(f"{each.description}: {each.value}") for each in contexts]
    return "\n\n".join(filter(None, said))


def _words(content: Content, param: str) -> str:
    read = _read(content, param)
    if read.attachments:
        raise ApiProblem("files come in messages of the role user: this one has words alone", param)
    return read.text


def _read(content: Content, param: str) -> Read:
    if content is None or isinstance(content, str):
        return Read(without_surrogates(content or ""))
    words: list[str] = []
    files = []
    for part in content:
        match part:
            case TextContent():
                words.append(part.text)
            case ImageContent(source=DataSource() as data):
                files.append(data_url(f"data:{data.mime_type};base64,{data.value}", param))
            case DocumentContent(source=DataSource() as data):
                url = f"data:{data.mime_type};base64,{data.value}"
                files.append(data_url(url, param, _file_name(part.metadata)))
            case ImageContent() | DocumentContent():
                why = "send images and documents as data: nothing is fetched for a client"
                raise ApiProblem(why, param)
            case _:
                why = "sound and video can't be had here: send text, images and documents"
                raise ApiProblem(why, param)
    return Read(without_surrogates("\n".join(words)), tuple(files))


def _file_name(metadata: object) -> str:
    name = metadata.get("filename") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""

"""Responses as the record has them: found by their ids, and folded from the events of their turns.

The id of a response has its session and its input in it, so that it is found, also after a restart. A turn that
waited for its client is told in several responses: the second ends in `_1`, and so on.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Generator, Iterable

import msgspec

from ....embedding.runtime import host_of
from ....embedding.turn import TurnEvent
from ....runtime.budget import Budget
from ....runtime.definitions import Attachment, ThinkingEffort
from ....runtime.errors import NotFoundError
from ....runtime.events import ApprovalAnswered, CallFinished, TurnStarted
from ....runtime.history import Answer, Call, Input, Item, Result, text_of
from ....runtime.turn_options import ANY_TOOL, ClientContext, TurnOptions
from ...connection.caller import Requester
from ...recorded_turn import RecordedTurn
from ..chat_request import ANY_OBJECT
from ..problems import ApiProblem
from ..turn_view import AnswerParts, TurnView
from .fold import ResponseFold
from .items import (
    AllowedFunctions,
    AnswerText,
    ApprovalResponseItem,
    ChosenFunction,
    FunctionCallItem,
    FunctionOfClient,
    FunctionOutputItem,
    GivenItem,
    InputContent,
    InputMessageItem,
    MessageItem,
    OutputText,
    ReasoningOptions,
    ResponseBody,
    ResponseEvent,
    TextForm,
)


class ResponsePlace(msgspec.Struct, frozen=True):
    """Where a response is on record, and which answer of its turn it is."""

    session_id: str
    input_id: str
    part: int = 0

    @property
    def name(self) -> str:
        """The id of the response."""
        session, asked = (each.partition("_")[2] for each in (self.session_id, self.input_id))
        return f"resp_{session}_{asked}" + (f"_{self.part}" if self.part else "")


def place_of(name: str) -> ResponsePlace:
    """Return where a response is; raise `ApiProblem` for what can't be one."""
    kind, *words = name.split("_")
    if kind != "resp" or len(words) not in {2, 3} or (len(words) == 3 and not words[2].isdecimal()):
        raise no_response(name)
    part = int(words[2][:9]) if len(words) == 3 else 0
    return ResponsePlace(f"session_{words[0]}", f"input_{words[1]}", part)


async def recorded(requester: Requester, place: ResponsePlace) -> RecordedResponse:
    """Return a response as far as it is on record; raise `ApiProblem` if there is none, for this token."""
    try:
        row = await requester.session(place.session_id)
        if row.deleted_at_ms is not None:
            raise no_response(place.name)
        async with RecordedTurn(requester, place.session_id, place.input_id, follows=False) as turn:
            response = RecordedResponse(requester, place, turn)
            while (events := await turn.read()) is not None:
                response.take(events)
            if not response.is_begun or await turn.is_deleted():
                raise no_response(place.name)
    except NotFoundError:
        raise no_response(place.name) from None
    return response


class RecordedResponse:
    """Makes a response of a turn that is read from its record on.

    Args:
        requester: Who reads it.
        place: Which answer of the turn it is.
        turn: The turn, entered.

    Attributes:
        is_complete: Whether nothing more comes without the client.
        session_id: Where it is.
        turn_id: Of its turn; empty while that waits.
        messages: The ids of the messages of the turn that were read.
    """

    def __init__(self, requester: Requester, place: ResponsePlace, turn: RecordedTurn) -> None:
        assert turn.accepted is not None
        options = turn.accepted.options or TurnOptions()
        self.is_complete = False
        self.turn_id = ""
        self._place = place
        self._turn = turn
        self._options = options
        self._model = f"{turn.agent}:{options.model}" if options.model else turn.agent
        self._items = host_of(requester.runtime).settings.openai.items
        self._parts = AnswerParts(requester.via)
        self._status = "queued"
        self._begun: list[ResponseEvent] = []
        self._begin()

    @property
    def is_begun(self) -> bool:
        """Whether the turn has come to it."""
        return self._parts.number >= self._place.part

    @property
    def body(self) -> ResponseBody:
        """The response so far."""
        return self._fold.body

    @property
    def view(self) -> TurnView:
        """How its turn stands."""
        return self._fold.view

    def take(self, events: Iterable[TurnEvent]) -> list[ResponseEvent]:
        """Return what these events add to it."""
        told = self._first()
        for event in events:
            if self.is_complete:
                return told
            if self._parts.begins(self._fold.view, event):
                if self._parts.number > self._place.part:
                    return told + self._wait()
                self._begin()
            if isinstance(event, TurnStarted):
                self.turn_id = event.turn_id
                self._status = self._fold.body.status = "in_progress"
            more = self._fold.take((event,), is_live=False)
            if self.is_begun:
                told += self._first() + more
        if self._turn.is_at_head and not self._fold.is_complete and self._fold.is_waiting:
            told += self._wait()
        self.is_complete = self._fold.is_complete
        if self.body.completed_at is not None and self.view.ended is not None:
            self.body.completed_at = self._turn.ended_at_ms // 1000
        return told

    def _wait(self) -> list[ResponseEvent]:
        """Return the end of a response whose turn waited for its client, from when its last call was asked for."""
        at_ms = max(
            (self._turn.called_at_ms.get(each, 0) for each in self.view.open_calls), default=0
        )
        told = self._fold.wait()
        self.body.completed_at = (at_ms or self._turn.at_ms) // 1000
        self.is_complete = True
        return told

    def _first(self) -> list[ResponseEvent]:
        """Return the first events, once."""
        if not self.is_begun:
            return []
        begun, self._begun = self._begun, []
        return begun

    def _begin(self) -> None:
        place = msgspec.structs.replace(self._place, part=self._parts.number)
        client = self._turn.client
        assert self._turn.accepted is not None
        budget = self._turn.accepted.budget
        body = body_of(place, self._model, client, self._options, budget)
        body.created_at, body.status = self._turn.at_ms // 1000, self._status
        self._fold = ResponseFold(
            body,
            TurnView(each.name for each in client.tools),
            has_form=self._options.answer_schema is not None,
            shows_calls=self._items == "all",
            asks=client.asks,
        )
        self._begun = self._fold.begin()


async def input_of(requester: Requester, place: ResponsePlace) -> list[GivenItem]:
    """Return what a response was asked, in order; raise `ApiProblem` if there is none, for this token."""
    await recorded(requester, place)
    items: list[GivenItem] = []
    async with RecordedTurn(requester, place.session_id, place.input_id, follows=False) as turn:
        assert turn.accepted is not None
        if not place.part:
            asked = Input(turn.accepted.text, turn.accepted.attachments)
            items = [each for item in (*turn.given, asked) for each in items_of(item)]
        else:
            parts = AnswerParts(requester.via)
            view = TurnView(each.name for each in turn.client.tools)
            while (events := await turn.read()) is not None:
                for event in events:
                    parts.begins(view, event)
                    if parts.number == place.part:
                        items += _brought(event, view)
                    view.take(event)
    for at, item in enumerate(items):
        item.id = f"in_{place.name.removeprefix('resp_')}_{at}"
    return items


def items_of(item: Item) -> Generator[GivenItem]:
    """Give a part of a conversation as items, without their ids."""
    match item:
        case Input(text=text, attachments=files):
            words = [InputContent("input_text", text=text)]
            yield InputMessageItem("", words + [_file(each) for each in files])
        case Answer(parts=parts):
            if said := text_of(parts):
                yield MessageItem("", [OutputText(said)], "completed")
            for part in parts:
                if isinstance(part, Call):
                    yield FunctionCallItem("", part.call_id, part.name, part.arguments, "completed")
        case Result(call_id=call_id, content=content):
            yield FunctionOutputItem("", call_id, _result(content))


def _brought(event: TurnEvent, view: TurnView) -> Generator[GivenItem]:
    """Give what a client answered with an event, without ids; the view has not taken the event."""
    match event:
        case CallFinished(call_id=call_id, result=result) if view.is_clients(event):
            yield FunctionOutputItem("", call_id, _result(result))
        case ApprovalAnswered(approval_id=name, decision=decision, reason=reason) if (
            name in view.asks
        ):
            yield ApprovalResponseItem("", name, decision == "allow", reason or None)
        case _:
            pass


def _file(file: Attachment) -> InputContent:
    url = f"data:{file.media_type};base64,{base64.b64encode(file.data).decode()}"
    if file.media_type.startswith("image/"):
        return InputContent("input_image", image_url=url, detail="auto")
    return InputContent("input_file", filename=file.name, file_data=url)


def _result(text: str) -> str:
    """Return what a client's tool gave, of the result as models read it."""
    try:
        return _RESULT.decode(text).result
    except msgspec.MsgspecError:
        return text


class _Result(msgspec.Struct):
    result: str


_RESULT = msgspec.json.Decoder(_Result)


def no_response(name: str) -> ApiProblem:
    """Return the refusal of a response that there is not, or not for this token."""
    return ApiProblem(f"there is no response {name!r:.200}", status=404, code="not_found")


EFFORT_WORDS = {effort: effort.value for effort in ThinkingEffort} | {ThinkingEffort.OFF: "none"}
"""Words of OpenAI for how much a model reasons."""


def body_of(
    place: ResponsePlace,
    model: str,
    client: ClientContext,
    options: TurnOptions,
    budget: Budget | None,
) -> ResponseBody:
    """Return a response as it begins."""
    effort, temperature = options.thinking, options.temperature
    return ResponseBody(
        id=place.name,
        created_at=int(time.time()),
        model=model,
        status="in_progress",
        output=[],
        tools=[
            FunctionOfClient(each.name, msgspec.Raw(each.parameters.encode()), each.description)
            for each in client.tools
        ],
        tool_choice=_choice(client),
        instructions=client.instructions or None,
        metadata=client.metadata,
        temperature=1.0 if temperature is None else temperature,
        max_output_tokens=options.max_output_tokens,
        max_tool_calls=None if budget is None else budget.tool_calls,
        reasoning=_reasoning(effort),
        text=AnswerText(_form(options.answer_schema)),
    )


def _reasoning(effort: ThinkingEffort | None) -> ReasoningOptions | None:
    """Return how much the model was asked to reason; what it shows of that is always told."""
    if effort is None:
        return None
    return ReasoningOptions(
        EFFORT_WORDS[effort], "auto" if effort is not ThinkingEffort.OFF else None
    )


def _choice(client: ClientContext) -> str | ChosenFunction | AllowedFunctions:
    must_call = client.must_call
    if client.allowed is not None:
        functions = [ChosenFunction(each) for each in client.allowed]
        return AllowedFunctions("required" if must_call else "auto", functions)
    if must_call in ("", ANY_TOOL):
        return "required" if must_call else "auto"
    return ChosenFunction(must_call)


def _form(schema: str | None) -> TextForm:
    if schema is None:
        return TextForm("text")
    if schema == ANY_OBJECT:
        return TextForm("json_object")
    return TextForm("json_schema", "answer", msgspec.Raw(schema.encode()))

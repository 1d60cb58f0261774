"""Responses as the record has them: found by their ids, and folded from the events of their turns.

The id of a response has its session and its input in it, so that it is found, also after a restart. A turn that
waited for its client is told in several responses: the second ends in `_1`, and so on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from ...embedding.runtime import host_of
from ...runtime.errors import NotFoundError
from ...runtime.events import (
    ApprovalAnswered,
    CallFinished,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    Stored,
    TurnStarted,
)
from ...runtime.turn_options import NO_CLIENT, ClientContext, TurnOptions
from ...tools.client_tool import BY_CLIENT
from ..connection.caller import Requester
from .problems import ApiProblem
from .response_fold import ResponseFold
from .response_items import FunctionOfClient, ResponseBody
from .turn_view import TurnView


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


async def recorded(requester: Requester, place: ResponsePlace) -> ResponseBody:
    """Return a response from the record; raise `ApiProblem` if there is none, for this token."""
    try:
        row = await requester.session(place.session_id)
    except NotFoundError:
        raise no_response(place.name) from None
    stored = iter(await requester.runtime.store.events(place.session_id))
    for each in stored:
        event = each.event
        if isinstance(event, InputAccepted) and event.input_id == place.input_id:
            reader = _Reader(requester, place, row.agent, event, each.at_ms)
            if (body := reader.read(stored)) is not None:
                return body
    raise no_response(place.name)


class _Reader:
    """Reads a turn, one response after the other."""

    def __init__(
        self,
        requester: Requester,
        place: ResponsePlace,
        agent: str,
        accepted: InputAccepted,
        at_ms: int,
    ) -> None:
        options = accepted.options or TurnOptions()
        self._via = requester.via
        self._place = place
        self._model = f"{agent}:{options.model}" if options.model else agent
        self._client = accepted.client or NO_CLIENT
        self._options = options
        self._at_ms = at_ms
        self._items = host_of(requester.runtime).settings.openai.items
        self._part = 0
        self._turn_id = ""
        self._fold = self._begun("queued")

    def _begun(self, status: str) -> ResponseFold:
        place = msgspec.structs.replace(self._place, part=self._part)
        body = body_of(place, self._model, self._client, self._options)
        body.created_at, body.status = self._at_ms // 1000, status
        return ResponseFold(
            body,
            TurnView(each.name for each in self._client.tools),
            has_form=self._options.answer_schema is not None,
            shows_calls=self._items == "all",
        )

    def read(self, stored: Iterable[Stored]) -> ResponseBody | None:
        """Return the response, as far as it is on record behind its input; `None` if there is none."""
        for each in stored:
            if self._is_over(each.event):
                break
        if self._part != self._place.part:
            return None
        if not self._fold.is_complete and self._fold.is_waiting:
            self._fold.has_waited()
        return self._fold.body

    def _is_over(self, event: DurableEvent) -> bool:
        if isinstance(event, InputCancelled) and event.input_id == self._place.input_id:
            self._fold.body.status = "cancelled"
            return True
        if isinstance(event, TurnStarted) and self._place.input_id in event.input_ids:
            self._turn_id, self._fold.body.status = event.turn_id, "in_progress"
        if not self._turn_id:
            return False
        if self._is_answered(event) and self._fold.has_waited():
            if self._part == self._place.part:
                return True
            self._part += 1
            self._fold = self._begun("in_progress")
        self._fold.take((event,), is_live=False)
        return self._fold.view.ended is not None

    def _is_answered(self, event: DurableEvent) -> bool:
        """Whether an event is what the turn waited for from its client, which begins its next answer."""
        match event:
            case CallFinished(display=display):
                return display == BY_CLIENT
            case ApprovalAnswered(answered_by=who, approval_id=name):
                return who.endswith(f" via {self._via}") and name in self._fold.view.asks
            case _:
                return False


def no_response(name: str) -> ApiProblem:
    """Return the refusal of a response that there is not, or not for this token."""
    return ApiProblem(f"there is no response {name!r:.200}", status=404, code="not_found")


def body_of(
    place: ResponsePlace, model: str, client: ClientContext, options: TurnOptions
) -> ResponseBody:
    """Return a response as it begins."""
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
        instructions=client.instructions or None,
        metadata=client.metadata,
        temperature=options.temperature,
        max_output_tokens=options.max_output_tokens,
    )

"""`POST /v1/responses/compact`: a conversation summed up, as the input of the request that follows.

A session that is there for this alone has the conversation as its history, and one turn that sums that up. It is
removed for good when the answer is there; the session of a response that was named is only read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec
import trio

from ....actors.conversation.conversation import Conversation
from ....actors.turn.without_answer import COMMAND
from ....embedding.runtime import host_of
from ....runtime.errors import ActorStopped, CallboardError
from ....runtime.events import HistoryCompacted
from ....runtime.history import Item, rounds_of
from ....runtime.identity import new_id
from ....runtime.turn_options import NO_CLIENT, TurnOptions
from ....runtime.wire.fields import Role
from ...connection.caller import Requester
from ...door.exchange import Exchange
from ...door.http import JSON, Headers, HttpAnswer
from ...http_turns import HeldTurn, HttpTurn, HttpTurns
from ..asked import TurnOpener, WantedTurn
from ..content import decoded, read_by
from ..problems import ApiProblem, late, problem_of, problem_of_end
from ..turn_view import TurnView
from .items import Compacted, CompactedBody, CompactionItem
from .record import items_of, place_of, recorded
from .request import COMPACTED, CompactRequest, SaidItems, conversation_of


class CompactionApi:
    """Answers requests to sum a conversation up.

    Args:
        turns: Where turns begin.
    """

    def __init__(self, turns: HttpTurns) -> None:
        self._turns = turns
        self._opener = TurnOpener(turns)

    async def answer(self, exchange: Exchange, requester: Requester) -> HttpAnswer | None:
        """Answer a request; its turn is cancelled when the client leaves."""
        requester.check_role(Role.OPERATOR)
        body = await exchange.body(host_of(requester.runtime).settings.openai.max_body_bytes)
        request, said = await read_by(_read, body)
        del body
        before: list[Item] = []
        if request.previous_response_id:
            before = await history_of(requester, request.previous_response_id)
        given, asked = (*before, *said.given), tuple(said.new)
        if not given:  # nothing was answered yet: all of it is summed up
            given, asked = asked, ()
        wanted = WantedTurn(
            model=request.model,
            options=TurnOptions(compact=True),
            given=given,
            text=COMMAND,
            attachments=(),
            results={},
            client=NO_CLIENT,
            is_alone=True,
            is_private=True,
        )
        async with HeldTurn() as held:
            turn = await self._opener.open(held, exchange.head, requester, wanted)
            assert isinstance(
                turn, HttpTurn
            )  # there is no key by which it could have been begun before
            headers = _headers(turn, request)
            view, found = TurnView(), list[HistoryCompacted]()
            try:
                async with exchange.until_left():
                    await _follow(turn, view, found)
            except CallboardError as error:
                return late(problem_of(error), headers)
            if exchange.has_left:
                return None
            await turn.put_away()
            assert view.ended is not None
            if view.ended.outcome != "answered":
                return late(problem_of_end(view.ended), headers)
            if not found:
                return late(ApiProblem("there is nothing to sum up", "input"), headers)
            kept = [item for each in rounds_of(given)[found[-1].rounds :] for item in each.items]
            compacted = _compacted(found[-1].summary, (*kept, *asked), view)
            return HttpAnswer(200, msgspec.json.encode(compacted), JSON, headers=headers)


async def history_of(requester: Requester, response: str) -> list[Item]:
    """Return what was said in the session of a response, as its model reads it.

    Raises:
        ApiProblem: There is no such response, for this token, or its session works.
    """
    place = place_of(response)
    await recorded(requester, place)
    events = await requester.runtime.store.events(place.session_id)
    conversation = Conversation()
    await trio.to_thread.run_sync(conversation.fold_all, events)  # a large one takes seconds
    last = conversation.last_turn
    if conversation.waiting_inputs or (last.turn_id and not last.outcome):
        raise ApiProblem(
            f"the session of {response} works, or waits: wait for its end, or cancel it",
            "previous_response_id",
            status=409,
            code="conflict",
        )
    return [item for each in conversation.rounds for item in each.items]


def _read(body: bytes) -> tuple[CompactRequest, SaidItems]:
    """Return what a body asks for; raise `ApiProblem`."""
    request = decoded(body, CompactRequest)
    said = conversation_of(request.input)
    request.input = None  # it refers to the body
    if not said.items and not request.previous_response_id:
        raise ApiProblem("there is nothing to sum up: send items, or name a response", "input")
    return request, said


async def _follow(turn: HttpTurn, view: TurnView, found: list[HistoryCompacted]) -> None:
    while view.ended is None:
        events = await turn.next_events()
        if not events:
            raise ActorStopped("the session has ended without an answer")
        for event in events:
            view.take(event)
            if isinstance(event, HistoryCompacted):
                found.append(event)


def _compacted(summary: str, behind: Iterable[Item], view: TurnView) -> CompactedBody:
    items = [each for item in behind for each in items_of(item)]
    content = COMPACTED + msgspec.json.encode(Compacted(summary, items)).decode()
    output = [CompactionItem(new_id("cmp"), content)]
    return CompactedBody(new_id("resp"), int(time.time()), output, view.usage.of_response)


def _headers(turn: HttpTurn, request: CompactRequest) -> Headers:
    ignored = (("x-callboard-ignored", ", ".join(request.ignored)),) if request.ignored else ()
    return (("x-request-id", turn.input_id), *ignored)

"""`POST /v1/chat/completions`: a turn, answered whole or as it comes."""

from __future__ import annotations

import time

import msgspec

from ...embedding.runtime import host_of
from ...embedding.turn import TurnEvent
from ...runtime.errors import ActorStopped, CallboardError, NotFoundError
from ...runtime.wire.fields import Role
from ..connection.caller import Requester
from ..door.exchange import Exchange
from ..door.http import JSON, Headers, HttpAnswer
from ..http_turns import HeldTurn, HttpTurn, HttpTurns
from ..shared.state import DaemonState
from .asked import REPLAYED, SESSION, Begun, TurnAgain, TurnOpener, WantedTurn, key_of
from .chat_answer import ChatAnswer, ChatStream, event_of
from .chat_request import ChatStyle, read_chat
from .content import read_by
from .problems import ApiProblem, error_body, gone, late, problem_of
from .turn_view import TurnView


class ChatApi:
    """Answers requests for chat completions.

    Args:
        daemon: Where sessions are.
        turns: Where turns begin.
    """

    def __init__(self, daemon: DaemonState, turns: HttpTurns) -> None:
        self._daemon = daemon
        self._turns = turns
        self._opener = TurnOpener(turns)

    async def answer(self, exchange: Exchange, requester: Requester) -> HttpAnswer | None:
        """Answer a request; the turn is cancelled when the client leaves."""
        requester.check_role(Role.OPERATOR)
        body = await exchange.body(host_of(requester.runtime).settings.openai.max_body_bytes)
        key = await key_of(exchange, requester, body)
        request, options, client, said = await read_by(read_chat, body)
        del body
        asked = WantedTurn(
            model=request.model,
            options=options,
            given=said.given,
            text=said.text,
            attachments=said.attachments,
            results=said.results,
            client=client,
            session_id=exchange.head.one(SESSION) or "",
            is_alone=True,
        )
        del said, client
        async with HeldTurn() as held:
            turn = await self._opener.open(held, exchange.head, requester, asked, key)
            del asked  # it may be large, and the turn long
            if isinstance(turn, Begun):
                return await self._again(exchange, requester, request, turn)
            view = TurnView(turn.client_tools)
            headers = _headers(turn.session_id, turn.input_id, request)
            answer = None
            if request.stream:
                is_told = await self._stream(exchange, turn, view, request, headers)
            else:
                answer = await self._whole(exchange, turn, view, request, headers)
                is_told = answer is not None
            if request.wants_call and is_told:
                pass  # the call was the answer: its turn ends with it, and waits for no result
            elif view.ended is None and (calls := view.client_calls) and is_told:
                held.give()
                self._turns.park(turn, requester, (each.call_id for each in calls))
            elif view.ended is None and key is not None and exchange.has_left:
                held.give()

                def take(events: list[TurnEvent]) -> list[str]:
                    for event in events:
                        view.take(event)
                    return [each.call_id for each in view.client_calls]

                self._turns.keep(turn, requester, take)  # it asks again, with the same key
            return answer

    async def _again(
        self, exchange: Exchange, requester: Requester, request: ChatStyle, begun: Begun
    ) -> HttpAnswer | None:
        """Answer a request that came before, from its turn."""
        try:
            async with TurnAgain(requester, begun) as turn:
                view = TurnView(turn.client_tools)
                headers = (*_headers(begun.session_id, begun.input_id, request), *REPLAYED)
                if request.stream:
                    await self._stream(exchange, turn, view, request, headers)
                    return None
                return await self._whole(exchange, turn, view, request, headers)
        except NotFoundError as error:
            raise gone() from error

    async def _whole(
        self,
        exchange: Exchange,
        turn: HttpTurn | TurnAgain,
        view: TurnView,
        request: ChatStyle,
        headers: Headers,
    ) -> HttpAnswer | None:
        try:
            async with exchange.until_left():
                while not view.is_complete:
                    events = await turn.next_events()
                    if not events:
                        raise ActorStopped("the session has ended without an answer")
                    for event in events:
                        view.take(event)
        except CallboardError as error:
            return late(problem_of(error), headers)
        if exchange.has_left:
            return None
        if view.ended is not None:
            await turn.put_away()
        answer = ChatAnswer(turn.input_id, request.model, int(time.time()))
        try:
            body = answer.whole(view)
        except ApiProblem as problem:
            return late(problem, headers)
        return HttpAnswer(200, msgspec.json.encode(body), JSON, headers=headers)

    async def _stream(
        self,
        exchange: Exchange,
        turn: HttpTurn | TurnAgain,
        view: TurnView,
        request: ChatStyle,
        headers: Headers,
    ) -> bool:
        """Tell an answer as it comes; return whether all of it was sent."""
        progress = host_of(self._daemon.runtime).settings.openai.tool_progress == "reasoning"
        answer = ChatStream(
            ChatAnswer(turn.input_id, request.model, int(time.time())),
            view,
            has_form=request.has_form,
            shows_calls=progress,
            wants_usage=request.wants_usage,
        )
        async with exchange.stream(headers=headers) as stream:
            await stream.send(answer.begin())
            while not answer.is_complete:
                try:
                    events = await turn.next_events()
                    if not events:
                        raise ActorStopped("the session has ended without an answer")
                except CallboardError as error:
                    await stream.send(event_of(error_body(problem_of(error))))
                    return False
                data = answer.take(events)
                if view.ended is not None:  # before it is said: the client may go on at once
                    await turn.put_away()
                await stream.send(data + view.waits(stream), holds=not answer.is_complete)
            return True  # though it may leave right behind the last byte
        return False


def _headers(session_id: str, input_id: str, request: ChatStyle) -> Headers:
    ignored = (("x-callboard-ignored", ", ".join(request.ignored)),) if request.ignored else ()
    return ((SESSION, session_id), ("x-request-id", input_id), *ignored)

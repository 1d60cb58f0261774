"""`POST /v1/chat/completions`: a turn, answered whole or as it comes."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import msgspec
import trio

from ...embedding.options import check_turn_options
from ...embedding.runtime import host_of
from ...embedding.turn import checked_text
from ...runtime.definitions import InputMode, SessionKind
from ...runtime.errors import ActorStopped, CallboardError
from ...runtime.kernel.delivery import Subscription
from ...runtime.messages import SubmitInput
from ...runtime.turn_options import TurnOptions
from ...runtime.wire.fields import Role
from ..connection.caller import Requester
from ..door.exchange import Exchange
from ..door.http import JSON, Headers, HttpAnswer
from ..http_turns import HttpTurn, HttpTurns, trace_of
from ..shared.state import DaemonState
from .chat_answer import ChatAnswer, ChatStream, event_of
from .chat_request import (
    ChatInput,
    ChatRequest,
    client_of,
    conversation_of,
    decoded,
)
from .problems import NO_RETRY, ApiProblem, answer_of, error_body, no_model, problem_of
from .turn_view import TurnView

SESSION = "x-callboard-session"
LARGE_BODY = 64 * 1024
"""Bytes; a larger body is read in a thread, so that others have their turns meanwhile."""


class ChatApi:
    """Answers requests for chat completions.

    Args:
        daemon: Where sessions are.
        turns: Where turns begin.
    """

    def __init__(self, daemon: DaemonState, turns: HttpTurns) -> None:
        self._daemon = daemon
        self._turns = turns

    async def answer(self, exchange: Exchange, requester: Requester) -> HttpAnswer | None:
        """Answer a request; the turn is cancelled when the client leaves."""
        requester.check_role(Role.OPERATOR)
        body = await exchange.body(host_of(requester.runtime).settings.openai.max_body_bytes)
        if len(body) <= LARGE_BODY:
            request, said = _read(body)
        else:
            request, said = await trio.to_thread.run_sync(_read, body)
        del body
        agent, model = agent_of(requester, request.model)
        options = msgspec.structs.replace(request.options, model=model)
        check_turn_options(host_of(requester.runtime), options)
        own = host_of(requester.runtime).agents[agent].tools
        registry = host_of(requester.runtime).plan.registry
        request.check_tools(each.name for each in registry.definitions(own, SessionKind.MAIN))
        async with AsyncExitStack() as stack:
            if (parked := self._turns.take(requester, said.results)) is not None:
                turn = parked.turn
                stack.push_async_exit(turn)
                if said.text:
                    await self._steer(requester, turn, said)
                self._turns.answer(parked, said.results)
            else:
                with self._turns.room():
                    message = await self._message(
                        exchange, requester, agent, request, said, options
                    )
                    turn = await stack.enter_async_context(self._turns.turn(message))
            view = TurnView(turn.client_tools)
            headers = _headers(turn.session_id, turn.input_id, request)
            answer = None
            if request.stream:
                await self._stream(exchange, turn, view, request, headers)
            else:
                answer = await self._whole(exchange, turn, view, request, headers)
            if view.ended is None and (calls := view.client_calls) and not exchange.has_left:
                stack.pop_all()
                self._turns.park(turn, requester, (each.call_id for each in calls))
            return answer

    async def _steer(self, requester: Requester, turn: HttpTurn, said: ChatInput) -> None:
        """Have a turn that goes on read what the client says beside the results."""
        await host_of(requester.runtime).directory.ask(
            SubmitInput(
                session_id=turn.session_id,
                text=said.text,
                attachments=said.attachments,
                mode=InputMode.STEER,
                via=requester.name,
            )
        )

    async def _message(
        self,
        exchange: Exchange,
        requester: Requester,
        agent: str,
        request: ChatRequest,
        said: ChatInput,
        options: TurnOptions,
    ) -> SubmitInput:
        """Return the input of a request, for the session that it names or one of its own."""
        head = exchange.head
        text = checked_text(said.text or "(Go on with these results.)")
        if session_id := head.one(SESSION):
            row = await requester.session(session_id)
            if row.agent != agent:
                why = f"the session {session_id} has the agent {row.agent}: name that as the model"
                raise ApiProblem(why, "model", status=409, code="conflict")
        else:
            session = await self._turns.begin_session(requester, agent, given=said.given)
            session_id = session.session_id
        return SubmitInput(
            session_id=session_id,
            text=text,
            attachments=said.attachments,
            subscription=Subscription(),
            options=None if options == TurnOptions() else options,
            via=requester.name,
            client=client_of(said.instructions, request.client_tools),
            trace=trace_of(head),
        )

    async def _whole(
        self,
        exchange: Exchange,
        turn: HttpTurn,
        view: TurnView,
        request: ChatRequest,
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
            return _late(problem_of(error), headers)
        if exchange.has_left:
            return None
        answer = ChatAnswer(turn.input_id, request.model, int(time.time()))
        try:
            body = answer.whole(view)
        except ApiProblem as problem:
            return _late(problem, headers)
        return HttpAnswer(200, msgspec.json.encode(body), JSON, headers=headers)

    async def _stream(
        self,
        exchange: Exchange,
        turn: HttpTurn,
        view: TurnView,
        request: ChatRequest,
        headers: Headers,
    ) -> None:
        wants = request.stream_options
        progress = host_of(self._daemon.runtime).settings.openai.tool_progress == "reasoning"
        answer = ChatStream(
            ChatAnswer(turn.input_id, request.model, int(time.time())),
            view,
            has_form=request.response_format is not None and request.response_format.type != "text",
            shows_calls=progress,
            wants_usage=wants is not None and bool(wants.include_usage),
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
                    return
                data = answer.take(events)
                await stream.send(data + answer.waits(stream))


def _read(body: bytes) -> tuple[ChatRequest, ChatInput]:
    request = decoded(body, ChatRequest)
    request.check()
    return request, conversation_of(request.messages)


def agent_of(requester: Requester, model: str) -> tuple[str, str | None]:
    """Return the agent that a model is, and the model that it is to ask; raise `ApiProblem`."""
    name, _, wanted = model.partition(":")
    if name not in host_of(requester.runtime).agents or not requester.knows_agent(name):
        raise no_model(model)
    return name, wanted or None


def _headers(session_id: str, input_id: str, request: ChatRequest) -> Headers:
    ignored = (("x-callboard-ignored", ", ".join(request.ignored)),) if request.ignored else ()
    return ((SESSION, session_id), ("x-request-id", input_id), *ignored)


def _late(problem: ApiProblem, headers: Headers) -> HttpAnswer:
    """Return an error of a turn that has begun: its request is not to be sent again."""
    own = tuple(each for each in problem.headers if each not in NO_RETRY)
    problem.headers = (*headers, *own, *NO_RETRY)
    return answer_of(problem)

"""`/v1/responses`: turns that go on when their client leaves, and are read again from the record."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec

from ....actors.upkeep.keeping import MAX_BATCH
from ....embedding.runtime import host_of
from ....embedding.turn import TurnEvent
from ....runtime.errors import ActorStopped, CallboardError
from ....runtime.turn_options import ClientContext
from ....runtime.wire.fields import Role
from ...connection.caller import Requester
from ...door.exchange import Exchange, ResponseStream
from ...door.http import JSON, Headers, HttpAnswer
from ...http_turns import HeldTurn, HttpTurn, HttpTurns
from ...recorded_turn import RecordedTurn
from ..asked import REPLAYED, Begun, TurnOpener, WantedTurn, key_of
from ..content import decoded, read_by
from ..problems import ApiProblem, error_body, gone, late, problem_of
from ..turn_view import TurnView
from .fold import ResponseFold, behind
from .items import DeletedResponse, GivenItems, ResponseBody, ResponseEvent
from .record import (
    RecordedResponse,
    ResponsePlace,
    body_of,
    input_of,
    place_of,
    recorded,
)
from .request import ResponseRequest, ResponseStyle, asked_of


class ResponsesApi:
    """Answers requests about responses.

    Args:
        turns: Where turns begin.
    """

    def __init__(self, turns: HttpTurns) -> None:
        self._turns = turns
        self._opener = TurnOpener(turns)

    async def create(self, exchange: Exchange, requester: Requester) -> HttpAnswer | None:
        """Answer a request; its turn goes on when the client leaves, unless it is not stored."""
        requester.check_role(Role.OPERATOR)
        body = await exchange.body(host_of(requester.runtime).settings.openai.max_body_bytes)
        key = await key_of(exchange, requester, body)
        request, asked = await read_by(partial(_read, requester.name), body)
        del body
        if request.wants_approvals or asked.approvals:
            requester.check_role(Role.APPROVER)
        if request.previous_response_id:
            await recorded(requester, place_of(request.previous_response_id))
        async with HeldTurn() as held:
            turn = await self._opener.open(held, exchange.head, requester, asked, key)
            del asked  # it may be large, and the turn long
            if isinstance(turn, Begun):
                return await _again(exchange, requester, request, turn)
            stored = request.store
            held.goes_on = stored
            place = ResponsePlace(turn.session_id, turn.input_id, turn.answers)
            items = host_of(requester.runtime).settings.openai.items
            fold = _begun(place, request, turn.client, shows_calls=items == "all")
            headers = _headers(place, request)
            if request.background and not request.stream:
                fold.body.status = "queued"
                return _answer(fold.body, headers)
            answer = None
            if request.stream:
                is_told = await _stream(exchange, turn, fold, headers)
            else:
                answer = await _whole(exchange, turn, fold, headers)
                is_told = answer is not None
            waits = _waits(fold) if fold.view.ended is None else ()
            if fold.is_complete and waits and (stored or is_told):
                held.give()
                self._turns.park(turn, requester, waits, goes_on=stored)
            elif not fold.is_complete and exchange.has_left and stored:
                held.give()

                def take(events: list[TurnEvent]) -> tuple[str, ...]:
                    fold.take(events)
                    return _waits(fold) if fold.is_complete else ()

                self._turns.keep(turn, requester, take, goes_on=True)
        return answer

    async def one(self, exchange: Exchange, requester: Requester) -> HttpAnswer | None:
        """Return a response from the record, or its stream from a number on."""
        place = _place(exchange)
        asked = _query(exchange, StreamQuery)
        response = await recorded(requester, place)
        if not asked.stream:
            return _answer(response.body, ())
        headers = (("x-callboard-session", place.session_id), ("x-request-id", place.input_id))
        async with exchange.stream(headers=headers) as stream:
            await _read_on(stream, requester, place, asked.starting_after)
        return None

    async def cancel(self, exchange: Exchange, requester: Requester) -> HttpAnswer:
        """Cancel the turn of a response, and return that; idempotent."""
        requester.check_role(Role.OPERATOR)
        place = _place(exchange)
        await recorded(requester, place)
        session = await requester.runtime.get_session(place.session_id)
        await session.cancel(f"cancelled by {requester.name}", input_id=place.input_id)
        return _answer((await recorded(requester, place)).body, ())

    async def delete(self, exchange: Exchange, requester: Requester) -> HttpAnswer:
        """Delete a response: its session, or of one with other turns, the messages of its own."""
        requester.check_role(Role.OPERATOR)
        place = _place(exchange)
        await recorded(requester, place)
        host = host_of(requester.runtime)
        rows = await host.plan.store.messages(place.session_id)
        asked = [each for each in rows if each.type == "user"]
        if all(each.message_id == place.input_id for each in asked):
            await host.keeping.delete([place.session_id])
        else:
            session = await requester.runtime.get_session(place.session_id)
            await session.cancel(f"deleted by {requester.name}", input_id=place.input_id)
            turn_id = (await recorded(requester, place)).turn_id
            rows = await host.plan.store.messages(place.session_id)
            names = [
                each.message_id
                for each in rows
                if each.message_id == place.input_id or (turn_id and each.turn_id == turn_id)
            ]
            for at in range(0, len(names), MAX_BATCH):
                await host.keeping.delete_messages(place.session_id, names[at : at + MAX_BATCH])
        return HttpAnswer(200, msgspec.json.encode(DeletedResponse(place.name)), JSON)

    async def input_items(self, exchange: Exchange, requester: Requester) -> HttpAnswer:
        """Return a page of what a response was asked, the last first."""
        place = _place(exchange)
        asked = _query(exchange, ItemsQuery)
        items = await input_of(requester, place)
        if asked.order == "desc":
            items.reverse()
        names = [each.id for each in items]
        start = names.index(asked.after) + 1 if asked.after in names else 0
        if asked.after and not start:
            raise ApiProblem(f"there is no item {asked.after!r:.200}", "after")
        page = items[start : start + asked.limit]
        body = GivenItems(
            page,
            page[0].id if page else None,
            page[-1].id if page else None,
            has_more=start + len(page) < len(items),
        )
        return HttpAnswer(200, msgspec.json.encode(body), JSON)


class StreamQuery(msgspec.Struct):
    """How a response is read again."""

    stream: bool = False
    starting_after: Annotated[int, msgspec.Meta(ge=-1, le=2**53)] = -1


class ItemsQuery(msgspec.Struct):
    """Which page is asked for."""

    order: Literal["asc", "desc"] = "desc"
    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20


Query = TypeVar("Query", StreamQuery, ItemsQuery)


def _place(exchange: Exchange) -> ResponsePlace:
    return place_of(exchange.rest.split("/")[1])


def _query(exchange: Exchange, kind: type[Query]) -> Query:
    try:
        return msgspec.convert(dict(parse_qsl(exchange.query)), kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        why, _, place = str(error).partition(" - at `$.")
        raise ApiProblem(why, place.rstrip("`") or None) from error


async def _read_on(
    stream: ResponseStream, requester: Requester, place: ResponsePlace, number: int
) -> None:
    """Send what comes behind a number, until the response ends or waits for its client."""
    try:
        async with RecordedTurn(requester, place.session_id, place.input_id) as turn:
            response = RecordedResponse(requester, place, turn)
            while not response.is_complete and (events := await turn.read()) is not None:
                told = behind(response.take(events), number)
                data = _bytes(told) + response.view.waits(stream)
                await stream.send(data, holds=not response.is_complete)
    except CallboardError as error:
        body = error_body(problem_of(error))["error"]
        await stream.send(b"event: error\ndata: %b\n\n" % msgspec.json.encode(body))


async def _again(
    exchange: Exchange, requester: Requester, request: ResponseStyle, begun: Begun
) -> HttpAnswer | None:
    """Answer a request that came before, from the record of its turn."""
    place = ResponsePlace(begun.session_id, begun.input_id, begun.part)
    headers = (*_headers(place, request), *REPLAYED)
    try:
        response = await recorded(requester, place)
    except ApiProblem as problem:
        raise gone() from problem
    if request.stream:
        async with exchange.stream(headers=headers) as stream:
            await _read_on(stream, requester, place, -1)
        return None
    if not request.background:
        try:
            async with (
                exchange.until_left(),
                RecordedTurn(requester, place.session_id, place.input_id) as turn,
            ):
                response = RecordedResponse(requester, place, turn)
                while not response.is_complete and (events := await turn.read()) is not None:
                    response.take(events)
        except CallboardError as error:
            return late(problem_of(error), headers)
    _echo(response.body, request)
    return None if exchange.has_left else _answer(response.body, headers)


def _waits(fold: ResponseFold) -> tuple[str, ...]:
    """Return what a turn waits for from its client."""
    return (*fold.view.asks, *(each.call_id for each in fold.view.client_calls))


def _echo(body: ResponseBody, request: ResponseStyle) -> None:
    body.previous_response_id = request.previous_response_id
    body.background, body.store = request.background, request.store


def _read(by: str, body: bytes) -> tuple[ResponseStyle, WantedTurn]:
    """Return what a body asks for; `by` is who answers its questions. Raise `ApiProblem`."""
    request = decoded(body, ResponseRequest)
    request.check()
    before = request.previous_response_id
    session_id = place_of(before).session_id if before else ""
    return request.style, asked_of(request, session_id, by)


async def _whole(
    exchange: Exchange, turn: HttpTurn, fold: ResponseFold, headers: Headers
) -> HttpAnswer | None:
    try:
        async with exchange.until_left():
            while not fold.is_complete:
                fold.take(await _events(turn))
    except CallboardError as error:
        return late(problem_of(error), headers)
    if fold.view.ended is not None:
        await turn.put_away()
    return None if exchange.has_left else _answer(fold.body, headers)


async def _stream(exchange: Exchange, turn: HttpTurn, fold: ResponseFold, headers: Headers) -> bool:
    """Tell a response as it comes; return whether all of it was sent."""
    async with exchange.stream(headers=headers) as stream:
        await stream.send(_bytes(fold.begin()))
        while not fold.is_complete:
            try:
                told = fold.take(await _events(turn))
            except CallboardError as error:
                told = fold.fail(error.type, str(error))
            if fold.view.ended is not None:  # before it is said: the client may look for it at once
                await turn.put_away()
            await stream.send(_bytes(told) + fold.view.waits(stream), holds=not fold.is_complete)
        return True  # though it may leave right behind the last byte
    return False


async def _events(turn: HttpTurn) -> list[TurnEvent]:
    events = await turn.next_events()
    if not events:
        raise ActorStopped("the session has ended without an answer")
    return events


def _bytes(events: list[ResponseEvent]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (each.type.encode(), msgspec.json.encode(each))
        for each in events
    )


def _begun(
    place: ResponsePlace, request: ResponseStyle, client: ClientContext, *, shows_calls: bool
) -> ResponseFold:
    body = body_of(place, request.model, client, request.options, request.budget)
    _echo(body, request)
    return ResponseFold(
        body,
        TurnView(each.name for each in client.tools),
        has_form=request.options.answer_schema is not None,
        shows_calls=shows_calls,
        asks=request.wants_approvals,
    )


def _headers(place: ResponsePlace, request: ResponseStyle) -> Headers:
    ignored = (("x-callboard-ignored", ", ".join(request.ignored)),) if request.ignored else ()
    return (("x-callboard-session", place.session_id), ("x-request-id", place.input_id), *ignored)


def _answer(body: ResponseBody, headers: Headers) -> HttpAnswer:
    return HttpAnswer(200, msgspec.json.encode(body), JSON, headers=headers)

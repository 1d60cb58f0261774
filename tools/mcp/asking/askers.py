"""The calls of a connection that run, and what its server asks while they do.

A request of the newest revision comes within its call; one of an older server does not say for which call it is, so it
is answered when one call alone runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import trio
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, ClientSession, ListRootsFnT
from mcp_types import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    InputRequest,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    Root,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl

from ....runtime.definitions import ToolFailure
from ....runtime.errors import ValidationError
from ....runtime.event_types.people import QuestionForm
from .model import read_model_question
from .questions import (
    DECLINE,
    CallAsker,
    ServerAnswer,
    ServerQuestion,
    read_form,
    read_message,
    read_url,
)

REFUSED_BY_PERSON = -1
"""The protocol's code for a request to a model that a person, or callboard for them, did not allow."""
Said = TypeVar("Said")

_CALLER: ContextVar[_Running | None] = ContextVar("the call that a server asks about", default=None)
"""Whose input rounds run (2026-07-28); a request of an older server does not say for which call it is."""


class _Running:
    """A call that runs, and what asks for it; what it asks ends with it."""

    def __init__(self, ask: CallAsker | None) -> None:
        self.ask = ask
        self._asking: set[trio.CancelScope] = set()

    async def during(self, asked: Awaitable[Said]) -> Said | None:
        """Wait for what is asked; `None` when the call is over before."""
        with trio.CancelScope() as scope:
            self._asking.add(scope)
            try:
                return await asked
            finally:
                self._asking.discard(scope)
        return None

    def end(self) -> None:
        """Take back what it asks."""
        for scope in self._asking:
            scope.cancel(reason="the call is over")


class Askers:
    """The calls of a connection that run, for what its server asks about them."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    @contextmanager
    def during(self, ask: CallAsker | None) -> Generator[None]:
        """Have these people, and their model, asked what the server asks in the block."""
        caller = _Running(ask)
        self._running.append(caller)
        token = _CALLER.set(caller)
        try:
            yield
        finally:
            _CALLER.reset(token)
            self._running.remove(caller)
            caller.end()

    async def ask(
        self, context: ClientRequestContext | None, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        """Ask the people of the call that it is about; tell the server no when that is not clear."""
        try:
            text = read_message(params.message)
            if isinstance(params, ElicitRequestURLParams):
                form = QuestionForm(url=read_url(params.url))
            else:
                form = QuestionForm(fields=read_form(params.requested_schema))
        except ValidationError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        caller = self._caller()
        if caller is None or caller.ask is None:
            await trio.lowlevel.checkpoint()
            return ElicitResult(action=DECLINE)
        answer = await caller.during(caller.ask.people(ServerQuestion(text, form)))
        answer = ServerAnswer("cancel") if answer is None else answer
        return ElicitResult(action=answer.action, content=answer.content)

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        """Have the model of the call's turn answer, when a person allows it."""
        caller = self._caller()
        if caller is None or caller.ask is None:
            await trio.lowlevel.checkpoint()
            return ErrorData(code=REFUSED_BY_PERSON, message="There is nobody to ask here.")
        try:
            said = params.model_dump(by_alias=True, exclude_none=True, mode="json")
            answer = await caller.during(caller.ask.model(read_model_question(said)))
        except ValidationError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        except ToolFailure as failure:
            return ErrorData(code=REFUSED_BY_PERSON, message=str(failure))
        if answer is None:
            return ErrorData(code=REFUSED_BY_PERSON, message="The call is over.")
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=answer.text),
            model=answer.model,
            stop_reason="maxTokens" if answer.is_cut else "endTurn",
        )

    def _caller(self) -> _Running | None:
        caller = _CALLER.get()
        if caller is None and len(self._running) == 1:
            caller = self._running[0]
        return caller


class DeclaringClient(Client):
    """The package's client, which refuses what it has not declared as a method that is not there (-32601)."""

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        dispatch = session.dispatch_input_request

        async def declared(
            context: ClientRequestContext, request: InputRequest
        ) -> InputResponse | ErrorData:
            is_declared = not (
                (isinstance(request, CreateMessageRequest) and self.sampling_callback is None)
                or (isinstance(request, ListRootsRequest) and self.list_roots_callback is None)
            )
            # A server of the newest revision asks within its answer: no method is called there.
            if is_declared or session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return await dispatch(context, request)
            await trio.lowlevel.checkpoint()
            return ErrorData(code=METHOD_NOT_FOUND, message=f"{request.method} is not declared")

        session.dispatch_input_request = declared  # type: ignore[assignment, method-assign]
        return session


def lister(root: str) -> ListRootsFnT:
    """Return what tells a server of the folder that it works on."""

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        await trio.lowlevel.checkpoint()
        uri = FileUrl(Path(root).as_uri())
        return ListRootsResult(roots=[Root(uri=uri, name=Path(root).name)])

    return roots

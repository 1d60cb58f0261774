"""The extension `io.modelcontextprotocol/tasks`: a handle in place of a result is followed until there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Literal

import trio
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    EmptyResult,
    ErrorData,
    Request,
    RequestParams,
    Result,
)
from pydantic import ValidationError

from ....runtime.definitions import ErrorType, ToolFailure
from ....runtime.redaction import redact
from ..state import ShowProgress, TaskNote

IDENTIFIER = "io.modelcontextprotocol/tasks"
POLL_SECONDS = 1.0
"""The least time between two questions about a task."""
MAX_POLL_SECONDS = 30.0
"""The longest time, whatever the server wishes: people wait."""
CANCEL_SECONDS = 2.0
"""For a server to take that its task is cancelled; then it finds out when the task's time is over."""
MAX_ID_CHARS = 500
"""Of the name that a server gives a task; it is written down."""
MAX_ROUNDS = 10
"""How often a task may ask people."""
MAX_ERROR_CHARS = 4000

Ask = Callable[[ElicitRequestParams], Awaitable[ElicitResult | ErrorData]]


class Handle(Result):
    """What a server answers in place of a result."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: float | None = None


class _Params(RequestParams):
    task_id: str


class _Answers(_Params):
    input_responses: dict[str, Any]


class _Get(Request[_Params, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"  # type: ignore[mutable-override]


class _Cancel(Request[_Params, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"  # type: ignore[mutable-override]


class _Update(Request[_Answers, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"  # type: ignore[mutable-override]


class _State(Result):
    status: str
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class FollowedCall:
    """A call that may become a task.

    Args:
        note: Where its task is written down; `None` keeps none.
        progress: Takes what the server says of how far it is.
    """

    def __init__(self, note: TaskNote | None, progress: ShowProgress | None) -> None:
        self.note = note
        self.progress = progress

    @contextmanager
    def running(self) -> Generator[None]:
        """Have handles that come in the block followed for this call."""
        token = _CALL.set(self)
        try:
            yield
        finally:
            _CALL.reset(token)


_CALL: ContextVar[FollowedCall | None] = ContextVar("the call that a handle is for", default=None)


class Tasks(ClientExtension):
    """Follows handles.

    Args:
        ask: Puts what a task asks to the people of its call.
    """

    identifier = IDENTIFIER

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """See the package."""
        return (ResultClaim(result_type="task", model=Handle, resolve=self._resolve),)

    async def _resolve(self, handle: Handle, context: ClaimContext) -> CallToolResult:
        if len(handle.task_id) > MAX_ID_CHARS or not handle.task_id.isprintable():
            await _cancel(context.session, handle.task_id)
            raise _failed(f"its task has no name of at most {MAX_ID_CHARS} printable characters")
        call = _CALL.get()
        if call is not None and call.note is not None:
            await self._noted(context.session, handle.task_id, call.note)
        return await self.follow(context.session, handle.task_id, handle.poll_interval_ms)

    async def _noted(self, session: ClientSession, task_id: str, note: TaskNote) -> None:
        try:
            await note.begun(task_id)
        except trio.Cancelled:
            await _cancel(session, task_id)  # noqa: ASYNC102  shielded and bounded inside
            raise

    async def follow(
        self, session: ClientSession, task_id: str, poll_ms: float | None = None
    ) -> CallToolResult:
        """Ask about a task until it is over; who cancels this cancels the task.

        Raises:
            ToolFailure: It failed, or was cancelled there, or the server knows none of it.
            MCPError: The server can't be asked.
        """
        call = _CALL.get() or FollowedCall(None, None)
        try:
            result = await self._followed(session, task_id, poll_ms, call)
        except trio.Cancelled:
            await _cancel(session, task_id)  # noqa: ASYNC102  shielded and bounded inside
            with trio.move_on_after(CANCEL_SECONDS, shield=True):
                await _over(call)
            raise
        except MCPError as error:
            if error.code not in {CONNECTION_CLOSED, REQUEST_TIMEOUT}:
                await _over(call)  # noqa: ASYNC120
            raise
        except (ToolFailure, ValidationError):
            await _over(call)  # noqa: ASYNC120
            raise
        await _over(call)
        return result

    async def _followed(
        self, session: ClientSession, task_id: str, poll_ms: float | None, call: FollowedCall
    ) -> CallToolResult:
        rounds, step, answered = 0, 0, set[str]()
        while True:
            state = await _asked(session, task_id)
            match state.status:
                case "completed":
                    return CallToolResult.model_validate(state.result or {}, by_name=False)
                case "failed":
                    said = redact(str((state.error or {}).get("message", "")))[:MAX_ERROR_CHARS]
                    raise _failed(f"its task failed: {said}")
                case "cancelled":
                    raise _failed("its task was cancelled there")
                case "input_required":
                    new = {
                        key: its
                        for key, its in (state.input_requests or {}).items()
                        if key not in answered
                    }
                    rounds += bool(new)
                    if rounds > MAX_ROUNDS:
                        raise await _given_up(session, task_id, "its task asks again and again")
                    if new:
                        await self._answer(session, task_id, new)
                        answered.update(new)
                case _:
                    pass
            if state.status_message and call.progress is not None:
                step += 1
                await call.progress(step, None, state.status_message)
            poll_ms = state.poll_interval_ms or poll_ms or 0
            await trio.sleep(min(max(POLL_SECONDS, poll_ms / 1000), MAX_POLL_SECONDS))

    async def _answer(self, session: ClientSession, task_id: str, asked: dict[str, Any]) -> None:
        """Put what a task asks to people, one after the other, and give it their answers."""
        answers: dict[str, Any] = {}
        for key, its in asked.items():
            if not isinstance(its, dict) or its.get("method") != "elicitation/create":
                raise await _given_up(
                    session, task_id, "its task asks for what callboard does not give"
                )
            params = ElicitRequest.model_validate(its, by_name=False).params
            answer = await self._ask(params)
            if isinstance(answer, ErrorData):
                raise await _given_up(session, task_id, redact(answer.message)[:MAX_ERROR_CHARS])
            answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        given = _Answers(task_id=task_id, input_responses=answers)
        await session.send_request(_Update(params=given), EmptyResult)


async def _over(call: FollowedCall) -> None:
    if call.note is not None:
        await call.note.over()


async def _asked(session: ClientSession, task_id: str) -> _State:
    try:
        return await session.send_request(_Get(params=_Params(task_id=task_id)), _State)
    except MCPError as error:
        if error.code not in {INVALID_PARAMS, METHOD_NOT_FOUND}:
            raise
        raise ToolFailure(
            ErrorType.INTERRUPTED,
            "The server knows nothing of the task of this call any more; whether it was done is not known. Check "
            "before you try again.",
        ) from None


async def _cancel(session: ClientSession, task_id: str) -> None:
    with trio.move_on_after(CANCEL_SECONDS, shield=True), suppress(MCPError):
        await session.send_request(_Cancel(params=_Params(task_id=task_id)), EmptyResult)


async def _given_up(session: ClientSession, task_id: str, why: str) -> ToolFailure:
    await _cancel(session, task_id)
    return _failed(why)


def _failed(why: str) -> ToolFailure:
    return ToolFailure(ErrorType.EXECUTION_ERROR, f"The server did not do it: {why}")

"""One model call outside any session: a prompt in, a text out, within a deadline."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from ...runtime.errors import DeadlineError, ProviderError, error_of
from ...runtime.http.client import HttpClient
from ...runtime.stream import (
    AnyStreamEvent,
    Done,
    RefusalDelta,
    StopReason,
    StreamError,
    TextDelta,
    Usage,
)
from ..provider import Endpoint, LocalModel, ModelRequest, ModelTarget

MAX_ERROR_BODY_BYTES = 64 * 1024
"""Bytes that are read of an error answer: enough for any message."""
MAX_TEXT_CHARS = 1024 * 1024
"""Longest completion, more than any model writes at once. A longer one is cut."""

Take = Callable[[list[AnyStreamEvent]], bool]
"""Takes a batch of events; returns whether that is enough."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model wrote.

    Attributes:
        text: The text, stripped; reasoning is left out.
        usage: Its tokens, if the provider counts them.
        is_whole: Whether it ended by itself instead of at the token limit.
    """

    text: str
    usage: Usage | None = None
    is_whole: bool = True


async def complete(
    http: HttpClient, target: ModelTarget, request: ModelRequest, seconds: float
) -> Completion:
    """Ask once and wait for the whole answer.

    Raises:
        DeadlineError: It took longer.
        CallboardError: The call failed, or the model refused or wrote nothing; the type says which.
    """
    answer = _Answer()
    with trio.move_on_after(seconds) as scope:
        await ask(http, target, request, answer.take)
    if scope.cancelled_caught:
        name = f"{target.provider}/{target.model}"
        raise DeadlineError(f"{name} did not answer within {seconds:g} s. Try another model.")
    return answer.completion()


async def ask(http: HttpClient, target: ModelTarget, request: ModelRequest, take: Take) -> None:
    """Make one model call, until its terminal event or until `take` has enough.

    A refusal of the provider is an event too. The deadline is the caller's.

    Raises:
        NetworkError, DeadlineError: The connection failed.
    """
    if target.endpoint is not None:
        await _ask_endpoint(http, target.endpoint, request, take)
    elif target.local is not None:
        await _ask_local(target.local, request, take)


async def _ask_endpoint(
    http: HttpClient, endpoint: Endpoint, request: ModelRequest, take: Take
) -> None:
    dialect = endpoint.dialect
    post = dialect.build(request)
    key = dialect.auth_headers(endpoint.key.reveal()) if endpoint.key else {}
    url, headers = endpoint.base_url + post.path, {**post.headers, **key}
    async with http.stream_post(url, headers, post.body) as answer:
        if answer.status != 200:
            content = await answer.read_all(MAX_ERROR_BODY_BYTES)
            take([dialect.read_error(answer.status, answer.headers, content)])
            return
        decoder = dialect.decoder(post.tool_names)
        while data := await answer.read_some():
            events = decoder.feed(data)
            if events and (take(events) or isinstance(events[-1], Done | StreamError)):
                return
    take(decoder.finish())


async def _ask_local(model: LocalModel, request: ModelRequest, take: Take) -> None:
    with trio.CancelScope() as scope:

        async def emit(events: list[AnyStreamEvent]) -> None:
            if take(events):
                scope.cancel("enough was received")
            await trio.lowlevel.checkpoint()

        await model.run(request, emit)


class _Answer:
    """The answer so far."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._chars = 0
        self._refused: list[str] = []
        self._usage: Usage | None = None
        self._end: Done | StreamError | None = None

    def take(self, events: list[AnyStreamEvent]) -> bool:
        """Add a batch; return whether the answer is long enough."""
        for event in events:
            match event:
                case TextDelta(text=text):
                    self._pieces.append(text)
                    self._chars += len(text)
                case RefusalDelta(text=text):
                    self._refused.append(text[:MAX_TEXT_CHARS])
                    self._chars += len(text)
                case Usage():
                    self._usage = event
                case Done() | StreamError():
                    self._end = event
                case _:
                    pass
        return self._chars >= MAX_TEXT_CHARS

    def completion(self) -> Completion:
        """Return the whole answer, or raise the error that it ended with."""
        end = self._end
        if isinstance(end, StreamError):
            raise error_of(end.error_type, end.text)
        is_long = self._chars >= MAX_TEXT_CHARS
        if end is None and not is_long:
            raise ProviderError("The answer was cut off before its end. Try again.")
        if self._refused or (end is not None and end.stop_reason is StopReason.REFUSED):
            said = " ".join("".join(self._refused).split())[:500]
            raise ProviderError(f"The model refused to answer{f': {said}' if said else ''}.")
        text = "".join(self._pieces)[:MAX_TEXT_CHARS].strip()
        if not text:
            raise ProviderError("The model wrote no text. Ask otherwise, or take another model.")
        is_whole = end is not None and end.stop_reason is not StopReason.MAX_TOKENS
        return Completion(text=text, usage=self._usage, is_whole=is_whole)

"""The model stream actor: one call of a model at a time, its events up in batches, under deadlines.

HTTP and deadlines live here alone; a wire format only builds requests and decodes bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import trio

from ...config.settings import Limits
from ...providers.provider import (
    CallRecorder,
    CallRecording,
    Decoder,
    Endpoint,
    LocalModel,
    ModelRequest,
    ModelTarget,
)
from ...runtime.errors import CallboardError
from ...runtime.http.client import HttpClient
from ...runtime.http.request import read_url
from ...runtime.http.response import BodyStream
from ...runtime.kernel.mailbox import Mailbox, Message
from ...runtime.kernel.user_code import raise_stop
from ...runtime.redaction import redacting_logger
from ...runtime.stream import AnyStreamEvent, Done, StreamError, TextDelta, ToolCallDelta

if TYPE_CHECKING:
    from ...runtime.kernel.lease_gate import LeaseGate

logger = redacting_logger(__name__)

MAILBOX_CAPACITY = 2
"""A session makes one call at a time: room for one that ends and one that begins."""
MAX_WAITING_BATCHES = 16
"""Batches ahead of the session before reading from the network pauses: 1 MiB of network reads."""
MAX_ERROR_BODY_BYTES = 64 * 1024
"""Read of an error response: enough for any message, not for a flood."""
SETTLE_SECONDS = 1.0
"""How long a whole answer waits for the end of its body, which could still say more, and for a model in
this process to return."""
DRAIN_SECONDS = 0.1
"""How long to wait for the end of a body after the terminal event, so that the connection can be
reused. They usually come together; a new connection is cheaper than a longer wait."""

StreamOutlet = trio.MemorySendChannel[list[AnyStreamEvent]]
Take = Callable[[list[AnyStreamEvent]], bool]


class StartModelCall(Message, frozen=True, kw_only=True, tag="start_model_call"):
    """Make one call of a model.

    Attributes:
        outlet: Batches of stream events come up here; its end says that the call is gone.
        scope: The sender cancels it to stop the call, whose deadlines are its own.
        take: The sender's way to take a batch in the step of the model stream, without waiting. It
            returns whether it has; what it leaves comes up the outlet.
        told: Returns the headers that tell a host where the call stands in a trace.
    """

    target: ModelTarget
    request: ModelRequest
    outlet: StreamOutlet
    scope: trio.CancelScope
    take: Take | None = None
    told: Callable[[str], Mapping[str, str]] | None = None

    def abandon(self) -> None:
        """Close the outlet without a terminal event: the call was cut off."""
        self.outlet.close()


class ModelStream:
    """Makes the model calls of one session.

    Receives: `StartModelCall`.
    Sends: batches of stream events into the outlet that came with the request.
    Owns: the running model call.
    Ends: when cancelled; a call ends earlier when its scope is cancelled.

    With a `gate`, a call begins only while that is open, and fails, to be made again, when it closes.
    """

    def __init__(
        self,
        mailbox: Mailbox[StartModelCall],
        http: HttpClient,
        limits: Limits,
        session_id: str = "",
        recorder: CallRecorder | None = None,
        gate: LeaseGate | None = None,
    ) -> None:
        self._mailbox = mailbox
        self._session_id = session_id
        self._recorder = recorder
        self._gate = gate
        self._http = http
        self._limits = limits

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        with self._mailbox.open() as messages:
            task_status.started()
            async for message in messages:
                # Awaited in the loop: a session makes one call at a time, and stops it by the scope
                # that came with it.
                await self._call(message)

    async def _call(self, message: StartModelCall) -> None:
        with message.outlet as outlet:
            error: StreamError | None = None
            watch: _Watch | None = None
            with message.scope as scope:
                if (gate := self._gate) is not None:
                    await gate.wait_open()
                watch = _Watch(self._limits, scope, message.take)
                try:
                    if gate is None:
                        await self._speak(message, outlet, watch)
                    else:
                        await gate.run(partial(self._speak, message, outlet, watch))
                except CallboardError as fault:
                    error = StreamError(
                        error_type=fault.type, message=str(fault), retryable=fault.retryable
                    )
                except Exception:  # a bug of ours: the call fails, the session lives
                    logger.exception("a model call crashed")
                    error = StreamError(
                        error_type="internal",
                        message="The model call crashed; that is a bug, see the log.",
                    )
            if watch is None:
                return  # it was cancelled before it was made
            # Where its sender cancelled it, nobody wants to hear of it.
            if scope.cancelled_caught and trio.current_time() >= scope.deadline:
                error = watch.expired()
            # Behind its end an answer can't fail any more.
            if error is not None and not watch.is_over:
                await _send(outlet, watch.whole_answer() or [error])

    async def _speak(self, message: StartModelCall, outlet: StreamOutlet, watch: _Watch) -> None:
        target, request = message.target, message.request
        if target.local is not None:
            await _speak_locally(target.local, request, outlet, watch)
        elif target.endpoint is not None:
            await self._speak_http(target.endpoint, message, outlet, watch)

    async def _speak_http(
        self, endpoint: Endpoint, message: StartModelCall, outlet: StreamOutlet, watch: _Watch
    ) -> None:
        dialect, request = endpoint.dialect, message.request
        post = dialect.build(request)
        recording = None
        recorder = endpoint.recorder or self._recorder
        if recorder is not None and self._session_id:
            recording = recorder.recording(self._session_id, endpoint, request, post)
        try:
            headers = dict(post.headers)
            if message.told is not None:
                headers.update(message.told(read_url(endpoint.base_url).destination.host))
            if endpoint.key is not None:
                headers.update(dialect.auth_headers(endpoint.key.reveal()))
            async with self._http.stream_post(
                endpoint.base_url + post.path, headers, post.body
            ) as body:
                if recording is not None:
                    recording.begin(body.status, body.headers)
                if body.status != 200:
                    content = await body.read_all(MAX_ERROR_BODY_BYTES)
                    if recording is not None:
                        recording.add(content)
                        await recording.write()
                    await _send(outlet, [dialect.read_error(body.status, body.headers, content)])
                    return
                watch.decoder = dialect.decoder(post.tool_names)
                await _listen(body, watch.decoder, outlet, watch, recording)
        finally:
            if recording is not None:
                await recording.write()  # noqa: ASYNC102  bounded and shielded inside


async def _listen(
    body: BodyStream,
    decoder: Decoder,
    outlet: StreamOutlet,
    watch: _Watch,
    recording: CallRecording | None,
) -> None:
    """Read the answer to its end, and hand it up as it comes."""
    while data := await body.read_some():
        if recording is not None:
            recording.add(data)
        events = decoder.feed(data)
        watch.settle(is_whole=decoder.is_whole)
        watch.note(progressed=bool(events))
        if events:
            if recording is not None and _is_end(events):
                await recording.write()  # before the turn ends: somebody may read it then
            # A deadline may strike while this batch is handed up: then the answer is not whole.
            watch.decoder = None
            await watch.send(outlet, with_joined_arguments(events))
            watch.decoder = decoder
            if watch.is_over:
                await _drain(body)
                return
    if recording is not None:
        await recording.write()
    await watch.send(outlet, decoder.finish())


class _Watch:
    """The deadlines of one call; `note` is cheap enough for every network read.

    Attributes:
        is_over: The end of the answer was handed up; no deadline matters any more.
        decoder: The answer's, while it may hold a whole answer that was not handed up.
    """

    _SLACK_SECONDS = 1.0
    """The scope's deadline moves at most once a second: moving it costs more than a read."""

    def __init__(self, limits: Limits, scope: trio.CancelScope, take: Take | None = None) -> None:
        self.is_over = False
        self._take = take
        self.decoder: Decoder | None = None
        self._settled_by = math.inf
        self._limits = limits
        now = trio.current_time()
        self._first = True
        self._end = now + limits.model_call_seconds
        self._idle_by = now + limits.first_byte_seconds
        self._progress_by = now + max(limits.first_byte_seconds, limits.progress_seconds)
        self._scope = scope
        scope.deadline = min(self._idle_by, self._end)

    def note(self, *, progressed: bool) -> None:
        """Note that something arrived; `progressed` when it held an event (a ping holds none)."""
        now = trio.current_time()
        self._first = False
        self._idle_by = now + self._limits.idle_seconds
        if progressed:
            self._progress_by = now + self._limits.progress_seconds
        exact = min(self._idle_by, self._progress_by, self._end, self._settled_by)
        if not -self._SLACK_SECONDS < self._scope.deadline - exact <= self._SLACK_SECONDS:
            self._move(exact + self._SLACK_SECONDS)

    def settle(self, *, is_whole: bool) -> None:
        """Bound the wait for the end of the bytes while the answer is whole, whatever still comes."""
        if not is_whole:
            self._settled_by = math.inf
        elif self._settled_by == math.inf:
            self._settled_by = trio.current_time() + SETTLE_SECONDS
            self._move(min(self._scope.deadline, self._settled_by))

    def over(self) -> None:
        """Bound the wait for a model that has said all, and has not returned."""
        self._move(trio.current_time() + SETTLE_SECONDS)

    def _move(self, deadline: float) -> None:
        """Move the deadline, unless it has struck, or the call was cancelled."""
        if not self._scope.cancel_called:
            self._scope.deadline = deadline

    async def send(self, outlet: StreamOutlet, events: list[AnyStreamEvent]) -> None:
        """Hand a batch up; time in which its reader pauses is not the model's silence."""
        if self._take is not None and self._take(events):
            return  # it leaves the end to us
        try:
            outlet.send_nowait(events)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            self._move(self._end)
            began = trio.current_time()
            await _send(outlet, events)
            self._settled_by += trio.current_time() - began
            self.note(progressed=True)
        self.is_over = _is_end(events)

    def whole_answer(self) -> list[AnyStreamEvent]:
        """Return the end of an answer that was whole before its connection broke or fell silent."""
        decoder = self.decoder
        events = [] if decoder is None or decoder.is_doubtful else decoder.finish()
        return events if events and isinstance(events[-1], Done) else []

    def expired(self) -> StreamError:
        """Return the error of the deadline that has passed."""
        limits = self._limits
        now = trio.current_time()
        if now >= self._end:
            text = f"The model was still speaking after {limits.model_call_seconds:g} s."
        elif self._first:
            text = f"The model said nothing for {limits.first_byte_seconds:g} s."
        elif now >= self._progress_by:
            text = f"The model only sent pings for {limits.progress_seconds:g} s."
        else:
            text = f"The model fell silent for {limits.idle_seconds:g} s."
        return StreamError(
            error_type="timeout",
            message=f"{text} The call was stopped.",
            retryable=True,
            advice="Try again, or take another model.",
        )


async def _speak_locally(
    model: LocalModel, request: ModelRequest, outlet: StreamOutlet, watch: _Watch
) -> None:
    async def emit(events: list[AnyStreamEvent]) -> None:
        if watch.is_over:
            await trio.lowlevel.checkpoint()
            return
        watch.note(progressed=True)
        await watch.send(outlet, events)
        if watch.is_over:
            watch.over()

    try:
        await model.run(request, emit)
        return
    except CallboardError:
        raise
    except BaseException as crash:  # noqa: ASYNC103  the application's: its call fails, no more
        raise_stop(crash)
        logger.exception("the model in this process crashed")
        error = StreamError(
            error_type="provider", message=f"The model crashed: {type(crash).__name__}: {crash}"
        )
    if not watch.is_over:
        await _send(outlet, [error])


def with_joined_arguments(events: list[AnyStreamEvent]) -> list[AnyStreamEvent]:
    """Join the pieces of a call's arguments that one read brought: nobody could see them apart."""
    if len(events) < 3 or type(events[-1]) is TextDelta:
        return events
    found: list[AnyStreamEvent] = []
    pieces: list[str] = []
    index = -1
    for event in events:
        if not isinstance(event, ToolCallDelta):
            if len(pieces) > 1:
                found[-1] = ToolCallDelta(index, "".join(pieces))
            pieces, index = [], -1
        elif event.index == index:
            pieces.append(event.arguments)
            continue
        else:
            if len(pieces) > 1:
                found[-1] = ToolCallDelta(index, "".join(pieces))
            pieces, index = [event.arguments], event.index
        found.append(event)
    if len(pieces) > 1:
        found[-1] = ToolCallDelta(index, "".join(pieces))
    return found


def _is_end(events: list[AnyStreamEvent]) -> bool:
    return bool(events) and isinstance(events[-1], Done | StreamError)


async def _send(outlet: StreamOutlet, events: list[AnyStreamEvent]) -> None:
    """Hand a batch up, at once when there is room, which is the cheap and usual case."""
    try:
        try:
            outlet.send_nowait(events)
        except trio.WouldBlock:
            await outlet.send(events)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # Nobody listens any more; the scope's cancellation is on its way.
        await trio.lowlevel.checkpoint()


async def _drain(body: BodyStream) -> None:
    with trio.move_on_after(DRAIN_SECONDS):
        while await body.read_some():
            pass

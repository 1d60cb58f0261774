"""One whole answer for a turn, whatever it takes: retries, the next model, a shorter history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from ..config.settings import Limits
from ..providers.provider import ModelRequest, ModelTarget
from ..runtime.errors import CallboardError, ContextOverflow
from ..runtime.events import (
    AttemptFailed,
    DurableEvent,
    HistoryCompacted,
    LiveEvent,
    MessageDiscarded,
    ModelSwitched,
    ProviderSetAside,
    StreamBatch,
)
from ..runtime.history import Text
from ..runtime.identity import new_id
from ..runtime.mailbox import Mailbox
from ..runtime.stream import AnyStreamEvent, StreamError
from ..runtime.subscription import Subscription
from .answer import AnswerBuilder
from .attempts import Attempts
from .compaction import NothingToCompact, compacted
from .conversation import Conversation
from .model_stream import MAX_WAITING_BATCHES, StartModelCall
from .outlet import wait_gone
from .provider_health import ProviderHealth


class CallerHost(Protocol):
    """What asking a model needs of the session."""

    conversation: Conversation

    async def append(self, *events: DurableEvent) -> None:
        """Stores events and folds them; raises `StorageError`."""
        ...

    def publish(self, update: LiveEvent) -> None:
        """Tells everybody who listens."""
        ...


class ModelCaller:
    """Asks the models of one turn.

    Attributes:
        target: The model that is asked now; changes when one fails for good.
        broken_off: The answer that a cancellation broke off, else `None`.
        unreaped: Model calls that were still there after their bound.

    Args:
        host: The session.
        turn_id: Names the turn on the record.
        target: The first model.
        fallbacks: Finds the models behind it, in their order, when they are needed.
        mailbox: The model stream's.
        pacer: The consumer that holds the reading up, if one does.
        limits: Retries and their waits.
        health: The failures of all sessions.
    """

    def __init__(
        self,
        host: CallerHost,
        turn_id: str,
        *,
        target: ModelTarget,
        fallbacks: tuple[Callable[[], ModelTarget], ...],
        mailbox: Mailbox[StartModelCall],
        pacer: Subscription | None,
        limits: Limits,
        health: ProviderHealth,
    ) -> None:
        self.target = target
        self.broken_off: AnswerBuilder | None = None
        self.unreaped: list[str] = []
        self._host = host
        self._turn_id = turn_id
        self._fallbacks = list(fallbacks)
        self._mailbox = mailbox
        self._pacer = pacer
        self._max_argument_bytes = limits.max_arguments_bytes
        self._attempts = Attempts(limits)
        self._health = health
        self._may_compact = True

    async def answer(self, request: Callable[[ModelTarget], ModelRequest]) -> AnswerBuilder:
        """A whole answer; one with an `error` when every way failed.

        Args:
            request: Makes the request for a model; made anew for each attempt.
        """
        self._attempts.begin()
        if self._fallbacks and self._health.is_set_aside(self.target.provider):
            await self._switch(f"{self.target.provider} is set aside for now")
        while True:
            answer = self.broken_off = AnswerBuilder(self._max_argument_bytes)
            await self._ask(request(self.target), answer, is_shown=True)
            self.broken_off = None
            if answer.error is None:
                self._health.worked(self.target.provider)
                return answer
            if not await self._goes_on(answer.error, answer):
                return answer

    # ── what follows a failure ───────────────────────────────────────────────────────────────────

    async def _goes_on(self, error: StreamError, answer: AnswerBuilder) -> bool:
        """Prepares the next attempt; says whether there is one."""
        if error.error_type == ContextOverflow.type:
            return await self._compact() or await self._switch(error.message)
        number = self._attempts.count + 1
        wait = self._attempts.wait_before_next(error, was_shown=not answer.is_empty)
        if wait is not None:
            await self._host.append(self._attempt_failed(error, number, wait))
            await trio.sleep(wait)
            return True
        await self._note_failure(error)
        return await self._switch(error.message)

    def _attempt_failed(self, error: StreamError, number: int, wait: float) -> AttemptFailed:
        return AttemptFailed(
            turn_id=self._turn_id,
            provider=self.target.provider,
            model=self.target.model,
            attempt=number,
            error_type=error.error_type,
            message=error.message,
            wait_seconds=round(wait, 3),
        )

    async def _note_failure(self, error: StreamError) -> None:
        seconds = self._health.failed(self.target.provider, error.error_type)
        if seconds is not None:
            await self._host.append(
                ProviderSetAside(
                    turn_id=self._turn_id,
                    provider=self.target.provider,
                    seconds=seconds,
                    reason=error.message,
                )
            )

    async def _switch(self, reason: str) -> bool:
        """Takes the next model that can be asked, rather one whose provider works."""
        skipped: list[ModelTarget] = []
        chosen: ModelTarget | None = None
        while self._fallbacks and chosen is None:
            try:
                found = self._fallbacks.pop(0)()
            except CallboardError as error:
                reason = f"{reason} {error}"  # it can't be asked at all: no key, no such model
                continue
            if self._health.is_set_aside(found.provider):
                skipped.append(found)
            else:
                chosen = found
        if chosen is None and skipped:
            chosen = skipped[0]
        if chosen is None:
            return False
        self.target = chosen
        self._attempts.begin()
        await self._host.append(
            ModelSwitched(
                turn_id=self._turn_id,
                provider=chosen.provider,
                model=chosen.model,
                reason=reason,
            )
        )
        return True

    async def _compact(self) -> bool:
        """Lets a summary stand for the oldest rounds, once in a turn; says whether one does."""
        if not self._may_compact:
            return False
        self._may_compact = False
        summary = AnswerBuilder(self._max_argument_bytes)
        try:
            rounds, request = compacted(self._host.conversation.finished_rounds, self.target)
        except NothingToCompact:
            return False
        await self._ask(request, summary, is_shown=False)
        text = "".join(part.text for part in summary.parts() if isinstance(part, Text)).strip()
        if summary.error is not None or not text:
            return False
        await self._host.append(
            HistoryCompacted(
                turn_id=self._turn_id,
                rounds=rounds,
                summary=text,
                provider=self.target.provider,
                model=self.target.model,
                usage=summary.usage,
            )
        )
        return True

    # ── one call ─────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, request: ModelRequest, answer: AnswerBuilder, *, is_shown: bool) -> None:
        """One call of the model; its end is a terminal event, or the error that there was none."""
        outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](MAX_WAITING_BATCHES)
        scope = trio.CancelScope()
        with batches:
            await self._mailbox.tell(
                StartModelCall(target=self.target, request=request, outlet=outlet, scope=scope)
            )
            try:
                await self._listen(batches, answer, is_shown=is_shown)
            except BaseException:
                scope.cancel(reason="the turn ended")
                if not await wait_gone(batches):  # noqa: ASYNC102  bounded inside
                    self.unreaped.append("model call")
                raise
        if answer.error is not None:
            scope.cancel(reason="the model call failed")

    async def _listen(
        self,
        batches: trio.MemoryReceiveChannel[list[AnyStreamEvent]],
        answer: AnswerBuilder,
        *,
        is_shown: bool,
    ) -> None:
        """Folds and publishes each batch, up to the terminal event that every answer needs."""
        stream_id = new_id("stream")
        async for events in batches:
            offset = answer.text_bytes
            answer.add(events)
            if is_shown:
                self._host.publish(StreamBatch(stream_id, offset, events))
            if answer.done is not None or answer.error is not None:
                break
            if self._pacer is not None and not self._pacer.has_room:
                await self._pacer.wait_room()
        else:
            answer.error = StreamError(
                error_type="provider",
                message="The answer was cut off before its end; nothing of it was kept. Try again.",
                retryable=True,
            )
        if answer.error is not None and is_shown:
            self._host.publish(MessageDiscarded(stream_id, answer.error.message))

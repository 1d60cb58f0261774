"""One whole answer for a turn, whatever it takes: retries, the next model, a shorter history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec
import trio

from ...config.settings import Limits
from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.errors import AuthError, BudgetError, ContextOverflow
from ...runtime.events import (
    AttemptCharged,
    AttemptFailed,
    DurableEvent,
    HistoryCompacted,
    LiveEvent,
    MessageDiscarded,
    ModelSwitched,
    ProviderSetAside,
    StreamBatch,
)
from ...runtime.history import Round
from ...runtime.identity import new_id
from ...runtime.kernel.delivery import Subscription
from ...runtime.kernel.mailbox import Mailbox
from ...runtime.stream import AnyStreamEvent, StopReason, StreamError
from ...runtime.turns.live_state import whole_events
from ..budget.budgets import TurnBudget
from ..budget.charge import Charge
from ..conversation.conversation import Conversation
from ..model.answer import AnswerBuilder, Tokens
from ..model.backoff import Attempts
from ..model.choice import ModelChoice
from ..model.compaction import RECORD_CHARS, count_to_go, summary_of, summary_request
from ..model.provider_health import ProviderHealth
from ..model.stream import MAX_WAITING_BATCHES, StartModelCall
from ..model.wait_gone import wait_gone


class CallerHost(Protocol):
    """What asking a model needs of the session."""

    conversation: Conversation

    async def append(self, *events: DurableEvent) -> object:
        """Stores events and folds them; raises `StorageError`."""
        ...

    def publish(self, update: LiveEvent) -> None:
        """Tells everybody who listens."""
        ...


class ModelCaller:
    """Asks the models of one turn.

    Attributes:
        asked_at: When the last attempt began.
        broken_off: The answer that a cancellation or a budget broke off, else `None`.
        unrecorded: What attempts took that were broken off, where no answer will tell it.
        unreaped: Model calls that were still there after their bound.

    Args:
        host: The session.
        turn_id: Names the turn on the record.
        choice: The models that it may ask.
        mailbox: The model stream's.
        pacer: The consumer that holds the reading up, if one does.
        limits: Retries and their waits.
        health: The failures of all sessions.
        budget: The turn's.
    """

    def __init__(
        self,
        host: CallerHost,
        turn_id: str,
        *,
        choice: ModelChoice,
        mailbox: Mailbox[StartModelCall],
        pacer: Subscription | None,
        limits: Limits,
        health: ProviderHealth,
        budget: TurnBudget,
    ) -> None:
        self.asked_at = trio.current_time()
        self.broken_off: AnswerBuilder | None = None
        self.unrecorded: list[AttemptCharged] = []
        self.unreaped: list[str] = []
        self._host = host
        self._turn_id = turn_id
        self._choice = choice
        self._mailbox = mailbox
        self._pacer = pacer
        self._limits = limits
        self._attempts = Attempts(limits)
        self._health = health
        self._budget = budget
        self._has_compacted = False
        self._asked: Counter[str] = Counter()
        self._remarks: list[str] = []

    @property
    def target(self) -> ModelTarget:
        """The model that is asked now; changes when one fails for good."""
        return self._choice.target

    async def answer(self, request: Callable[[ModelTarget], ModelRequest]) -> AnswerBuilder:
        """A whole answer; one with an `error` when every way failed.

        Args:
            request: Makes the request for a model; made anew for each attempt.
        """
        self._asked.clear()
        self._remarks.clear()
        aside = self.target.provider
        if self._choice.pass_over():
            await self._switched(self._health.why_set_aside(aside))
        while True:
            await self._pass_over_unpriced()
            answer = await self._attempted(request, is_shown=True)
            if answer.error is None:
                self._health.worked(self.target.provider)
                return answer
            if not await self._goes_on(answer.error):
                answer.error = self._last_word(answer.error)
                return answer

    async def _pass_over_unpriced(self) -> None:
        """A model that the budget refuses is not asked; raises `BudgetError` without another."""
        while (why := self._budget.refusal(self.target)) is not None:
            if not self._choice.take_next():
                raise BudgetError(" ".join([why, *self._choice.unusable]))
            await self._switched(why)

    # ── what follows a failure ───────────────────────────────────────────────────────────────────

    async def _attempted(
        self, request: Callable[[ModelTarget], ModelRequest], *, is_shown: bool
    ) -> AnswerBuilder:
        """Asks one model, and again as long as that may help; gives its last answer."""
        self._attempts.begin()
        while True:
            answer = AnswerBuilder(self._limits.max_arguments_bytes)
            self.asked_at = trio.current_time()
            if is_shown:
                self._asked[f"{self.target.provider}/{self.target.model}"] += 1
            taken = await self._charged(request(self.target), answer, is_shown=is_shown)
            if (error := answer.error) is None:
                return answer
            was_shown = is_shown and not answer.is_empty
            wait = self._attempts.wait_before_next(error, was_shown=was_shown)
            if wait is None:
                if not taken.is_nothing:
                    await self._host.append(self.charged(taken))
                return answer
            await self._host.append(self._attempt_failed(error, wait, taken))
            await trio.sleep(wait)

    async def _charged(
        self, request: ModelRequest, answer: AnswerBuilder, *, is_shown: bool
    ) -> Tokens:
        """Asks once, for what the budget has; gives what that took."""
        charge = self._budget.reserve(self.target, request)
        self.broken_off = answer if is_shown else None
        try:
            await self._ask(request, answer, charge, is_shown=is_shown)
        finally:
            answer.taken = charge.settle(answer)
            is_lost = answer.done is None and answer.error is None
            if is_lost and not is_shown and not answer.taken.is_nothing:
                self.unrecorded.append(self.charged(answer.taken))
        self.broken_off = None
        return answer.taken

    def charged(self, taken: Tokens) -> AttemptCharged:
        """Tells what an attempt of the present model took."""
        return AttemptCharged(
            turn_id=self._turn_id,
            provider=self.target.provider,
            model=self.target.model,
            usage=taken.usage,
            estimate=taken.estimate,
        )

    def _attempt_failed(self, error: StreamError, wait: float, taken: Tokens) -> AttemptFailed:
        return AttemptFailed(
            turn_id=self._turn_id,
            provider=self.target.provider,
            model=self.target.model,
            attempt=self._attempts.count,
            error_type=error.error_type,
            message=error.message,
            wait_seconds=round(wait, 3),
            usage=taken.usage,
            estimate=taken.estimate,
        )

    async def _goes_on(self, error: StreamError) -> bool:
        """Whether there is another way, which is then prepared."""
        if error.error_type == ContextOverflow.type:
            if await self._compact():
                return True
        else:
            await self._note_failure(error)
        if not self._choice.take_next():
            return False
        await self._switched(error.message)
        return True

    async def _note_failure(self, error: StreamError) -> None:
        seconds = self._health.failed(self.target.provider, error)
        # Without another model it is asked all the same, so that nobody needs to know.
        if seconds is not None and self._choice.has_others:
            await self._host.append(
                ProviderSetAside(
                    turn_id=self._turn_id,
                    provider=self.target.provider,
                    seconds=seconds,
                    reason=error.message,
                )
            )

    async def _switched(self, reason: str) -> None:
        await self._host.append(
            ModelSwitched(
                turn_id=self._turn_id,
                provider=self.target.provider,
                model=self.target.model,
                reason=" ".join([reason, *self._remarks, *self._choice.unusable]),
            )
        )
        self._remarks.clear()
        self._choice.unusable.clear()

    def _last_word(self, error: StreamError) -> StreamError:
        """The error that the turn ends with: what was tried belongs to it."""
        seconds = error.retry_after_seconds
        if error.retryable and self._attempts.asks_too_much(error):
            most = f"{self._limits.retry_wait_seconds:g} s is the most (retry_wait_seconds)"
            advice = f"It asks to wait {seconds:g} s, and {most}."
        elif error.error_type == AuthError.type:
            advice = f"Check the key of {self.target.provider} (`callboard keys list`)."
        else:
            advice = error.advice
        said = [error.message, *self._remarks, *filter(None, [advice])]
        if len(self._asked) > 1:
            each = (f"{name} {_times(count)}" for name, count in self._asked.items())
            said.append(f"Asked: {', '.join(each)}.")
        elif (count := self._asked.total()) > 1:
            said.append(f"It was asked {_times(count)}.")
        said += self._choice.unusable
        return msgspec.structs.replace(error, message=" ".join(said), advice="")

    # ── a history that is too long ───────────────────────────────────────────────────────────────

    async def _compact(self) -> bool:
        """Lets a summary stand for the oldest rounds, once in a turn; says whether one does."""
        if self._has_compacted:
            self._remarks = ["Its oldest part was summed up already; begin a new session."]
            return False
        conversation = self._host.conversation
        rounds = conversation.rounds
        count = count_to_go(rounds, conversation.finished_rounds, conversation.asked)
        if count == 0:
            self._remarks = ["It is the latest part that is too long: send less at once."]
            return False
        answer = await self._summary(rounds[:count])
        summary = summary_of(answer.parts())
        if why := _why_no_summary(answer, summary):
            self._remarks = [f"Summing its oldest part up failed: {why}"]
            return False
        await self._host.append(
            HistoryCompacted(
                turn_id=self._turn_id,
                rounds=count,
                summary=summary,
                provider=self.target.provider,
                model=self.target.model,
                usage=answer.taken.usage,
                estimate=answer.taken.estimate,
            )
        )
        self._has_compacted = True
        return True

    async def _summary(self, rounds: Sequence[Round]) -> AnswerBuilder:
        """The answer with a summary; of less, where the model can't read as much."""
        *longer, shortest = RECORD_CHARS
        for max_chars in longer:
            answer = await self._attempted(
                partial(summary_request, rounds, max_chars=max_chars), is_shown=False
            )
            if answer.error is None or answer.error.error_type != ContextOverflow.type:
                return answer
        return await self._attempted(
            partial(summary_request, rounds, max_chars=shortest), is_shown=False
        )

    # ── one call ─────────────────────────────────────────────────────────────────────────────────

    async def _ask(
        self, request: ModelRequest, answer: AnswerBuilder, charge: Charge, *, is_shown: bool
    ) -> None:
        """One call of the model; its end is a terminal event, or the error that there was none."""
        outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](MAX_WAITING_BATCHES)
        scope = trio.CancelScope()
        with batches:
            await self._mailbox.tell(
                StartModelCall(target=self.target, request=request, outlet=outlet, scope=scope)
            )
            answer.is_sent = True
            try:
                await self._listen(batches, answer, charge, is_shown=is_shown)
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
        charge: Charge,
        *,
        is_shown: bool,
    ) -> None:
        """Folds and publishes each batch, up to the terminal event that every answer needs.

        Raises `BudgetError` behind the last piece that the budget has room for.
        """
        stream_id, spent = new_id("stream"), None
        async for told in batches:
            events = whole_events(told)
            if charge.is_watched:
                events, spent = charge.fit(events)
            offset = answer.text_bytes
            answer.add(events)
            if is_shown:
                self._host.publish(StreamBatch(stream_id, offset, events))
            if answer.done is not None or answer.error is not None:
                break
            if spent is not None:
                raise spent
            if is_shown and self._pacer is not None and not self._pacer.has_room:
                await self._pacer.wait_room()
        else:
            answer.error = StreamError(
                error_type="provider",
                message="The answer was cut off before its end; nothing of it was kept.",
                retryable=True,
                advice="Try again.",
            )
        if answer.error is not None and is_shown:
            self._host.publish(MessageDiscarded(stream_id, answer.error.message))


def _why_no_summary(answer: AnswerBuilder, summary: str) -> str:
    if answer.error is not None:
        return answer.error.message
    if not summary:
        return "the model wrote nothing."
    is_whole = answer.done is not None and answer.done.stop_reason is StopReason.END
    return "" if is_whole else "the model did not write it to its end."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")

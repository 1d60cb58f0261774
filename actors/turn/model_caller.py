"""Gets one whole answer for a turn, whatever it takes: retries, another model, a shorter history.

Each attempt is one request to the model stream. When one fails, `Backoff` says whether and when the
same model is asked again; then the turn goes on to the agent's next model; and when the history is
too long, the model sums up the oldest rounds, once in a turn; where it can't, they are left out. What was shown of a failed attempt is
withdrawn (`MessageDiscarded`). A stream without its terminal event is a failed attempt, never an
answer.

Each attempt is charged to the budget: reserved before, measured while it streams, corrected by what
the provider counted. What a cancelled attempt took is kept in `broken_off` and `unrecorded`, for
the turn to store with its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from ...providers.provider import ModelRequest, ModelTarget
from ...runtime.errors import AuthError, BudgetError, ContextOverflow, NetworkError, QuotaError
from ...runtime.events import (
    AttemptCharged,
    AttemptFailed,
    HistoryCompacted,
    MessageDiscarded,
    ModelSwitched,
    ProviderSetAside,
    StreamBatch,
)
from ...runtime.history import Round, text_of
from ...runtime.identity import new_id
from ...runtime.kernel.delivery import Subscription
from ...runtime.stream import AnyStreamEvent, Done, StopReason, StreamError
from ...runtime.turns.live_state import whole_events
from ..budget.budgets import Charge, TurnBudget
from ..model.answer import (
    NOTHING_TAKEN,
    AnswerBuilder,
    TokenCount,
    request_tokens,
    tokens_of_bytes,
)
from ..model.choice import Backoff
from ..model.compaction import (
    KEPT_SHARE_ON_DEMAND,
    LEFT_OUT,
    RECORD_CHARS,
    count_to_go,
    summary_of,
    summary_request,
)
from ..model.stream import MAX_WAITING_BATCHES, StartModelCall
from .setup import TurnHost, TurnSetup

if TYPE_CHECKING:
    from .lent_model import LentModel

CLEANUP_SECONDS = 10.0
"""How long a cancelled turn waits for its tasks to be gone; the rest it lists as `unreaped`."""

READ_SHARE = 0.7
"""The most of a window that a request takes, by a guess of its tokens: the answer needs the rest."""
LEAST_ROOM_TOKENS = 500
"""With less room beside instructions and tools, a shorter history would help nothing."""

REFUSED = frozenset({400, 413, 422})
"""HTTP statuses of a request that would be refused again, word for word."""
_UNREACHED = frozenset({AuthError.type, NetworkError.type, QuotaError.type})

LATEST_TOO_LONG = "It is the latest part that is too long: send less at once."
TOOLS_TOO_LONG = (
    "The {count} tools alone take about {tokens:,} tokens, more than all else in it. Give the model a larger window "
    "(llama.cpp: --ctx-size, Ollama: num_ctx), or the agent fewer tools (--tools)."
)


async def wait_gone(channel: trio.MemoryReceiveChannel[Any]) -> bool:
    """Wait, shielded and bounded, until the other side has closed its outlet; return whether it did.

    An outlet goes down with each request, and closes when every task behind the request is gone.
    """
    with trio.move_on_after(CLEANUP_SECONDS, shield=True) as bound:
        async for _ in channel:
            pass
    return not bound.cancelled_caught


class ModelCaller:
    """Asks the models of one turn.

    Attributes:
        asked_at: When the last attempt began.
        broken_off: The answer that a cancellation or a budget broke off, otherwise `None`.
        unrecorded: What broken-off attempts took that no answer will say.
        unreaped: Model calls that were still there when the clean-up's time was over.

    Args:
        host: The session.
        turn_id: The turn.
        setup: What the turn runs with.
        budget: The turn's.
    """

    def __init__(self, host: TurnHost, turn_id: str, setup: TurnSetup, budget: TurnBudget) -> None:
        self.asked_at = trio.current_time()
        self.broken_off: AnswerBuilder | None = None
        self.unrecorded: list[AttemptCharged] = []
        self.unreaped: list[str] = []
        self._host = host
        self._turn_id = turn_id
        self._choice = setup.choice
        self._mailbox = setup.model_stream
        self._pacer = setup.pacer
        self._limits = setup.limits
        self._client_tools = tuple(each.name for each in setup.client_tools)
        self._backoff = Backoff(setup.limits)
        self._health = setup.health
        self._budget = budget
        self._silent_window = setup.silent_window
        self._trace_of = setup.trace_of
        self._tells_providers = setup.tracing is not None and bool(setup.tracing.propagate)
        self._record_chars: Sequence[int] = RECORD_CHARS
        self._has_compacted = False
        self._why_not = ""
        self._asked: Counter[str] = Counter()
        self._remarks: list[str] = []
        self._lent: LentModel | None = None

    @property
    def target(self) -> ModelTarget:
        """The model that is asked now; it changes when one fails for good."""
        return self._choice.target

    async def answer(self, request: Callable[[ModelTarget], ModelRequest]) -> AnswerBuilder:
        """Return a whole answer, or one with an `error` when every way failed.

        Args:
            request: Makes the request for a model; called for each attempt.
        """
        self._asked.clear()
        self._remarks.clear()
        aside = self.target.provider
        if self._choice.pass_over():
            await self._switched(self._health.why_set_aside(aside))
        while True:
            await self._pass_over_unpriced()
            if self.target.endpoint is not None and self.target.endpoint.cuts_off:
                await self._make_room(request)
            answer = await self._attempted(request, is_shown=True)
            if answer.error is None:
                self._health.worked(self.target.provider)
                return answer
            if not await self._goes_on(answer.error):
                answer.error = self._last_word(answer.error, request(self.target))
                return answer

    def lend(self) -> LentModel:
        """Return the model for calls of the turn, which ask it one after the other while the turn waits for them."""
        if self._lent is None:
            from .lent_model import LentModel  # here: few tools ask a model

            self._lent = LentModel(self)
        return self._lent

    async def answer_apart(self, request: ModelRequest, call_id: str) -> AnswerBuilder:
        """Return what the present model answers beside the conversation, or an `error`; on record with its call.

        Raises `BudgetError` for what the budget has no room for.
        """
        if (why := self._budget.refusal(self.target)) is not None:
            raise BudgetError(why)
        answer = await self._attempted(lambda target: request, is_shown=False)
        if answer.error is None:
            said, (took_ms, _) = text_of(answer.parts()), self.times_of(answer)
            charged = self.charged(answer.taken)
            await self._host.append(
                msgspec.structs.replace(charged, call_id=call_id, answer=said, duration_ms=took_ms)
            )
        return answer

    async def _pass_over_unpriced(self) -> None:
        """Go on to a model that the budget allows; raises `BudgetError` when there is none."""
        while (why := self._budget.refusal(self.target)) is not None:
            if not self._choice.take_next():
                raise BudgetError(" ".join([why, *self._choice.unusable]))
            await self._switched(why)

    # ── what follows a failure ───────────────────────────────────────────────────────────────────

    async def _attempted(
        self, request: Callable[[ModelTarget], ModelRequest], *, is_shown: bool
    ) -> AnswerBuilder:
        """Ask one model, again as long as that may help, and return its last answer."""
        self._backoff.begin()
        while True:
            answer = AnswerBuilder(self._limits.max_arguments_bytes, self._client_tools)
            self.asked_at = trio.current_time()
            if is_shown:
                self._asked[f"{self.target.provider}/{self.target.model}"] += 1
            taken = await self._charged(request(self.target), answer, is_shown=is_shown)
            if (error := answer.error) is None:
                return answer
            was_shown = is_shown and not answer.is_empty
            wait = self._backoff.wait_before_next(error, was_shown=was_shown)
            if wait is None:
                if not taken.is_nothing:
                    await self._host.append(self.charged(taken))
                return answer
            await self._host.append(self._attempt_failed(error, wait, taken))
            await trio.sleep(wait)

    async def _charged(
        self, request: ModelRequest, answer: AnswerBuilder, *, is_shown: bool
    ) -> TokenCount:
        """Ask once, within the budget, and return what that took."""
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

    def times_of(self, answer: AnswerBuilder) -> tuple[int, int]:
        """Return how long a whole answer took, and its first piece, in milliseconds; 0 is none."""
        first = self.asked_at if answer.first_at is None else answer.first_at
        times = (trio.current_time() - self.asked_at, first - self.asked_at)
        return round(times[0] * 1000), round(times[1] * 1000)

    def charged(self, taken: TokenCount) -> AttemptCharged:
        """Return the event of what an attempt of the present model took."""
        return AttemptCharged(
            turn_id=self._turn_id,
            provider=self.target.provider,
            model=self.target.model,
            usage=taken.usage,
            estimate=taken.estimate,
        )

    def _attempt_failed(self, error: StreamError, wait: float, taken: TokenCount) -> AttemptFailed:
        return AttemptFailed(
            turn_id=self._turn_id,
            provider=self.target.provider,
            model=self.target.model,
            attempt=self._backoff.count,
            error_type=error.error_type,
            message=error.message,
            wait_seconds=round(wait, 3),
            usage=taken.usage,
            estimate=taken.estimate,
        )

    async def _goes_on(self, error: StreamError) -> bool:
        """Prepare another way to an answer; return whether there is one."""
        is_too_long = error.error_type == ContextOverflow.type
        if is_too_long:
            if await self._compact():
                return True
        else:
            await self._note_failure(error)
        if not self._choice.take_next():
            return is_too_long and await self._leave_out()
        await self._switched(error.message, error.error_type)
        return True

    async def _note_failure(self, error: StreamError) -> None:
        seconds = self._health.failed(self.target.provider, error)
        # Without another model this one is asked all the same, so nobody needs to know.
        if seconds is not None and self._choice.has_others:
            await self._host.append(
                ProviderSetAside(
                    turn_id=self._turn_id,
                    provider=self.target.provider,
                    seconds=seconds,
                    reason=error.message,
                )
            )

    async def _switched(self, reason: str, error_type: str = "") -> None:
        await self._host.append(
            ModelSwitched(
                turn_id=self._turn_id,
                provider=self.target.provider,
                model=self.target.model,
                reason=" ".join([reason, *self._remarks, *self._choice.unusable]),
                error_type=error_type,
            )
        )
        self._remarks.clear()
        self._choice.unusable.clear()

    def _last_word(self, error: StreamError, request: ModelRequest) -> StreamError:
        """Return the error that the turn ends with, which says what was tried."""
        if self._remarks == [LATEST_TOO_LONG] and (why := _why_tools_are_too_long(request)):
            self._remarks = []
            error = msgspec.structs.replace(error, advice=why)
        seconds = error.retry_after_seconds
        if error.retryable and self._backoff.asks_too_much(error):
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

    async def _make_room(self, request: Callable[[ModelTarget], ModelRequest]) -> None:
        """Shorten a history that the server would cut off without a word, as far as that helps."""
        window = None if self._silent_window is None else await self._silent_window(self.target)
        if window is None:
            return
        most, whole = int(window * READ_SHARE), request(self.target)
        fixed = request_tokens(msgspec.structs.replace(whole, rounds=()))
        if request_tokens(whole) <= most or most - fixed < LEAST_ROOM_TOKENS:
            return
        had_compacted, self._has_compacted = self._has_compacted, False
        self._record_chars = [each for each in RECORD_CHARS if tokens_of_bytes(each) < most]
        if not await self._compact():
            await self._leave_out()
        self._has_compacted = self._has_compacted or had_compacted
        self._remarks.clear()

    async def _compact(self) -> bool:
        """Replace the oldest rounds by a summary, once in a turn; return whether one does."""
        if self._has_compacted:
            self._why_not = "it is too long with a summary, too"
            return False
        if (count := self._count_to_go()) == 0:
            return False
        answer = await self._summary(self._host.conversation.rounds[:count])
        summary = summary_of(answer.parts())
        if why := _why_no_summary(answer, summary):
            if answer.error is None and not answer.taken.is_nothing:
                await self._host.append(self.charged(answer.taken))
            self._remarks = [f"Summing its oldest part up failed: {why}"]
            self._why_not = why if self._is_lasting(answer.error) else ""
            return False
        await self._compacted(count, summary, answer.taken)
        return True

    def _is_lasting(self, error: StreamError | None) -> bool:
        """Return whether a summary that failed would fail in later turns too.

        What may pass is tried again by the next turn: then nothing is lost. Where the turn before ended
        for the same reason, it did not pass; but who can't be reached or paid answers no question either.
        """
        if error is None or error.error_type == ContextOverflow.type:
            return True
        if error.error_type in _UNREACHED:
            return False
        return error.status in REFUSED or self._host.conversation.was_too_long

    async def _leave_out(self) -> bool:
        """Leave out the oldest rounds of which there can be no summary; return whether it did."""
        if not self._why_not or (count := self._count_to_go()) == 0:
            return False
        await self._compacted(count, LEFT_OUT, NOTHING_TAKEN, self._why_not)
        self._remarks.clear()
        return True

    def _count_to_go(self) -> int:
        """Return how many of the oldest rounds can go; 0 when it is the latest that are too long."""
        conversation = self._host.conversation
        count = count_to_go(conversation.rounds, conversation.finished_rounds, conversation.asked)
        if count == 0:
            self._remarks = [LATEST_TOO_LONG]
        return count

    async def sum_up(self, wish: str) -> int | StreamError:
        """Have a summary in the place of nearly all that was said, and return of how many rounds; 0 if there are none.

        A model that fails is followed by the agent's next one, as for an answer.

        Args:
            wish: What a person says that matters in it.
        """
        conversation = self._host.conversation
        count = count_to_go(
            conversation.rounds,
            conversation.finished_rounds,
            conversation.asked,
            KEPT_SHARE_ON_DEMAND,
        )
        while count:
            await self._pass_over_unpriced()
            answer = await self._summary(conversation.rounds[:count], wish)
            summary = summary_of(answer.parts())
            if not (why := _why_no_summary(answer, summary)):
                self._health.worked(self.target.provider)
                await self._compacted(count, summary, answer.taken, is_wanted=True)
                break
            error = answer.error
            if error is None:
                if not answer.taken.is_nothing:
                    await self._host.append(self.charged(answer.taken))
                return StreamError(error_type="provider", message=f"There is no summary: {why}")
            await self._note_failure(error)
            if not self._choice.take_next():
                return error
            await self._switched(error.message, error.error_type)
        return count

    async def _compacted(
        self,
        rounds: int,
        summary: str,
        taken: TokenCount,
        why_left_out: str = "",
        *,
        is_wanted: bool = False,
    ) -> None:
        await self._host.append(
            HistoryCompacted(
                turn_id=self._turn_id,
                rounds=rounds,
                summary=summary,
                provider=self.target.provider,
                model=self.target.model,
                usage=taken.usage,
                estimate=taken.estimate,
                why_left_out=why_left_out,
                is_wanted=is_wanted,
            )
        )
        self._has_compacted = True

    async def _summary(self, rounds: Sequence[Round], wish: str = "") -> AnswerBuilder:
        """Return the answer with a summary; of less text, where the model can't read as much."""
        *longer, shortest = self._record_chars or RECORD_CHARS[-1:]
        for max_chars in longer:
            request = partial(summary_request, rounds, max_chars=max_chars, wish=wish)
            answer = await self._attempted(request, is_shown=False)
            if answer.error is None or answer.error.error_type != ContextOverflow.type:
                return answer
        request = partial(summary_request, rounds, max_chars=shortest, wish=wish)
        return await self._attempted(request, is_shown=False)

    # ── one call ─────────────────────────────────────────────────────────────────────────────────

    def _told(self) -> Callable[[str], Mapping[str, str]] | None:
        """Return what tells a provider where the turn stands: the span of the call itself has no id yet."""
        if not self._tells_providers:
            return None
        trace = self._trace_of(self._host, self._turn_id)
        return None if trace is None else partial(trace.headers, self._turn_id)

    async def _ask(
        self, request: ModelRequest, answer: AnswerBuilder, charge: Charge, *, is_shown: bool
    ) -> None:
        """Make one call of the model; its end is a terminal event, or the error that none came."""
        outlet, batches = trio.open_memory_channel[list[AnyStreamEvent]](MAX_WAITING_BATCHES)
        scope = trio.CancelScope()
        host = self._host if is_shown else None
        listener = _Listener(answer, charge, host, self._pacer if is_shown else None)
        with batches:
            await self._mailbox.tell(
                StartModelCall(
                    target=self.target,
                    request=request,
                    outlet=outlet,
                    scope=scope,
                    take=listener.take,
                    told=self._told(),
                )
            )
            answer.is_sent = True
            try:
                await listener.listen(batches)
            except BaseException:
                scope.cancel(reason="the turn ended")
                if not await wait_gone(batches):  # noqa: ASYNC102  bounded inside
                    self.unreaped.append("model call")
                raise
        if answer.error is not None:
            scope.cancel(reason="the model call failed")


class _Listener:
    """Hears one call of a model: folds and publishes each batch, in its order.

    A batch that changes nothing for the turn is taken in the step of the model stream: then a token on
    its own wakes nobody but its consumer. The turn itself hears the end of the answer, and everything
    while a budget is watched or its consumer lags.
    """

    def __init__(
        self,
        answer: AnswerBuilder,
        charge: Charge,
        host: TurnHost | None,
        pacer: Subscription | None,
    ) -> None:
        self._answer = answer
        self._charge = charge
        self._host = host
        self._pacer = pacer
        self._stream_id = new_id("stream")
        self._takes = not charge.is_watched
        self._crash: Exception | None = None

    def take(self, batch: list[AnyStreamEvent]) -> bool:
        """Take a batch, unless it is the turn's to hear; then it hears the following ones too."""
        last = type(batch[-1]) if batch else Done
        has_room = (self._pacer is None or self._pacer.has_room) and (
            self._host is None or self._host.hold.has_room
        )
        self._takes = self._takes and has_room and last is not Done and last is not StreamError
        if self._takes:
            try:
                self._add(whole_events(batch))
            except Exception as fault:  # the session's crash, not the model stream's
                self._crash, self._takes = fault, False
        return self._takes and self._answer.error is None and self._answer.done is None

    async def listen(self, batches: trio.MemoryReceiveChannel[list[AnyStreamEvent]]) -> None:
        """Hear the batches up to the terminal event that every answer needs.

        Raises `BudgetError` after the last piece that the budget has room for.
        """
        answer, charge, spent = self._answer, self._charge, None
        try:
            async for batch in batches:
                if self._crash is not None:
                    raise self._crash
                if self._pacer is not None and not self._pacer.has_room:
                    await self._pacer.wait_room()
                if self._host is not None and not self._host.hold.has_room:
                    await self._host.hold.wait_room()
                events = whole_events(batch)
                if charge.is_watched:
                    events, spent = charge.fit(events)
                # A batch that was too much for it, or had more behind its end, has been added.
                if answer.error is None and answer.done is None:
                    self._add(events)
                if answer.done is not None or answer.error is not None:
                    break
                if spent is not None:
                    raise spent
                if not charge.is_watched and not batches.statistics().current_buffer_used:
                    self._takes = True
            else:
                answer.error = StreamError(
                    error_type="provider",
                    message="The answer was cut off before its end; nothing of it was kept.",
                    retryable=True,
                    advice="Try again.",
                )
        finally:
            self._takes = False
        if answer.error is not None and self._host is not None:
            self._host.publish(MessageDiscarded(self._stream_id, answer.error.message))

    def _add(self, events: list[AnyStreamEvent]) -> None:
        offset = self._answer.text_bytes
        self._answer.add(events)
        if self._answer.first_at is None and not self._answer.is_empty:
            self._answer.first_at = trio.current_time()
        if self._host is not None:
            self._host.publish(StreamBatch(self._stream_id, offset, events))


def _why_tools_are_too_long(request: ModelRequest) -> str:
    """Return what to do about a request of which the tools are the most, so that less words help nothing."""
    tools = request_tokens(msgspec.structs.replace(request, system="", rounds=()))
    if 2 * tools <= request_tokens(request):
        return ""
    return TOOLS_TOO_LONG.format(count=len(request.tools), tokens=tools)


def _why_no_summary(answer: AnswerBuilder, summary: str) -> str:
    if answer.error is not None:
        return answer.error.message
    if not summary:
        return "the model wrote nothing."
    is_whole = answer.done is not None and answer.done.stop_reason is StopReason.END
    return "" if is_whole else "the model did not write it to its end."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")

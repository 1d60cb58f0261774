"""Which model a turn asks, which one next, and how long it waits before it asks one again.

Three judgements work together. `Backoff` repeats a failed call of the same model, with growing waits
and jitter so that many sessions spread. `ModelChoice` goes through the agent's models in their
order. `ProviderHealth`, one for all sessions, sets a provider aside that keeps failing, so that
turns with another choice leave it alone for a while.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import trio

from ...config.settings import Limits
from ...providers.provider import ModelTarget
from ...runtime.errors import AuthError, CallboardError, DeadlineError, QuotaError
from ...runtime.stream import StreamError

FIRST_WAIT_SECONDS = 0.5
MOST_WAIT_SECONDS = 8.0
"""When the provider names no wait: half a second, then twice as long each time, up to eight."""
MAX_WAIT_SECONDS_PER_TURN = 600.0
"""All waits of a turn together; a provider that needs more is down."""
MOST_RETRIES_AFTER_TEXT = 1
"""What was shown is withdrawn and said again: once may be bad luck."""
MOST_RETRIES_AFTER_SILENCE = 1
"""A call that ran into a deadline has already cost its minute."""

FAILURES_BEFORE_SET_ASIDE = 3
"""Calls in a row that failed for good, each after its own retries: not one unlucky moment."""
FIRST_SECONDS = 30.0
MOST_DOUBLINGS = 5
"""A provider is set aside for 30 s, then twice as long each time, up to sixteen minutes."""
HOPELESS = frozenset({AuthError.type, QuotaError.type})
"""Errors that the next call meets too: one is enough."""
FORBIDDEN = 403
"""The status for what one request may not: a model, a text that moderation stops."""


class Backoff:
    """The retries of one turn with the model that it asks now.

    Attributes:
        count: How often the call was made again since `begin`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waited = 0.0
        self.begin()

    def begin(self) -> None:
        """Start to count, for a new answer or another model."""
        self.count = self._after_text = self._after_silence = 0

    def wait_before_next(self, error: StreamError, *, was_shown: bool) -> float | None:
        """Return how many seconds to wait before the next try; `None` when there is none.

        Args:
            error: How the attempt ended.
            was_shown: Whether something of its answer reached a consumer.
        """
        if not error.retryable or self.count >= self._limits.model_retries:
            return None
        is_silence = error.error_type == DeadlineError.type
        if is_silence and self._after_silence >= MOST_RETRIES_AFTER_SILENCE:
            return None
        if was_shown and self._after_text >= MOST_RETRIES_AFTER_TEXT:
            return None
        if self.asks_too_much(error):
            return None
        seconds = self._seconds(error)
        if self._waited + seconds > MAX_WAIT_SECONDS_PER_TURN:
            return None
        self.count += 1
        self._after_silence += is_silence
        self._after_text += was_shown
        self._waited += seconds
        return seconds

    def asks_too_much(self, error: StreamError) -> bool:
        """Whether the provider wants a longer wait than the settings allow."""
        return (error.retry_after_seconds or 0) > self._limits.retry_wait_seconds

    def _seconds(self, error: StreamError) -> float:
        longest = self._limits.retry_wait_seconds
        most = min(FIRST_WAIT_SECONDS * 2**self.count, MOST_WAIT_SECONDS, longest)
        if error.retry_after_seconds:  # a busy server can't mean "at once"
            # All who were refused are told the same: who is refused again spreads further than before.
            return min(error.retry_after_seconds + random.uniform(0, most), longest)
        return random.uniform(most / 2, most)


class _Record(msgspec.Struct):
    failures: int = 0
    times_aside: int = 0
    aside_until: float = 0.0
    reason: str = ""


class ProviderHealth:
    """The failures of a runtime's providers, by name; shared by its sessions.

    A provider that is set aside is passed over by turns that have another model; a turn without a
    choice still asks it. The first call after that time decides again.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def is_set_aside(self, provider: str) -> bool:
        """Whether it should be passed over now."""
        return self._seconds_left(provider) > 0

    def why_set_aside(self, provider: str) -> str:
        """Return for how long it still is, and why, for a person."""
        reason = self._records[provider].reason
        return f"{provider} is set aside for {self._seconds_left(provider):.0f} s: {reason}"

    def worked(self, provider: str) -> None:
        """Note that a call succeeded, and forget all failures."""
        self._records.pop(provider, None)

    def failed(self, provider: str, error: StreamError) -> float | None:
        """Note that a call failed for good; return for how long the provider is set aside now.

        `None` when it is not, or was before. An error that is the request's own fault (no such
        model, an invalid request, forbidden) says nothing about its provider.
        """
        is_hopeless = error.error_type in HOPELESS and error.status != FORBIDDEN
        if not error.retryable and not is_hopeless:
            return None
        record = self._records.setdefault(provider, _Record())
        record.failures += 1
        is_enough = record.failures >= FAILURES_BEFORE_SET_ASIDE or is_hopeless
        if not is_enough or self.is_set_aside(provider):
            return None
        seconds: float = FIRST_SECONDS * 2**record.times_aside
        record.times_aside = min(record.times_aside + 1, MOST_DOUBLINGS)
        # After that time, a single failure sets it aside again.
        record.failures = FAILURES_BEFORE_SET_ASIDE - 1
        record.aside_until = trio.current_time() + seconds
        record.reason = error.message
        return seconds

    def _seconds_left(self, provider: str) -> float:
        record = self._records.get(provider)
        return 0.0 if record is None else max(record.aside_until - trio.current_time(), 0.0)


class ModelChoice:
    """The agent's models, each taken once, from the first to the last.

    A model whose provider is set aside waits until there is no other.

    Attributes:
        target: The model that is asked now.
        has_others: Whether the agent names more than one.
        unusable: Why models that it names can't be asked: no key, no such provider.

    Args:
        first: The model that the turn begins with.
        others: Functions that find the next models when they are needed.
        health: The failures of providers.
    """

    def __init__(
        self,
        first: ModelTarget,
        others: Sequence[Callable[[], ModelTarget]],
        health: ProviderHealth,
    ) -> None:
        self.target = first
        self.has_others = bool(others)
        self.unusable: list[str] = []
        self._health = health
        self._to_find = [*others]
        self._passed_over: list[ModelTarget] = []
        self._taken = {_name(first)}

    def pass_over(self) -> bool:
        """Take another model if this one's provider is set aside and the other's is not."""
        if not self.has_others or not self._health.is_set_aside(self.target.provider):
            return False
        found = self._working()
        if found is None:
            return False
        self._passed_over.insert(0, self.target)
        self.target = found
        return True

    def take_next(self) -> bool:
        """Take the next model that can be asked, preferring one whose provider works."""
        found = self._working()
        if found is None and self._passed_over:
            found = self._passed_over.pop(0)
        if found is None:
            return False
        self.target = found
        return True

    def _working(self) -> ModelTarget | None:
        while self._to_find:
            try:
                found = self._to_find.pop(0)()
            except CallboardError as error:
                self.unusable.append(str(error))
                continue
            if _name(found) in self._taken:
                continue  # the agent names it twice
            self._taken.add(_name(found))
            if not self._health.is_set_aside(found.provider):
                return found
            self._passed_over.append(found)
        return None


def _name(target: ModelTarget) -> str:
    return f"{target.provider}/{target.model}"

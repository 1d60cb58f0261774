"""When a failed model call is made again, and how long is waited before."""

from __future__ import annotations

import random

from ...config.settings import Limits
from ...runtime.errors import DeadlineError
from ...runtime.stream import StreamError

FIRST_WAIT_SECONDS = 0.5
MOST_WAIT_SECONDS = 8.0
"""Without a word of the provider: half a second, then twice as long each time, up to eight."""
MAX_WAIT_SECONDS_PER_TURN = 600.0
"""Of all waits of a turn together; a provider that needs more is down."""
MOST_RETRIES_AFTER_TEXT = 1
"""What was shown is withdrawn and said again: once may be bad luck."""
MOST_RETRIES_AFTER_SILENCE = 1
"""A call that ran into a deadline has already cost its minute."""


class Attempts:
    """The retries of one turn with the model that it asks now.

    Attributes:
        count: How often the call was made again since `begin`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waited = 0.0
        self.begin()

    def begin(self) -> None:
        """For a new answer, or another model."""
        self.count = self._after_text = self._after_silence = 0

    def wait_before_next(self, error: StreamError, *, was_shown: bool) -> float | None:
        """How many seconds to wait before the same request is made again; `None` when it is not.

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
        """Whether the provider wants a longer wait than there ever is."""
        return (error.retry_after_seconds or 0) > self._limits.retry_wait_seconds

    def _seconds(self, error: StreamError) -> float:
        """The provider's own figure, else a growing one; both with jitter, so that many spread."""
        longest = self._limits.retry_wait_seconds
        if error.retry_after_seconds:  # "at once" is no wait that a busy server can mean
            return min(error.retry_after_seconds + random.uniform(0, FIRST_WAIT_SECONDS), longest)
        most = min(FIRST_WAIT_SECONDS * 2**self.count, MOST_WAIT_SECONDS, longest)
        return random.uniform(most / 2, most)

"""When a failed model call is made again, and how long is waited before."""

from __future__ import annotations

import random

from ..config.settings import Limits
from ..runtime.stream import StreamError

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
    """The retries of one turn with the model that it asks now."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waited = 0.0
        self.count = 0

    def begin(self) -> None:
        """For a new answer, or another model."""
        self.count = 0

    def wait_before_next(self, error: StreamError, *, was_shown: bool) -> float | None:
        """How many seconds to wait before the same request is made again; `None` when it is not.

        Args:
            error: How the attempt ended.
            was_shown: Whether something of its answer reached a consumer.
        """
        if not error.retryable or self.count >= self._most(error, was_shown=was_shown):
            return None
        seconds = self._seconds(error)
        if self._waited + seconds > MAX_WAIT_SECONDS_PER_TURN:
            return None
        if seconds > self._limits.retry_wait_seconds:
            return None
        self.count += 1
        self._waited += seconds
        return seconds

    def _most(self, error: StreamError, *, was_shown: bool) -> int:
        most = self._limits.model_retries
        if error.error_type == "timeout":
            most = min(most, MOST_RETRIES_AFTER_SILENCE)
        return min(most, MOST_RETRIES_AFTER_TEXT) if was_shown else most

    def _seconds(self, error: StreamError) -> float:
        """The provider's own figure, else a growing one; both with jitter, so that many spread."""
        if error.retry_after_seconds is not None:
            return error.retry_after_seconds + random.uniform(0, FIRST_WAIT_SECONDS)
        most = min(FIRST_WAIT_SECONDS * 2**self.count, MOST_WAIT_SECONDS)
        return random.uniform(most / 2, most)

"""Which providers keep failing, so that turns with another choice leave them alone for a while."""

from __future__ import annotations

import msgspec
import trio

from ...runtime.errors import AuthError, QuotaError
from ...runtime.stream import StreamError

FAILURES_BEFORE_SET_ASIDE = 3
"""Calls in a row that failed for good, each after its own retries: not one unlucky moment."""
FIRST_SECONDS = 30.0
MOST_DOUBLINGS = 5
"""A provider is set aside for 30 s, then twice as long each time, up to sixteen minutes."""
HOPELESS = frozenset({AuthError.type, QuotaError.type})
"""Errors that the next call meets too: one is enough."""
FORBIDDEN = 403
"""The status of what one request may not: a model, a text that moderation stops."""


class _Record(msgspec.Struct):
    failures: int = 0
    times_aside: int = 0
    aside_until: float = 0.0
    reason: str = ""


class ProviderHealth:
    """The failures of the providers of one runtime, by provider's name; shared by its sessions.

    A provider that is set aside is passed over by turns that have another model; one without a
    choice still asks it. The first call after the time decides again.
    """

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def is_set_aside(self, provider: str) -> bool:
        """Whether it should be passed over now."""
        return self._seconds_left(provider) > 0

    def why_set_aside(self, provider: str) -> str:
        """For how long it still is, and because of what; for a person."""
        reason = self._records[provider].reason
        return f"{provider} is set aside for {self._seconds_left(provider):.0f} s: {reason}"

    def worked(self, provider: str) -> None:
        """A call succeeded: everything is forgotten."""
        self._records.pop(provider, None)

    def failed(self, provider: str, error: StreamError) -> float | None:
        """A call failed for good; gives for how many seconds the provider is set aside now, if so.

        What a request is itself to blame for (no such model, not a valid request, forbidden) says nothing
        about its provider.
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
        # One failure more after the time sets it aside again.
        record.failures = FAILURES_BEFORE_SET_ASIDE - 1
        record.aside_until = trio.current_time() + seconds
        record.reason = error.message
        return seconds

    def _seconds_left(self, provider: str) -> float:
        record = self._records.get(provider)
        return 0.0 if record is None else max(record.aside_until - trio.current_time(), 0.0)

"""The time that expiries are held against, from one process to the next."""

from __future__ import annotations

from collections.abc import Callable

import apsw

SEEN_AT_MS = """
select max(seen) from (
  select max(asked_at_ms) as seen from approvals where state in ('waiting', 'allowed')
  union all
  select max(at_ms) from events where id >= (
    select min(e.id) from approvals a join events e on e.session = a.session and e.seq = a.asked_seq
    where a.state in ('waiting', 'allowed')))
"""
"""The latest time on record since the first question that is open was asked; null without one."""


class LedgerClock:
    """The time that expiries are held against: it never goes back, whatever the wall clock does.

    It goes on with the wall clock, and by itself where that stands still or jumps back; from one
    process to the next too, as far as what is stored since a question was asked tells.
    """

    def __init__(self, connection: apsw.Connection, monotonic: Callable[[], float]) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._read_at = 0.0
        self._latest_ms: int | None = None

    def read(self, wall_ms: int) -> int:
        """The time, given what the wall clock says."""
        now = self._monotonic()
        if self._latest_ms is None:
            latest = int(self._connection.execute(SEEN_AT_MS).get or 0)
        else:
            latest = self._latest_ms + int((now - self._read_at) * 1000)
        self._read_at = now
        self._latest_ms = max(latest, wall_ms)
        return self._latest_ms

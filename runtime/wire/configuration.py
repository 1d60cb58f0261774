"""`config/…` on the wire."""

from __future__ import annotations

import msgspec


class ConfigState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration that holds.

    Attributes:
        revision: Counts the configurations that came to hold; 1 is the one of the start.
        since_ms: When this one did, in Unix milliseconds.
        waiting: Settings in the files that need a restart to hold.
        problem: Why what stands in the files does not hold, when it can't; the last good one does.
    """

    revision: int
    since_ms: int
    waiting: tuple[str, ...] = ()
    problem: str = ""


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What reading it again did: which settings changed and hold, and what there is by now."""

    changed: tuple[str, ...]
    state: ConfigState

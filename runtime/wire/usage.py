"""`usage/get` and `session/set_budget` on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..budget import Budget
from ..integers import WireInteger
from .sizes import Word


class GetUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What makes one sum, of one session or of all, since a time in Unix milliseconds."""

    by: Literal["call", "turn", "session", "agent", "model", "day"] = "session"
    session_id: Word | None = None
    since_ms: WireInteger = 0


class SetBudget(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole session may use from its next turn on; without a budget, no limit of its own."""

    session_id: Word
    budget: Budget | None = None

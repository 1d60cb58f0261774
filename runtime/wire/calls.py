"""`call/cancel` on the wire."""

from __future__ import annotations

import msgspec


class CancelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool runs, to be cancelled alone: its turn goes on."""

    session_id: str
    call_id: str

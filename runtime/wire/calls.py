"""`call/cancel` on the wire."""

from __future__ import annotations

import msgspec

from .sizes import Word


class CancelCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose tool runs, to be cancelled alone: its turn goes on."""

    session_id: Word
    call_id: Word

"""`policy/check` on the wire."""

from __future__ import annotations

import msgspec

from .sizes import LongText, Word


class CheckPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A call as a session would make it; `arguments` is the text of a JSON object. Nothing runs."""

    session_id: Word
    tool: Word
    arguments: LongText

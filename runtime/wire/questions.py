"""`question/list` on the wire."""

from __future__ import annotations

import msgspec

from ..channel import UserQuestion
from .sizes import Word


class ListQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of models in a session and its branches, or in all."""

    session_id: Word | None = None


class Questions(msgspec.Struct, frozen=True):
    """Questions that wait, the oldest first."""

    questions: list[UserQuestion]

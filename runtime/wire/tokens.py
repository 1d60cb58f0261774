"""`token/…` on the wire."""

from __future__ import annotations

import msgspec

from .roles import Role
from .sizes import Word, Words


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token to be made; `agents` and `sessions` limit what it sees."""

    name: Word
    role: Role
    agents: Words | None = None
    sessions: Words | None = None


class NamedToken(msgspec.Struct, frozen=True):
    """A token by its name."""

    name: Word


class TokenText(msgspec.Struct, frozen=True):
    """The token itself: it is told this once."""

    name: str
    token: str


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is listed."""

    name: str
    role: Role
    created_at_ms: int
    agents: tuple[str, ...] | None
    sessions: tuple[str, ...] | None


class Tokens(msgspec.Struct, frozen=True):
    """The tokens there are, the oldest first."""

    tokens: list[TokenRow]

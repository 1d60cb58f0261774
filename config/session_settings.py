"""What becomes of sessions that nobody uses any more."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

MAX_DAYS = 3650.0
"""Ten years; it keeps `inf` and `nan` out."""
MAX_STORE_MIB = 16 * 1024 * 1024
"""16 TiB: about the largest file that SQLite writes with its usual pages."""


class TitleSource(enum.StrEnum):
    """Where the title of a session comes from that nobody named."""

    MODEL = "model"
    """Its model, which is asked behind the first answer, beside all turns."""
    WORDS = "words"
    """The first words of its first input."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of sessions.

    Attributes:
        keep_deleted_days: How long a deleted session can be restored; then it is purged. 30: a month,
            as in the bins of mail programs.
        keep_idle_days: After how long without activity a session is deleted, with all below it; where
            something runs or waits, never. 0, the default: they stay.
        max_store_mib: How much the store may hold. Above it, deleted sessions are purged before their
            time, the oldest first; when that is not enough, no session begins. 0, the default: no
            bound but the disk's.
        titles: Where they come from. By default the model is asked in a daemon, where people have
            lists of them, if a provider serves it; a program that embeds callboard makes no model
            call that it did not ask for.
    """

    keep_deleted_days: Annotated[float, msgspec.Meta(gt=0, le=MAX_DAYS)] = 30.0
    keep_idle_days: Annotated[float, msgspec.Meta(ge=0, le=MAX_DAYS)] = 0.0
    max_store_mib: Annotated[int, msgspec.Meta(ge=0, le=MAX_STORE_MIB)] = 0
    titles: TitleSource | None = None

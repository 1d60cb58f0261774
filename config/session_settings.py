"""What becomes of sessions that nobody uses any more."""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_DAYS = 3650.0
"""Ten years; it keeps `inf` and `nan` out."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of sessions.

    Attributes:
        keep_deleted_days: How long a deleted session can be restored; then it is purged. 30: a month,
            as in the bins of mail programs.
    """

    keep_deleted_days: Annotated[float, msgspec.Meta(gt=0, le=MAX_DAYS)] = 30.0

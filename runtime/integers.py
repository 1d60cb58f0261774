"""How large whole numbers may be that come from outside: what decodes them refuses the rest."""

from __future__ import annotations

from typing import Annotated

import msgspec

StoredInteger = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A number of an event, which may get a column: what one of SQLite takes."""

MAX_EXACT = 2**53
"""Up to which every reader of JSON has whole numbers exactly."""

WireInteger = Annotated[int, msgspec.Meta(ge=-MAX_EXACT, le=MAX_EXACT)]
"""A number that a client sends."""

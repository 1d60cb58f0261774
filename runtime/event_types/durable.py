"""The base class of durable events."""

from __future__ import annotations

import msgspec


class Event(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False
):
    """The base of all durable events.

    Not tracked by the garbage collector (`gc=False`): frozen structs form no cycles, and a batch of
    calls makes hundreds of them.
    """

"""What every durable event is made from."""

from __future__ import annotations

import msgspec


class Event(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True, gc=False
):
    """The base of all durable events.

    Not tracked by the garbage collector (`gc=False`): what is frozen can't be part of a cycle, and a
    wave of calls makes hundreds of them.
    """

"""Lists that clients follow, on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..kernel.live_lists import ListName
from ..text import WireInteger


class KnownLists(msgspec.Struct, frozen=True):
    """The lists to wait for, each with the revision that is known; 0 is none."""

    known: Annotated[dict[ListName, WireInteger], msgspec.Meta(max_length=len(ListName))]


class ListRevisions(msgspec.Struct, frozen=True):
    """The revisions of the lists that were asked about."""

    revisions: dict[ListName, int]

"""The parameters, or the result, of a method that has none."""

from __future__ import annotations

import msgspec


class Nothing(msgspec.Struct, frozen=True):
    """Of a method without parameters, or without a result."""

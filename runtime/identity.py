"""Names and times of things."""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, lower case: safe in file names, URLs and providers' ids."""


def new_id(prefix: str) -> str:
    """A fresh id such as `turn_6f1k…`: 100 random bits, never guessable, never reused."""
    bits = int.from_bytes(os.urandom(13)) >> 4
    return f"{prefix}_" + "".join(_ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def now_ms() -> int:
    """The wall clock in Unix milliseconds: for records, never for deadlines."""
    return time.time_ns() // 1_000_000

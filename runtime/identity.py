"""Names and times of things."""

from __future__ import annotations

import os
import time

import msgspec

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, lower case: safe in file names, URLs and providers' ids."""


def new_id(prefix: str) -> str:
    """A fresh id such as `turn_6f1k…`: 100 random bits, never guessable, never reused."""
    bits = int.from_bytes(os.urandom(13)) >> 4
    return f"{prefix}_" + "".join(_ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def now_ms() -> int:
    """The wall clock in Unix milliseconds: for records, never for deadlines."""
    return time.time_ns() // 1_000_000


MAX_KEY_LENGTH = 128
"""Characters of a client's key: a UUID has 36."""


class RequestKey(msgspec.Struct, frozen=True, gc=False):
    """Names a request among all of one credential.

    Attributes:
        sender: The credential's name.
        method: What was asked.
        key: The client's word for this request, and for no other.
        digest: The SHA-256 of the parameters, in hex.
    """

    sender: str
    method: str
    key: str
    digest: str

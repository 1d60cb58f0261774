"""Ids, the wall clock, and idempotency keys."""

from __future__ import annotations

import os
import time
from functools import cache

import msgspec

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, lower case: safe in file names, URLs and providers' ids."""


_OF_BYTE = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))


def new_id(prefix: str) -> str:
    """Return a new id such as `turn_6f1k…`: 100 random bits, so never guessed and never repeated."""
    return f"{prefix}_{os.urandom(20).translate(_OF_BYTE).decode()}"


def now_ms() -> int:
    """Return the wall clock in Unix milliseconds: for records, never for deadlines."""
    return time.time_ns() // 1_000_000


@cache
def own_version() -> str:
    """Return callboard's version, read once: it takes as long as all else of a hello."""
    from importlib.metadata import version  # here: most programs never ask

    return version("callboard")


MAX_KEY_LENGTH = 128
"""The longest idempotency key of a client; a UUID has 36 characters."""


class RequestKey(msgspec.Struct, frozen=True, gc=False):
    """The idempotency key of a request; sender, method and key together identify it.

    Attributes:
        sender: The name of the credential.
        method: The method of the protocol.
        key: The key that the client chose for this request alone.
        digest: The SHA-256 of the parameters, in hex.
    """

    sender: str
    method: str
    key: str
    digest: str

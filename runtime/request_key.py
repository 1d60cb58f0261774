"""What makes a request that is sent twice be done once."""

from __future__ import annotations

import msgspec

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

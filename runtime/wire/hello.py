"""The first request of a connection, and its answer."""

from __future__ import annotations

import msgspec

from ..text import WireInteger
from .fields import Topics, Word


class Versions(msgspec.Struct, frozen=True):
    """The versions that a client speaks, both ends included."""

    min: WireInteger
    max: WireInteger


class ClientName(msgspec.Struct, frozen=True):
    """Who calls, for logs."""

    name: Word = ""
    version: Word = ""


class Hello(msgspec.Struct, frozen=True):
    """What a client says of itself.

    Attributes:
        subscribe: Topics that it hears from now on.
    """

    protocol: Versions
    client: ClientName = ClientName()
    subscribe: Topics = ()


class ServerName(msgspec.Struct, frozen=True):
    """Who answers."""

    name: str
    version: str


class WireLimits(msgspec.Struct, frozen=True):
    """What a client must know to be let stay."""

    max_frame_bytes: int
    max_outbox_bytes: int
    ping_seconds: float


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says of itself.

    Attributes:
        protocol: The version that is spoken.
        epoch: Changes when the store was replaced: every `seq` of another epoch is void.
        seq: The last one of all topics by now.
        role: What the client may do.
        methods: All that this role may call.
        events: The types of events that updates may bring; a client knows by it what it will not
            understand, or wait for in vain.
    """

    protocol: int
    server: ServerName
    epoch: str
    seq: int
    role: str
    limits: WireLimits
    features: tuple[str, ...]
    methods: tuple[str, ...]
    events: tuple[str, ...] = ()

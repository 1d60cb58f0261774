"""`initialize`: the first request of a connection, and its answer."""

from __future__ import annotations

import msgspec

from ..text import WireInteger
from .fields import Topics, Word


class Versions(msgspec.Struct, frozen=True):
    """The range of versions that a client speaks, both ends included."""

    min: WireInteger
    max: WireInteger


class ClientName(msgspec.Struct, frozen=True):
    """The name and version of a client, for logs."""

    name: Word = ""
    version: Word = ""


class Hello(msgspec.Struct, frozen=True):
    """The parameters of `initialize`.

    Attributes:
        subscribe: Topics to subscribe to at once.
    """

    protocol: Versions
    client: ClientName = ClientName()
    subscribe: Topics = ()


class ServerName(msgspec.Struct, frozen=True):
    """The name and version of the server."""

    name: str
    version: str


class WireLimits(msgspec.Struct, frozen=True):
    """The limits that a client must keep to stay connected."""

    max_frame_bytes: int
    max_outbox_bytes: int
    ping_seconds: float


class WireNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node of the cluster: its name, its address as `http://…`, and whether it is the one that answers."""

    node_id: str
    url: str
    is_this: bool = False


class Welcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of `initialize`.

    Attributes:
        protocol: The version in use.
        epoch: Changes when the store is replaced; a `seq` of another epoch is void.
        seq: The last one of all topics now.
        role: What the client may do.
        methods: The methods that this role may call.
        events: The types of events that this server can send, so that a client knows which of them it
            does not understand, and which it would wait for in vain.
        nodes: The nodes of the cluster that take sessions, for a token without limits; none where a daemon is alone.
        proof: For a node of the cluster: that another one answers it. Empty for clients.
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
    nodes: tuple[WireNode, ...] = ()
    proof: str = ""

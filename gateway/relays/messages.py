"""What a node asks another one for its clients, over the connection of the two: `relay/request`, `relay/cancel`,
`relay/left` and `relay/claim`, by which a node that lacks the root of a session has one claim it that has the root.

Clients never send this. Answers and errors come back as a client gets them; events of sessions are followed by
`session/subscribe`, as by a client.
"""

from __future__ import annotations

import msgspec

from ...runtime.wire.fields import Role, Word


class Principal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As whom a node asks: the client's token, which the other node knows itself.

    Attributes:
        digest: Of the token; empty for the user whose daemon the node is.
        role: What the client may do, which is no more than the token allows.
        is_page: Whether a page of the web console asks.
        via: The protocol, where that is not callboard's own.
    """

    role: Role
    digest: Word = ""
    is_page: bool = False
    via: Word = ""


class RelayedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a client about a session of the node that gets this.

    Attributes:
        number: By which it is called off.
        principal: Who asks.
        method: A method about a session.
        params: As the client has sent them.
        client: The connection of the client, where what it asks for ends with that; else 0.
    """

    number: int
    principal: Principal
    method: Word
    params: msgspec.Raw
    client: int = 0


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A session whose owner is gone, which the node that gets this may own, and the one that asks may not.

    Attributes:
        number: By which it is called off.
        session_id: The session.
    """

    number: int
    session_id: Word


class ClientEnded(msgspec.Struct, frozen=True):
    """The connection of a client has ended: so does what it asked for until then."""

    client: int


class CallOff(msgspec.Struct, frozen=True):
    """The client of a relayed request is gone: nobody waits for its answer."""

    number: int

"""Tickets: how a node proves to another which one it is, with the key of its present life.

Each node makes a key when it joins, and puts it into the database, which nodes alone can read. It never sends it: a
*ticket* names the node, the one that it is for, both terms and a number, and is signed with the key (HMAC-SHA256).
So a ticket is of no use at a third node, in a later life of either, or a second time: its number must be higher than
those that were accepted before. No clock is asked. Whoever accepts one answers with a *proof* over the same key, so
that nobody who has only taken over its address is told what clients ask.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

import msgspec

from ..redaction import Secret
from .nodes import Term

MAX_TICKET_CHARS = 512
"""Two names of nodes, three numbers and a signature, with room to spare; a longer one is not looked at."""
_SIGNED = hashlib.sha256().digest_size


class _Ticket(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    sender: str
    sender_term: int
    receiver: str
    receiver_term: int
    number: int


_DECODER = msgspec.json.Decoder(_Ticket)


class Tickets:
    """The tickets that one node makes, and those that it accepts."""

    def __init__(self) -> None:
        self._made = 0
        self._accepted: dict[str, tuple[int, int]] = {}  # one entry for each node of the cluster

    def new(self, own: Term, receiver: Term, key: Secret) -> Secret:
        """Return a ticket with which a node shows itself to another, once."""
        self._made += 1
        body = msgspec.json.encode(_Ticket(*own, *receiver, self._made))
        return Secret(base64.urlsafe_b64encode(_signature(key, body) + body).decode())

    def sender(self, ticket: str) -> Term | None:
        """Return which node says that it made a ticket, which is not checked yet; `None` for what is none."""
        found = _read(ticket)
        return None if found is None else Term(found[0].sender, found[0].sender_term)

    def accept(self, ticket: str, own: Term, key: Secret) -> str | None:
        """Take a ticket; return the proof for who shows it, `None` if it is refused.

        Args:
            ticket: As it came.
            own: The life of the node to which it was shown.
            key: That of the sender's life.
        """
        if (found := _read(ticket)) is None:
            return None
        claims, body, signature = found
        if not hmac.compare_digest(signature, _signature(key, body)):
            return None
        number = claims.sender_term, claims.number
        if Term(claims.receiver, claims.receiver_term) != own:
            return None
        if number <= self._accepted.get(claims.sender, (0, 0)):
            return None
        self._accepted[claims.sender] = number
        return _proof(ticket, key)

    def is_proof(self, ticket: Secret, proof: str, key: Secret) -> bool:
        """Whether this is the proof of a node that accepted a ticket of ours."""
        return hmac.compare_digest(proof.encode(), _proof(ticket.reveal(), key).encode())


def _read(ticket: str) -> tuple[_Ticket, bytes, bytes] | None:
    """Return what a ticket says, the bytes of that and their signature; `None` for what is no ticket."""
    if len(ticket) > MAX_TICKET_CHARS or not ticket.isascii():
        return None
    try:
        data = base64.b64decode(ticket.encode(), b"-_", validate=True)
        body = data[_SIGNED:]
        return _DECODER.decode(body), body, data[:_SIGNED]
    except (binascii.Error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _signature(key: Secret, body: bytes) -> bytes:
    return hmac.digest(key.reveal().encode(), body, hashlib.sha256)


def _proof(ticket: str, key: Secret) -> str:
    return _signature(key, b"accepted " + ticket.encode()).hex()

"""Rules of the door that need only the request's head: Host, Origin, and a correct handshake.

A stranger's page can make a browser send requests to this machine (DNS rebinding, cross-site
websockets), but it cannot choose the Host and Origin that the browser sends. So both must be exactly
ours, and no cookie lets anybody in by itself.
"""

from __future__ import annotations

import base64
import binascii
import re

import msgspec

from .http import BadHead, RequestHead

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class DoorRules(msgspec.Struct, frozen=True, kw_only=True):
    """The accepted names and origins, in lower case.

    Attributes:
        hosts: Names with their ports, as in a Host header.
        origins: Origins of pages, as in an Origin header.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    def check(self, head: RequestHead, *, is_linked: bool = False) -> None:
        """Raise `BadHead` unless Host and Origin are accepted; a page of another site may lead to what is linked."""
        host = head.one("host")
        if host is None or not _HOST.fullmatch(host):
            raise BadHead(400, "no Host header, or none that names a host")
        if host.lower() not in self.hosts:
            raise BadHead(
                421, f"this server is not {host}; allowed_hosts in [server] lists its names"
            )
        if not head.target.startswith("/"):
            raise BadHead(400, "the target of a request begins with a slash here")
        origin = head.one("origin")
        if origin is not None and origin not in self.origins:
            raise BadHead(
                403, "pages of this origin may not connect; see allowed_origins in [server]"
            )
        is_followed = is_linked and head.one("sec-fetch-mode") == "navigate"
        if head.one("sec-fetch-site") == "cross-site" and not is_followed:
            raise BadHead(403, "pages of other sites may not connect")


def door_rules(
    address: str, port: int, names: tuple[str, ...] = (), origins: tuple[str, ...] = ()
) -> DoorRules:
    """Return the rules of a server that listens there; names without a port get the server's."""
    shown = f"[{address}]" if ":" in address else address
    own = [shown, *LOCAL_NAMES] if shown in {*LOCAL_NAMES, "0.0.0.0", "[::]"} else [shown]
    hosts = {f"{name}:{port}" for name in own}
    if port == 80:
        hosts |= set(own)
    for name in names:
        hosts.add((name if _has_port(name) else f"{name}:{port}").lower())
        if not _has_port(name):
            hosts.add(name.lower())  # behind a proxy that keeps the name and has the default port
    pages = {f"http://{host}" for host in hosts} | set(origins)
    return DoorRules(hosts=frozenset(hosts), origins=frozenset(pages))


def _has_port(name: str) -> bool:
    return ":" in name.rpartition("]")[2]


PROTOCOL_NAME = "callboard"
"""The subprotocol of the answer: never the one with the token."""
KEY_BYTES = 16


def check_handshake(head: RequestHead) -> None:
    """Raise `BadHead` unless the head is a websocket's handshake (RFC 6455, 4.2.1) without a query."""
    if "?" in head.target:
        raise BadHead(400, "nothing is said in the query: tokens are seen there")
    connection = {
        word.strip().lower() for value in head.all("connection") for word in value.split(",")
    }
    if head.method != "GET" or "upgrade" not in connection:
        raise BadHead(400, "a websocket begins with GET, and with Connection: Upgrade")
    if head.one("sec-websocket-version") != "13":
        raise BadHead(426, "the websocket's version is 13")
    if not _is_key(head.one("sec-websocket-key") or ""):
        raise BadHead(400, "no Sec-WebSocket-Key, or none of 16 bytes in base64")


def agreed_subprotocol(head: RequestHead) -> str | None:
    """Return the answer's subprotocol, `None` if none was offered; raise `BadHead` for others."""
    if PROTOCOL_NAME in head.subprotocols:
        return PROTOCOL_NAME
    if head.subprotocols:
        raise BadHead(
            400, f"name {PROTOCOL_NAME!r} among the subprotocols: it is the one spoken here"
        )
    return None


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False

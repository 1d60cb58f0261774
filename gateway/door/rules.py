"""Who may come in, by the head of a request alone: rules against pages that use a browser's reach.

A page of a stranger can make a browser send requests to this machine. It can't choose the Host and
the Origin that the browser sends; so both must be exactly ours, and nobody is let in by a cookie.
"""

from __future__ import annotations

import re

import msgspec

from .request_head import BadHead, RequestHead

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class DoorRules(msgspec.Struct, frozen=True, kw_only=True):
    """The names and origins that are let in, in lower case.

    Attributes:
        hosts: With their ports, as in a Host header.
        origins: Of pages.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    def check(self, head: RequestHead) -> None:
        """Raises `BadHead` for whom nobody invited."""
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
        if head.one("sec-fetch-site") == "cross-site":
            raise BadHead(403, "pages of other sites may not connect")


def door_rules(
    address: str, port: int, names: tuple[str, ...] = (), origins: tuple[str, ...] = ()
) -> DoorRules:
    """The rules of a server that listens there; names without a port mean its own."""
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

"""Where tools may connect: to public addresses, and to those that the operator listed.

The guard makes the TCP connections of an HTTP client (`open_http_client(connect=guard.connect)`). It
resolves a name once, checks every address of the result, and connects to a checked address. It does
not look at URLs. So no spelling of a host (`127.1`, `0x7f000001`, a name that resolves to 127.0.0.1)
gets around it. Neither does DNS rebinding, where a name server gives a public address to the check
and a private one to the connection: there is no second lookup.

The tables are our own: `ipaddress.is_global` is wrong for several of these ranges in Python 3.11.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

import trio

from ..errors import PermissionRefused
from ..text import normalize_host, parse_host

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Endpoint = tuple[str, int]
"""A host as `normalize_host` returns it, and a port; `.example.org` is every name below it."""

HERE = "localhost"
"""RFC 6761: this name means this machine. An answer of a name server with another address is refused."""

DEFAULT_PORTS = {"http": 80, "https": 443}

OPEN_PORTS = frozenset(DEFAULT_PORTS.values())
"""The ports of http and https; other services on a public host are rarely meant for everybody."""

Check = Callable[[str, int], Awaitable[None]]
"""Raises `AddressRefused` for a host and port that may not be requested."""

MAX_ADDRESSES = 6
"""Addresses of a name to try: more would let a name server make us open many connections."""

HEAD_START_SECONDS = 0.25
"""The lead of one address over the next: RFC 8305's recommendation ("Happy Eyeballs")."""

# IANA's special-purpose registries, and addresses inside of clouds.
_CLOSED_V4 = (
    "0.0.0.0/8",  # this network; Linux connects 0.0.0.0 to itself
    "10.0.0.0/8",
    "100.64.0.0/10",  # carrier-grade NAT; also a cloud's metadata (100.100.100.200)
    "127.0.0.0/8",
    "168.63.129.16/32",  # public by its number: Azure's host, seen from every virtual machine
    "169.254.0.0/16",  # link-local, and the metadata of most clouds
    "172.16.0.0/12",
    "192.0.0.0/24",  # protocol assignments; also a cloud's metadata (192.0.0.192)
    "192.0.2.0/24",
    "192.88.99.0/24",  # 6to4 relays
    "192.168.0.0/16",
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
_CLOSED_V6 = (
    "::/96",  # loopback, unspecified, IPv4-compatible
    "64:ff9b::/96",  # NAT64: any IPv4 address behind it
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",  # Teredo, ORCHID, benchmarks
    "2001:db8::/32",
    "2002::/16",  # 6to4: any IPv4 address behind it
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    # RFC 4291 2.4: all that is global unicast today is 2000::/3. This is the rest.
    "::/3",
    "4000::/2",
    "8000::/1",
)
_CLOSED: dict[int, tuple[Network, ...]] = {
    4: tuple(map(ipaddress.IPv4Network, _CLOSED_V4)),
    6: tuple(map(ipaddress.IPv6Network, _CLOSED_V6)),
}


class AddressRefused(PermissionRefused):
    """The guard refused a connection. The message never reveals what is at the address."""


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet; an IPv4-mapped one counts as IPv4."""
    own = _unmapped(address)
    return not any(own in network for network in _CLOSED[own.version])


def parse_endpoint(text: str) -> Endpoint:
    """Parse an entry like `127.0.0.1:8080`, `.corp.example:443` or `[::1]:8080`.

    Upper case, a dot at the end and letters beyond ASCII are read as in URLs.

    Raises:
        ValueError: The text is not an endpoint.
    """
    try:
        host, port = parse_host(text)
        if port is None:
            raise ValueError(text)
        return host, port
    except ValueError:
        raise ValueError(
            f"{text!r} is not HOST:PORT, like 127.0.0.1:8080, searx.local:443 or [::1]:8080, nor "
            ".NAME:PORT, like .corp.example:443 for every name below corp.example"
        ) from None


class AddressGuard:
    """Decides about connections and makes them.

    Args:
        allow: Hosts and ports that may be connected, whatever their addresses. `.example.org`
            allows every name below it, at any depth, but not the name itself.
        refuse: Where this process itself listens: refused by name and by address, even if
            `allow` has it.
        ports: The ports of public addresses that may be connected.
    """

    def __init__(
        self,
        allow: Iterable[Endpoint] = (),
        refuse: Iterable[Endpoint] = (),
        *,
        ports: Collection[int] = OPEN_PORTS,
    ) -> None:
        self._ports = ports
        self._allow = frozenset((normalize_host(host), port) for host, port in allow)
        self._refuse = frozenset((normalize_host(host), port) for host, port in refuse)

    def allow_only(self, allow: Iterable[Endpoint]) -> None:
        """Replace the allowed endpoints; open connections stay."""
        self._allow = frozenset((normalize_host(host), port) for host, port in allow)

    def refuse_also(self, endpoints: Iterable[Endpoint]) -> None:
        """Add endpoints to refuse, allowed or not, as when this process begins to listen on them."""
        self._refuse |= {(normalize_host(host), port) for host, port in endpoints}

    async def connect(self, host: str, port: int) -> trio.SocketStream:
        """Connect to a checked address of the host.

        Raises:
            AddressRefused: The port or any address of the host is not allowed; nothing was
                connected.
            OSError: The name has no address, or no address accepted the connection.
        """
        return await _connect_first((await self._resolve(host, port))[:MAX_ADDRESSES])

    async def check(self, host: str, port: int) -> None:
        """Judge a host that somebody else will connect: a program's own httpx client.

        This is weaker than `connect`, which connects to the very address that it judged. Here the name
        is resolved twice, and a name that this machine can't resolve is left to that client: behind a
        proxy, names mean what the proxy says.

        Raises:
            AddressRefused: The port, or an address that the host has here, is not allowed.
        """
        with suppress(OSError):
            await self._resolve(host, port)

    async def _resolve(self, host: str, port: int) -> list[Any]:
        """Return the addresses of a host, all of which may be connected; see `connect`."""
        endpoint = normalize_host(host), port
        is_listed = self._is_listed(*endpoint)
        if endpoint in self._refuse or not (is_listed or port in self._ports):
            raise _refused(host, port)
        # As bytes: Python's own codec would encode a str to another name than ours.
        found = await trio.socket.getaddrinfo(
            endpoint[0].encode("ascii"), port, type=socket.SOCK_STREAM
        )
        for _, _, _, _, address in found:
            is_lie = endpoint[0] == HERE and not _unmapped(str(address[0])).is_loopback
            if is_lie or not self._may_reach(str(address[0]), port, is_listed=is_listed):
                raise _refused(host, port)
        return list(found)

    def _is_listed(self, host: str, port: int) -> bool:
        labels = host.split(".")
        if not labels[0]:
            return False  # a dot in front means "below" in the list; no host begins with one
        below = ("." + ".".join(labels[n:]) for n in range(1, len(labels)))
        return any((name, port) in self._allow for name in (host, *below))

    def _may_reach(self, address: str, port: int, *, is_listed: bool) -> bool:
        is_ours = (str(_unmapped(address)), port) in self._refuse
        return not is_ours and (is_listed or is_public(address))


def _unmapped(address: str) -> Address:
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return parsed if mapped is None else mapped


def _refused(host: str, port: int) -> AddressRefused:
    return AddressRefused(f"Connections to {host}:{port} are not allowed.")


async def _connect_first(targets: Collection[Any]) -> trio.SocketStream:
    """Return the first connection that succeeds; each address has a head start over the next."""
    connected: list[trio.SocketStream] = []
    faults: list[OSError] = []

    async def attempt(target: Any, failed: trio.Event) -> None:
        try:
            stream = await _connect(target)
        except OSError as fault:
            faults.append(fault)
            failed.set()
        else:
            connected.append(stream)
            nursery.cancel_scope.cancel(reason="another address has answered")

    try:
        async with trio.open_nursery() as nursery:
            for target in targets:
                failed = trio.Event()
                nursery.start_soon(attempt, target, failed, name=f"connect to {target[4][0]}")
                with trio.move_on_after(HEAD_START_SECONDS):
                    await failed.wait()
    except BaseException:
        _close(connected)
        raise
    _close(connected[1:])
    if connected:
        return connected[0]
    raise OSError("no address accepted the connection") from ExceptionGroup("attempts", faults)


async def _connect(target: Any) -> trio.SocketStream:
    family, kind, protocol, _, address = target
    own = trio.socket.socket(family, kind, protocol)
    try:
        await own.connect(address)
    except BaseException:
        own.close()
        raise
    return trio.SocketStream(own)


def _close(streams: Iterable[trio.SocketStream]) -> None:
    for stream in streams:
        stream.socket.close()

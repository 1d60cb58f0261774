"""The hosts that web_fetch and http_request may read from without a question: `[network] auto`. Pure.

An entry is written like one of `[network] allow`, but without a port it stands for the ports of http and
https. It answers what a preset would ask about a call that only reads; it lets nobody connect anywhere
that the address guard refuses, and outweighs no rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...runtime.definitions import Capability, ToolDefinition
from ...runtime.http.address_guard import OPEN_PORTS
from ...runtime.http.url import HttpUrl
from ...runtime.text import parse_host
from .match import CallArguments

WEB_TOOLS = frozenset({"web_fetch", "http_request"})
"""The tools whose hosts a person is asked about once a session, where no list has them."""
WWW = "www."
LIST = "[network] auto"
"""The list, as people are told of it."""


class AutoHosts:
    """A list of hosts. Raises `ValueError` when an entry is wrong."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        parsed = map(parse_host, entries)
        self._places = frozenset(
            (host, port)
            for host, given in parsed
            for port in (OPEN_PORTS if given is None else (given,))
        )

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def canonical(self) -> list[tuple[str, int]]:
        """What verdicts follow from, whatever the order and the spelling."""
        return sorted(self._places)

    def covers(self, url: HttpUrl) -> bool:
        """Whether the list has the URL's host, or a name that it lies below, on the URL's port."""
        labels = url.host.split(".")
        below = ("." + ".".join(labels[n:]) for n in range(1, len(labels)))
        return any((name, url.port) in self._places for name in (url.host, *below))


def is_reading_web(definition: ToolDefinition | None) -> bool:
    """Whether the list is about calls of this tool."""
    return (
        definition is not None
        and definition.name in WEB_TOOLS
        and Capability.NETWORK in definition.needs
    )


def listed_hosts(auto: AutoHosts, arguments: CallArguments) -> str | None:
    """Return the host of a call whose URL is listed, or `None`."""
    urls = arguments.urls("url") if auto and "url" in arguments.given else None
    if urls is None or not all(map(auto.covers, urls)):
        return None
    return ", ".join(dict.fromkeys(url.host for url in urls))


def with_www(hosts: Iterable[str]) -> frozenset[str]:
    """Return the hosts, each with and without `www.`: whoever has the one name decides about the other."""
    known = frozenset(hosts)
    return known | {WWW + host for host in known} | {host.removeprefix(WWW) for host in known}

"""Whether a call reaches a host that is new to its session. Pure.

A URL is a way out: what a session has read can leave in the path of a harmless GET. A host is known once a
call of the session has connected there. For an exposed session it is known once it was allowed while
exposed, since whoever wrote its instructions may own a host that it has been to before. Doubt counts
against the call: a network tool whose arguments name no URL may connect anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ...runtime.definitions import Capability, ToolDefinition
from ...runtime.http.address_guard import OPEN_PORTS
from ...runtime.http.url import HttpUrl
from ...runtime.text import parse_host
from .match import CallArguments, CompiledRule

URL_ARGUMENTS = ("url", "urls")
"""Arguments that say where a network tool connects."""

MAX_NAMED = 3
"""Hosts that a reason names; a person sees all of them in the arguments."""


def new_host(
    definition: ToolDefinition,
    arguments: CallArguments,
    known: AbstractSet[str],
    place: str | None = None,
) -> str | None:
    """Say in words what is new about where the call connects; `None` when nothing is.

    `place` is the host where its tool connects when no argument says where.
    """
    if Capability.NETWORK not in definition.needs:
        return None
    hosts = named_hosts(definition, arguments)
    if hosts is None and place is not None and not url_arguments(definition, arguments):
        hosts = (place,)
    if hosts is None:
        return f"where {definition.name} connects can't be told"
    new = [host for host in dict.fromkeys(hosts) if host not in known]
    if not new:
        return None
    more = f" and {len(new) - MAX_NAMED} more" if len(new) > MAX_NAMED else ""
    names = ", ".join(new[:MAX_NAMED]) + more
    return f"{names} {'is' if len(new) == 1 else 'are'} new to it"


def named_hosts(definition: ToolDefinition, arguments: CallArguments) -> tuple[str, ...] | None:
    """Return the hosts of the URLs in the arguments; `None` without any, or when one is unclear."""
    found: list[str] = []
    for name in url_arguments(definition, arguments):
        hosts = arguments.hosts(name)
        if hosts is None:
            return None
        found += hosts
    return tuple(found) or None


def says_where(arguments: CallArguments) -> bool:
    """Whether the arguments of a network tool name every host that it was asked for."""
    places = [name for name in URL_ARGUMENTS if name in arguments.given]
    return bool(places) and all(map(arguments.hosts, places))


def names_place(rule: CompiledRule, definition: ToolDefinition, arguments: CallArguments) -> bool:
    """Whether a rule that allows a call is about where it connects, and not only about its tool.

    Where no argument says it, the tool decides: a rule that names the tool is enough.
    """
    places = url_arguments(definition, arguments)
    if not places:
        return definition.name in rule.tools
    return all(is_about(rule, (name,)) for name in places)


def is_about(rule: CompiledRule, names: Iterable[str]) -> bool:
    """Whether a rule looks at one of these arguments, as a host or as a value."""
    conditions = rule.rule.arguments
    return any(name in conditions for name in names)


def url_arguments(definition: ToolDefinition, arguments: CallArguments) -> tuple[str, ...]:
    """Return the call's arguments that hold URLs."""
    if Capability.NETWORK not in definition.needs:
        return ()
    return tuple(name for name in URL_ARGUMENTS if name in arguments.given)


# ── hosts that nobody is asked about ─────────────────────────────────────────────────────────────

WEB_TOOLS = frozenset({"web_fetch", "http_request"})
"""The tools whose hosts a person is asked about once a session, where no list has them."""
WWW = "www."
LIST = "[network] auto"
"""The list, as people are told of it."""


class AutoHosts:
    """The hosts that web_fetch and http_request may read from without a question: `[network] auto`.

    An entry is written like one of `[network] allow`, but without a port it stands for the ports of http
    and https. The list answers what a preset would ask about a call that only reads; it lets nobody connect
    anywhere that the address guard refuses, and outweighs no rule. Raises `ValueError` when an entry is
    wrong.
    """

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

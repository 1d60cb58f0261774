"""A network handle that records where a call connects, and asks before it goes to an undecided host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
import trio

from ..definitions import ErrorType, ToolFailure
from ..handles import Network, WebAnswer, WebRequest
from ..http.address_guard import AddressRefused
from ..http.url import HttpUrl, NotSent, not_allowed, parse_url

MayVisit = Callable[[WebRequest], Awaitable[str | None]]
"""Why a request must not be sent, or `None` when it may."""

Connect = Callable[[str, int], Awaitable[trio.SocketStream]]
"""Connects to a checked address of a host; raises `AddressRefused` or `OSError`."""


class TrackedNetwork:
    """A `Network` handle that records the hosts of one call and asks about undecided ones.

    Args:
        network: Sends the requests.
        connect: Makes the connections of programs; without it they get none.
        told: Returns the headers that tell a host where the call stands in a trace.

    Attributes:
        is_let_out: Whether a person allowed this call, whose arguments name no host.
        may_have_heard: Whether untrusted content may have come in: a request was sent, even if only
            a redirect or an error came back.
        hosts: The hosts that the call has connected to, in order.
    """

    def __init__(
        self,
        network: Network,
        connect: Connect | None = None,
        told: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        self.is_let_out = False
        self.may_have_heard = False
        self._network = network
        self._connect = connect
        self._told = told
        self._hosts: dict[str, None] = {}
        self._decided: frozenset[str] = frozenset()
        self._may_visit: MayVisit | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the call has connected to, in order."""
        return tuple(self._hosts)

    def limit(self, decided: Iterable[str], may_visit: MayVisit) -> None:
        """Ask `may_visit` from now on about redirects and about hosts that are not in `decided`."""
        self._decided = frozenset(decided)
        self._may_visit = may_visit

    async def request(self, request: WebRequest, *, max_bytes: int) -> WebAnswer:
        """See `Network`; raises `url_not_allowed` for a host that the call may not reach."""
        host = parse_url(request.url).host
        if host not in self._decided:
            await self._check(parse_url(request.url), request)

        async def follow(from_url: HttpUrl, to: HttpUrl, redirected: WebRequest) -> None:
            self._hosts[from_url.host] = None
            self.may_have_heard = True
            await self._check(to, redirected)

        watched = msgspec.structs.replace(request, on_redirect=follow)
        if self._told is not None and (told := self._told(host)):
            watched = msgspec.structs.replace(watched, headers={**told, **request.headers})
        try:
            answer = await self._network.request(watched, max_bytes=max_bytes)
        except NotSent:
            raise  # `follow` has noted the redirects before it
        except BaseException:
            self.may_have_heard = True
            raise
        self.may_have_heard = True
        self._hosts[parse_url(answer.url).host] = None
        return answer

    def note(self, host: str) -> None:
        """Record that the call connects to a host over what is not its own: the connection of a server."""
        self._hosts[host] = None
        self.may_have_heard = True

    async def connect(self, url: HttpUrl) -> trio.SocketStream:
        """Connect for a program of the call.

        Raises:
            ToolFailure: `url_not_allowed` for a host that the call may not reach.
            OSError: There is no connection.
        """
        if url.host not in self._decided:
            await self._check(url, WebRequest(method="GET", url=url.text, headers={}))
        try:
            if self._connect is None:
                raise AddressRefused("there is no way out")
            stream = await self._connect(url.host, url.port)
        except AddressRefused:
            raise not_allowed(url.authority) from None
        self._hosts[url.host] = None
        self.may_have_heard = True
        return stream

    async def _check(self, url: HttpUrl, request: WebRequest) -> None:
        if self._may_visit is None:
            return
        if (problem := await self._may_visit(request)) is not None:
            raise ToolFailure(
                ErrorType.URL_NOT_ALLOWED,
                f"Not sent to {url.shown}: {problem}. If it is wanted, ask for that URL itself, so "
                "that the request can be decided about.",
                reason=problem,
            )

"""One call's way out: what it notes, and what it refuses."""

from __future__ import annotations

import pytest

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.handles import WebAnswer, WebRequest
from callboard.runtime.http.url import parse_url
from callboard.runtime.taint.tracked_network import TrackedNetwork

URLS = ("https://a.test/", "https://a.test/b", "https://b.test/", "https://c.test/")


class Chain:
    """A network in which each URL leads to the next, up to the last."""

    def __init__(self, *urls: str, fails: bool = False) -> None:
        self.urls = urls
        self.fails = fails
        self.sent: list[str] = []

    async def request(self, request: WebRequest, *, max_bytes: int) -> WebAnswer:
        url = request.url
        self.sent.append(url)
        for target in self.urls:
            assert request.on_redirect is not None
            hop = WebRequest(method="GET", url=target, headers={})
            await request.on_redirect(parse_url(url), parse_url(target), hop)
            url = target
            self.sent.append(url)
        if self.fails:
            raise ToolFailure(ErrorType.NETWORK_ERROR, "gone")
        return WebAnswer(
            url=url, method="GET", status=200, reason="OK", headers={}, body=b"", size_bytes=0
        )


async def fetch(network: TrackedNetwork, url: str = URLS[0]) -> WebAnswer:
    return await network.request(WebRequest(method="GET", url=url, headers={}), max_bytes=10)


class Judge:
    """Refuses some hosts, and keeps what it was asked."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []

    async def __call__(self, request: WebRequest) -> str | None:
        host = parse_url(request.url).host
        self.asked.append(host)
        return f"{host} is new" if host in self.refused else None


async def test_it_notes_each_host_once_in_order() -> None:
    network = TrackedNetwork(Chain(*URLS[1:]))
    await fetch(network)
    await fetch(network, URLS[3])
    assert network.hosts == ("a.test", "b.test", "c.test")


async def test_where_it_did_not_connect_it_was_not() -> None:
    network = TrackedNetwork(Chain(fails=True))
    with pytest.raises(ToolFailure):
        await fetch(network)
    assert network.hosts == ()
    led_on = TrackedNetwork(Chain(URLS[2], fails=True))
    with pytest.raises(ToolFailure):
        await fetch(led_on)
    assert led_on.hosts == ("a.test",)


async def test_every_redirect_is_judged_and_the_first_request_only_elsewhere() -> None:
    chain, judge = Chain(*URLS[1:]), Judge()
    network = TrackedNetwork(chain)
    network.limit(["a.test"], judge)
    await fetch(network)
    assert judge.asked == [parse_url(url).host for url in URLS[1:]]
    assert chain.sent == list(URLS)


async def test_a_refused_hop_is_not_followed_and_the_reason_is_told() -> None:
    chain, judge = Chain(*URLS[1:]), Judge("c.test")
    network = TrackedNetwork(chain)
    network.limit(["a.test"], judge)
    with pytest.raises(ToolFailure) as caught:
        await fetch(network)
    assert caught.value.error_type is ErrorType.URL_NOT_ALLOWED
    assert "Not sent to https://c.test/: c.test is new." in str(caught.value)
    assert caught.value.details == {"reason": "c.test is new"}
    assert (chain.sent, network.hosts) == (list(URLS[:3]), ("a.test", "b.test"))


async def test_a_first_request_elsewhere_is_judged_too() -> None:
    chain, judge = Chain(), Judge("b.test")
    network = TrackedNetwork(chain)
    network.limit(["a.test"], judge)
    await fetch(network)
    with pytest.raises(ToolFailure):
        await fetch(network, URLS[2])
    assert (chain.sent, network.hosts) == ([URLS[0]], ("a.test",))

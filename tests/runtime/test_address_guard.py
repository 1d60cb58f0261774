"""Which addresses are public, and that nothing is connected but what was checked."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.http.address_guard import (
    HEAD_START_SECONDS,
    MAX_ADDRESSES,
    AddressGuard,
    AddressRefused,
    is_public,
    parse_endpoint,
)
from callboard.runtime.http.url import parse_url
from callboard.runtime.text import normalize_host

CLOSED = """
0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255
127.0.0.1 127.255.255.255 168.63.129.16 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.192
192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::8.8.8.8 64:ff9b:1::1 100::1 2001::1 2001:20::1
2001:db8::1 2002:7f00:1:: 2002:808:808::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1
fe80::1%eth0 fec0::1 ff02::1 4000::1 8000::1 200::1
"""
PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255
128.0.0.1 168.63.129.15 169.253.255.255 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.1
192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
::ffff:8.8.8.8 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700::1111 2a00:1450:4001::1
3ffe:ffff::1
"""


@pytest.mark.parametrize("address", CLOSED.split())
def test_an_address_of_a_special_range_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_the_neighbours_of_those_ranges_are_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_when_it_is_mapped(address: ipaddress.IPv4Address) -> None:
    assert is_public(str(address)) == is_public(f"::ffff:{address}")


@given(st.ip_addresses())
def test_what_python_knows_to_be_private_is_not_public(address: Any) -> None:
    if address.is_private and getattr(address, "ipv4_mapped", None) is None:
        assert not is_public(str(address))


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("searx.local:443", ("searx.local", 443)),
        ("SEARX.Local.:443", ("searx.local", 443)),
        ("[::1]:1", ("::1", 1)),
        ("[0:0::1]:65535", ("::1", 65535)),
        (".Corp.Example.:443", (".corp.example", 443)),
        (".local:80", (".local", 80)),
        ("Bücher.Example:80", ("xn--bcher-kva.example", 80)),
        (".bücher.example:80", (".xn--bcher-kva.example", 80)),
        ("XN--BCHER-KVA.example:80", ("xn--bcher-kva.example", 80)),
        ("a。example:80", ("a.example", 80)),
    ],
)
def test_an_endpoint_has_one_spelling(text: str, endpoint: tuple[str, int]) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":80",
        "host:0",
        "host:65536",
        "::1:80",
        "http://a:80",
        "a:80/x",
        "a b:80",
        "*.example.com:80",
        "..example.com:80",
        "a..example.com:80",
        ".:80",
        # These would be parts of addresses.
        ".0.0.1:80",
        ".1:80",
        ".0x1:80",
        ".[::1]:80",
        "[1:2]:80",
        "[fe80::1%eth0]:80",
        "[::1:80",
        "a]:80",
        "\uff45xample.com:80",
        f"{'a' * 64}.test:80",
        "10.0.0.0/8:80",
        "a:80\n",
    ],
)
def test_what_is_no_endpoint_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT, like 127\.0\.0\.1:8080.* \.NAME:PORT"):
        parse_endpoint(text)


@pytest.mark.parametrize("host", ["Bücher.Example.", "BÜCHER.example", "a。Example"])
def test_an_entry_is_spelled_as_a_url_is(host: str) -> None:
    assert parse_endpoint(f"{host}:80") == (parse_url(f"http://{host}/").host, 80)


def test_a_host_has_one_spelling() -> None:
    assert normalize_host("LOCALHOST.") == "localhost"
    assert normalize_host("[0:0:0:0:0:0:0:1]") == "::1"
    for same in (
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.1",
        "::ffff:127.0.0.1",
        "[::ffff:7f00:1]",
    ):
        assert normalize_host(same) == "127.0.0.1"
    for other in ("127.1.example", "1.2.3.4.5", "0x", "256.1.1.1", "4294967296"):
        assert normalize_host(other) == other


# ── connecting ───────────────────────────────────────────────────────────────────────────────────


class Names(trio.abc.HostnameResolver):
    """Names with their addresses; each look-up takes the next answer, the last one stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        await trio.lowlevel.checkpoint()
        name = host.decode()
        self.asked.append(name)
        if name not in self._answers:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        answers = self._answers[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (
                socket.AF_INET6 if ":" in each else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (each, port),
            )
            for each in addresses
        ]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


def set_names(**answers: Sequence[Sequence[str]]) -> Names:
    """The names of this test, `a_b` for `a.b`; each run of trio has its own."""
    names = Names(**answers)
    trio.socket.set_custom_hostname_resolver(names)
    return names


def set_sockets(**outcomes: str) -> Sockets:
    """What happens to connections, `a8_8_8_8` for 8.8.8.8; other addresses refuse."""
    sockets = Sockets({key[1:].replace("_", "."): value for key, value in outcomes.items()})
    trio.socket.set_custom_socket_factory(sockets)
    return sockets


class Sockets(trio.abc.SocketFactory):
    """A connect spy: connections that are made are none, and what they were to is kept."""

    def __init__(self, outcomes: dict[str, str]) -> None:
        self._outcomes = outcomes
        self.connected: list[str] = []
        self.open = 0

    def socket(self, *_: Any, **__: Any) -> Any:
        self.open += 1
        return FakeSocket(self)

    async def connect(self, address: str) -> None:
        self.connected.append(address)
        match self._outcomes.get(address, "refuses"):
            case "takes it":
                await trio.lowlevel.checkpoint()
            case "is silent":
                await trio.sleep_forever()
            case _:
                await trio.lowlevel.checkpoint()
                raise ConnectionRefusedError(111, "refused")


class FakeSocket(trio.socket.SocketType):
    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self.peer = ""

    @property
    def type(self) -> socket.SocketKind:
        return socket.SOCK_STREAM

    async def connect(self, address: Any) -> None:
        await self._sockets.connect(address[0])
        self.peer = address[0]

    def close(self) -> None:
        self._sockets.open -= 1

    def setsockopt(self, level: int, optname: int, value: Any, optlen: int | None = None) -> None:
        pass

    def getpeername(self) -> Any:
        return (self.peer, 80)


async def connect(guard: AddressGuard, host: str, port: int = 80) -> str:
    """The address that was connected."""
    stream = await guard.connect(host, port)
    peer: str = stream.socket.getpeername()[0]
    stream.socket.close()
    return peer


async def test_localhost_is_this_machine_whatever_a_name_server_says() -> None:
    guard = AddressGuard([("localhost", 80)])
    set_sockets(a10_0_0_1="takes it", a127_0_0_1="takes it")
    set_names(localhost=[["10.0.0.1"]])
    with pytest.raises(AddressRefused):
        await connect(guard, "localhost")
    set_names(localhost=[["127.0.0.1"]])
    assert await connect(guard, "localhost") == "127.0.0.1"


async def test_a_public_name_is_connected_at_its_address() -> None:
    set_names(a_test=[["8.8.8.8"]])
    sockets = set_sockets(a8_8_8_8="takes it")
    assert await connect(AddressGuard(), "A.test.") == "8.8.8.8"
    assert await connect(AddressGuard(), "8.8.8.8", 443) == "8.8.8.8"
    assert sockets.open == 0


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
        ["8.8.8.8", "::ffff:10.0.0.1"],
        ["8.8.8.8"] * MAX_ADDRESSES + ["fe80::1%eth0"],
    ],
)
async def test_a_name_with_any_bad_address_is_refused_unconnected(addresses: list[str]) -> None:
    set_names(a_test=[addresses])
    outcomes = dict.fromkeys(addresses, "takes it")
    sockets = Sockets(outcomes)
    trio.socket.set_custom_socket_factory(sockets)
    with pytest.raises(AddressRefused) as caught:
        await connect(AddressGuard(), "a.test")
    assert str(caught.value) == "Connections to a.test:80 are not allowed."
    assert sockets.connected == []
    # Its positive control: the same name, listed.
    assert await connect(AddressGuard([("a.test", 80)]), "a.test") == addresses[0]


@pytest.mark.parametrize(
    "spelling", ["127.1", "0", "2130706433", "0x7f000001", "0177.0.0.1", "::1"]
)
async def test_no_spelling_of_an_address_gets_around_the_table(spelling: str) -> None:
    sockets = Sockets({"127.0.0.1": "takes it", "0.0.0.0": "takes it", "::1": "takes it"})
    trio.socket.set_custom_socket_factory(sockets)
    with pytest.raises(AddressRefused):
        await connect(AddressGuard(), spelling)
    # What lists another address, or another port of it, does not list this one.
    with pytest.raises(AddressRefused):
        await connect(AddressGuard([("127.0.0.2", 80), ("127.0.0.1", 81)]), spelling)
    assert sockets.connected == []
    assert await connect(AddressGuard([(spelling, 80)]), spelling) in {
        "127.0.0.1",
        "0.0.0.0",
        "::1",
    }


async def test_a_second_answer_of_the_name_server_is_checked_like_the_first() -> None:
    names = set_names(a_test=[["8.8.8.8"], ["127.0.0.1"]])
    sockets = set_sockets(a8_8_8_8="takes it", a127_0_0_1="takes it")
    guard = AddressGuard()
    assert await connect(guard, "a.test") == "8.8.8.8"
    # Resolved once a connection: what was checked is what was connected.
    assert names.asked == ["a.test"]
    with pytest.raises(AddressRefused):
        await connect(guard, "a.test")
    assert sockets.connected == ["8.8.8.8"]


async def test_other_ports_are_refused_unresolved_unless_listed() -> None:
    names = set_names(a_test=[["8.8.8.8"]])
    set_sockets(a8_8_8_8="takes it")
    for port in (22, 81, 8080):
        with pytest.raises(AddressRefused):
            await connect(AddressGuard([("a.test", 8081), ("b.test", 8080)]), "a.test", port)
    assert names.asked == []
    assert await connect(AddressGuard([("a.test", 8080)]), "a.test", 8080) == "8.8.8.8"


@pytest.mark.parametrize("host", ["a.test.evil.test", "evila.test", "b.a.test", "xn--a-test"])
async def test_a_listed_host_lists_no_other(host: str) -> None:
    set_names(**{name.replace(".", "_"): [["10.0.0.1"]] for name in (host, "a.test")})
    set_sockets(a10_0_0_1="takes it")
    guard = AddressGuard([("a.test", 80)])
    with pytest.raises(AddressRefused):
        await connect(guard, host)
    assert await connect(guard, "A.TEST.") == "10.0.0.1"


@pytest.mark.parametrize(
    "host", ["www.a.test", "x.y.a.test", "WWW.A.test.", "xn--bcher-kva.a.test"]
)
async def test_a_suffix_lists_every_name_below_it(host: str) -> None:
    name = normalize_host(host)
    set_names(**{name.replace(".", "_"): [["10.0.0.1"]]})
    sockets = set_sockets(a10_0_0_1="takes it")
    for unlisted in ([], [(f".{name}", 80)], [(".a.test", 81)], [("a.test", 80)]):
        with pytest.raises(AddressRefused):
            await connect(AddressGuard(unlisted), host)
    assert sockets.connected == []
    assert await connect(AddressGuard([(".A.Test.", 80)]), host) == "10.0.0.1"


@pytest.mark.parametrize("host", ["a.test", "bada.test", "www.a.test.evil.test", "test", ".a.test"])
async def test_a_suffix_lists_nothing_else(host: str) -> None:
    names = (host, "www.a.test")
    set_names(**{name.replace(".", "_"): [["10.0.0.1"]] for name in names})
    set_sockets(a10_0_0_1="takes it")
    guard = AddressGuard([(".a.test", 80)])
    with pytest.raises(AddressRefused):
        await connect(guard, host)
    assert await connect(guard, "www.a.test") == "10.0.0.1"


async def test_a_suffix_opens_its_port_and_not_what_the_process_listens_on() -> None:
    set_names(www_a_test=[["8.8.8.8"]], me_a_test=[["127.0.0.1"]])
    set_sockets(a8_8_8_8="takes it", a127_0_0_1="takes it")
    guard = AddressGuard([(".a.test", 8080)], refuse=[("127.0.0.1", 8080)])
    assert await connect(guard, "www.a.test", 8080) == "8.8.8.8"
    with pytest.raises(AddressRefused):
        await connect(guard, "www.a.test", 8081)
    with pytest.raises(AddressRefused):
        await connect(guard, "me.a.test", 8080)
    assert await connect(AddressGuard([(".a.test", 8080)]), "me.a.test", 8080) == "127.0.0.1"


async def test_what_the_process_itself_listens_on_is_refused_even_when_listed() -> None:
    set_names(me_test=[["127.0.0.1"]], mapped_test=[["::ffff:127.0.0.1"]])
    set_sockets(a127_0_0_1="takes it")
    hosts = ("127.0.0.1", "me.test", "mapped.test", "localhost", "127.1")
    allow = [(host, port) for host in hosts for port in (7777, 7778)]
    guard = AddressGuard(allow, refuse=[("127.0.0.1", 7777), ("localhost", 7777)])
    for host in hosts:
        with pytest.raises(AddressRefused):
            await connect(guard, host, 7777)
    assert await connect(guard, "me.test", 7778) == "127.0.0.1"


async def test_a_name_without_an_address_is_no_refusal() -> None:
    set_names()
    with pytest.raises(socket.gaierror):
        await connect(AddressGuard(), "nobody.test")
    with pytest.raises(OSError, match="name"):
        await connect(AddressGuard(), "a" * 70)


async def test_when_no_address_takes_the_connection_the_reasons_are_kept() -> None:
    set_names(a_test=[["8.8.8.8", "8.8.4.4"]])
    sockets = set_sockets()
    with pytest.raises(OSError, match="no address") as caught:
        await connect(AddressGuard(), "a.test")
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert len(caught.value.__cause__.exceptions) == 2
    assert sockets.connected == ["8.8.8.8", "8.8.4.4"]
    assert sockets.open == 0


async def test_a_silent_address_holds_nobody_up(autojump_clock: trio.testing.MockClock) -> None:
    set_names(a_test=[["8.8.8.8", "8.8.4.4", "1.1.1.1"]])
    sockets = set_sockets(a8_8_8_8="is silent", a8_8_4_4="takes it", a1_1_1_1="takes it")
    begun = trio.current_time()
    assert await connect(AddressGuard(), "a.test") == "8.8.4.4"
    assert trio.current_time() - begun == HEAD_START_SECONDS
    assert sockets.connected == ["8.8.8.8", "8.8.4.4"]
    assert sockets.open == 0


async def test_a_name_with_many_addresses_gets_few_connections() -> None:
    set_names(a_test=[[f"8.8.8.{n}" for n in range(200)]])
    sockets = set_sockets()
    with pytest.raises(OSError, match="no address"):
        await connect(AddressGuard(), "a.test")
    assert len(sockets.connected) == MAX_ADDRESSES


async def test_a_cancelled_connection_leaves_no_socket(
    autojump_clock: trio.testing.MockClock,
) -> None:
    set_names(a_test=[["8.8.8.8", "8.8.4.4"]])
    sockets = set_sockets(a8_8_8_8="is silent", a8_8_4_4="is silent")
    with trio.move_on_after(5) as scope:
        await connect(AddressGuard(), "a.test")
    assert scope.cancelled_caught
    assert len(sockets.connected) == 2
    assert sockets.open == 0

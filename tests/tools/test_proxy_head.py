"""How the sandbox's proxy reads a request, and what it makes of an answer's head."""

from __future__ import annotations

import time

import pytest

from callboard.tools.sandbox.network.proxy_head import (
    MAX_HEADERS,
    HeadRefused,
    closing_answer,
    parse_request,
)


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, *headers]).encode("latin-1")


def get(target: str, *headers: str) -> bytes:
    return head(f"GET {target} HTTP/1.1", *headers)


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("good.test:443", "good.test", 443),
        ("GOOD.Test.:8080", "good.test", 8080),
        ("93.184.216.34:80", "93.184.216.34", 80),
        ("127.1:80", "127.0.0.1", 80),  # what may be there is the guard's matter
        ("[2001:DB8::1]:443", "2001:db8::1", 443),
        ("xn--gd-fka.test:443", "xn--gd-fka.test", 443),
    ],
)
def test_a_tunnel_is_a_host_and_a_port(target: str, host: str, port: int) -> None:
    request = parse_request(head(f"CONNECT {target} HTTP/1.1", "Host: evil.test"))
    assert (request.url.host, request.url.port, request.is_tunnel) == (host, port, True)


@pytest.mark.parametrize(
    "target",
    [
        *("good.test", "good.test:", ":443", "good.test:443x", "good.test:+443", "good.test:0x1bb"),
        *("good.test:0", "good.test:65536", "good.test:999999", "good.test:443:80"),
        *("user@good.test:443", "user:pass@good.test:443", "good.test:443/x", "good.test:443?x"),
        *("good.test:443#x", "http://good.test:443", "//good.test:443", "good.test\\evil.test:443"),
        *("good.test%00.evil.test:443", "good.test\0.evil.test:443", "good.test\t:443"),
        *("[::1:443", "::1:443", "[::1]443", "[fe80::1%eth0]:80", "[good.test]:443", "*:443"),
        *("g\xf6d.test:443", "good..test:443", ".good.test:443", "good.test:443 evil.test:443", ""),
    ],
)
def test_a_tunnel_is_nothing_else(target: str) -> None:
    with pytest.raises(HeadRefused) as refused:
        parse_request(head(f"CONNECT {target} HTTP/1.1"))
    assert refused.value.status == 400


def test_a_plain_request_goes_to_the_host_of_its_url() -> None:
    request = parse_request(
        get(
            "http://Good.Test:8080/a%20b/../c?d=http://evil.test/#e",
            "Host: evil.test",
            "Connection: keep-alive, X-Own",
            "X-Own: 1",
            "Proxy-Authorization: Basic a2V5",
            "Proxy-Connection: keep-alive",
            "Upgrade: h2c",
            "Accept: */*",
            "Content-Length: 3",
        )
    )
    assert (request.url.host, request.url.port, request.is_tunnel) == ("good.test", 8080, False)
    assert request.head is not None
    first, *lines = request.head.split(b"\r\n")
    assert first.startswith(b"GET /")
    assert first.endswith(b"?d=http://evil.test/ HTTP/1.1")
    assert lines == [
        b"Host: good.test:8080",
        b"Accept: */*",
        b"Content-Length: 3",
        b"Connection: close",
        b"",
        b"",
    ]


@pytest.mark.parametrize(("target", "path"), [("http://a.test", b"/"), ("HTTP://a.test?b", b"/?b")])
def test_a_url_without_a_path_means_the_root(target: str, path: bytes) -> None:
    request = parse_request(get(target))
    assert request.head is not None
    assert request.head.split(b" ")[1] == path


def test_a_header_can_not_take_the_body_away_as_one_of_the_connection() -> None:
    request = parse_request(
        get("http://a.test/", "Connection: content-length, transfer-encoding", "Content-Length: 9")
    )
    assert request.head is not None
    assert b"Content-Length: 9\r\n" in request.head


@pytest.mark.parametrize(
    "text",
    [
        get("/"),
        get("*"),
        get("https://good.test/"),
        get("ftp://good.test/"),
        get("http://user@good.test/"),
        get("http://good.test@evil.test/"),
        get("http:///x"),
        get("http://good.test:99999/"),
        get("http://[::1/"),
        head("get http://good.test/ HTTP/1.1"),
        head("GET  http://good.test/ HTTP/1.1"),
        head("GET http://good.test/"),
        head("GET http://good.test/ HTTP/2"),
        head(" GET http://good.test/ HTTP/1.1"),
        get("http://good.test/", "Name : value"),
        get("http://good.test/", " folded"),
        get("http://good.test/", "no colon"),
        get("http://good.test/", ": no name"),
        get("http://good.test/", "A: b\nC: d"),
        get("http://good.test/", "A: b\rC: d"),
        get("http://good.test/", "A: \0"),
        get("http://good.test/", ""),
        b"",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(text: bytes) -> None:
    with pytest.raises(HeadRefused) as refused:
        parse_request(text)
    assert refused.value.status == 400


def test_headers_are_counted() -> None:
    assert parse_request(get("http://a.test/", *["A: b"] * MAX_HEADERS)).url.host == "a.test"
    with pytest.raises(HeadRefused, match="over 100 headers") as refused:
        parse_request(get("http://a.test/", *["A: b"] * (MAX_HEADERS + 1)))
    assert refused.value.status == 431


def test_no_header_is_slow_to_read() -> None:
    """What is longer than a moment here would be hours with a pattern that goes back and forth."""
    text = get("http://a.test/", "A:" + " " * 16_000 + "\x01")
    began = time.process_time()
    with pytest.raises(HeadRefused):
        parse_request(text)
    assert time.process_time() - began < 5


def test_an_answer_ends_its_connection_whatever_it_says() -> None:
    told, is_last = closing_answer(
        head("HTTP/1.1 200 OK", "Connection: keep-alive", "Keep-Alive: timeout=5", "A: b")
    )
    assert is_last
    assert told == b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\n"


def test_what_comes_before_the_answer_is_not_it() -> None:
    told, is_last = closing_answer(head("HTTP/1.1 100 Continue"))
    assert (told, is_last) == (b"HTTP/1.1 100 Continue\r\n\r\n", False)


@pytest.mark.parametrize(
    "text", [b"", b"HTTP/2 200", b"HTTP/1.1 999 X", b"HTTP/1.1 200 OK\r\nno colon", b"SSH-2.0-x"]
)
def test_an_answer_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(HeadRefused) as refused:
        closing_answer(text)
    assert refused.value.status == 502

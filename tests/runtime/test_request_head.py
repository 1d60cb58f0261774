"""The head of a request as bytes, with h11's server as the judge."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.errors import ValidationError
from callboard.runtime.http.connection import Destination
from callboard.runtime.http.request import DEFAULT_HEADERS, outgoing, read_url

URL = "http://a.test:8080/v1/chat?x=y"


def sent(method: str, headers: dict[str, str], body: bytes | None) -> h11.Request:
    """What a server reads of a request; it must end where the body does."""
    _, head = outgoing(method, read_url(URL), headers, body)
    server = h11.Connection(h11.SERVER)
    server.receive_data(head.data + (body or b"") + b"NEXT / HTTP/1.1\r\n")
    request = server.next_event()
    assert isinstance(request, h11.Request)
    data = b""
    while isinstance(event := server.next_event(), h11.Data):
        data += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert (data, server.trailing_data[0]) == (body or b"", b"NEXT / HTTP/1.1\r\n")
    return request


def test_a_request_says_what_it_is_told_and_what_every_request_says() -> None:
    request = sent("POST", {"Authorization": "Bearer k", "x": "a\tb", "y": ""}, b"{}")
    assert request.method == b"POST"
    assert request.target == b"/v1/chat?x=y"
    assert request.headers == [
        (b"host", b"a.test:8080"),
        *((name.encode(), value.encode()) for name, value in DEFAULT_HEADERS.items()),
        (b"authorization", b"Bearer k"),
        (b"x", b"a\tb"),
        (b"y", b""),
        (b"content-length", b"2"),
    ]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("GET", None, None), ("POST", None, b"0"), ("POST", b"", b"0"), ("PATCH", b"abc", b"3")],
)
def test_the_length_is_that_of_the_body_whatever_the_headers_say(
    method: str, body: bytes | None, length: bytes | None
) -> None:
    for headers in ({}, {"Content-Length": "7"}, {"Transfer-Encoding": "chunked"}):
        said = dict(list(sent(method, headers, body).headers))
        assert said.get(b"content-length") == length
        assert b"transfer-encoding" not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x", "a\r\nb: c"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "a\0b"),
        ("x", "a\x7f"),
        ("x", " a"),
        ("x", "a "),
        ("x", "a\t"),
        ("x", "é"),
        ("x", "a\u2028b"),
        ("", "a"),
        ("x y", "a"),
        ("x:", "a"),
        ("x\r\ny", "a"),
        ("é", "a"),
    ],
)
def test_a_header_that_is_not_one_line_of_ascii_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValidationError, match="header"):
        outgoing("POST", read_url(URL), {name: value}, b"")


@pytest.mark.parametrize("method", ["", "GET /", "GET\r\n", "é"])
def test_a_method_that_is_not_a_word_is_refused(method: str) -> None:
    with pytest.raises(ValidationError):
        outgoing(method, read_url(URL), {}, b"")


@given(
    st.dictionaries(st.text(max_size=6), st.text(max_size=12), max_size=4), st.binary(max_size=9)
)
def test_any_headers_are_sent_as_they_are_or_refused(headers: dict[str, str], body: bytes) -> None:
    try:
        request = sent("POST", headers, body)
    except ValidationError:
        return
    said = dict(list(request.headers))
    for name, value in headers.items():
        if name.lower() not in {"content-length", "transfer-encoding"}:
            assert said[name.lower().encode()].decode() in {
                each for other, each in headers.items() if other.lower() == name.lower()
            }, (name, value)


def test_two_accounts_have_two_destinations_that_do_not_hold_their_keys() -> None:
    places = [
        outgoing("POST", read_url(URL), {"Authorization": key}, b"")[0] for key in ("sesame", "two")
    ]
    assert places[0] != places[1]
    assert places[0]._replace(account=b"") == Destination("http", "a.test", 8080)
    assert "sesame" not in repr(places)

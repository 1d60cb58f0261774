"""The URLs that tools may request: one spelling each, and what is none."""

from __future__ import annotations

import pytest

from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.http.url import MAX_URL_CHARS, not_allowed, parse_url


@pytest.mark.parametrize(
    ("text", "host", "port", "whole"),
    [
        ("http://EXAMPLE.com./a?b#c", "example.com", 80, "http://example.com/a?b"),
        (" HTTPS://example.com:443/ ", "example.com", 443, "https://example.com/"),
        ("http://a_b.test:8080", "a_b.test", 8080, "http://a_b.test:8080"),
        ("http://[0:0::1]:80/x", "::1", 80, "http://[::1]/x"),
        ("http://bücher.de/ü", "xn--bcher-kva.de", 80, "http://xn--bcher-kva.de/%C3%BC"),
        ("http://faß.de", "xn--fa-hia.de", 80, "http://xn--fa-hia.de"),
        ("http://127。0。0。1/", "127.0.0.1", 80, "http://127.0.0.1/"),
        ("http://127.1/", "127.0.0.1", 80, "http://127.0.0.1/"),
        ("http://0x7f.0.0.1/", "127.0.0.1", 80, "http://127.0.0.1/"),
        ("http://2130706433", "127.0.0.1", 80, "http://127.0.0.1"),
        ("http://[::ffff:7f00:1]/", "127.0.0.1", 80, "http://127.0.0.1/"),
        ("http://1.2.3.4.5/", "1.2.3.4.5", 80, "http://1.2.3.4.5/"),
    ],
)
def test_a_url_has_one_spelling(text: str, host: str, port: int, whole: str) -> None:
    url = parse_url(text)
    assert (url.host, url.port, url.text) == (host, port, whole)
    assert parse_url(url.text) == url


NO_URLS = [
    *("", "foo", "/x", "//host/x", "http:", "http://", "http:///x", "http:\\\\x", "http://..."),
    *("http://a b/", "http://a..b/", "http://a\r\nb/", "http://a\0b", "http://good\\.evil.test/"),
    *("http://a/\r\nHost: b", "http://x:0/", "http://x:99999/", "http://x:y/", "http://x:-1/"),
    *(
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://\u2603.net",
        "http://a%2eb/",
        "http://0177.0.0.1/",
        "http://[v1.x]/",
    ),
    *("http://[::1/", "http://[fe80::1%25eth0]/", f"http://{'a' * 64}/", f"http://{'a.' * 127}aa/"),
    *("http://u:p@host/", "http://u@host/", "http://good.test@evil.test/", "http://a@b\\@c"),
    "http://" + "x" * MAX_URL_CHARS,
]


@pytest.mark.parametrize("text", NO_URLS)
def test_what_is_no_url_is_a_validation_error_of_one_line(text: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        parse_url(text)
    assert caught.value.error_type is ErrorType.VALIDATION_ERROR
    assert caught.value.details == {"field": "url"}
    assert str(caught.value).startswith("url: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "ftp://a.test/",
        "gopher://a.test:70/_",
        "unix:///run/x.sock",
        "http+unix://%2Frun%2Fx.sock/",
        "javascript:alert(1)",
        "data:text/html,x",
        "ws://a.test/",
    ],
)
def test_other_schemes_are_not_allowed(text: str) -> None:
    with pytest.raises(ToolFailure) as caught:
        parse_url(text)
    assert str(caught.value) == str(not_allowed(text))
    assert caught.value.error_type is ErrorType.URL_NOT_ALLOWED


def test_a_password_is_not_repeated() -> None:
    for text in ("http://me:hunter2@host/", "ftp://me:hunter2@host/"):
        with pytest.raises(ToolFailure) as caught:
            parse_url(text)
        assert "hunter2" not in str(caught.value)
    # No header can be given to web_fetch, which has the same guard.
    with pytest.raises(ToolFailure, match="http_request can send an Authorization header"):
        parse_url("http://me:hunter2@host/")


@pytest.mark.parametrize(
    ("text", "whole", "is_same_origin"),
    [
        ("/c", "https://a.test/c", True),
        ("../c", "https://a.test/c", True),
        ("?c=d", "https://a.test/x/y?c=d", True),
        ("HTTPS://A.test.:443/", "https://a.test/", True),
        ("//b.test/c", "https://b.test/c", False),
        ("http://a.test/", "http://a.test/", False),
        ("https://a.test:8443/", "https://a.test:8443/", False),
    ],
)
def test_a_url_may_be_relative_to_another(text: str, whole: str, is_same_origin: bool) -> None:
    base = parse_url("https://a.test/x/y?z")
    url = parse_url(text, base=base)
    assert url.text == whole
    assert (url.origin == base.origin) == is_same_origin


def test_an_authority_names_an_unusual_port() -> None:
    authorities = [
        parse_url(t).authority for t in ("http://a", "https://a:80", "http://[::1]:8080")
    ]
    assert authorities == ["a", "a:80", "[::1]:8080"]

"""A plain URL is read as httpx reads it; what is not plain is left to httpx."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.http import request as plain_url
from callboard.runtime.http.request import PlainUrl, read_plain_url


def by_httpx(text: str) -> PlainUrl:
    url = httpx.URL(text)
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    return PlainUrl(url.scheme, url.raw_host.decode(), port, url.netloc, url.raw_path)


PLAIN = (
    "https://api.openai.com/v1/chat/completions",
    "http://127.0.0.1:11434/v1/models",
    "http://localhost",
    "https://host.example:443/",
    "http://host.example:443/a/",
    "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
)


@pytest.mark.parametrize("url", PLAIN)
def test_what_providers_have_is_plain(url: str) -> None:
    assert read_plain_url(url) == by_httpx(url)


@given(st.from_regex(plain_url._PLAIN, fullmatch=True))
def test_it_is_read_as_httpx_reads_it(url: str) -> None:
    if (read := read_plain_url(url)) is not None:
        assert read == by_httpx(url)


@pytest.mark.parametrize(
    "url",
    [
        "HTTP://host/",
        "http://Host/",
        "http://user:secret@host/",
        "http://host/../etc",
        "http://host/a/./b",
        "http://host//a",
        "http://host/%2e",
        "http://host/ä",
        "http://xn--bcher-kva.example/",
        "http://bücher.example/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://256.0.0.1/",
        "http://[::1]/",
        "http://host:65536/",
        "http://host:0/",
        "http://host/#f",
        "http://host/ ",
        "http://host/\n",
        "http://host:/",
        "ftp://host/",
        "//host/",
        "http://",
    ],
)
def test_what_is_to_be_looked_into_is_not_plain(url: str) -> None:
    assert read_plain_url(url) is None

from __future__ import annotations

import pytest

from callboard.config.base_url import checked_base_url, is_loopback, may_carry_key, origin


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        (" http://127.0.0.1:8080/v1/ ", "http://127.0.0.1:8080/v1"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_a_base_url_has_one_form(text: str, expected: str) -> None:
    assert checked_base_url(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "begins with http"),
        ("127.0.0.1:8080/v1", "begins with http"),
        ("file:///etc/passwd", "begins with http"),
        ("http:///v1", "begins with http"),
        ("https://me:hunter2@host/v1", "no user name or password"),
        ("https://host/v1?key=hunter2", "no query"),
        ("https://host/v1#x", "no query"),
        ("https://host/v 1", "no spaces"),
        ("https://host/v1\r\nX-Evil: 1", "no spaces"),
        ("http://host:99999/v1", "out of range"),
        ("http://[::1/v1", "IPv6"),
        ("http://evil.example[::1]/v1", "IPv6|host"),
        ("http://[::1]evil.example/v1", "IPv6|host"),
        ("http://evil.example\\[::1]/v1", "IPv6|host"),
        ("http://evil.example%5B::1]/v1", "IPv6|host"),
        ("http://::1/v1", "host"),
        ("http://host:0/v1", "from 1 to 65535"),
        ("http://" + "a" * 3000, "at most 2048"),
    ],
)
def test_what_is_no_base_url_is_refused_without_repeating_a_password(
    text: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        checked_base_url(text)
    assert "hunter2" not in str(caught.value)


def test_the_origin_has_an_explicit_port_and_ignores_the_path() -> None:
    assert origin("https://Host/v1") == origin("https://host:443/v2") == "https://host:443"
    assert origin("http://[::1]:8080/v1") == "http://[::1]:8080"
    assert origin("https://[2001:DB8::1]/v1") == "https://[2001:db8::1]:443"
    assert origin("http://host/v1") != origin("https://host/v1")
    assert origin("https://host.evil.example/v1") != origin("https://host/v1")


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://localhost:11434/v1", True),
        ("http://127.0.0.1/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://evil.example[::1]/v1", False),
        ("http://localhost.evil.example/v1", False),
        ("http://127.0.0.1.evil.example/v1", False),
        ("http://10.0.0.1/v1", False),
        ("http://0.0.0.0/v1", False),
    ],
)
def test_a_key_may_travel_in_clear_text_to_this_machine_only(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback
    assert may_carry_key(url) is loopback
    assert may_carry_key(url.replace("http://", "https://"))

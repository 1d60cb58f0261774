"""Foreign text is shown, and never obeyed, by a terminal."""

from __future__ import annotations

import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from callboard.cli.terminal.escaping import exact, safe_json, safe_line, safe_text, shortened

TEXT = st.text(st.characters(), max_size=40)


def test_plain_text_stays_as_it_is() -> None:
    text = "Grüße, 世界 👩‍👩‍👧 \u2764\ufe0f\n\tif x:\n\t\treturn"
    assert safe_text(text) == text
    assert safe_line("a  b\n c") == "a b c"


def test_what_a_terminal_would_obey_is_shown() -> None:
    assert safe_text("\x1b[2Jgone\x07\x9b1m") == "\\x1b[2Jgone\\x07\\x9b1m"
    assert safe_text("abc\u202egnp.exe\u2066") == "abc\\u202egnp.exe\\u2066"
    assert safe_text("tag\U000e0041 half\ud800") == "tag\\U000e0041 half\\ud800"
    assert safe_text("be\ufe01 kind\U000e0172\u3164") == "be\\ufe01 kind\\U000e0172\\u3164"
    assert safe_line("a\x1bb\x00") == "a\\x1bb\\x00"


def test_a_carriage_return_can_not_overwrite_a_line() -> None:
    assert safe_text("rm -rf /\rls     \r\nok") == "rm -rf /\nls     \nok"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_json_that_is_escaped_reads_as_before(text: str) -> None:
    """`\\x9b` and `\\U000e0041`, as other texts are escaped, are no JSON."""
    for json in (msgspec.json.encode([text]), msgspec.json.format(msgspec.json.encode([text]))):
        shown = safe_json(json.decode())
        assert msgspec.json.decode(shown) == [text]
        assert safe_text(shown) == shown
    assert msgspec.json.decode(exact(msgspec.json.encode(text).decode())) == text


@given(TEXT)
def test_nothing_that_moves_a_cursor_gets_through(text: str) -> None:
    for shown, allowed in ((safe_text(text), "\n\t"), (safe_line(text), ""), (exact(text), "")):
        controls = {c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}}
        bidi = {c for c in shown if unicodedata.bidirectional(c) in {"RLO", "LRO", "RLE", "LRI"}}
        assert controls <= set(allowed)
        assert not bidi
        shown.encode()  # no lone surrogate is left


@given(TEXT)
def test_exact_shows_every_character_that_is_not_visible(text: str) -> None:
    assert exact(text).isprintable()
    if text.isprintable():
        assert exact(text) == text


def test_shortening() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"

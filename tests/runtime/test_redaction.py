"""Secrets are masked in every form in which they travel."""

from __future__ import annotations

import base64
import html
import io
import json
import logging
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.redaction import MIN_SECRET_CHARS, RedactingFilter, Redactor, Secret, redact

VALUE = 'p@ss/wörd+"key" 42'


@pytest.fixture
def redactor() -> Redactor:
    made = Redactor()
    made.add(Secret(VALUE))
    return made


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE),
        json.dumps(VALUE, ensure_ascii=False),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        quote(VALUE, safe="").lower(),
        html.escape(VALUE),
        json.dumps(VALUE).replace("/", "\\/"),
    ],
)
def test_a_secret_is_masked_in_each_spelling(redactor: Redactor, form: str) -> None:
    masked = redactor.redact(f"before {form} after")
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "***" in masked
    assert "ss" not in masked
    assert "42" not in masked


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:"])
@pytest.mark.parametrize("after", ["", "z", "yz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_inside_base64_is_masked(
    redactor: Redactor, before: str, after: str, encode: Callable[[bytes], bytes]
) -> None:
    text = encode((before + VALUE + after).encode()).decode()
    masked = redactor.redact(f"Authorization: {text}")
    assert "***" in masked
    # What is left over can't hold more than a character at each end.
    assert len(masked.replace("***", "")) <= len("Authorization: ") + 4 * (len(before) // 3 + 3)


def test_text_without_secrets_is_untouched(redactor: Redactor) -> None:
    text = (
        "nothing to see: task-manager, risk-free, Bearer of news, https://host/a@b, sk-1, --store "
        "postgresql://USER@HOST/DATABASE, postgresql://me@db:5432/x?user=a, postgres://db/x and me@here"
    )
    assert redactor.redact(text) == text
    assert Redactor().redact(VALUE) == VALUE


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("key sk-abcdefgh12345678!", "key ***!"),
        ("authorization: Bearer abcdefgh.ijkl", "authorization: Bearer ***"),
        ("https://me:sesame@host/path", "https://***@host/path"),
        ("https://me:ses@me@host/path", "https://***@host/path"),
        ("https://token-alone@host/path", "https://***@host/path"),
        ("postgresql://me:sesame@host/db", "postgresql://me:***@host/db"),
        ("postgres://me:sesame@a:1,b:2/db", "postgres://me:***@a:1,b:2/db"),
        ("postgresql://:sesame@host/db", "postgresql://:***@host/db"),
        ("postgresql://me:ses@me@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:ses/me@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s\"s'me@host/db", "postgresql://***@host/db"),
        ("postgresql://me@ses:ame@host/db", "postgresql://***@host/db"),
        ("postgresql://me%3Asesame@host/db", "postgresql://***@host/db"),
        ("postgresql://sk-abcdefgh12345678@host/db", "postgresql://***@host/db"),
        ("postgresql://sk-abcdefgh12345678:x@host/db", "postgresql://***:***@host/db"),
        ("AIzaSyA1234567890abcdefghi", "***"),
    ],
)
def test_well_known_keys_are_masked_without_being_known(text: str, masked: str) -> None:
    assert redact(text) == masked


def test_masking_leaves_what_only_looks_like_a_key() -> None:
    redactor = Redactor()
    redactor.add(Secret("sesame-opens"))
    text = "sk-abcdefgh12345678 and https://me:sesame@host/"
    assert redactor.mask(f"{text} sesame-opens") == f"{text} ***"
    assert redactor.redact(text) != text


@pytest.mark.parametrize("key", [VALUE, "plain-key-123", 'back\\slash"key', "süß-and-long"])
def test_a_secret_is_found_in_json_and_in_json_within_json(key: str) -> None:
    redactor = Redactor()
    inner = msgspec.json.encode({"content": f"it is {key}."})
    outer = msgspec.json.encode({"result": inner.decode()})
    assert not redactor.finds(inner)
    redactor.add(Secret(key))
    assert redactor.finds(inner)
    assert redactor.finds(outer)
    assert not redactor.finds(b'{"content":"nothing"}')
    assert "***" in redactor.mask(inner.decode())


def test_short_values_are_no_secrets() -> None:
    redactor = Redactor()
    redactor.add(Secret("x" * (MIN_SECRET_CHARS - 1)))
    redactor.add(Secret(""))
    assert redactor.redact("xxxxx is a word") == "xxxxx is a word"


def test_a_secret_inside_another_leaves_no_end_showing() -> None:
    redactor = Redactor()
    for value in ("secret-key", "my-secret-key-is-long"):
        redactor.add(Secret(value))
    assert redactor.redact("my-secret-key-is-long secret-key") == "*** ***"


def test_a_discarded_secret_is_shown_again(redactor: Redactor) -> None:
    redactor.discard(Secret(VALUE))
    redactor.discard(Secret("unknown"))
    assert redactor.redact(VALUE) == VALUE


@given(st.text(min_size=MIN_SECRET_CHARS, max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_no_secret_survives(value: str, before: str, after: str) -> None:
    redactor = Redactor()
    redactor.add(Secret(value))
    if value not in before + "***" + after:
        assert value not in redactor.redact(before + value + after)


def log_through(redactor: Redactor, write: Callable[[logging.Logger], None]) -> str:
    """What a handler with the filter prints."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.addFilter(RedactingFilter(redactor))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    write(logger)
    return out.getvalue()


def test_the_message_and_its_arguments_are_masked(redactor: Redactor) -> None:
    text = log_through(redactor, lambda log: log.warning("%s and %d " + VALUE, VALUE, 7))
    assert text == "*** and 7 ***\n"


def test_the_exception_and_the_stack_are_masked(redactor: Redactor) -> None:
    def write(log: logging.Logger) -> None:
        try:
            try:
                raise ValueError(VALUE)
            except ValueError as inner:
                raise RuntimeError("outer " + VALUE) from inner
        except RuntimeError:
            log.exception("failed", stack_info=True)

    text = log_through(redactor, write)
    assert "RuntimeError: outer ***" in text
    assert "ValueError: ***" in text
    assert VALUE not in text


def test_a_record_without_a_secret_is_printed_as_usual(redactor: Redactor) -> None:
    text = log_through(redactor, lambda log: log.warning("%s of %s", "one", "two"))
    assert text == "one of two\n"

"""Redaction: secrets that never appear in logs, tracebacks or errors."""

from __future__ import annotations

import base64
import json
import logging
import re
import traceback
from collections.abc import Iterator
from urllib.parse import quote, quote_plus


class Secret:
    """A text whose `repr` and `str` are `***`.

    `reveal()` is the only way to the text, called only where it is put into a header.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


MASK = "***"

MIN_SECRET_CHARS = 6
"""Shorter values are not masked: they are not keys (local servers take `none` or `x`), and masking
them would remove ordinary words from logs."""

_OF_DATABASE = r"(?:(?<=\bpostgresql://)|(?<=\bpostgres://))"
_MORE = r"(?:@[^\s/@\"'<>,]+)*"
_KNOWN_KEYS = re.compile(
    # `user:password@` of a database: its user is no secret, and says which login was meant.
    rf"{_OF_DATABASE}(?P<user>[\w.-]*):[^\s\"'<>@]*{_MORE}(?=@)"
    r"|(?P<scheme>(?i:\b(?:bearer|basic)\s+))[\w.~+/=*-]{8,}"
    r"|\b(?:sk|rk|pk|gsk|xai|hf|nvapi|pplx|csk|r8|ghp)[-_][\w.*-]{8,}"
    r"|\bAIza[\w-]{16,}"
    # Elsewhere a user alone may be a token. A second `@` may stand in a password.
    rf"|(?<=://)(?!{_OF_DATABASE}[\w.-]+@(?![^\s/]*@))[^/\s@]+{_MORE}(?=@)"
)

_IN_PAGES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""As `html.escape` does it, whose module brings a table of all entities."""
_ESCAPED_BYTE = re.compile(r"%[0-9A-F]{2}")


class Redactor:
    """Masks the secrets that were added to it. Safe to use from any thread."""

    def __init__(self) -> None:
        self._secrets: set[Secret] = set()
        self._forms: tuple[str, ...] = ()
        self._pattern: tuple[tuple[str, ...], re.Pattern[str]] | None = None
        self._encoded: tuple[bytes, ...] = ()
        self._byte_forms: tuple[bytes, ...] = ()

    @property
    def secrets(self) -> frozenset[Secret]:
        """The secrets that are masked."""
        return frozenset(self._secrets)

    def add(self, secret: Secret) -> None:
        """Mask a value from now on, unless it is too short."""
        if len(secret.reveal()) >= MIN_SECRET_CHARS and secret not in self._secrets:
            self._secrets = {*self._secrets, secret}
            self._make_forms()

    def discard(self, secret: Secret) -> None:
        """Stop masking a value; unknown ones are ignored."""
        self._secrets = self._secrets - {secret}
        self._make_forms()

    def finds(self, encoded: bytes) -> bool:
        """Whether JSON holds a secret that was added, also in a string that is JSON itself."""
        return bool(self._encoded) and any(form in encoded for form in self._encoded)

    def mask(self, text: str) -> str:
        """Return a text with `***` in place of each secret that was added."""
        # Searching for a few plain texts takes a hundredth of the time of the pattern.
        forms = self._forms
        if not any(form in text for form in forms):
            return text
        # Made when a secret is found: that takes a millisecond for each, and mostly none ever is.
        made = self._pattern
        if made is None or made[0] is not forms:
            made = self._pattern = (forms, re.compile("|".join(map(re.escape, forms))))
        return made[1].sub(MASK, text)

    def mask_file(self, data: bytes) -> bytes:
        """Return a file's bytes with each secret overwritten by asterisks, so that offsets stay valid."""
        if not any(form in data for form in self._byte_forms):
            return data
        pattern = b"|".join(map(re.escape, self._byte_forms))
        return re.sub(pattern, lambda match: b"*" * len(match[0]), data)

    def redact(self, text: str) -> str:
        """Return a text with `***` in place of each secret and of all that looks like a key."""
        text = self.mask(text)
        return _KNOWN_KEYS.sub(_masked, text)

    def _make_forms(self) -> None:
        forms = {form for secret in self._secrets for form in _forms(secret.reveal())}
        # Longest first: a form that contains another must not be left with its ends showing.
        ordered = sorted(forms, key=len, reverse=True)
        self._forms = tuple(ordered)
        self._byte_forms = tuple(form.encode() for form in ordered)
        self._encoded = tuple({form.encode() for text in forms for form in _json_forms(text)})


class RedactingFilter(logging.Filter):
    """Redacts a record's message, arguments and exception text.

    It belongs on a handler: a filter of a logger does not see the records of its children.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record in place; return `True`, which keeps it."""
        redact = self._redactor.redact
        record.msg = redact(record.getMessage())
        record.args = None
        if record.exc_info:
            # Formatted here and dropped: a formatter would print the values from the objects.
            record.exc_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_info = None
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        return True


def _masked(match: re.Match[str]) -> str:
    """Return what stands in the place of something that looks like a key."""
    if (user := match["user"]) is not None:
        return f"{_KNOWN_KEYS.sub(_masked, user)}:{MASK}"
    return (match["scheme"] or "") + MASK


def _forms(value: str) -> Iterator[str]:
    yield from _json_forms(value)
    # Some servers escape the slash in JSON, and angle brackets and quotes in their error pages.
    yield json.dumps(value)[1:-1].replace("/", "\\/")
    yield value.translate(_IN_PAGES)
    for quoted in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield quoted
        yield _ESCAPED_BYTE.sub(lambda match: match[0].lower(), quoted)
    yield from _base64_forms(value.encode())


def _json_forms(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]


def _base64_forms(value: bytes) -> Iterator[str]:
    """Yield the base64 forms of a value inside a longer text: three, depending on its offset.

    Characters at the ends also hold bits of the neighbouring bytes (`user:KEY` in a Basic header) and
    are left out: the visible parts of a key's first and last byte help nobody.
    """
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + value).decode().rstrip("=")
        first = (before * 8 + 5) // 6
        last = (before + len(value)) * 8 // 6
        known = encoded[first:last]
        yield known
        yield known.translate({ord("+"): "-", ord("/"): "_"})


redactor = Redactor()
"""The redactor of this process; secrets are added when they are loaded."""

mask = redactor.mask
redact = redactor.redact


def redacting_logger(name: str) -> logging.Logger:
    """Return a module's logger that redacts its records, whatever handlers the program has."""
    logger = logging.getLogger(name)
    if not any(isinstance(known, RedactingFilter) for known in logger.filters):
        logger.addFilter(RedactingFilter(redactor))
    return logger

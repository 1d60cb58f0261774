"""callboard's version, ids, the wall clock, idempotency keys, and places in the traces of other programs."""

from __future__ import annotations

import os
import re
import time
from typing import Annotated

import msgspec
from msgspec import Meta

VERSION = "0.1.0"
"""callboard's version. The package is built with it: to read it from what an installer left takes 1.6 MB, and as long as all else of a hello."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, lower case: safe in file names, URLs and providers' ids."""


_OF_BYTE = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))


def new_id(prefix: str) -> str:
    """Return a new id such as `turn_6f1k…`: 100 random bits, so never guessed and never repeated."""
    return f"{prefix}_{os.urandom(20).translate(_OF_BYTE).decode()}"


def now_ms() -> int:
    """Return the wall clock in Unix milliseconds: for records, never for deadlines."""
    return time.time_ns() // 1_000_000


MAX_KEY_LENGTH = 128
"""The longest idempotency key of a client; a UUID has 36 characters."""


class RequestKey(msgspec.Struct, frozen=True, gc=False):
    """The idempotency key of a request; sender, method and key together identify it.

    Attributes:
        sender: The name of the credential.
        method: The method of the protocol.
        key: The key that the client chose for this request alone.
        digest: The SHA-256 of the parameters, in hex.
    """

    sender: str
    method: str
    key: str
    digest: str


MAX_TRACESTATE = 512
"""Characters of a `tracestate`; the specification asks for at least as many. Longer ones are dropped."""
MAX_TRACE_CHARS = 4096
"""Characters of each field of a request, which is refused with more."""
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


class TraceContext(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The place of a request in a trace of other programs, as the headers of W3C Trace Context write it.

    Attributes:
        traceparent: The trace, the span that asks, and whether it is kept: `00-TRACE-SPAN-01`.
        tracestate: What vendors of traces add; it is passed on as it came.

    Example:
        place = callboard.TraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        print(await session.run("What time is it in Tokyo?", trace=place))
    """

    traceparent: Annotated[str, Meta(max_length=MAX_TRACE_CHARS)]
    tracestate: Annotated[str, Meta(max_length=MAX_TRACE_CHARS)] = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that tell a program, as OpenTelemetry's tools read them."""
        told = {"TRACEPARENT": self.traceparent, "TRACESTATE": self.tracestate}
        return {name: text for name, text in told.items() if text}

    @property
    def is_valid(self) -> bool:
        """Whether the traceparent is one of the version that is known here."""
        return _TRACEPARENT.fullmatch(self.traceparent) is not None


def checked_trace(given: TraceContext | None) -> TraceContext | None:
    """Return what of a place in a trace can be used: a malformed one is dropped, as W3C Trace Context asks."""
    if given is None or not given.is_valid:
        return None
    state = given.tracestate
    is_usable = len(state) <= MAX_TRACESTATE and state.isascii() and state.isprintable()
    return given if is_usable else TraceContext(given.traceparent)

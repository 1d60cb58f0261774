"""Colours and signs on a terminal, plain words elsewhere; durations, counts and costs as text."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import datetime
from typing import TextIO

import msgspec

from ...runtime.definitions import CallStatus

_CODES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Style(msgspec.Struct, frozen=True):
    """What the descriptor can show.

    Attributes:
        colours: Whether escape sequences mean something there.
        signs: Whether ✓ and ✗ can be encoded.
    """

    colours: bool = False
    signs: bool = True

    def paint(self, text: str, colour: str) -> str:
        """Return the text in a colour, or as it is."""
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colours else text

    def coded(self, text: str, codes: str) -> str:
        """Return the text in colours by their codes (`1;36`), or as it is."""
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colours and codes and text else text

    def mark(self, status: CallStatus) -> str:
        """Return the sign for how a call ended."""
        if status is CallStatus.SUCCESS:
            return self.paint("✓" if self.signs else "+", "green")
        colour = "yellow" if status is CallStatus.CANCELLED else "red"
        return self.paint("✗" if self.signs else "x", colour)


def style_of(stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> Style:
    """Return the style for a stream; NO_COLOR and a dumb terminal are respected."""
    if stream is None:
        return Style()
    is_plain = bool(environ.get("NO_COLOR")) or is_dumb(environ)
    return Style(colours=not is_plain and stream.isatty(), signs=_can_encode(stream, "✓✗·…"))


def is_dumb(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal obeys no escape sequences."""
    return environ.get("TERM", "") in {"", "dumb"}


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def seconds(duration_ms: int) -> str:
    """Return a duration as people read it: `3 ms`, `1.2 s`, `2 min 5 s`."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f} s"
    minutes, rest = divmod(round(duration_ms / 1000), 60)
    return f"{minutes} min {rest} s"


def minute(at_ms: int) -> str:
    """Return a moment in local time: `2026-01-31 12:00`."""
    return f"{datetime.fromtimestamp(at_ms / 1000).astimezone():%Y-%m-%d %H:%M}"


def counted(count: int, noun: str) -> str:
    """`1 call`, `3 calls`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def data_size(size: int) -> str:
    """Return a count of bytes as people read it: `12 bytes`, `3 kB`, `2.9 MB`."""
    if size < 1000:
        return counted(size, "byte")
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


UNPRICED = "without a known price"
UNCOUNTED = "without a count of tokens"


def cost_text(cost: float | None, unpriced_calls: int, uncounted_calls: int) -> str:
    """`$0.12`, `at least $0.12, 3 calls without a known price`, or `unknown: 3 calls …`."""
    reasons = ", ".join(
        f"{counted(calls, 'call')} {why}"
        for calls, why in ((unpriced_calls, UNPRICED), (uncounted_calls, UNCOUNTED))
        if calls
    )
    if cost is None:
        return f"unknown: {reasons}" if reasons else dollars(0.0)
    return f"at least {dollars(cost)}, {reasons}" if reasons else dollars(cost)


def dollars(amount: float) -> str:
    """Return US dollars to the cent; below one, to two figures: `$12.30`, `$0.12`, `$0.0012`."""
    if amount <= 0:
        return "$0"
    places = 2 if amount >= 1 else 1 - math.floor(math.log10(amount))
    return f"${amount:,.{max(places, 2)}f}"

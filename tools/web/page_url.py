"""The addresses of a page's links: absolute, of the web or mail, and nothing that runs."""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin, urlsplit

MAX_LINK_CHARS = 1000
"""Longer addresses carry data, not a place; the words of such a link stay."""

_SCHEMES = frozenset({"http", "https", "mailto"})
_IGNORED = re.compile(r"[\t\n\r]")
_CONTROLS = re.compile(r"[\x00-\x20\x7f-\x9f]")


class LinkBase:
    """What a page's links are relative to.

    Args:
        url: Where the page comes from.
        base: What it says itself, in `<base href>`.
    """

    def __init__(self, url: str, base: str = "") -> None:
        joined = _join(url, base) if base else url
        self._base = joined if joined.startswith(("http://", "https://")) else url

    def target(self, href: str) -> str:
        """The address of a link; empty for a place on the page, and for what is none of the web."""
        reference = _IGNORED.sub("", href).strip()
        if not reference or reference.startswith("#") or len(reference) > MAX_LINK_CHARS:
            return ""
        target = _join(self._base, reference)
        if target.partition(":")[0].lower() not in _SCHEMES or len(target) > MAX_LINK_CHARS:
            return ""
        if _CONTROLS.search(target) or not target.isascii():
            target = quote(target, safe="!#$%&'*+,/:;=?@[]~_.-()")
        # What would end the link in Markdown, or begin HTML.
        for char in "()<>":
            target = target.replace(char, f"%{ord(char):02X}")
        return target


def _join(base: str, reference: str) -> str:
    try:
        joined = urljoin(base, reference)
        # Not shown: a password in an address, and a host that looks like another before an @.
        return "" if "@" in urlsplit(joined).netloc else joined
    except ValueError:
        return ""

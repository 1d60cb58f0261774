"""The charsets that bodies of HTTP are in, as Python's codecs."""

from __future__ import annotations

import codecs
import re

STATED = re.compile(r";\s*charset\s*=\s*[\"']?([^\s;\"']+)", re.IGNORECASE)
"""The charset in a content type."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Python has codecs that are no charset of any page (idna, unicode_escape), and utf-7 hides markup.
_CHARSETS = re.compile(
    r"(utf-8|utf-16|utf-32|iso|cp|koi8|euc|gb|big5|shift_jis|ascii|mac|tis|hz|johab).*"
)


def marked_codec(data: bytes) -> str | None:
    """The codec that the mark at the beginning says, if there is one."""
    return next((codec for mark, codec in _MARKS.items() if data.startswith(mark)), None)


def named_codec(charset: str) -> str | None:
    """The codec of a charset; `None` for what is none."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    return name if _CHARSETS.fullmatch(name) else None

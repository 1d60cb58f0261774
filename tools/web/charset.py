"""Which characters the bytes of a page mean: what the server says, the page says, or they tell."""

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


MAX_LOOKED_AT = 4096
"""Where a page may name its charset; HTML says the first 1,024 bytes, and not all keep to it."""

_IN_PAGE = re.compile(
    rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)
_IN_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})[\"']")
_WIDER = {
    **dict.fromkeys(("iso8859-1", "ascii"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""Who names the one means the other: the Encoding standard of browsers says so."""


def decoded(data: bytes, content_type: str = "") -> str:
    """The text; what no charset gives sense to becomes U+FFFD."""
    if (marked := marked_codec(data)) is not None:
        return data.decode(marked, "replace")
    named = STATED.search(content_type)
    codec = _codec(named[1]) if named else None
    if codec is None:
        head = data[:MAX_LOOKED_AT]
        said = _IN_PAGE.search(head) or _IN_XML.search(head)
        codec = _codec(said[1].decode("ascii")) if said else None
        # A page whose own words can be read as ASCII is in no charset of two bytes.
        codec = "utf-8" if codec is not None and codec.startswith(("utf-16", "utf-32")) else codec
    if codec is not None:
        return data.decode(codec, "replace")
    is_utf8 = _is_utf8(data)
    return data.decode("utf-8" if is_utf8 else "cp1252", "replace")


def _codec(label: str) -> str | None:
    name = named_codec(label)
    return None if name is None else _WIDER.get(name, name)


def _is_utf8(data: bytes) -> bool:
    try:
        # Not final: the bytes may have been cut inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True

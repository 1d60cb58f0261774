"""The text of strangers: from bytes to characters, without the characters that nobody sees.

The charset is what the server says, else what the page says, else UTF-8 or Windows-1252, whichever
fits. The worker of `page_worker` imports this module, so it imports nothing of callboard.
"""

from __future__ import annotations

import codecs
import re

STATED = re.compile(r";\s*charset\s*=\s*[\"']?([^\s;\"']+)", re.IGNORECASE)
"""The charset in a content type."""

NEVER_TEXT = ("image/", "audio/", "video/", "font/")
SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""Content types of servers that don't know better."""
TEXT_TYPES = re.compile(
    r"text/.*|.*\+(json|xml|yaml)"
    r"|application/(json|xml|javascript|ecmascript|x-ndjson|yaml|x-yaml|toml|sql|graphql"
    r"|x-www-form-urlencoded)"
)
MAX_TYPE_CHARS = 100
"""How much of a content type a message shows; registered ones are shorter."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Python has codecs that no page has as its charset (idna, unicode_escape), and utf-7 hides markup.
_CHARSETS = re.compile(
    r"(utf-8|utf-16|utf-32|iso|cp|koi8|euc|gb|big5|shift_jis|ascii|mac|tis|hz|johab).*"
)


def marked_codec(data: bytes) -> str | None:
    """Return the codec of the byte order mark at the beginning, or `None`."""
    return next((codec for mark, codec in _MARKS.items() if data.startswith(mark)), None)


def named_codec(charset: str) -> str | None:
    """Return the codec of a charset, or `None` when no page has such a charset."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None
    return name if _CHARSETS.fullmatch(name) else None


MAX_LOOKED_AT = 4096
"""Where a page may name its charset; HTML asks for the first 1,024 bytes, and not all comply."""

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
"""Pages that name the one mean the other (the Encoding standard of browsers)."""


def decoded(data: bytes, content_type: str = "") -> str:
    """Return the text of a page; bytes that its charset does not have become U+FFFD."""
    if (marked := marked_codec(data)) is not None:
        return data.decode(marked, "replace")
    named = STATED.search(content_type)
    codec = _codec(named[1]) if named else None
    if codec is None:
        head = data[:MAX_LOOKED_AT]
        said = _IN_PAGE.search(head) or _IN_XML.search(head)
        codec = _codec(said[1].decode("ascii")) if said else None
        # A page whose markup reads as ASCII can't be in a charset of two bytes.
        codec = "utf-8" if codec is not None and codec.startswith(("utf-16", "utf-32")) else codec
    if codec is not None:
        return data.decode(codec, "replace")
    try:
        # not final: the bytes may be cut inside a character
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
    return data.decode("utf-8", "replace")


def _codec(label: str) -> str | None:
    name = named_codec(label)
    return None if name is None else _WIDER.get(name, name)


# ── what is seen ─────────────────────────────────────────────────────────────────────────────────

_UNSEEN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends
    r"\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff]"  # tags and more variation selectors: letters that no font shows
)
"""Zero-width joiners stay: Indic and Persian words, and emoji, are written with them."""
_HALVES = re.compile(r"[\ud800-\udfff]")
_SPACES = re.compile(r"\s+")


def visible(text: str) -> str:
    """Return the text without invisible characters; each line end is one line feed."""
    whole = _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)
    return _UNSEEN.sub("", whole.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int) -> str:
    """Return the text in one line of at most so many characters."""
    line = _SPACES.sub(" ", visible(text)).strip()
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def beginning(text: str, most: int) -> str:
    """Return at most so many characters, up to the end of a line or a word where one is near."""
    if len(text) <= most:
        return text
    kept = text[:most]
    for mark in ("\n", " "):
        end = kept.rfind(mark)
        if end >= most - most // 10:
            return kept[:end].rstrip()
    return kept

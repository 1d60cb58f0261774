"""Text and bytes of files: any text codec of Python, or base64 for other contents."""

from __future__ import annotations

import base64
import binascii
import codecs

from ..failures import invalid
from ..workspace.paths import shown

BASE64 = "base64"

_WITH_MARK = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
}
STATEFUL = ("iso2022", "hz", "utf-7")
"""Their bytes depend on all bytes before: no page can start in the middle."""
_PLAIN = frozenset({"utf-8", "utf-8-sig", "ascii"})
_FOR_HOST_NAMES = frozenset({"punycode", "idna"})
"""Not for files; Python's take minutes for 10,000 characters and can't be interrupted."""


def codec_name(encoding: str) -> str:
    """Return the codec's own name; raise `ToolFailure` (`validation_error`) for an unknown one."""
    if encoding.casefold() == BASE64:
        return BASE64
    try:
        codec = codecs.lookup(encoding)
    except (LookupError, ValueError):
        codec = None
    # Python also has codecs from text to text (rot13) and from bytes to bytes (zlib).
    is_text = getattr(codec, "_is_text_encoding", True)
    if codec is None or not is_text or codec.name in _FOR_HOST_NAMES:
        raise invalid(
            "encoding",
            f"encoding: {shown(encoding[:64])!r} is not a text encoding that Python knows; use "
            "utf-8, another codec such as latin-1 or utf-16, or base64.",
        )
    return codec.name


def encode(content: str, encoding: str) -> bytes:
    """Return the bytes of a file with this content; raise `ToolFailure` (`validation_error`)."""
    name = codec_name(encoding)
    try:
        if name == BASE64:
            return base64.b64decode("".join(content.split()), validate=True)
        return content.encode(name)
    except (UnicodeError, binascii.Error, ValueError) as error:
        raise invalid("content", f"content: it can't be written as {name}: {error}.") from error


def page_codec(name: str, head: bytes) -> str:
    """Return the codec for a page from the middle of a file, whose first bytes may hold a byte order mark."""
    if name.startswith(STATEFUL):
        raise invalid(
            "offset",
            f"offset: a {name} file can't be read from the middle; read it whole, or as base64.",
        )
    for mark, plain in _WITH_MARK.get(name, ()):
        if head.startswith(mark):
            return plain
    return "utf-8" if name == "utf-8-sig" else name


def decode_page(data: bytes, name: str, *, at_end: bool) -> tuple[str, int]:
    """Return the whole characters in a piece of a file, and how many bytes they took; raise `UnicodeError`."""
    if name in _PLAIN and b"\0" in data:
        raise UnicodeError("it holds NUL bytes")
    decoder = codecs.getincrementaldecoder(name)("strict")
    text = decoder.decode(data, final=at_end)
    return text, len(data) - len(decoder.getstate()[0])

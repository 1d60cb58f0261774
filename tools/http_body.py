"""What a model is shown of an HTTP body: text by its charset, a line about anything else."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping

import msgspec

from ..runtime.handles import WebAnswer
from .charsets import STATED, marked_codec, named_codec
from .file_facts import in_bytes
from .paths import shown

EMPTY = "(empty response body)"
NO_BODY = "(no body: HEAD asks for none)"

MAX_TYPE_CHARS = 100
"""Of a content type in a line for the model; registered ones are shorter."""

_TEXT_TYPES = re.compile(
    r"text/.*|.*\+(json|xml|yaml)"
    r"|application/(json|xml|javascript|ecmascript|x-ndjson|yaml|x-yaml|toml|sql|graphql"
    r"|x-www-form-urlencoded)"
)
_SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_NEVER_TEXT = ("image/", "audio/", "video/", "font/")
_NOT_IN_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class ShownBody(msgspec.Struct, frozen=True):
    """A body as the model gets it.

    Attributes:
        text: The text, up to its last whole character, or a line in its place.
        cut: When the text is only a part: how much of what it is; else empty.
    """

    text: str
    cut: str = ""


def shown_body(answer: WebAnswer) -> ShownBody:
    """The body for the model."""
    if not answer.body:
        return ShownBody(NO_BODY if answer.method == "HEAD" else EMPTY)
    is_cut = answer.is_larger or answer.size_bytes > len(answer.body)
    whole = (
        f"more than {answer.size_bytes} bytes" if answer.is_larger else in_bytes(answer.size_bytes)
    )
    text = _decoded(answer.body, answer.headers, at_end=not is_cut)
    if text is None:
        kind = shown(answer.headers.get("content-type", "no stated type")[:MAX_TYPE_CHARS])
        return ShownBody(f"(binary body, not shown: {whole} of {kind})")
    cut = f"The body is the first {len(answer.body)} bytes of {whole}." if is_cut else ""
    return ShownBody(text, cut)


def _decoded(data: bytes, headers: Mapping[str, str], *, at_end: bool) -> str | None:
    stated = headers.get("content-type", "")
    kind = stated.partition(";")[0].strip().lower()
    named = STATED.search(stated)
    marked = marked_codec(data)
    if named or _TEXT_TYPES.fullmatch(kind) or (marked and kind in _SAYS_NOTHING):
        codec = marked or named_codec(named[1] if named else "") or "utf-8"
        return codecs.getincrementaldecoder(codec)("replace").decode(data, final=at_end)
    if kind.startswith(_NEVER_TEXT):
        return None
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=at_end)
    except UnicodeDecodeError:
        return None
    return None if _NOT_IN_TEXT.search(text) else text

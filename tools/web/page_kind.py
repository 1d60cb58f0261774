"""What kind of page an answer is: by its content type, and by its first bytes where that says nothing."""

from __future__ import annotations

import re
from typing import Literal

from ...runtime.handles import WebAnswer

Kind = Literal["html", "pdf", "text", "other"]

_NEVER_TEXT = ("image/", "audio/", "video/", "font/")
_SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_TEXT_TYPES = re.compile(
    r"text/.*|.*\+(json|xml|yaml)"
    r"|application/(json|xml|javascript|ecmascript|x-ndjson|yaml|x-yaml|toml|sql|graphql"
    r"|x-www-form-urlencoded|x-sh|x-tex|rtf)"
)
_BEGINS_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT = 4096


def content_type(answer: WebAnswer) -> str:
    """The media type alone, in lower case; empty when there is none."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def kind_of(answer: WebAnswer) -> Kind:
    """How the answer is to be read."""
    stated = content_type(answer)
    head = answer.body[:_LOOKED_AT]
    if stated in {"text/html", "application/xhtml+xml"}:
        return "html"
    if stated in {"application/pdf", "application/x-pdf"} or (
        stated in _SAYS_NOTHING and head.startswith(b"%PDF-")
    ):
        return "pdf"
    if stated in _SAYS_NOTHING:
        if _BEGINS_HTML.match(head):
            return "html"
        return "other" if _CONTROL.search(head) else "text"
    if stated.startswith(_NEVER_TEXT):
        return "other"
    return "text" if _TEXT_TYPES.fullmatch(stated) else "other"

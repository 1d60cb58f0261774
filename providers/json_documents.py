"""JSON documents that follow each other, or stand in one list: bytes in, documents out; no I/O.

For bodies that are no event stream: one whole JSON answer, and Gemini's `[{…},{…}]`, which it sends
piece by piece when it was not asked for events. Only brackets and quotes are looked at, so nothing
is decoded twice and no depth is too deep; what is between documents is ignored.
"""

from __future__ import annotations

import re

MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
"""The largest document that is kept, as the largest event (`sse.MAX_EVENT_BYTES`)."""

_OUTSIDE = re.compile(rb"[{}\[\]\"]")
_INSIDE_TEXT = re.compile(rb"[\"\\]")


class JsonDocuments:
    """Cuts one stream into its objects.

    Attributes:
        overflowed: A document was larger than `MAX_DOCUMENT_BYTES`; nothing more comes out.
    """

    __slots__ = ("_depth", "_document", "_is_escaped", "_is_text", "overflowed")

    def __init__(self) -> None:
        self.overflowed = False
        # The bytes of the document that is not complete yet.
        self._document = bytearray()
        self._depth = 0
        self._is_text = False
        self._is_escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that these bytes complete; never raises."""
        documents: list[bytes] = []
        start = at = 0
        while not self.overflowed and at < len(data):
            if self._is_text:
                at = self._pass_text(data, at)
                continue
            found = _OUTSIDE.search(data, at)
            if found is None:
                break
            at = found.end()
            mark = found.group()
            if mark == b'"':
                self._is_text = True
            elif mark == b"{" or (mark == b"[" and self._depth):
                if not self._depth:
                    start = at - 1
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    documents.append(bytes(self._document) + data[start:at])
                    self._document.clear()
        if self._depth and not self.overflowed:
            self._document += data[start:]
            self.overflowed = len(self._document) > MAX_DOCUMENT_BYTES
        return documents

    def _pass_text(self, data: bytes, at: int) -> int:
        """Goes on within a string: the place behind its end, or behind the data."""
        if self._is_escaped:
            self._is_escaped = False
            at += 1
        while (found := _INSIDE_TEXT.search(data, at)) is not None:
            at = found.end()
            if found.group() == b'"':
                self._is_text = False
                return at
            if at == len(data):
                self._is_escaped = True
            at += 1
        return len(data)

"""The output of a program, kept within bounds while it arrives: its beginning and its end."""

from __future__ import annotations

import codecs
from collections.abc import Callable

MAX_LINE_CHARACTERS = 4096
"""A longer line is shown in pieces, so that none has to be kept whole; each but the last ends with `GOES_ON`."""
GOES_ON = "…"
MAX_LINES_AT_ONCE = 64
"""In one chunk, which is at most what a pipe holds. When more come at once, nobody reads them one by one:
they are shown some thousand characters at a time, so that a flood of empty lines costs no more than one of
long lines."""


class Capture:
    """One stream, of which so many bytes are kept, half of them from the beginning.

    `show` is called with each line as it comes.
    """

    def __init__(self, max_bytes: int, show: Callable[[str], None] | None = None) -> None:
        self.total = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._max_head = max_bytes // 2
        self._max_tail = max_bytes - self._max_head
        self._lines = None if show is None else Lines(show)

    @property
    def is_cut(self) -> bool:
        """Whether more came than was kept."""
        return self.total > len(self._head) + len(self._tail)

    def add(self, chunk: bytes) -> None:
        """Take a chunk that has arrived."""
        self.total += len(chunk)
        if self._lines is not None:
            self._lines.add(chunk)
        room = self._max_head - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._max_tail:  # seldom, since it moves what is kept
            del self._tail[: -self._max_tail]

    def end(self) -> None:
        """Show what is left of a line."""
        del self._tail[: -self._max_tail]
        if self._lines is not None:
            self._lines.end()

    def text(self) -> str:
        """Return what was kept, as text; invalid UTF-8 is replaced."""
        tail = self._tail[-self._max_tail :]
        left_out = self.total - len(self._head) - len(tail)
        if not left_out:
            return (self._head + tail).decode(errors="replace")
        # A character that was cut through is left out, not replaced.
        head = self._head.decode(errors="ignore")
        note = f"\n(… {left_out} of {self.total} bytes are left out …)\n"
        return head + note + tail.decode(errors="ignore")


class Lines:
    """Splits chunks into lines, and shows each; in a flood, many at a time."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def add(self, chunk: bytes) -> None:
        """Show the lines that this completes."""
        text = self._rest + self._decoder.decode(chunk)
        if text.count("\n") > MAX_LINES_AT_ONCE:
            text = self._in_blocks(text)
        *lines, rest = text.split("\n")
        for line in lines:
            self._show(self._in_pieces(line).removesuffix("\r"))
        self._rest = self._in_pieces(rest)

    def _in_blocks(self, text: str) -> str:
        """Show all whole lines, many at once, and return the rest."""
        begin, end = 0, text.rindex("\n") + 1
        while begin < end:
            most = min(begin + MAX_LINE_CHARACTERS - len(GOES_ON), end)
            # After the last line that fits, or within one that is longer.
            whole = text.rfind("\n", begin, most) + 1
            until = whole or most
            block = text[begin:until].replace("\r\n", "\n")
            self._show(block.removesuffix("\n").removesuffix("\r") if whole else block + GOES_ON)
            begin = until
        return text[end:]

    def _in_pieces(self, line: str) -> str:
        """Show all of a long line but its last piece, and return that."""
        while len(line) > MAX_LINE_CHARACTERS:
            most = MAX_LINE_CHARACTERS - len(GOES_ON)
            self._show(line[:most] + GOES_ON)
            line = line[most:]
        return line

    def end(self) -> None:
        """Show the last line, which has no end."""
        self._rest += self._decoder.decode(b"", final=True)
        if self._rest:
            self._show(self._rest)
            self._rest = ""

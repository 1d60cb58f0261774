"""What a program puts out, kept within bounds while it arrives: its beginning and its end."""

from __future__ import annotations

import codecs
from collections.abc import Callable

MAX_LINE_CHARACTERS = 4096
"""A longer line is shown in pieces, so that no line has to be kept whole."""
MAX_LINES_AT_ONCE = 64
"""Of one chunk, which is at most what a pipe holds. When more have come, nobody reads them one by
one: they are shown some thousand characters at a time, so that a flood of empty lines costs the
runtime no more than one of long ones."""


class Capture:
    """One stream.

    Args:
        max_bytes: How much is kept, half of it from the beginning.
        show: Is told each line as it comes, or `None`.
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
        """Takes what arrived."""
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
        """Shows what is left of a line."""
        del self._tail[: -self._max_tail]
        if self._lines is not None:
            self._lines.end()

    def text(self) -> str:
        """What was kept, as text; what is no UTF-8 is replaced."""
        tail = self._tail[-self._max_tail :]
        left_out = self.total - len(self._head) - len(tail)
        if not left_out:
            return (self._head + tail).decode(errors="replace")
        # A character that the cut goes through is left out, not replaced.
        head = self._head.decode(errors="ignore")
        note = f"\n(… {left_out} of {self.total} bytes are left out …)\n"
        return head + note + tail.decode(errors="ignore")


class Lines:
    """Makes lines of chunks, and shows each; of a flood, many at a time."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def add(self, chunk: bytes) -> None:
        """Shows the lines that this completes."""
        text = self._rest + self._decoder.decode(chunk)
        if text.count("\n") > MAX_LINES_AT_ONCE:
            text = self._in_blocks(text)
        *lines, rest = text.split("\n")
        for line in lines:
            self._show(self._in_pieces(line).removesuffix("\r"))
        self._rest = self._in_pieces(rest)

    def _in_blocks(self, text: str) -> str:
        """Shows all that ends with a line, many lines at once, and gives the rest."""
        begin, end = 0, text.rindex("\n") + 1
        while begin < end:
            most = min(begin + MAX_LINE_CHARACTERS, end)
            # Behind the last line that fits, or in the midst of one that is longer.
            until = text.rfind("\n", begin, most) + 1 or most
            block = text[begin:until].replace("\r\n", "\n")
            self._show(block.removesuffix("\n").removesuffix("\r"))
            begin = until
        return text[end:]

    def _in_pieces(self, line: str) -> str:
        """Shows all of a long line but its last piece, and gives that."""
        last = max(0, len(line) - 1) // MAX_LINE_CHARACTERS * MAX_LINE_CHARACTERS
        for start in range(0, last, MAX_LINE_CHARACTERS):
            self._show(line[start : start + MAX_LINE_CHARACTERS])
        return line[last:]

    def end(self) -> None:
        """Shows the last line, which nothing ends."""
        self._rest += self._decoder.decode(b"", final=True)
        if self._rest:
            self._show(self._rest)
            self._rest = ""

"""Server-sent events: bytes in, the data of complete events out; no I/O.

The rules are the HTML standard's ("Interpreting an event stream"): a line ends with CR, LF or
CRLF; a blank line ends an event; a line that begins with a colon is a comment; one space after a
field's colon is not part of its value; data lines are joined by LF; one BOM may come first.

Event names are kept only when asked for: the wire formats that callboard speaks repeat in the data
what the name says, but some servers don't. One name is always seen: an event named `error` ends the
stream, whatever its data are, and so does a line `error: …`, which is no field of the standard (llama.cpp).
Other lines without a field's name may be what a proxy said as it broke off, and are kept for that.

There are two paths. Nearly all bytes of a model's stream are blocks of one `data: ` line and two
line ends, or of an `event: ` line before it, and the fast path cuts a whole read of them into lines at
once. Whatever looks different goes line by line, and both leave the same state behind, so that
they can take turns within one stream.
"""

from __future__ import annotations

from io import BytesIO

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""The largest event that is kept: twice what providers accept as a whole request (Anthropic:
32 MB, OpenAI: less), so that only a broken or hostile server reaches it."""

MAX_STRAY_BYTES = 16 * 1024
"""Bytes kept of lines that are no field: the beginning of a page or an error object has the reason."""

_BOM = b"\xef\xbb\xbf"
_FIRST = b"data: "
_NAMED = b"event: "
_ERROR = b"error"
_FIELDS = (b"data", b"event", b"id", b"retry", _BOM)
_LF, _CR = (
    b"\n\r"  # as numbers: `in` finds those at once, and raises and catches an error for bytes
)


class SseParser:
    """Cuts one stream into the payloads of its events.

    Attributes:
        overflowed: An event was larger than `MAX_EVENT_BYTES`; nothing more comes out.
        error: The data of an event named `error`; nothing more comes out.
        stray: The beginning of the lines that are no field.
        names: Names of the events that the last call returned, in order, if names are kept.

    Args:
        with_names: Whether names are kept.
    """

    __slots__ = (
        "_data",
        "_data_bytes",
        "_is_between",
        "_line",
        "_name",
        "_skip_lf",
        "_started",
        "_with_names",
        "error",
        "names",
        "overflowed",
        "stray",
    )

    def __init__(self, *, with_names: bool = False) -> None:
        self.overflowed = False
        self.error: bytes | None = None
        self.stray = b""
        self.names: list[bytes] = []
        self._with_names = with_names
        self._name = b""
        self._started = False
        # The bytes of the line that is not complete yet, or of a block that begins with a name.
        self._line = bytearray()
        # The data of the event that is not complete yet, `None` when it has none. One buffer, since
        # a list of a million empty lines would take fifteen times their bytes.
        self._data: bytearray | None = None
        self._data_bytes = 0
        # The last line ended with CR: an LF that follows belongs to it.
        self._skip_lf = False
        # Nothing is kept: the next byte begins a block.
        self._is_between = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the events that these bytes complete. Never raise."""
        if self._is_between:
            lone = self._cut_lone_block(data)
            if lone:
                return lone
        if self._with_names:
            self.names = []
        if self.overflowed or self.error is not None:
            return []
        if not self._started:
            data = self._start(data)
        if self._skip_lf and data:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if _LF not in data and _CR not in data:
            # Only kept: a large event in small pieces must not be scanned again for each piece.
            self._line += data
            return self._within_bound([])
        if self._line:
            data = bytes(self._line) + data
            self._line.clear()
        payloads = None
        if self._data is None and not self._name:
            payloads = self._cut_blocks(data)
        if payloads is None:
            payloads = self._cut_lines(data)
        return self._within_bound(payloads)

    def end(self) -> list[bytes]:
        """Return the payload of an event whose blank line never came; feed nothing after it.

        The last data line counts although nothing ended it, and may be cut: the caller sees it by
        the payload's own syntax.
        """
        self.names = []
        payloads: list[bytes] = []
        for line in [*bytes(self._line).splitlines(), b""]:
            if not self.overflowed and self.error is None:
                self._take_line(line, payloads)
        return payloads

    def _start(self, data: bytes) -> bytes:
        head = bytes(self._line) + data
        self._line.clear()
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._line += head
            return b""
        self._started = True
        return head.removeprefix(_BOM)

    def _cut_lone_block(self, data: bytes) -> list[bytes]:
        """Take the fast path of one event in a read, the pace of a model; empty if it is not that."""
        name = b""
        if data[: len(_NAMED)] == _NAMED:
            name, _, data = data.partition(b"\n")
            if name.endswith(_ERROR):
                return []
        value = data.removeprefix(_FIRST).removesuffix(b"\n\n")
        if len(data) - len(value) != len(_FIRST) + 2 or _LF in value or _CR in value or _CR in name:
            return []
        if len(data) + len(name) > MAX_EVENT_BYTES:
            return []
        if self._with_names:
            self.names = [name[len(_NAMED) :]]
        return [value]

    def _cut_blocks(self, data: bytes) -> list[bytes] | None:
        """Take the fast path; return `None`, with nothing changed, if a block has another form."""
        if _CR in data:
            # Gemini ends its lines with CRLF, all of them; any other CR is for the slow path.
            data = data.replace(b"\r\n", b"\n")
            if _CR in data:
                return None
        # `split` looks at each byte by itself; this finds the ends of lines several times as fast.
        lines = BytesIO(data).readlines()
        has_names = lines[0].startswith(_NAMED)
        size = 3 if has_names else 2
        end = len(lines) // size * size
        if end and lines[end - 1][-1] != _LF:
            end -= size
        values = lines[size - 2 : end : size]
        rest = lines[end:]
        if (
            (has_names and b"event: error\n" in lines)
            or lines[size - 1 : end : size].count(b"\n") < len(values)
            or not _all_begin(values, _FIRST)
            or (has_names and not _all_begin(lines[0:end:3], _NAMED))
            or (rest and not self._keep(rest, has_names=has_names))
        ):
            return None
        if len(data) > MAX_EVENT_BYTES and max(map(len, lines)) > MAX_EVENT_BYTES:
            self._line.clear()
            return None
        if self._with_names:
            names = [line[len(_NAMED) : -1] for line in lines[0:end:3]]
            self.names = names if has_names else [b""] * len(values)
        return [line[len(_FIRST) : -1] for line in values]

    def _keep(self, rest: list[bytes], *, has_names: bool) -> bool:
        """Keep the beginning of a block for the next read; return whether it may become one."""
        if b"\n" in rest or len(rest) > 1 + has_names:
            return False
        self._line += b"".join(rest)
        return True

    def _cut_lines(self, data: bytes) -> list[bytes]:
        payloads: list[bytes] = []
        lines = data.splitlines(keepends=True)
        if not data.endswith((b"\n", b"\r")):
            self._line += lines.pop()
        self._skip_lf = data.endswith(b"\r")
        for line in lines:
            line = line.rstrip(b"\r\n")
            self.overflowed = self._data_bytes + len(line) > MAX_EVENT_BYTES
            if self.overflowed or self.error is not None:
                break
            self._take_line(line, payloads)
        return payloads

    def _take_line(self, line: bytes, payloads: list[bytes]) -> None:
        if not line:
            if self._data is not None and self._name == _ERROR:
                self.error = bytes(self._data)
            elif self._data is not None:
                payloads.append(bytes(self._data))
                if self._with_names:
                    self.names.append(self._name)
            self._name = b""
            self._data = None
            self._data_bytes = 0
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            if self._data is None:
                self._data = bytearray()
            else:
                self._data += b"\n"
            self._data += value.removeprefix(b" ")
            self._data_bytes += len(line)
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == _ERROR:
            self.error = value.strip() or None
        elif not any(name.startswith(field) for name in _FIELDS):
            self.stray += (line + b"\n")[: MAX_STRAY_BYTES - len(self.stray)]

    def _within_bound(self, payloads: list[bytes]) -> list[bytes]:
        if self.overflowed or len(self._line) + self._data_bytes > MAX_EVENT_BYTES:
            self.overflowed = True
            self._line.clear()
            self._data = None
        is_kept = self._line or self._data is not None or self._name or self._skip_lf
        is_over = self.overflowed or self.error is not None
        self._is_between = self._started and not is_kept and not is_over
        return payloads


def _all_begin(lines: list[bytes], start: bytes) -> bool:
    """Whether all lines begin with this; they do if the first and the last in order do."""
    return not lines or (min(lines).startswith(start) and max(lines).startswith(start))

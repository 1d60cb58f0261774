"""Writes spans as OTLP has them in protobuf: the packages' own way takes four times as long as all else of a span.

What is written, field by field, is `ExportTraceServiceRequest` of opentelemetry-proto 1.x:

    request        1 resource_spans
    resource_spans 1 resource (1 attributes), 2 scope_spans
    scope_spans    1 scope (1 name, 2 version), 2 spans
    span           1 trace_id, 2 span_id, 3 trace_state, 4 parent_span_id, 5 name, 6 kind, 7 start, 8 end,
                   9 attributes, 15 status (2 message, 3 code), 16 flags
    attribute      1 key, 2 value (1 string, 2 bool, 3 int, 4 double, 5 array (1 values), 6 map (1 attributes))

and of `ExportLogsServiceRequest`, where the resource and the scope stand alike:

    log_record     1 time, 5 body, 6 attributes, 8 flags, 9 trace_id, 10 span_id, 11 observed_time, 12 event_name

Numbers of variable length are `varint`; fields of a known length have it in front. A test reads what is written here with
the packages' own messages, and compares it with what they write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from struct import Struct
from typing import Any

import msgspec

from . import names
from .span import AttributeValue, Span, Template

MAX_KEPT = 2048
"""Of one sort of what is written again and again."""
_NS = 1_000_000
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
"""Bits of `flags`, as `SpanFlags` numbers them: whether it is known that the parent is elsewhere, and whether it is."""
_ERROR = 2
_PLACE = Struct("<H8sBQBQ")
_ID_TAG = 2 << 3 | 2 | 8 << 8
_START, _END = 7 << 3 | 1, 8 << 3 | 1
_FLAGS = Struct("<HI")
_FLAGS_TAG = 0x80 | (16 << 3 | 5) & 0x7F | (16 << 3 | 5) >> 7 << 8
_FLOAT = Struct("<d")
_AT = Struct("<BQ")
_SAMPLED = bytes((8 << 3 | 5, 1, 0, 0, 0))
_LISTS = (names.INPUT_MESSAGES, names.OUTPUT_MESSAGES, names.INSTRUCTIONS)


class _Kept(dict[Any, bytes]):  # ruff: ignore[subclass-builtin]  for what it does when a key is missing
    """What was written before; what is not there is written."""

    def __init__(self, write: Callable[[Any], bytes]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, key: Any) -> bytes:
        if len(self) >= MAX_KEPT:
            self.clear()
        found = self[key] = self._write(key)
        return found


class _ByName(dict[str, _Kept]):  # ruff: ignore[subclass-builtin]  as above
    """The same, for each name of an attribute; there are some dozen."""

    def __init__(self, make: Callable[[str], _Kept]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> _Kept:
        found = self[key] = self._make(key)
        return found


class SpanWriter:
    """Writes requests; used by one thread at a time.

    Args:
        resource: What is said of the process.
        scope: Name and version of who makes the spans.
    """

    def __init__(
        self, resource: Iterable[tuple[str, AttributeValue]], scope: tuple[str, str]
    ) -> None:
        self._kept = _ByName(lambda name: _Kept(lambda value: _field(9, _pair(name, value))))
        self._number_heads = _ByName(lambda name: _Kept(partial(_number_head, name)))
        self._float_heads = _Kept(lambda name: _head(name, b"\x21", _FLOAT.size))
        self._text_heads = _ByName(lambda name: _Kept(partial(_text_head, name)))
        self._span_heads = _Kept(lambda size: bytes((2 << 3 | 2,)) + _varint(size))
        name, version = scope
        self._resource = _field(1, b"".join(_field(1, _pair(*each)) for each in resource))
        self._scope = _field(1, _text(1, name) + _text(2, version))

    def request(self, spans: Sequence[Span], *, with_messages: bool) -> bytes:
        """Return a request that has these spans."""
        written = [self._scope]
        heads = self._span_heads
        for span in spans:
            its = self._span(span, with_messages)
            written += (heads[len(its)], its)
        return _field(1, self._resource + _field(2, b"".join(written)))

    def events(self, calls: Sequence[Span]) -> bytes:
        """Return a request with the events of these calls of models."""
        written = [_field(2, _event(each)) for each in calls]
        return _field(1, self._resource + _field(2, self._scope + b"".join(written)))

    def _span(self, span: Span, with_messages: bool) -> bytes:
        template = span.template
        start, end = span.start_ms * _NS, span.end_ms * _NS
        parts = [
            template.written or self._template(template),
            _PLACE.pack(_ID_TAG, span.span_id, _START, start, _END, end),
        ]
        for name, value in span.own.items():
            if type(value) is int:
                digits = _varint(value)
                parts += (self._number_heads[name][len(digits)], digits)
            elif type(value) is str:
                text = value.encode("utf-8", "replace")
                parts += (self._text_heads[name][len(text)], text)
            elif type(value) is float:
                parts += (self._float_heads[name], _FLOAT.pack(value))
            else:
                parts.append(self._kept[name][value])
        if template.is_error:
            said = _text(2, span.message) if with_messages and span.message else b""
            parts.append(_field(15, said + bytes((3 << 3, _ERROR))))
        return b"".join(parts)

    def _template(self, template: Template) -> bytes:
        template.written = self._common(template)
        return template.written

    def _common(self, template: Template) -> bytes:
        trace = template.trace
        parts = [b"\x0a\x10", trace.trace_id.to_bytes(16)]
        if trace.state:
            parts.append(_text(3, trace.state))
        flags = _HAS_IS_REMOTE
        if template.parent_id:
            parts += (b"\x22\x08", template.parent_id.to_bytes(8))
            if template.parent_id == trace.parent_id:
                flags |= _IS_REMOTE
        parts.append(_text(5, template.name))
        parts.append(b"\x30\x03" if template.kind == "client" else b"\x30\x01")
        parts += [_field(9, _pair(*each)) for each in template.attributes.items()]
        parts.append(_FLAGS.pack(_FLAGS_TAG, flags))
        if not template.is_error:
            parts.append(_field(15, b""))
        return b"".join(parts)


def event_attributes(call: Span) -> dict[str, Any]:
    """Return the attributes of the event of a call of a model: those of its span, but messages as lists.

    In spans they are JSON, since attributes of those are flat.
    """
    found: dict[str, Any] = {**call.attributes}
    for name in _LISTS:
        if name in found:
            found[name] = msgspec.json.decode(found[name])
    return found


def _event(call: Span) -> bytes:
    at_ns = call.end_ms * _NS
    parts = [
        _AT.pack(1 << 3 | 1, at_ns) + _field(5, b""),
        *(_field(6, _pair(*each)) for each in event_attributes(call).items()),
        _SAMPLED,
        b"\x4a\x10",
        call.template.trace.trace_id.to_bytes(16),
        b"\x52\x08",
        call.span_id,
        _AT.pack(11 << 3 | 1, at_ns),
        _text(12, names.DETAILS),
    ]
    return b"".join(parts)


def _pair(name: str, value: Any) -> bytes:
    return _text(1, name) + _field(2, _value(value))


def _number_head(name: str, size: int) -> bytes:
    """Return what stands before the digits of an attribute that is a number, by its name and how many they are."""
    return _head(name, b"\x18", size)


def _text_head(name: str, size: int) -> bytes:
    """Return the same for an attribute that is a text, by its name and its bytes."""
    return _head(name, b"\x0a" + _varint(size), size)


def _head(name: str, kind: bytes, size: int) -> bytes:
    named = _text(1, name)
    value = b"\x12" + _varint(len(kind) + size) + kind
    return b"\x4a" + _varint(len(named) + len(value) + size) + named + value


def _value(value: Any) -> bytes:
    match value:
        case str():
            return _text(1, value)
        case bool():
            return bytes((2 << 3, value))
        case int():
            return b"\x18" + _varint(value)
        case float():
            return b"\x21" + _FLOAT.pack(value)
        case dict():
            return _field(6, b"".join(_field(1, _pair(*each)) for each in value.items()))
        case None:
            return b""
        case _:
            return _field(5, b"".join(_field(1, _value(each)) for each in value))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode("utf-8", "replace"))


def _field(number: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return b"%c%c%b" % (number << 3 | 2, size, content)
    if size < 0x4000:
        return b"%c%c%c%b" % (number << 3 | 2, size & 0x7F | 0x80, size >> 7, content)
    return bytes((number << 3 | 2,)) + _varint(size) + content


def _varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return bytes((number,))
    if 0 <= number < 0x4000:  # as counts of tokens are: these and the next
        return (number & 0x7F | 0x80 | number >> 7 << 8).to_bytes(2, "little")
    if 0 <= number < 0x200000:
        low = number & 0x7F | 0x80 | (number << 1 & 0x7F00) | 0x8000
        return (low | number >> 14 << 16).to_bytes(3, "little")
    number &= (1 << 64) - 1
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)

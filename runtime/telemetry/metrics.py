"""Histograms of what spans measure: counted once, for OTLP and for `/metrics` alike.

Used by one thread at a time; whoever reads them is that thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import inf

import msgspec

from . import names

MAX_VALUES = 200
"""Values of one label; any further one counts as `other`."""
MAX_SERIES = 2000
"""Series of one metric; then what is new counts without its labels."""
MAX_KNOWN = 1024
"""Sets of labels, as they came, whose series are known."""
MAX_LABEL = 64
"""Characters of a label's value."""

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TURN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
_MCP_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_TOKENS = tuple(4.0**power for power in range(14))
_WAIT_SECONDS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)


class Instrument(msgspec.Struct, frozen=True):
    """A histogram as it is declared; `unit` as OTLP writes it, `bounds` where its buckets end, `labels` their names."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...]

    @property
    def prometheus_name(self) -> str:
        """Its name for Prometheus: dots become underscores, and seconds are said."""
        return self.name.replace(".", "_") + ("_seconds" if self.unit == "s" else "")


_MODEL = (names.PROVIDER, names.REQUEST_MODEL)
INSTRUMENTS = (
    Instrument(
        *(names.OPERATION_DURATION, "s", "How long calls of models take.", _SECONDS),
        (names.OPERATION, *_MODEL, names.ERROR),
    ),
    Instrument(
        *(names.TOKEN_USAGE, "{token}", "Tokens of calls of models.", _TOKENS),
        (names.OPERATION, *_MODEL, names.TOKEN_TYPE),
    ),
    Instrument(
        *(names.FIRST_CHUNK_DURATION, "s", "From a request to the first of its answer.", _SECONDS),
        (names.OPERATION, *_MODEL),
    ),
    Instrument(
        *(names.TOOL_DURATION, "s", "How long tools take.", _SECONDS),
        (names.TOOL, names.AGENT, names.ERROR),
    ),
    Instrument(
        *(names.AGENT_DURATION, "s", "How long turns take.", _TURN_SECONDS),
        (names.AGENT, names.OUTCOME, names.ERROR),
    ),
    Instrument(
        *(names.MCP_DURATION, "s", "How long calls of MCP servers take.", _MCP_SECONDS),
        (
            names.TOOL,
            names.MCP_METHOD,
            names.MCP_VERSION,
            names.TRANSPORT,
            names.ERROR,
            names.STATUS_CODE,
        ),
    ),
    Instrument(
        *(names.APPROVAL_DURATION, "s", "How long questions wait for people.", _WAIT_SECONDS),
        (names.TOOL, names.DECISION),
    ),
)

Labels = tuple[tuple[str, str], ...]


class Series(msgspec.Struct, gc=False):
    """The values of one set of labels: `counts` by bucket, which end at `bounds`; the last has no end."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float = 0.0
    least: float = inf
    most: float = 0.0

    def add(self, values: list[float]) -> None:
        """Count values, which are not negative."""
        if not values:
            return
        values.sort()
        self.total += sum(values)
        self.least, self.most = min(self.least, values[0]), max(self.most, values[-1])
        bounds, counts, counted = self.bounds, self.counts, 0
        place = bisect_left(bounds, values[0])
        while counted < len(values):
            below = (
                bisect_right(values, bounds[place], counted) if place < len(bounds) else len(values)
            )
            counts[place] += below - counted
            place, counted = place + 1, below

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)


class Metrics:
    """The histograms since the start.

    Attributes:
        series: By instrument, then by labels.
    """

    def __init__(self) -> None:
        self.series: dict[Instrument, dict[Labels, Series]] = {each: {} for each in INSTRUMENTS}
        self._by_name = {each.name: each for each in INSTRUMENTS}
        self._values: dict[str, set[str]] = {}
        self._known: dict[tuple[str, ...], Series] = {}

    def of(self, metric: str, *labels: str) -> Series:
        """Return where values are counted; `labels` are those of the metric's labels; empty ones are left out."""
        came = (metric, *labels)
        if (known := self._known.get(came)) is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[came] = self._made(metric, labels)
        return known

    def _made(self, metric: str, labels: tuple[str, ...]) -> Series:
        instrument = self._by_name[metric]
        found = self.series[instrument]
        given = sorted(zip(instrument.labels, labels, strict=False))
        key = tuple((name, self._bounded(name, text)) for name, text in given if text)
        if (series := found.get(key)) is None:
            if len(found) >= MAX_SERIES:
                key = ()
            empty = Series(instrument.bounds, [0] * (len(instrument.bounds) + 1))
            series = found.setdefault(key, empty)
        return series

    def _bounded(self, name: str, text: str) -> str:
        text = text[:MAX_LABEL]
        known = self._values.setdefault(name, set())
        if text in known:
            return text
        if len(known) >= MAX_VALUES:
            return names.OTHER
        known.add(text)
        return text

    def counted(self) -> Iterator[tuple[Instrument, list[tuple[Labels, Series]]]]:
        """Yield each instrument that has values, with its series that have some."""
        for instrument, found in self.series.items():
            if some := [each for each in found.items() if each[1].count]:
                yield instrument, some

    def text(self) -> str:
        """Return them in Prometheus' text format, without an end of line behind the last one."""
        lines: list[str] = []
        for instrument, found in self.counted():
            name = instrument.prometheus_name
            lines += [f"# HELP {name} {instrument.description}", f"# TYPE {name} histogram"]
            for labels, series in found:
                lines += _lines(name, labels, series)
        return "\n".join(lines)


def _lines(name: str, labels: Labels, series: Series) -> list[str]:
    pairs = "".join(f'{key.replace(".", "_")}="{_escaped(text)}",' for key, text in labels)
    lines, below = [], 0
    for bound, count in zip((*series.bounds, None), series.counts, strict=True):
        below += count
        shown = "+Inf" if bound is None else f"{bound:g}"
        lines.append(f'{name}_bucket{{{pairs}le="{shown}"}} {below}')
    own = f"{{{pairs.rstrip(',')}}}" if pairs else ""
    return [*lines, f"{name}_sum{own} {series.total:.6f}", f"{name}_count{own} {series.count}"]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

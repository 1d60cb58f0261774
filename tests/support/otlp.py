"""A collector: takes what is sent by OTLP over HTTP, and decodes it with the protocol's own messages."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

import callboard
from callboard.config.sections import TelemetrySettings


class Collector:
    """What came, in order.

    Attributes:
        url: The base URL.
        bodies: The requests' bodies, as they were.
        headers: Of each request, by names in lower case.
        status: How it answers.
        location: Where it sends who asks.
        may_answer: It keeps a request waiting until this is set.
        has_come: Spans have come.
        paths: Of each request.
        events: The logs that came.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.status = 200
        self.location = ""
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.has_come = threading.Event()
        self._spans: list[Span] = []
        self._points: dict[str, list[HistogramDataPoint]] = {}
        self.resource: dict[str, Any] = {}
        self.events: list[LogRecord] = []

    def take(self, path: str, body: bytes) -> None:
        """Decode a request."""
        self.bodies.append(body)
        if path == "/v1/traces":
            for its in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = attributes_of(its.resource)
                self._spans += [span for scope in its.scope_spans for span in scope.spans]
            self.has_come.set()
        elif path == "/v1/logs":
            for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.events += [event for scope in logs.scope_logs for event in scope.log_records]
        elif path == "/v1/metrics":
            found = ExportMetricsServiceRequest.FromString(body).resource_metrics
            for metric in (
                one for its in found for scope in its.scope_metrics for one in scope.metrics
            ):
                self._points[metric.name] = list(metric.histogram.data_points)

    @property
    def spans(self) -> list[Span]:
        """The spans that came, in no order of time."""
        return list(self._spans)

    def points(self, metric: str) -> dict[tuple[str, ...], HistogramDataPoint]:
        """The latest values of a histogram, by the values of their labels."""
        found = self._points.get(metric, [])
        return {tuple(map(str, attributes_of(each).values())): each for each in found}

    def settings(self, **options: Any) -> callboard.Settings:
        """Settings that send here; `options` are those of `[telemetry]`."""
        return callboard.Settings(
            telemetry=TelemetrySettings(enabled=True, endpoint=self.url, **options)
        )


@contextmanager
def open_collector() -> Generator[Collector]:
    """Run a collector around the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size)
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            collector.paths.append(self.path)
            collector.may_answer.wait()
            if collector.status == 200:
                collector.take(self.path, body)
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            if collector.location:
                self.send_header("location", collector.location)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # ruff: ignore[builtin-argument-shadowing]  theirs
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield collector
    finally:
        collector.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()


def attributes_of(its: Any) -> dict[str, Any]:
    """Return attributes as plain values."""
    return {each.key: _value_of(each.value) for each in its.attributes}


def _value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return {each.key: _value_of(each.value) for each in value.kvlist_value.values}
    if kind == "array_value":
        return tuple(_value_of(each) for each in value.array_value.values)
    return getattr(value, kind)


SHOWN = (
    *("callboard.outcome", "callboard.status", "callboard.decision", "callboard.tier"),
    *("gen_ai.response.finish_reasons", "gen_ai.usage.input_tokens", "error.type"),
)
"""The attributes that a tree shows, by the last word of their names."""


def tree(spans: Iterable[Span], shown: Iterable[str] = SHOWN) -> str:
    """Return spans as an indented tree; those side by side in the order of their lines, not of time."""
    found = list(spans)
    known = {each.span_id for each in found}
    roots = [each for each in found if each.parent_span_id not in known]
    return "\n".join(_lines(roots, found, tuple(shown)))


def _lines(level: list[Span], found: list[Span], shown: tuple[str, ...]) -> list[str]:
    blocks: list[list[str]] = []
    for span in level:
        below = [each for each in found if each.parent_span_id == span.span_id]
        inner = [f"  {line}" for line in _lines(below, found, shown)]
        blocks.append([_line(span, shown), *inner])
    return [line for block in sorted(blocks) for line in block]


def _line(span: Span, shown: tuple[str, ...]) -> str:
    its = attributes_of(span)
    words = []
    for name in shown:
        if name in its:
            value = its[name]
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            words.append(f"{name.rpartition('.')[2]}={text}")
    failed = "!" if span.status.code == Status.STATUS_CODE_ERROR else ""
    return " ".join([f"{failed}{span.name}", *words])

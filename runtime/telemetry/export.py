"""Speaks to the packages of OpenTelemetry: spans and metrics become theirs, and go to a collector.

The only module that imports them. It is imported in a worker thread, and all of it blocks.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..identity import TraceContext, own_version
from ..redaction import redacting_logger
from .metrics import Metrics
from .protobuf import SpanWriter
from .span import Span

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

logger = redacting_logger(__name__)

EXPORT_SECONDS = 10.0
"""For one request with its repetitions; what is not taken by then is dropped."""
COMPLAINT_SECONDS = 60.0
"""A collector that is away is told of once a minute, and not at every attempt."""
FLUSH_MS = 2000
"""For a processor that passes on what it holds at the end."""
_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
_NS = 1_000_000
"""Nanoseconds of a millisecond."""


class Encoder:
    """Makes the spans of the packages from ours.

    Args:
        service: What the service is called.
        with_messages: Whether a span says in words what went wrong.
    """

    def __init__(self, service: str, *, with_messages: bool) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.with_messages = with_messages
        version = own_version()
        self.scope = InstrumentationScope("callboard", version)
        self.resource = Resource.create({"service.name": service, "service.version": version})

    def encoded(self, spans: Sequence[Span]) -> list[ReadableSpan]:
        """Return spans as the packages have them."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
        from opentelemetry.trace.status import Status, StatusCode

        kinds = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
        flags, unset = TraceFlags(TraceFlags.SAMPLED), Status(StatusCode.UNSET)
        found: list[ReadableSpan] = []
        for span in spans:
            trace = span.trace
            state = TraceState.from_header([trace.state]) if trace.state else None
            parent = None
            if span.parent_id:
                is_far = span.parent_id == trace.parent_id
                parent = SpanContext(trace.trace_id, span.parent_id, is_far, flags, state)
            status = unset
            if span.is_error:
                status = Status(StatusCode.ERROR, span.message if self.with_messages else None)
            encoded = ReadableSpan(
                name=span.name,
                context=SpanContext(
                    trace.trace_id,
                    span.span_id,
                    is_remote=False,
                    trace_flags=flags,
                    trace_state=state,
                ),
                parent=parent,
                resource=self.resource,
                attributes=span.attributes,
                kind=kinds[span.kind],
                status=status,
                start_time=span.start_ms * _NS,
                end_time=span.end_ms * _NS,
                instrumentation_scope=self.scope,
            )
            found.append(encoded)
        return found


class OtlpExporter:
    """Sends spans and metrics over HTTP.

    Args:
        encoder: Makes the spans.
        endpoint: The base URL, below which the signals have their paths; `None` is what the environment says.
        headers: Sent with each request; may hold secrets.
    """

    def __init__(self, encoder: Encoder, endpoint: str | None, headers: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter

        self._encoder = encoder
        self._start_ns = time.time_ns()
        where = None if endpoint is None else endpoint.rstrip("/")
        timeout = None if _TIMEOUT in os.environ else EXPORT_SECONDS
        given = dict(headers) or None
        self._writer = SpanWriter(
            [
                (name, value)
                for name, value in encoder.resource.attributes.items()
                if isinstance(value, (str, int, float, bool))
            ],
            (encoder.scope.name, encoder.scope.version or ""),
        )
        self._spans = trace_exporter.OTLPSpanExporter(
            endpoint=None if where is None else f"{where}/v1/traces",
            headers=given,
            timeout=timeout,
            session=_session(),
        )
        self._metrics = metric_exporter.OTLPMetricExporter(
            endpoint=None if where is None else f"{where}/v1/metrics",
            headers=given,
            timeout=timeout,
            session=_session(),
        )
        for module in (trace_exporter, metric_exporter):
            theirs = logging.getLogger(module.__name__)
            if _COMPLAINTS not in theirs.filters:
                theirs.addFilter(_COMPLAINTS)

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans; return whether the collector has taken them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        # Written by `protobuf`, a tenth of the work. Where a version of theirs has no such inside, it writes them itself.
        send = getattr(getattr(self._spans, "_client", None), "export", None)
        if send is not None:
            written = self._writer.request(spans, with_messages=self._encoder.with_messages)
            return bool(send(written).success)
        return self._spans.export(self._encoder.encoded(spans)) is SpanExportResult.SUCCESS

    def send_metrics(self, metrics: MetricsData) -> bool:
        """Send metrics; return whether the collector has taken them."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        return self._metrics.export(metrics) is MetricExportResult.SUCCESS

    def metrics_data(self, metrics: Metrics) -> MetricsData:
        """Return the metrics as the packages have them, as they are now."""
        from opentelemetry.sdk.metrics.export import (
            AggregationTemporality,
            Histogram,
            HistogramDataPoint,
            Metric,
            MetricsData,
            ResourceMetrics,
            ScopeMetrics,
        )

        now = time.time_ns()
        found = [
            Metric(
                name=instrument.name,
                description=instrument.description,
                unit=instrument.unit,
                data=Histogram(
                    data_points=[
                        HistogramDataPoint(
                            attributes=dict(labels),
                            start_time_unix_nano=self._start_ns,
                            time_unix_nano=now,
                            count=its.count,
                            sum=its.total,
                            bucket_counts=list(its.counts),
                            explicit_bounds=instrument.bounds,
                            min=its.least,
                            max=its.most,
                        )
                        for labels, its in series.items()
                    ],
                    aggregation_temporality=AggregationTemporality.CUMULATIVE,
                ),
            )
            for instrument, series in metrics.series.items()
            if series
        ]
        scope = ScopeMetrics(scope=self._encoder.scope, metrics=found, schema_url="")
        its = ResourceMetrics(resource=self._encoder.resource, scope_metrics=[scope], schema_url="")
        return MetricsData(resource_metrics=[its])

    def close(self) -> None:
        """End it, at once; a request that waits to be repeated is given up."""
        shut_down: tuple[Callable[[], None], ...] = (self._spans.shutdown, self._metrics.shutdown)
        for each in shut_down:
            each()

    give_up = close


def _session() -> requests.Session | None:
    """Return what makes the requests: it follows no redirect, which would take the headers to another place.

    `None` where the environment names what does: a provider of credentials, as the packages have it.
    """
    import requests

    if any(name.endswith("_CREDENTIAL_PROVIDER") and os.environ[name] for name in os.environ):
        return None
    session = requests.Session()
    session.max_redirects = 0
    return session


class _Complaints(logging.Filter):
    """Takes what the exporters log, and says it in callboard's own log, masked and now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Say it, unless something was said not long ago; never pass it on."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + COMPLAINT_SECONDS
            logger.warning("telemetry is not delivered: %s", record.getMessage())
        return False


_COMPLAINTS = _Complaints()


class Handover:
    """Gives spans to a processor of the program's own, in place of a collector."""

    def __init__(self, encoder: Encoder, processor: SpanProcessor) -> None:
        self._encoder = encoder
        self._processor = processor

    def send(self, spans: Sequence[Span]) -> bool:
        """Hand spans over."""
        for span in self._encoder.encoded(spans):
            self._processor.on_end(span)
        return True

    def close(self) -> None:
        """Have the processor pass on what it holds; the program shuts it down."""
        self._processor.force_flush(FLUSH_MS)

    def give_up(self) -> None:
        """Leave the processor alone: it is still at something."""


def current_trace() -> TraceContext | None:
    """Return the program's current span, as a place in a trace; `None` where there is none."""
    from opentelemetry.trace import get_current_span

    its = get_current_span().get_span_context()
    if not its.is_valid:
        return None
    place = f"00-{its.trace_id:032x}-{its.span_id:016x}-{its.trace_flags:02x}"
    return TraceContext(place, its.trace_state.to_header())

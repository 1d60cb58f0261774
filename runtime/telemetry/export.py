"""Speaks to the packages of OpenTelemetry: spans, metrics and events become theirs, and go to a collector.

The only module that imports them. It is imported in a worker thread, and all of it blocks.
"""

from __future__ import annotations

import enum
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..identity import VERSION, TraceContext
from ..redaction import redacting_logger
from . import names
from .metrics import Metrics
from .protobuf import SpanWriter, event_attributes
from .span import Span

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk._logs import ReadableLogRecord
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
        self.scope = InstrumentationScope("callboard", VERSION)
        self.resource = Resource.create({"service.name": service, "service.version": VERSION})

    def encoded(self, spans: Sequence[Span]) -> list[ReadableSpan]:
        """Return spans as the packages have them."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
        from opentelemetry.trace.status import Status, StatusCode

        kinds = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
        flags, unset = TraceFlags(TraceFlags.SAMPLED), Status(StatusCode.UNSET)
        found: list[ReadableSpan] = []
        for span in spans:
            template, trace = span.template, span.template.trace
            state = TraceState.from_header([trace.state]) if trace.state else None
            parent = None
            if template.parent_id:
                is_far = template.parent_id == trace.parent_id
                parent = SpanContext(trace.trace_id, template.parent_id, is_far, flags, state)
            status = unset
            if template.is_error:
                status = Status(StatusCode.ERROR, span.message if self.with_messages else None)
            encoded = ReadableSpan(
                name=template.name,
                context=SpanContext(
                    trace.trace_id,
                    int.from_bytes(span.span_id),
                    is_remote=False,
                    trace_flags=flags,
                    trace_state=state,
                ),
                parent=parent,
                resource=self.resource,
                attributes=span.attributes,
                kind=kinds[template.kind],
                status=status,
                start_time=span.start_ms * _NS,
                end_time=span.end_ms * _NS,
                instrumentation_scope=self.scope,
            )
            found.append(encoded)
        return found

    def events(self, calls: Sequence[Span]) -> list[ReadableLogRecord]:
        """Return the events of calls of models as the packages have them."""
        from opentelemetry._logs import LogRecord
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            TraceFlags,
            set_span_in_context,
        )

        flags = TraceFlags(TraceFlags.SAMPLED)
        found: list[ReadableLogRecord] = []
        for call in calls:
            trace_id = call.template.trace.trace_id
            its = SpanContext(
                trace_id, int.from_bytes(call.span_id), is_remote=False, trace_flags=flags
            )
            record = LogRecord(
                timestamp=call.end_ms * _NS,
                observed_timestamp=call.end_ms * _NS,
                context=set_span_in_context(NonRecordingSpan(its)),
                attributes=event_attributes(call),
                event_name=names.DETAILS,
            )
            found.append(ReadableLogRecord(record, self.resource, self.scope))
        return found


class OtlpExporter:
    """Sends spans, metrics and events over HTTP.

    Args:
        encoder: Makes the spans.
        endpoint: The base URL, below which the signals have their paths; `None` is what the environment says.
        headers: Sent with each request; may hold secrets.
        signals: What is sent, of `traces`, `metrics` and `logs`.
    """

    def __init__(
        self,
        encoder: Encoder,
        endpoint: str | None,
        headers: Mapping[str, str],
        signals: Collection[str],
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http import metric_exporter, trace_exporter

        self._encoder = encoder
        self._start_ns = time.time_ns()
        self._writer = SpanWriter(
            [
                (name, value)
                for name, value in encoder.resource.attributes.items()
                if isinstance(value, (str, int, float, bool))
            ],
            (encoder.scope.name, encoder.scope.version or ""),
        )

        def opened(signal: str, kind: Callable[..., Any]) -> Any:
            if signal not in signals:
                return None
            theirs = logging.getLogger(kind.__module__)
            if _COMPLAINTS not in theirs.filters:
                theirs.addFilter(_COMPLAINTS)
            return kind(
                endpoint=None if endpoint is None else f"{endpoint.rstrip('/')}/v1/{signal}",
                headers=dict(headers) or None,
                timeout=None if _TIMEOUT in os.environ else EXPORT_SECONDS,
                session=_session(),
            )

        self._spans = opened("traces", trace_exporter.OTLPSpanExporter)
        self._metrics = opened("metrics", metric_exporter.OTLPMetricExporter)
        self._logs = None
        if "logs" in signals:
            from opentelemetry.exporter.otlp.proto.http import _log_exporter

            self._logs = opened("logs", _log_exporter.OTLPLogExporter)

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans, and the events of calls of models; return whether the collector has taken them."""
        # Written by `protobuf`, a tenth of the work. Where a version of theirs has no such inside, it writes them itself.
        if self._spans is not None:
            if (send := _inside(self._spans)) is None:
                is_taken = _is_taken(self._spans.export(self._encoder.encoded(spans)))
            else:
                with_messages = self._encoder.with_messages
                written = self._writer.request(spans, with_messages=with_messages)
                is_taken = bool(send(written).success)
            if not is_taken:
                return False
        calls = [each for each in spans if each.template.kind == "client"]
        if self._logs is None or not calls:
            return True
        if (send := _inside(self._logs)) is None:
            return _is_taken(self._logs.export(self._encoder.events(calls)))
        return bool(send(self._writer.events(calls)).success)

    def send_metrics(self, metrics: MetricsData) -> bool:
        """Send metrics; return whether the collector has taken them."""
        return self._metrics is not None and _is_taken(self._metrics.export(metrics))

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
                        for labels, its in series
                    ],
                    aggregation_temporality=AggregationTemporality.CUMULATIVE,
                ),
            )
            for instrument, series in metrics.counted()
        ]
        scope = ScopeMetrics(scope=self._encoder.scope, metrics=found, schema_url="")
        its = ResourceMetrics(resource=self._encoder.resource, scope_metrics=[scope], schema_url="")
        return MetricsData(resource_metrics=[its])

    def close(self) -> None:
        """End it, at once; a request that waits to be repeated is given up."""
        for each in (self._spans, self._metrics, self._logs):
            if each is not None:
                each.shutdown()

    give_up = close


def _inside(exporter: Any) -> Callable[[bytes], Any] | None:
    """Return what sends a request that is written."""
    found: Callable[[bytes], Any] | None
    found = getattr(getattr(exporter, "_client", None), "export", None)
    return found


def _is_taken(result: enum.Enum) -> bool:
    return result.name == "SUCCESS"


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

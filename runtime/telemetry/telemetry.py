"""Hears what is committed, has spans and metrics made of it in a thread, and sends them away.

Nothing waits for it: events are put into a queue after their commit, and everything behind that has bounds at which it
drops, and counts, what it can't keep. A collector that is away, slow or wrong costs spans, and never a turn. A kill
loses what was not sent yet; the record has all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import trio

from ..definitions import Agent, ToolDefinition
from ..errors import CallboardError
from ..events import InputAccepted, Stored, TurnStarted
from ..kernel.delivery import EventInboxes
from ..redaction import Secret, redacting_logger
from ..store.interface import StoreReader
from .context import Tracing
from .metrics import Metrics
from .span import Provider, Span
from .spans import HEARD, HEARD_OF_SPANS, SpanBuilder

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor as SpanProcessor

    from .export import Handover, OtlpExporter

logger = redacting_logger(__name__)

MAX_EVENTS = 3072
"""Events that wait to be folded; then the oldest go. Most of a second of the busiest runtime; with the spans, 2 MB."""
FOLD_EVENTS = 512
"""So many are folded at once, without waiting for more."""
MAX_SPANS = 1024
"""Spans that wait for the collector; then the oldest go."""
MAX_CONTENT_BYTES = 16 * 1024 * 1024
"""What those may take with content; then the oldest go, too."""
SPAN_BYTES = 1024
"""What a span takes beside its texts."""
MAX_SENT = 256
"""Spans of one request; they are sent as soon as there are so many."""
MAX_SENT_BYTES = 2 * 1024 * 1024
"""Of one request, before the span that reaches it: collectors refuse what is larger than some MiB."""
COMPLAINT_SECONDS = 60.0
"""What keeps failing is said once a minute."""
GATHER_SECONDS = 0.5
"""Events are folded together: a thread that wakes for each costs more than its work."""
SEND_SECONDS = 1.0
"""Spans are sent together."""
METRICS_SECONDS = 60.0
"""As OTLP's own exporters do by default."""
FLUSH_SECONDS = 2.0
"""For what is left at the end: less than a supervisor waits for."""
LOOK_SECONDS = 1.0
"""For a read of the record; a store that is stuck keeps nobody waiting here."""
MAX_KNOWN = 256
"""Names of agents, tools and providers of which facts are kept."""
MAX_EARLIER = 2000
"""Events of a turn that began in another process, of which the latest are read."""
_PAGE = 500

_Answer = TypeVar("_Answer")


class TelemetryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What telemetry is to be.

    Attributes:
        service: What the service is called.
        endpoint: The collector's base URL; `None` is what the environment says.
        headers: What is sent with each request; may hold secrets.
        sample: The share of traces that are kept.
        propagate: The hosts that are told where they are asked from.
        with_content: Whether what was said goes along.
        signals: Which of `traces`, `metrics` and `logs` are sent; `logs` only have something with content.
        processor: The program's own, in place of a collector.
        agent: Returns an agent in force; like the next two in Trio's thread, without waiting.
        tool: Returns the definition of a tool that all sessions have, or that the named one has for itself.
        provider_url: Returns the base URL of a provider; empty when it is not known.
    """

    service: str = "callboard"
    endpoint: str | None = None
    headers: Mapping[str, Secret] = {}
    sample: float = 1.0
    propagate: frozenset[str] = frozenset()
    with_content: bool = False
    signals: tuple[str, ...] = ("traces", "metrics", "logs")
    processor: SpanProcessor | None = None
    agent: Callable[[str], Agent | None] = lambda name: None
    tool: Callable[[str, str], ToolDefinition | None] = lambda name, session_id: None
    provider_url: Callable[[str], str] = lambda name: ""


class LookedUp:
    """Facts for the thread, which it asks Trio's thread for; those that were asked once are there at each batch."""

    def __init__(self, store: StoreReader, plan: TelemetryPlan) -> None:
        self._store = store
        self._plan = plan
        self._known: dict[tuple[str, ...], Any] = {}

    def refresh(self) -> None:
        """Ask again for all that was asked before, since a configuration may change; in Trio's thread.

        A thread that asks one by one wakes both threads each time, which takes longer than all else of a span.
        """
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        for key in self._known:
            self._known[key] = self._ask(*key)

    def agent_of(self, session_id: str) -> str:
        """See `span.Facts`."""
        row = self._read(lambda: self._store.session(session_id), None)
        return "" if row is None else row.agent

    def record(self, session_id: str, before_seq: int) -> list[Stored]:
        """See `span.Facts`; back to the start of the latest turn."""
        found: list[Stored] = []
        while before_seq > 1 and len(found) < MAX_EARLIER:
            after = max(0, before_seq - 1 - _PAGE)
            count = before_seq - 1 - after
            page = self._read(
                lambda after=after, count=count: self._store.events(  # type: ignore[misc]
                    session_id, after_seq=after, limit=count
                ),
                [],
            )
            found = [*page, *found]
            before_seq = after + 1
            if not page or _has_turn(found):
                break
        return found

    def agent(self, name: str) -> Agent | None:
        """See `span.Facts`."""
        found: Agent | None = self._asked("agent", name)
        return found

    def tool(self, name: str, session_id: str) -> ToolDefinition | None:
        """See `span.Facts`."""
        found: ToolDefinition | None = self._asked("tool", name)
        if found is None:  # few sessions have one for themselves, and what all have is kept once
            found = self._asked("tool", name, session_id)
        return found

    def provider(self, name: str) -> Provider:
        """See `span.Facts`."""
        found: Provider = self._asked("provider", name)
        return found

    def _asked(self, *key: str) -> Any:
        if key not in self._known:
            self._known[key] = trio.from_thread.run_sync(lambda: self._ask(*key))
        return self._known[key]

    def _ask(self, kind: str, name: str, session_id: str = "") -> Any:
        match kind:
            case "agent":
                return self._plan.agent(name)
            case "tool":
                return self._plan.tool(name, session_id)
            case _:
                return _place_of(self._plan.provider_url(name))

    def _read(self, read: Callable[[], Any], default: Any) -> Any:
        async def bounded() -> Any:
            with trio.move_on_after(LOOK_SECONDS), suppress(CallboardError):
                return await read()
            return default

        return trio.from_thread.run(bounded)


class Telemetry:
    """Telemetry of one runtime.

    Attributes:
        tracing: Where turns stand, for what they start.
        has_processor: Whether spans go to a processor of the program's own.
        lost_events: Events that were dropped unread.
        lost_spans: Spans that were dropped, or that the collector did not take.
    """

    def __init__(self, plan: TelemetryPlan) -> None:
        self.tracing = Tracing(plan.sample, plan.propagate)
        self.has_processor = plan.processor is not None
        self.lost_events = self.lost_spans = 0
        self._plan = plan
        self._events: deque[Stored] = deque()
        self._spans: deque[Span] = deque()
        self._bytes = 0
        self._heard = HEARD if plan.with_content else HEARD_OF_SPANS
        self._wake, self._hurry, self._full = trio.Event(), trio.Event(), trio.Event()
        self._is_awake = False
        self._closing, self._has_folded = trio.Event(), trio.Event()
        self._metrics = Metrics()
        wanted = ("traces", "logs") if plan.with_content else ("traces",)
        self._sends_spans = any(each in plan.signals for each in wanted)
        self._one = trio.CapacityLimiter(1)  # of threads that use the builder and the metrics
        self._exporter: OtlpExporter | Handover | None = None
        self._complained_at = -inf

    @asynccontextmanager
    async def running(self, inboxes: EventInboxes, store: StoreReader) -> AsyncGenerator[None]:
        """Hear what is committed while the block runs; then send what is left, within `FLUSH_SECONDS`."""
        facts = LookedUp(store, self._plan)
        content = None
        if self._plan.with_content:
            from .content import Said  # here: most runtimes send none

            content = Said()
        builder = SpanBuilder(facts, self.tracing, self._metrics, content)
        stop = inboxes.watch(self.hear)
        raised: BaseException | None = None
        with trio.CancelScope() as bound:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fold_all, builder, facts, name="telemetry")
                nursery.start_soon(self._send_all, name="telemetry export")
                try:
                    yield
                except BaseException as error:  # noqa: ASYNC103  raised again below
                    raised = error
                finally:
                    stop()
                    for each in (self._closing, self._wake, self._hurry, self._full):
                        each.set()
                    bound.deadline = trio.current_time() + FLUSH_SECONDS
        if bound.cancelled_caught and self._exporter is not None:
            self._exporter.give_up()
        self.lost_events += len(self._events)
        self.lost_spans += len(self._spans)
        if self.lost_events or self.lost_spans:
            logger.warning(
                "telemetry: %d events were not looked at, and %d spans were not delivered",
                self.lost_events,
                self.lost_spans,
            )
        if raised is not None:
            raise raised

    def hear(self, stored: tuple[Stored, ...]) -> None:
        """Queue committed events; never wait, never fail."""
        # In the loop, for every commit of the runtime: no more than must be.
        events, heard = self._events, self._heard
        for each in stored:
            if each.event.__class__ in heard:
                events.append(each)
        if len(events) < FOLD_EVENTS and (self._is_awake or not events):
            return
        while len(events) > MAX_EVENTS:
            events.popleft()
            self.lost_events += 1
        self._is_awake = True
        self._wake.set()
        if len(events) >= FOLD_EVENTS:
            self._hurry.set()

    async def metrics_text(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return await trio.to_thread.run_sync(self._metrics.text, limiter=self._one)

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    async def _fold_all(self, builder: SpanBuilder, facts: LookedUp) -> None:
        """Have spans made until the end; what comes within a moment is folded together."""
        while not self._closing.is_set():
            await self._wake.wait()
            with trio.move_on_after(GATHER_SECONDS):
                await self._hurry.wait()
            self._wake, self._hurry, self._is_awake = trio.Event(), trio.Event(), False
            await self._fold_waiting(builder, facts)
        await self._fold_waiting(builder, facts)
        self._has_folded.set()

    async def _fold_waiting(self, builder: SpanBuilder, facts: LookedUp) -> None:
        while self._events:
            taken = min(len(self._events), FOLD_EVENTS)
            events = [self._events.popleft() for _ in range(taken)]
            facts.refresh()
            fold = partial(_folded, builder, events)
            spans, fault = await trio.to_thread.run_sync(fold, limiter=self._one)
            if fault is not None:
                self._complain("an event made no span", fault)
            self._keep(spans)

    def _keep(self, spans: list[Span]) -> None:
        """Queue spans."""
        if not self._sends_spans:
            return
        self._spans += spans
        if self._plan.with_content:
            self._bytes += sum(map(_size, spans))
        while len(self._spans) > MAX_SPANS or self._bytes > MAX_CONTENT_BYTES:
            self._taken()
            self.lost_spans += 1
        if len(self._spans) >= MAX_SENT:
            self._full.set()

    def _taken(self) -> tuple[Span, int]:
        """Take the oldest span; return its size, too, where that counts."""
        span = self._spans.popleft()
        size = _size(span) if self._plan.with_content else 0
        self._bytes -= size
        return span, size

    # ── what is sent ─────────────────────────────────────────────────────────────────────────────

    async def _send_all(self) -> None:
        """Send until the end, spans soon and metrics now and then."""
        counted_at = trio.current_time()
        while not self._closing.is_set():
            with trio.move_on_after(SEND_SECONDS):
                await self._full.wait()
            self._full = trio.Event()
            await self._send_spans()
            if trio.current_time() - counted_at >= METRICS_SECONDS:
                counted_at = trio.current_time()
                await self._send_metrics()
        await self._has_folded.wait()
        await self._send_spans()
        await self._send_metrics()
        if self._exporter is not None:
            await trio.to_thread.run_sync(self._exporter.close, abandon_on_cancel=True)

    async def _send_spans(self) -> None:
        """Send what waits; what is not taken is dropped: the exporter has repeated it for as long as it may."""
        while self._spans:
            spans: list[Span] = []
            size = 0
            while self._spans and len(spans) < MAX_SENT and size < MAX_SENT_BYTES:
                span, its_size = self._taken()
                spans.append(span)
                size += its_size
            self.lost_spans += len(spans)  # unless
            if await self._done(partial(self._sent, spans)):
                self.lost_spans -= len(spans)

    async def _send_metrics(self) -> None:
        if "metrics" in self._plan.signals and not self.has_processor:
            data = await self._done(lambda: self._exported().metrics_data(self._metrics), self._one)
            if data is not None:
                await self._done(lambda: self._exported().send_metrics(data))

    async def _done(
        self, work: Callable[[], _Answer], limiter: trio.CapacityLimiter | None = None
    ) -> _Answer | None:
        """Do this in a thread; log what it fails with, now and then, and return `None`."""
        try:
            return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
        except Exception as fault:  # the packages', or the program's processor's: it costs spans
            self._complain("it is not delivered", fault)
            return None

    def _complain(self, what: str, fault: Exception) -> None:
        """Log a fault of telemetry, which costs spans and no turn; a fault that stays, once a minute."""
        now = trio.current_time()
        if now - self._complained_at >= COMPLAINT_SECONDS:
            self._complained_at = now
            logger.warning("telemetry: %s: %s", what, fault, exc_info=fault)

    def _sent(self, spans: Sequence[Span]) -> bool:
        return self._opened().send(spans)

    def _exported(self) -> OtlpExporter:
        from .export import OtlpExporter

        exporter = self._opened()
        assert isinstance(exporter, OtlpExporter)
        return exporter

    def _opened(self) -> OtlpExporter | Handover:
        """Return what sends, opened at its first use: importing the packages takes a fifth of a second."""
        if self._exporter is None:
            from .export import Encoder, Handover, OtlpExporter

            plan = self._plan
            encoder = Encoder(plan.service, with_messages=plan.with_content)
            if plan.processor is not None:
                self._exporter = Handover(encoder, plan.processor)
            else:
                headers = {name: each.reveal() for name, each in plan.headers.items()}
                signals = plan.signals
                if not plan.with_content:
                    signals = tuple(each for each in signals if each != "logs")
                self._exporter = OtlpExporter(encoder, plan.endpoint, headers, signals)
        return self._exporter


def _folded(builder: SpanBuilder, events: Iterable[Stored]) -> tuple[list[Span], Exception | None]:
    """Return the spans, and what went wrong last."""
    fault = builder.fold(events)
    return builder.take(), fault


def _size(span: Span) -> int:
    """Return about how many bytes a span with content takes."""
    return SPAN_BYTES + sum(len(each) for each in span.own.values() if isinstance(each, str))


def _has_turn(events: Sequence[Stored]) -> bool:
    """Whether the latest turn that began in them has its inputs there too."""
    accepted: set[str] = set()
    found = False
    for stored in events:
        match stored.event:
            case InputAccepted(input_id=input_id):
                accepted.add(input_id)
            case TurnStarted(input_ids=ids):
                found = accepted.issuperset(ids)
            case _:
                pass
    return found


@lru_cache(maxsize=64)
def _place_of(url: str) -> Provider:
    where = urlsplit(url)
    port = where.port or {"https": 443, "http": 80}.get(where.scheme, 0)
    return Provider(where.hostname or "", port)

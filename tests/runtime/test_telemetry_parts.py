"""Telemetry's parts: what is written, what is kept, and where its bounds are."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
import trio
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import callboard
import callboard.runtime.telemetry.telemetry as telemetry_module
from callboard.config.sections import TelemetrySettings
from callboard.runtime.definitions import Agent, CallStatus, ToolDefinition
from callboard.runtime.event_types.calls import CalledServer
from callboard.runtime.events import (
    CallFinished,
    DurableEvent,
    InputAccepted,
    InputCancelled,
    MessageCompleted,
    SessionCreated,
    Stored,
    TurnEnded,
    TurnStarted,
)
from callboard.runtime.history import Text
from callboard.runtime.identity import TraceContext
from callboard.runtime.redaction import Secret, redactor
from callboard.runtime.store.memory_store import open_memory_store
from callboard.runtime.stream import Usage
from callboard.runtime.telemetry import content as content_module
from callboard.runtime.telemetry.content import MAX_BYTES, Heard, Said
from callboard.runtime.telemetry.context import Tracing, TurnTrace
from callboard.runtime.telemetry.export import Encoder
from callboard.runtime.telemetry.metrics import MAX_VALUES, Metrics
from callboard.runtime.telemetry.protobuf import SpanWriter
from callboard.runtime.telemetry.span import Provider, Span, Template
from callboard.runtime.telemetry.spans import MAX_OPEN, SpanBuilder
from callboard.runtime.telemetry.telemetry import (
    MAX_EVENTS,
    LookedUp,
    Telemetry,
    TelemetryPlan,
)

ASKED = TraceContext(f"00-{'a' * 32}-{'b' * 16}-01")


class NoFacts:
    """Knows nothing beside the events."""

    def agent_of(self, session_id: str) -> str:
        return ""

    def record(self, session_id: str, before_seq: int) -> list[Stored]:
        return []

    def agent(self, name: str) -> Agent | None:
        return None

    def tool(self, name: str, session_id: str) -> ToolDefinition | None:
        return None

    def provider(self, name: str) -> Provider:
        return Provider()


class Folded:
    """A builder, and the events that it gets, numbered."""

    def __init__(self) -> None:
        self.builder = SpanBuilder(NoFacts(), Tracing())
        self.seq = 0

    def take(self, event: DurableEvent) -> list[Span]:
        self.seq += 1
        stored = Stored(session_id="session_1", seq=self.seq, at_ms=1_000 + self.seq, event=event)
        assert self.builder.fold([stored]) is None
        return self.builder.take()


TRACE = TurnTrace(int("a" * 32, 16), int("b" * 16, 16), state="vendor=1,other=2")
OWN = TurnTrace(7)
NOWHERE = Metrics().of("gen_ai.invoke_agent.duration")


def _template(trace: TurnTrace, parent_id: int, **options: Any) -> Template:
    shared: dict[str, Any] = {"name": "turn", "attributes": {"always": "ä"}, **options}
    return Template(trace=trace, parent_id=parent_id, series=(NOWHERE,), **shared)


def _span(template: Template, message: str = "", **own: Any) -> Span:
    return Span(template, b"\x80" + bytes(7), 1_700_000_000_000, 1_700_000_000_250, own, message)


CHAT = _template(OWN, 1, kind="client", attributes={})
SPANS: dict[str, Callable[[], Span]] = {
    "below another program's": lambda: _span(_template(TRACE, TRACE.parent_id), a="ä"),
    "a root": lambda: _span(_template(OWN, 0)),
    "a client's": lambda: _span(CHAT, n=1 << 40, x=0.5, on=True, off=False, t=("a", "b")),
    "numbers of all lengths": lambda: _span(
        CHAT, a=0, b=127, c=128, d=1 << 14, e=1 << 21, f=-1, g=(1 << 63) - 1
    ),
    "equal values of other types": lambda: _span(CHAT, m=1, y=1.0, also=True),
    "a failure": lambda: _span(_template(OWN, 1, is_error=True), "Why."),
    "texts of all lengths": lambda: _span(
        CHAT,
        **{f"t{size}": "x" * size for size in (0, 1, 110, 118, 119, 120, 121, 122, 16_384, 40_000)},
    ),
    "a long name": lambda: _span(_template(OWN, 1, name="n" * 300)),
}


@pytest.mark.parametrize("with_messages", [True, False])
def test_spans_are_written_as_the_packages_write_them(with_messages: bool) -> None:
    encoder = Encoder("mine", with_messages=with_messages)
    spans = [make() for make in SPANS.values()] * 2  # the second time from what is kept
    resource = [(name, str(value)) for name, value in encoder.resource.attributes.items()]
    writer = SpanWriter(resource, (encoder.scope.name, encoder.scope.version or ""))
    theirs = encode_spans(encoder.encoded(spans))
    for _ in range(2):
        ours = type(theirs).FromString(writer.request(spans, with_messages=with_messages))
        assert ours == theirs


def test_events_are_written_as_the_packages_write_them() -> None:
    encoder = Encoder("mine", with_messages=True)
    said = {
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"ä"},{"x":null,"n":1}]}]',
        "gen_ai.output.messages": f'["{"x" * 20_000}"]',
        "gen_ai.system_instructions": "[]",
    }
    calls = [_span(CHAT, **said, n=1), _span(CHAT)]
    resource = [(name, str(value)) for name, value in encoder.resource.attributes.items()]
    writer = SpanWriter(resource, (encoder.scope.name, encoder.scope.version or ""))
    theirs = encode_logs(encoder.events(calls))
    assert type(theirs).FromString(writer.events(calls)) == theirs


def test_half_a_character_of_a_model_is_written_as_a_question_mark() -> None:
    writer = SpanWriter([], ("callboard", "1"))
    span = _span(_template(OWN, 0, name="chat \ud800"), a="\udfff")
    assert b"chat ?" in writer.request([span], with_messages=True)


@pytest.mark.parametrize("given", ["", "nonsense", "00-zz-zz-01", f"00-{'0' * 32}-{'b' * 16}-01"])
def test_a_malformed_place_on_record_is_none(given: str) -> None:
    """A record may have been imported: what is in it was checked by nobody here."""
    tracing = Tracing()
    own = tracing.of_turn(None, "session_1", "turn_1")
    assert tracing.of_turn(TraceContext(given), "session_1", "turn_1") == own
    assert tracing.of_turn(ASKED, "session_1", "turn_1") != own


def test_calls_that_two_sessions_number_alike_are_two_spans_of_their_trace() -> None:
    first, second = (Tracing().of_turn(ASKED, each, "turn") for each in ("session_1", "session_2"))
    assert first.trace_id == second.trace_id
    assert first.below("call_0") != second.below("call_0")
    assert first.below("call_0") == first.below("call_0")


def test_inputs_that_were_cancelled_leave_room_for_others() -> None:
    folded = Folded()
    folded.take(SessionCreated(agent="general", workspace="/w"))
    for number in range(MAX_OPEN + 1):
        folded.take(InputAccepted(input_id=f"input_{number}", text="x"))
        folded.take(InputCancelled(input_id=f"input_{number}", reason="withdrawn"))
    folded.take(InputAccepted(input_id="input_last", text="x", trace=ASKED))
    started = {"provider": "p", "model": "m", "input_ids": ("input_last",)}
    folded.take(TurnStarted(turn_id="turn_1", **started))  # type: ignore[arg-type]
    [span] = folded.take(TurnEnded(turn_id="turn_1", outcome="answered"))
    assert f"{span.template.trace.trace_id:x}" == "a" * 32


def _waiting(monkeypatch: pytest.MonkeyPatch, *events: DurableEvent) -> Telemetry:
    monkeypatch.setattr(telemetry_module, "MAX_EVENTS", 3)
    monkeypatch.setattr(telemetry_module, "FOLD_EVENTS", 2)
    telemetry = Telemetry(TelemetryPlan())
    stored = [Stored(session_id="s", seq=i, at_ms=i, event=each) for i, each in enumerate(events)]
    telemetry.hear(tuple(stored))
    return telemetry


async def test_events_that_find_no_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [InputAccepted(input_id=str(number), text="x") for number in range(5)]
    assert _waiting(monkeypatch, *inputs).lost_events == 2
    assert _waiting(monkeypatch, *inputs[:3]).lost_events == 0


_Ids = list[tuple[str, str, str]]


def _turns(ids: _Ids, calls: int, numbers: Iterator[int]) -> Iterator[Stored]:
    """Turns of so many calls, in one session, with numbers that no two of them share."""
    for turn_id, message_id, call_id in ids:
        events: list[DurableEvent] = [
            InputAccepted(input_id=turn_id, text=""),
            TurnStarted(turn_id=turn_id, provider="p", model="m", input_ids=(turn_id,)),
        ]
        for _ in range(calls or 1):
            n = next(numbers)
            usage = Usage(input_tokens=n, output_tokens=n + 1)
            its: dict[str, Any] = {"provider": "p", "model": "m", "stop_reason": "tool_calls"}
            its |= {"parts": (), "usage": usage, "first_ms": n + 2, "duration_ms": n + 3}
            events.append(MessageCompleted(turn_id=turn_id, message_id=message_id, **its))
            if calls:
                ran: dict[str, Any] = {"name": "add", "status": CallStatus.SUCCESS, "result": ""}
                events.append(CallFinished(turn_id=turn_id, call_id=call_id, duration_ms=n, **ran))
        events.append(TurnEnded(turn_id=turn_id, outcome="answered"))
        for each in events:
            seq = next(numbers)
            at_ms = 1_700_000_000_000 + seq
            yield Stored(session_id="session_1", seq=seq, at_ms=at_ms, event=each)


@pytest.mark.parametrize("calls", [0, 50])
async def test_what_waits_takes_two_megabytes(calls: int) -> None:
    """Events that are not folded and spans that are not sent, both as many as there may be; ids are their sessions'."""
    telemetry = Telemetry(TelemetryPlan())
    builder = SpanBuilder(NoFacts(), Tracing())
    numbers = count(1000)  # smaller ones the interpreter may share
    events_of_a_turn = 3 + max(1, 2 * calls)
    turns = range(MAX_EVENTS // events_of_a_turn + 1)
    ids = [(f"turn_{n:020}", f"message_{n:020}", f"call_{n:020}") for n in turns]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for each in _turns(ids, calls, numbers):
            telemetry.hear((each,))
        assert builder.fold(_turns(ids, calls, numbers)) is None
        telemetry._keep(builder.take())
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert telemetry.lost_events > 0
    assert telemetry.lost_spans > 0
    assert taken <= 2 << 20


async def test_events_of_which_no_span_is_made_take_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = [callboard.PlanSet(turn_id="t", call_id="c", items=())] * 5
    kept = InputAccepted(input_id="1", text="x")
    assert _waiting(monkeypatch, kept, *others).lost_events == 0


def test_facts_that_were_asked_for_once_are_asked_for_again_at_each_batch() -> None:
    agents = {"general": Agent(name="general", temperature=0.1)}
    facts = LookedUp(open_memory_store(), TelemetryPlan(agent=agents.get))
    facts._known["agent", "general"] = agents["general"]
    agents["general"] = Agent(name="general", temperature=0.9)
    facts.refresh()
    found = facts.agent("general")
    assert found is not None
    assert found.temperature == 0.9


async def test_a_tool_of_one_session_is_found_for_it_alone() -> None:
    own = ToolDefinition(name="say", description="Says.", parameters={})
    plan = TelemetryPlan(tool=lambda name, session_id: own if session_id == "one" else None)
    facts = LookedUp(open_memory_store(), plan)

    def look() -> list[ToolDefinition | None]:
        return [facts.tool("say", each) for each in ("other", "one", "other")]

    assert await trio.to_thread.run_sync(look) == [None, own, None]
    facts.refresh()
    assert await trio.to_thread.run_sync(look) == [None, own, None]


@pytest.mark.parametrize("server", [CalledServer(name="fake"), None])
def test_a_tool_that_a_server_ran_keeps_its_name_when_it_has_gone(
    server: CalledServer | None,
) -> None:
    folded = Folded()
    folded.take(SessionCreated(agent="general", workspace="/w"))
    folded.take(TurnStarted(turn_id="turn_1", provider="p", model="m", input_ids=()))
    ran = {"name": "fake__say", "status": CallStatus.SUCCESS, "result": "", "server": server}
    [span] = folded.take(CallFinished(turn_id="turn_1", call_id="c", **ran))  # type: ignore[arg-type]
    name = "other" if server is None else "fake__say"
    assert (span.template.name, span.attributes["gen_ai.tool.name"]) == (
        f"execute_tool {name}",
        name,
    )
    assert ("mcp.method.name" in span.attributes) == (server is not None)
    assert len(span.template.series) == (1 if server is None else 2)


def _answer(parts: tuple[Text, ...]) -> MessageCompleted:
    return MessageCompleted(turn_id="t", message_id="m", provider="p", model="m", parts=parts)


def test_a_secret_at_the_end_of_what_is_cut_is_masked_whole() -> None:
    secret = Secret("hunter2-hunter2-hunter2-hunter2")
    redactor.add(secret)
    try:
        said = Said()
        text = "x" * (MAX_BYTES // 2 - 20) + secret.reveal() + "y" * MAX_BYTES
        event = _answer((Text(text),))
        found = str(said.of_answer("s", event, None))
    finally:
        redactor.discard(secret)
    assert "[cut]" in found
    assert "hunter" not in found


@pytest.mark.parametrize("piece", ["x", "ä", '"', "\x01", "\N{GRINNING FACE}"])
def test_long_messages_stay_json_that_fits(piece: str) -> None:
    said = Said()
    parts = tuple(Text(piece * MAX_BYTES) for _ in range(4))
    event = _answer(parts)
    for _ in range(3):
        said.fold("s", InputAccepted(input_id="i", text=piece * MAX_BYTES))
        said.fold("s", event)
    found = said.of_answer("s", event, Agent(name="a", prompt=piece * MAX_BYTES))
    for text in found.values():
        assert isinstance(text, str)
        assert len(text.encode()) <= MAX_BYTES
        assert json.loads(text)


def test_what_sessions_keep_for_their_next_call_has_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = Heard()
    heard.add("user", [{"type": "text", "content": "Hello."}])
    monkeypatch.setattr(content_module, "MAX_HEARD", 2 * heard.size)
    said = Said()
    for session in ("first", "second", "third"):
        said.fold(session, InputAccepted(input_id="i", text="Hello."))
    event = _answer(())
    names = {
        each: "gen_ai.input.messages" in said.of_answer(each, event, None) for each in said._all
    }
    assert names == {"second": True, "third": True}


@pytest.mark.parametrize(
    "host", ["https://a.test", "a.test/x", "a.test:443", "", "a test", "*.test"]
)
def test_what_is_no_host_is_told_nothing(host: str) -> None:
    with pytest.raises(ValueError, match="is not a host: write api"):
        TelemetrySettings(propagate=(host,))


def test_hosts_are_told_however_they_are_written() -> None:
    told = TelemetrySettings(propagate=("API.Example.com.", "::1", "127.0.0.1")).propagate
    assert told == ("api.example.com", "::1", "127.0.0.1")


def test_values_of_a_batch_are_counted_as_one_by_one() -> None:
    metrics = Metrics()
    together, alone = (metrics.of("gen_ai.execute_tool.duration", name) for name in "ab")
    values = [0.02, 0.0, 5.0, 0.01, 0.010001, 1000.0, 81.92, 0.02]
    for value in values:
        alone.add([value])
    together.add([*values[:3]])
    together.add([])
    together.add([*values[3:]])
    assert together == msgspec.structs.replace(alone, total=together.total)
    assert together.counts == [2, 3, *[0] * 7, 1, *[0] * 3, 1, 1]
    assert together.total == pytest.approx(sum(values))


def test_labels_have_a_bound() -> None:
    metrics = Metrics()
    for number in range(MAX_VALUES + 5):
        metrics.of("gen_ai.execute_tool.duration", f"tool_{number}", "general").add([0.1])
    [(_, series)] = [each for each in metrics.series.items() if each[1]]
    assert len(series) == MAX_VALUES + 1
    assert sum(its.count for its in series.values()) == MAX_VALUES + 5

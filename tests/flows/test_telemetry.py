"""Traces of whole turns, as a collector gets them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.types import (
    InputMessage,
    OutputMessage,
    TextPart,
    ToolCallRequestPart,
)

import callboard
import callboard.runtime.telemetry.telemetry as telemetry_module
from callboard import Runtime
from callboard.actors.permissions.asking import Approver
from callboard.config.base_url import origin
from callboard.config.keys.store import open_key_store
from callboard.config.settings import NetworkSettings
from callboard.embedding.runtime import host_of
from callboard.providers.testing.script import Answered, ScriptedReply, Step, fail, reply
from callboard.providers.testing.scripted_server import open_scripted_server
from callboard.runtime.redaction import Secret
from callboard.runtime.telemetry.spans import SpanBuilder
from support.cast import Cast, open_cast, part, task
from support.flows.killed import WATCHDOG_SECONDS, running
from support.otlp import Collector, attributes_of, open_collector, tree
from support.sandbox.sandbox_users import needs_sandbox
from support.web.web_server import open_web_server, page


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(telemetry_module, "FLUSH_SECONDS", 60)  # of a machine with much to do
    with open_collector() as found:
        yield found


def golden(text: str) -> str:
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines if line.strip())


async def test_parallel_calls(tmp_path: Path, collector: Collector) -> None:
    (tmp_path / "a.txt").write_text("A")
    reads = [("read_file", {"path": "a.txt"}), ("list_directory", {"path": "."}), ("nothing", {})]
    model = callboard.ScriptedModel([reply("Look.", calls=reads), reply("Done.")])
    async with callboard.open_runtime(
        model=model, workspace=tmp_path, settings=collector.settings(service_name="mine")
    ) as runtime:
        session = await runtime.create_session()
        await session.run("Look.")
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=20
          !execute_tool other status=error type=tool_not_found
          chat ScriptedModel finish_reasons=stop input_tokens=10
          chat ScriptedModel finish_reasons=tool_call input_tokens=10
          execute_tool list_directory status=success tier=read_only
          execute_tool read_file status=success tier=read_only
    """)
    root = next(each for each in collector.spans if each.name.startswith("invoke_agent"))
    assert attributes_of(root)["gen_ai.conversation.id"] == session.session_id
    assert {each.trace_id for each in collector.spans} == {root.trace_id}
    assert all(root.start_time_unix_nano <= each.start_time_unix_nano for each in collector.spans)
    assert all(each.end_time_unix_nano <= root.end_time_unix_nano for each in collector.spans)
    assert collector.resource["service.name"] == "mine"


async def test_a_denial(tmp_path: Path, collector: Collector) -> None:
    write = ("write_file", {"path": "a.txt", "content": "A"})
    model = callboard.ScriptedModel([reply(calls=[write]), reply("Done.")])
    async with callboard.open_runtime(
        model=model,
        workspace=tmp_path,
        settings=collector.settings(),
        policy="strict",
        on_approval="deny",
    ) as runtime:
        await (await runtime.create_session()).run("Write.")
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=20
          !execute_tool write_file status=denied tier=workspace type=permission_denied
          callboard.approval decision=deny tier=workspace
          chat ScriptedModel finish_reasons=stop input_tokens=10
          chat ScriptedModel finish_reasons=tool_call input_tokens=10
    """)
    denied = next(each for each in collector.spans if "execute_tool" in each.name)
    assert denied.start_time_unix_nano == denied.end_time_unix_nano  # it never ran


async def test_a_model_call_that_is_made_again(tmp_path: Path, collector: Collector) -> None:
    steps: list[Step] = [
        Answered(503, b"", message="Busy.", headers=(("retry-after", "0"),)),
        reply("Done."),
    ]
    async with open_scripted_server(steps) as server:
        async with callboard.open_runtime(
            model="tiny",
            base_url=server.base_url,
            workspace=tmp_path,
            environ={},
            settings=collector.settings(signals=("traces",)),
        ) as runtime:
            await (await runtime.create_session()).run("Go.")
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=10
          !chat tiny type=overloaded
          chat tiny finish_reasons=stop input_tokens=10
    """)
    chat = attributes_of(next(each for each in collector.spans if each.name == "chat tiny"))
    assert (chat["server.address"], chat["gen_ai.provider.name"]) == ("127.0.0.1", "custom")


async def test_a_question_that_outlives_its_process(tmp_path: Path, collector: Collector) -> None:
    write = ("write_file", {"path": "a.txt", "content": "A"})
    asked = trio.Event()

    async def first(request: callboard.ApprovalRequest) -> Literal["allow", "deny"]:
        asked.set()
        await trio.sleep_forever()

    async def second(request: callboard.ApprovalRequest) -> Literal["allow", "deny"]:
        return "allow"

    def opened(person: Approver, *steps: ScriptedReply) -> AbstractAsyncContextManager[Runtime]:
        return callboard.open_runtime(
            model=callboard.ScriptedModel(steps),
            data=tmp_path / "data",
            workspace=tmp_path / "project",
            settings=collector.settings(),
            policy="strict",
            on_approval=person,
        )

    (tmp_path / "project").mkdir()
    async with opened(first, reply(calls=[write])) as runtime:
        session = await runtime.create_session()
        await session.submit("Write.")
        await asked.wait()
    assert [each.name for each in collector.spans] == ["chat ScriptedModel"]
    async with opened(second, reply("Done.")) as runtime:
        session = await runtime.get_session(session.session_id)
        turn = await session.resume()
        assert turn is not None
        async with turn:
            await turn.answer()
    assert tree(collector.spans) == golden("""
        invoke_agent general outcome=answered input_tokens=20
          callboard.approval decision=allow tier=workspace
          chat ScriptedModel finish_reasons=stop input_tokens=10
          chat ScriptedModel finish_reasons=tool_call input_tokens=10
          execute_tool write_file status=success tier=workspace
    """)
    assert len({each.span_id for each in collector.spans}) == len(
        collector.spans
    )  # none came twice


KILLED = """
import sys, time
import callboard, trio
from callboard.config.sections import TelemetrySettings
from callboard.runtime.telemetry import telemetry

model, collector, data, work, where, seconds = sys.argv[1:]
telemetry.GATHER_SECONDS = telemetry.SEND_SECONDS = float(seconds)

def say(word):
    sys.stdout.write(word + "\\n")
    sys.stdout.flush()

@callboard.tool(effect="once")
def hold() -> None:
    "Holds on until it is killed."
    say("there")
    time.sleep(600)

async def answer(request):
    if where == "asked":
        say("there")
        await trio.sleep_forever()
    return "allow"

async def main():
    settings = callboard.Settings(telemetry=TelemetrySettings(enabled=True, endpoint=collector))
    async with callboard.open_runtime(
        model="tiny", base_url=model, workspace=work, data=data, environ={}, tools=[hold],
        on_approval=answer, policy="strict", settings=settings,
    ) as runtime:
        session = await runtime.create_session()
        say(session.session_id)
        await session.run("Go.", trace=callboard.TraceContext(f"00-{'a' * 32}-{'b' * 16}-01"))

trio.run(main)
"""
GOES_ON = """
    invoke_agent general outcome=answered input_tokens=20
      callboard.approval decision=allow tier=system
      callboard.approval decision=withdrawn tier=system
      chat tiny finish_reasons=stop input_tokens=10
      chat tiny finish_reasons=tool_call input_tokens=10
      execute_tool hold status=success tier=system
"""
IS_CLOSED = """
    !invoke_agent general outcome=failed input_tokens=10 type=internal
      !execute_tool hold status=interrupted tier=system type=interrupted
"""


@pytest.mark.parametrize(
    ("where", "is_sent", "lines"), [("asked", True, GOES_ON), ("calling", False, IS_CLOSED)]
)
async def test_a_turn_whose_process_was_killed_ends_in_its_place(
    tmp_path: Path, collector: Collector, where: str, is_sent: bool, lines: str
) -> None:
    """What was sent before is not sent again, what was lost stays lost, and the rest stands below the same span."""
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    data, work = tmp_path / "data", tmp_path / "work"
    work.mkdir()

    @callboard.tool(effect="once")
    def hold() -> None:
        """Is not held here."""

    def until_killed(url: str) -> str:
        arguments = (url, collector.url, data, work, where, 0.01 if is_sent else 600)
        with running(str(program), *arguments) as (process, said):
            session_id = said.readline().strip()
            assert said.readline().strip() == "there"
            if is_sent:
                assert collector.has_come.wait(WATCHDOG_SECONDS)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        return session_id

    async with open_scripted_server([reply(calls=[("hold", {})]), reply("Done.")]) as server:
        session_id = await trio.to_thread.run_sync(until_killed, server.base_url)
        assert [each.name for each in collector.spans] == ["chat tiny"] * is_sent
        async with callboard.open_runtime(
            model="tiny",
            base_url=server.base_url,
            workspace=work,
            data=data,
            environ={},
            tools=[hold],
            on_approval="allow",
            policy="strict",
            settings=collector.settings(),
        ) as runtime:
            turn = await (await runtime.get_session(session_id)).resume()
            assert (turn is not None) == (where == "asked")
            if turn is not None:
                async with turn:
                    assert await turn.answer() == "Done."
    assert tree(collector.spans) == golden(lines)
    assert {each.trace_id.hex() for each in collector.spans} == {"a" * 32}
    [root] = [each for each in collector.spans if each.parent_span_id.hex() == "b" * 16]
    assert root.name == "invoke_agent general"
    assert len({each.span_id for each in collector.spans}) == len(collector.spans)


async def test_a_delegated_session_stands_below_its_call(
    tmp_path: Path, collector: Collector
) -> None:
    cast = Cast(
        {"Go.": part(task("Look."), task("Look too.")), "Look.": part(), "Look too.": part()}
    )
    asked = callboard.TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "vendor=1")
    async with open_cast(tmp_path, cast, settings=collector.settings()) as runtime:
        session = await runtime.create_session()
        await session.run("Go.", trace=asked)
    assert tree(collector.spans, ["callboard.outcome"]) == golden("""
        invoke_agent general outcome=answered
          chat Cast
          chat Cast
          execute_tool delegate
            invoke_agent general outcome=answered
              chat Cast
          execute_tool delegate
            invoke_agent general outcome=answered
              chat Cast
    """)
    assert {each.trace_id.hex() for each in collector.spans} == {"a" * 32}
    assert {each.trace_state for each in collector.spans} == {"vendor=1"}
    [root] = [each for each in collector.spans if each.parent_span_id.hex() == "b" * 16]
    assert root.name == "invoke_agent general"


@pytest.mark.parametrize("has_telemetry", [True, False])
async def test_a_tool_is_told_where_its_call_stands(
    tmp_path: Path, collector: Collector, has_telemetry: bool
) -> None:
    told: list[callboard.TraceContext | None] = []

    @callboard.tool
    def look(context: callboard.ToolContext) -> None:
        """Looks."""
        told.append(context.trace)

    model = callboard.ScriptedModel([reply(calls=[("look", {})]), reply("Done.")])
    async with callboard.open_runtime(
        model=model,
        workspace=tmp_path,
        tools=[look],
        on_approval="allow",
        settings=collector.settings() if has_telemetry else None,
    ) as runtime:
        await (await runtime.create_session()).run("Look.")
    if has_telemetry:
        [call] = [each for each in collector.spans if each.name == "execute_tool look"]
        place = f"00-{call.trace_id.hex()}-{call.span_id.hex()}-01"
        assert told == [callboard.TraceContext(place)]
        assert callboard.TraceContext(place).environment == {"TRACEPARENT": place}
    else:
        assert (told, collector.spans) == ([None], [])


def _places(spans: Iterable[Span]) -> dict[str, str]:
    """Return what would tell others of each span, by its name."""
    return {its.name: f"00-{its.trace_id.hex()}-{its.span_id.hex()}-01" for its in spans}


@pytest.mark.parametrize("told", [["127.0.0.1"], ["other.test"], []])
async def test_only_hosts_that_are_named_are_told_where_they_are_asked_from(
    tmp_path: Path, collector: Collector, told: list[str]
) -> None:
    async with open_web_server({"/": page("inside")}) as web:
        steps = [reply(calls=[("http_request", {"url": web.url()})]), reply("Done.")]
        async with open_scripted_server(steps) as server:
            place = (f"127.0.0.1:{web.port}",)
            telemetry = collector.settings(propagate=tuple(told)).telemetry
            async with callboard.open_runtime(
                model="tiny",
                base_url=server.base_url,
                workspace=tmp_path,
                environ={},
                policy="auto",
                settings=callboard.Settings(
                    network=NetworkSettings(allow=place, auto=place), telemetry=telemetry
                ),
            ) as runtime:
                await (await runtime.create_session()).run("Look.")
    places = _places(collector.spans)
    is_told = told == ["127.0.0.1"]
    turn = places["invoke_agent general"] if is_told else None
    assert [each.headers.get("traceparent") for each in server.requests] == [turn, turn]
    call = places["execute_tool http_request"] if is_told else None
    assert [each.headers.get("traceparent") for each in web.requests] == [call]


@pytest.mark.parametrize("content", ["none", "full"])
async def test_what_was_said_is_nowhere_but_with_content(
    tmp_path: Path, collector: Collector, content: str
) -> None:
    said = [f"canary-{place}" for place in ("prompt", "answer", "arguments", "result", "agent")]
    hidden = ["canary-tool", "canary-failure"]  # of the model's own making

    @callboard.tool
    def look(text: str) -> str:
        """Looks."""
        if text == "fail":
            raise RuntimeError("canary-failure")
        return "canary-result"

    calls = [
        *[("look", {"text": "canary-arguments"}), ("look", {"text": "fail"})],
        ("canary-tool", {}),
    ]
    steps: list[Step] = [
        reply(thinking="canary-answer", calls=calls),
        reply("canary-answer"),
        fail("canary-end"),
    ]
    agent = callboard.Agent(prompt="canary-agent")
    async with callboard.open_runtime(
        model=callboard.ScriptedModel(steps),
        workspace=tmp_path,
        tools=[look],
        agents=[agent],
        on_approval="allow",
        settings=collector.settings(content=content),
    ) as runtime:
        session = await runtime.create_session()
        await session.run("canary-prompt")
        with pytest.raises(callboard.CallboardError):
            await session.run("canary-prompt")
    sent = b"".join(collector.bodies)
    assert len(collector.spans) == 8
    found = [each for each in said if each.encode() in sent]
    assert found == (said if content == "full" else [])
    if content == "none":
        assert b"canary" not in sent
        assert "/v1/logs" not in collector.paths
    else:
        assert [each for each in said if each in str(collector.events)] == said
        assert all(each.encode() in sent for each in hidden)


@pytest.mark.parametrize("signals", [("traces", "logs"), ("logs",), ("traces",)])
async def test_what_was_said_to_a_model_is_an_event_of_its_call(
    tmp_path: Path, collector: Collector, signals: tuple[str, ...]
) -> None:
    (tmp_path / "a.txt").write_text("A")
    steps: list[Step] = [reply("Look.", calls=[("read_file", {"path": "a.txt"})]), fail("Away.")]
    async with callboard.open_runtime(
        model=callboard.ScriptedModel(steps),
        workspace=tmp_path,
        agents=[callboard.Agent(prompt="Be brief.")],
        settings=collector.settings(content="full", signals=signals),
    ) as runtime:
        with pytest.raises(callboard.CallboardError):
            await (await runtime.create_session()).run("Read it.")
    assert {*collector.paths} == {f"/v1/{each}" for each in signals}
    chats = [each for each in collector.spans if each.name.startswith("chat")]
    assert len(chats) == (2 if "traces" in signals else 0)
    assert len(collector.events) == (2 if "logs" in signals else 0)
    if collector.events and chats:
        assert [(each.trace_id, each.span_id) for each in collector.events] == [
            (each.trace_id, each.span_id) for each in chats
        ]
        for event, chat in zip(collector.events, chats, strict=True):
            assert event.event_name == "gen_ai.client.inference.operation.details"
            assert event.time_unix_nano == chat.end_time_unix_nano
            flat = {**attributes_of(event)}
            for name in {"input.messages", "output.messages", "system_instructions"}:
                if (messages := flat.get(f"gen_ai.{name}")) is not None:
                    flat[f"gen_ai.{name}"] = json.dumps(_listed(messages), separators=(",", ":"))
            assert flat == attributes_of(chat)
    if collector.events:
        [said, failed] = map(attributes_of, collector.events)
        [instruction] = said["gen_ai.system_instructions"]
        assert "Be brief." in TextPart(**instruction).content
        [asked] = said["gen_ai.input.messages"]
        assert InputMessage(**asked).role == "user"
        assert [TextPart(**each) for each in asked["parts"]] == [TextPart("Read it.")]
        [answer] = said["gen_ai.output.messages"]
        assert OutputMessage(**answer).finish_reason == "tool_call"
        text, call = answer["parts"]
        assert TextPart(**text) == TextPart("Look.")
        assert ToolCallRequestPart(**call).name == "read_file"
        assert failed["error.type"]


def _listed(value: Any) -> Any:
    """Return arrays as lists, as JSON has them."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


async def test_metrics_are_counted_once_for_all(tmp_path: Path, collector: Collector) -> None:
    (tmp_path / "a.txt").write_text("A")
    steps = [reply(calls=[("read_file", {"path": "a.txt"})] * 2), reply("Done.")]
    async with callboard.open_runtime(
        model=callboard.ScriptedModel(steps), workspace=tmp_path, settings=collector.settings()
    ) as runtime:
        await (await runtime.create_session()).run("Look.")
        telemetry = host_of(runtime).plan.telemetry
        assert telemetry is not None
    text = await telemetry.metrics_text()
    [tools] = collector.points("gen_ai.execute_tool.duration").values()
    assert attributes_of(tools) == {
        "gen_ai.tool.name": "read_file",
        "gen_ai.agent.name": "general",
    }
    tokens = collector.points("gen_ai.client.token.usage")
    assert sorted((its.count, its.sum) for its in tokens.values()) == [(2, 10.0), (2, 20.0)]
    assert len(collector.points("gen_ai.client.operation.duration")) == 1
    count = 'gen_ai_execute_tool_duration_seconds_count{gen_ai_agent_name="general",gen_ai_tool_name="read_file"} 2'
    assert count in text.splitlines()
    assert sum(tools.bucket_counts) == tools.count == 2


async def test_spans_are_sent_as_soon_as_there_are_many(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_module, "SEND_SECONDS", 600)
    monkeypatch.setattr(telemetry_module, "MAX_SENT", 2)
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        workspace=tmp_path,
        settings=collector.settings(),
    ) as runtime:
        await (await runtime.create_session()).run("Go.")
        assert await trio.to_thread.run_sync(collector.has_come.wait, WATCHDOG_SECONDS)
        assert len(collector.spans) == 2


@pytest.mark.parametrize(
    ("flag", "sample", "spans"), [("00", 1.0, 0), ("01", 0.0, 2), (None, 0.0, 0), (None, 1.0, 2)]
)
async def test_what_is_not_kept_is_counted_all_the_same(
    tmp_path: Path, collector: Collector, flag: str | None, sample: float, spans: int
) -> None:
    """Who asks decides; where nobody says it, the share does."""
    asked = flag and callboard.TraceContext(f"00-{'a' * 32}-{'b' * 16}-{flag}")
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        workspace=tmp_path,
        settings=collector.settings(sample=sample),
    ) as runtime:
        await (await runtime.create_session()).run("Go.", trace=asked or None)
    assert len(collector.spans) == spans
    [turns] = collector.points("gen_ai.invoke_agent.duration").values()
    assert turns.count == 1


async def test_a_stored_key_goes_into_the_headers(tmp_path: Path, collector: Collector) -> None:
    (tmp_path / "work").mkdir()
    store = open_key_store(tmp_path / "data", callboard.Settings().keys, {})
    store.put("otel", origin(collector.url), Secret("a-long-secret"))
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        data=tmp_path / "data",
        workspace=tmp_path / "work",
        environ={},
        settings=collector.settings(headers={"Authorization": "Bearer ${key:otel}"}),
    ) as runtime:
        assert await (await runtime.create_session()).run("Go.") == "Done."
    assert {each["authorization"] for each in collector.headers} == {"Bearer a-long-secret"}


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_collector_that_refuses_costs_spans_and_no_turn(
    tmp_path: Path, collector: Collector, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = status
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        workspace=tmp_path,
        environ={"TOKEN": "a-long-secret"},
        settings=collector.settings(headers={"Authorization": "Bearer ${env:TOKEN}"}),
    ) as runtime:
        assert await (await runtime.create_session()).run("Go.") == "Done."
    assert {each["authorization"] for each in collector.headers} == {"Bearer a-long-secret"}
    assert "2 spans were not delivered" in caplog.text
    assert "a-long-secret" not in caplog.text


async def test_headers_are_not_carried_where_a_collector_redirects_to(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    with open_collector() as other:
        collector.status, collector.location = 307, f"{other.url}/v1/traces"
        async with callboard.open_runtime(
            model=callboard.ScriptedModel([reply("Done.")]),
            workspace=tmp_path,
            settings=collector.settings(headers={"X-Tenant": "board"}),
        ) as runtime:
            assert await (await runtime.create_session()).run("Go.") == "Done."
        assert (len(collector.headers) > 0, other.headers) == (True, [])
    assert "2 spans were not delivered" in caplog.text


async def test_a_fault_of_the_fold_is_logged_once_and_costs_no_turn(
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(SpanBuilder, "_emit", broken)
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        workspace=tmp_path,
        settings=collector.settings(),
    ) as runtime:
        assert await (await runtime.create_session()).run("Go.") == "Done."
    assert caplog.text.count("an event made no span: a bug") == 1
    assert collector.spans == []


async def test_a_collector_that_never_answers_holds_no_end_up(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_module, "FLUSH_SECONDS", 0.05)
    collector.may_answer.clear()
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        workspace=tmp_path,
        settings=collector.settings(),
    ) as runtime:
        assert await (await runtime.create_session()).run("Go.") == "Done."
    assert collector.spans == []


async def test_a_program_gets_the_spans_itself_below_its_own(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    processor = SimpleSpanProcessor(kept)
    async with callboard.open_runtime(
        model=callboard.ScriptedModel([reply("Done.")]),
        workspace=tmp_path,
        span_processor=processor,
    ) as runtime:
        session = await runtime.create_session()
        with provider.get_tracer("program").start_as_current_span("request") as own:
            await session.run("Go.")
    found = {each.name: each for each in kept.get_finished_spans()}
    turn, chat = found["invoke_agent general"], found["chat ScriptedModel"]
    assert turn.parent is not None
    assert turn.context is not None
    assert chat.parent is not None
    assert turn.parent.span_id == own.get_span_context().span_id
    assert chat.parent.span_id == turn.context.span_id
    assert turn.context.trace_id == own.get_span_context().trace_id


async def test_a_program_is_told_where_its_call_stands(
    tmp_path: Path, collector: Collector
) -> None:
    needs_sandbox()
    shown = ("shell", {"command": "printenv TRACEPARENT"})
    model = callboard.ScriptedModel([reply(calls=[shown]), reply("Done.")])
    async with callboard.open_runtime(
        model=model, workspace=tmp_path, on_approval="allow", settings=collector.settings()
    ) as runtime:
        session = await runtime.create_session()
        await session.run("Show it.")
        [call] = await runtime.store.calls(session_id=session.session_id)
    [span] = [each for each in collector.spans if each.name == "execute_tool shell"]
    assert call.result is not None
    assert f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" in call.result

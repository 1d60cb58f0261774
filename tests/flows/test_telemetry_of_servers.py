"""Spans and metrics of calls of MCP servers, and what the record says of the server that was asked."""

from __future__ import annotations

import json
import os
from collections.abc import Generator

import pytest

import callboard
import callboard.runtime.telemetry.telemetry as telemetry_module
from callboard.config.mcp.wire import SessionServer
from callboard.embedding.runtime import Runtime, host_of
from callboard.providers.testing.script import reply
from callboard.runtime.event_types.calls import CalledServer
from callboard.runtime.events import CallFinished
from support.mcp.stage import FOLDER, PYTHON, accepted, fake, open_stage, web
from support.mcp.web import serving
from support.otlp import SHOWN, Collector, attributes_of, open_collector, tree
from support.sandbox.sandbox_users import needs_sandbox

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")
OF_SERVERS = (
    *SHOWN,
    *("gen_ai.tool.type", "mcp.method.name", "mcp.protocol.version"),
    *("network.transport", "rpc.response.status_code"),
)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Generator[Collector]:
    monkeypatch.setattr(telemetry_module, "FLUSH_SECONDS", 60)  # of a machine with much to do
    with open_collector() as found:
        yield found


async def server_on_record(runtime: Runtime, session_id: str) -> list[CalledServer | None]:
    stored = await runtime.store.events(session_id, after_seq=0, limit=500)
    return [each.event.server for each in stored if isinstance(each.event, CallFinished)]


async def test_calls_of_a_program(collector: Collector) -> None:
    needs_sandbox()
    server = await accepted(fake("--resources", tier="read_only"))
    async with open_stage(server, others=collector.settings()) as runtime:
        session = await runtime.create_session()
        await runtime.call_tool("fake__say", {"text": "a"}, session=session)
        await runtime.call_tool("fake__fail", {"how": "arguments"}, session=session)
        await runtime.call_tool(
            "mcp_read", {"server": "fake", "uri": "memo://one"}, session=session
        )
        await runtime.call_tool("mcp_resources", session=session)
        await runtime.call_tool("list_directory", {"path": "."}, session=session)
        found = await server_on_record(runtime, session.session_id)
    asked = CalledServer(name="fake", protocol="2025-11-25")
    refused = CalledServer(name="fake", protocol="2025-11-25", code=-32602)
    assert found == [asked, refused, asked, None, None]
    calls = [each for each in collector.spans if each.name.startswith("execute_tool")]
    assert tree(calls, OF_SERVERS).splitlines() == [
        "!execute_tool fake__fail status=error tier=read_only type=validation_error type=extension "
        "name=tools/call version=2025-11-25 transport=pipe status_code=-32602",
        "execute_tool fake__say status=success tier=read_only type=extension name=tools/call "
        "version=2025-11-25 transport=pipe",
        "execute_tool list_directory status=success tier=read_only type=function",
        "execute_tool mcp_read status=success tier=read_only type=extension name=resources/read "
        "version=2025-11-25 transport=pipe",
        "execute_tool mcp_resources status=success tier=read_only type=extension name=resources/list",
    ]
    points = collector.points("mcp.client.operation.duration").values()
    labels = [attributes_of(each) for each in points]
    assert {
        "gen_ai.tool.name": "fake__fail",
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "network.transport": "pipe",
        "error.type": "validation_error",
        "rpc.response.status_code": "-32602",
    } in labels
    assert len(labels) == 4  # the fifth call is of no server


async def test_a_call_over_http(collector: Collector) -> None:
    with serving() as its:
        server = await accepted(web(its, tier="read_only"))
        async with open_stage(
            server, allow=(its.endpoint,), others=collector.settings()
        ) as runtime:
            await runtime.call_tool("web__say", {"text": "a"})
    [call] = [each for each in collector.spans if each.name.startswith("execute_tool")]
    assert attributes_of(call)["network.transport"] == "tcp"


async def test_a_server_is_told_where_its_call_stands(collector: Collector) -> None:
    needs_sandbox()
    asked = callboard.TraceContext(f"00-{'a' * 32}-{'b' * 16}-01", "vendor=1")
    server = await accepted(fake(tier="read_only"))
    model = callboard.ScriptedModel([reply(calls=[("fake__environment", {})]), reply("Done.")])
    async with open_stage(server, others=collector.settings(), model=model) as runtime:
        session = await runtime.create_session()
        await session.run("Look.", trace=asked)
        [call] = await runtime.store.calls(session_id=session.session_id)
    [span] = [each for each in collector.spans if each.name == "execute_tool fake__environment"]
    assert call.result is not None
    said = json.loads(json.loads(call.result)["result"])
    place = f"00-{'a' * 32}-{span.span_id.hex()}-01"
    assert (said["traceparent"], said["tracestate"]) == (place, "vendor=1")


async def test_a_server_of_one_session_is_seen_as_one_of_all(collector: Collector) -> None:
    """A session that has not brought it has no such tool, and its name is the model's own word."""
    needs_sandbox()
    server = SessionServer(name="fake", command=(PYTHON, "-I", "-S", f"{FOLDER}/server.py"))
    async with open_stage(others=collector.settings()) as runtime:
        session, other = await runtime.create_session(), await runtime.create_session()
        servers = host_of(runtime).session_servers
        servers.use(session.session_id, [server])
        await servers.rows(session.session_id, 20.0)
        await runtime.call_tool("session_fake__say", {"text": "a"}, session=session)
        await runtime.call_tool("session_fake__say", {"text": "a"}, session=other)
        telemetry = host_of(runtime).plan.telemetry
        assert telemetry is not None
        places = [each.session_id for each in (session, other)]
        found = [telemetry._plan.tool("session_fake__say", each) for each in places]
        assert [each is not None for each in found] == [True, False]
    calls = [each for each in collector.spans if each.name.startswith("execute_tool")]
    assert tree(calls, OF_SERVERS).splitlines() == [
        "!execute_tool other status=error type=tool_not_found type=function",
        "execute_tool session_fake__say status=success tier=elevated type=extension "
        "name=tools/call version=2025-11-25 transport=pipe",
    ]
    asked = [each for each in collector.spans if each.name == "callboard.approval"]
    assert [attributes_of(each)["gen_ai.tool.name"] for each in asked] == ["session_fake__say"]
    points = collector.points("mcp.client.operation.duration").values()
    assert [attributes_of(each) for each in points] == [
        {
            "gen_ai.tool.name": "session_fake__say",
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2025-11-25",
            "network.transport": "pipe",
        }
    ]

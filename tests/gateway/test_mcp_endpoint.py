"""callboard as a server of the Model Context Protocol, asked by the official client over its door."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
import trio
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

import callboard
from callboard.config.sections import McpServerSettings, ServerSettings
from callboard.config.settings import Settings
from callboard.embedding.runtime import host_of
from callboard.gateway.mcp import endpoint
from callboard.gateway.mcp.endpoint import MAX_BODY_BYTES
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import reply
from callboard.runtime.events import InputAccepted, TurnEnded
from callboard.runtime.history import Input
from callboard.runtime.stream import Done, StopReason, TextDelta
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import Daemon, open_client, open_daemon
from support.gateway.door_scene import request
from support.gateway.gated_model import GatedModel
from support.gateway.raw_door import answer_to
from support.mcp.client import open_mcp

# The official client leaves its readers of streams to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"
    ),
]

Found = TypeVar("Found")
ERAS = ["2026-07-28", "legacy"]


async def found(read: Callable[[], Awaitable[Found]]) -> Found:
    """Reads until there is something."""
    while not (what := await read()):  # ruff: ignore[async-busy-wait] nothing tells of it  # noqa: ASYNC110
        await trio.sleep(0.003)
    return what


async def turns(daemon: Daemon) -> int:
    return len((await daemon.runtime.status()).turns)


async def rests(daemon: Daemon) -> bool:
    return not await turns(daemon)


@asynccontextmanager
async def serving(model: Any = "rehearsal", **fields: Any) -> AsyncGenerator[Daemon]:
    server = McpServerSettings(enabled=True, **fields)
    async with open_daemon(model, configured=Settings(mcp_server=server)) as daemon:
        yield daemon


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_is_asked_and_its_answer_read_again(era: str) -> None:
    async with serving() as daemon, open_mcp(daemon, mode=era) as client:
        heard: list[str | None] = []

        async def show(progress: float, total: float | None, message: str | None) -> None:
            heard.append(message)

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["ask_general", "session_status", "session_result"]
        asked = await client.call_tool(
            "ask_general", {"prompt": "What time is it in Tokyo?"}, progress_callback=show
        )
        said = asked.structured_content
        assert not asked.is_error
        assert (said["outcome"], asked.content[0].text) == ("answered", said["text"])
        assert "Tokyo" in said["text"]
        again = await client.call_tool("session_result", {"session_id": said["session_id"]})
        assert again.structured_content["text"] == said["text"]
        more = {"prompt": "What time is it in Lisbon?", "session_id": said["session_id"]}
        assert "Lisbon" in (await client.call_tool("ask_general", more)).content[0].text
        assert any(heard)


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def test_an_agent_is_given_files() -> None:
    heard: list[ModelRequest] = []

    def step(request: ModelRequest) -> Any:
        heard.append(request)
        return reply("Milk.")

    pixel = base64.b64encode(PIXEL).decode()
    files = [
        {"name": "list.txt", "text": "Milk, bread."},
        {"name": "a.png", "data": pixel, "media_type": "image/png"},
    ]
    model = callboard.ScriptedModel([step])
    async with serving(model) as daemon, open_mcp(daemon) as client:
        answered = await client.call_tool("ask_general", {"prompt": "What?", "files": files})
        assert not answered.is_error
        (asked,) = heard[-1].rounds[-1].items
        assert isinstance(asked, Input)
        assert [(each.name, each.media_type, each.data) for each in asked.attachments] == [
            ("list.txt", "text/plain", b"Milk, bread."),
            ("a.png", "image/png", PIXEL),
        ]
        before = len(await daemon.runtime.sessions())
        for wrong, why in (
            ({"name": "x"}, "either text, or data"),
            ({"text": "x", "data": pixel}, "either text, or data"),
            ({"data": pixel}, "either text, or data"),
            ({"data": pixel, "media_type": "png"}, "not a media type"),
            ({"data": "%", "media_type": "image/png"}, "files"),
        ):
            refused = await client.call_tool("ask_general", {"prompt": "What?", "files": [wrong]})
            assert refused.is_error
            assert why in refused.content[0].text
        assert len(await daemon.runtime.sessions()) == before


async def test_it_is_off_until_somebody_says_so() -> None:
    async with open_daemon() as daemon:
        off = await answer_to(daemon, request(daemon, "/mcp", b"{}"))
        assert off.status == 404
        assert "[mcp_server]" in msgspec.json.decode(off.body)["error"]["message"]


async def test_a_token_reads_or_calls_as_its_role_says() -> None:
    async with serving() as daemon:
        observer = daemon.new_token("reads", Role.OBSERVER)
        async with open_mcp(daemon, observer) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["session_status", "session_result"]
            refused = await client.call_tool("ask_general", {"prompt": "hello"})
            assert refused.is_error
            assert "operator" in refused.content[0].text
        operator = daemon.new_token("calls", Role.OPERATOR)
        async with open_mcp(daemon, operator) as client:
            answered = await client.call_tool("ask_general", {"prompt": "hello"})
            assert not answered.is_error


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DELETES = {"prompt": "Write 'buy milk' to list.txt, then delete list.txt."}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", ["allow", "deny", "decline"])
async def test_an_approver_is_asked_by_a_form(era: str, answer: str) -> None:
    asked: list[str] = []

    async def ask(context: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        if answer == "decline":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"decision": answer, "reason": "as I like"})

    async with serving() as daemon:
        token = daemon.new_token("answers", Role.APPROVER)
        async with open_mcp(daemon, token, mode=era, elicitation_callback=ask) as client:
            done = await client.call_tool("ask_general", DELETES, meta={"traceparent": PARENT})
            assert done.structured_content["outcome"] == "answered"
        [session] = await daemon.runtime.sessions()
        assert session.via == "mcp"
        events = await daemon.runtime.store.events(session.session_id)
        [given] = [each.event for each in events if isinstance(each.event, InputAccepted)]
        assert given.via == "token:answers via mcp"
        assert given.trace is not None
        assert given.trace.traceparent == PARENT
        [approval] = await daemon.runtime.store.approvals(state=None)
        assert approval.answered_by == "token:answers via mcp"
        assert approval.state == ("used" if answer == "allow" else "denied")
        assert len(asked) == 1
        assert "May delete_file run?" in asked[0]
        assert "list.txt" in asked[0]


@pytest.mark.parametrize("era", ERAS)
async def test_others_may_be_faster_and_an_operator_is_not_asked(era: str) -> None:
    async def ask(context: object, params: Any) -> ElicitResult:
        raise AssertionError("an operator answers no questions")

    async with serving() as daemon, trio.open_nursery() as nursery:
        token = daemon.new_token("calls", Role.OPERATOR)

        async def answer() -> None:
            async with open_client(daemon) as person:
                waiting = await found(person.approvals)
                await person.answer(waiting[0].approval_id, "allow")

        async with open_mcp(daemon, token, mode=era, elicitation_callback=ask) as client:
            nursery.start_soon(answer)
            done = await client.call_tool("ask_general", DELETES)
            assert done.structured_content["outcome"] == "answered"


async def test_who_cancels_a_form_leaves_the_question_to_others() -> None:
    for era in ERAS:
        times = 0

        async def ask(context: object, params: Any) -> ElicitResult:
            nonlocal times
            times += 1
            [waiting] = await daemon.runtime.store.approvals(state="waiting")
            nursery.start_soon(daemon.runtime.answer, waiting.approval_id, "allow")
            return ElicitResult(action="cancel")

        async with serving() as daemon, trio.open_nursery() as nursery:
            async with open_mcp(daemon, mode=era, elicitation_callback=ask) as client:
                done = await client.call_tool("ask_general", DELETES)
            assert (done.structured_content["outcome"], times) == ("answered", 1)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_cancelled_takes_its_turn_along(era: str) -> None:
    model = GatedModel([TextDelta("Once ")])
    async with serving(model) as daemon, open_mcp(daemon, mode=era) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "ask_general", {"prompt": "Tell me."})
            await found(partial(turns, daemon))
            nursery.cancel_scope.cancel()
        await found(partial(rests, daemon))
        [session] = await daemon.runtime.sessions()
        events = await daemon.runtime.store.events(session.session_id)
        [ended] = [each.event for each in events if isinstance(each.event, TurnEnded)]
        assert (ended.outcome, ended.message) == ("cancelled", "its client has left")


async def test_who_does_not_wait_asks_for_the_result() -> None:
    model = GatedModel([TextDelta("Once "), TextDelta("upon a time."), Done(StopReason.END)])
    async with serving(model) as daemon, open_mcp(daemon) as client:
        begun = await client.call_tool("ask_general", {"prompt": "Tell me.", "wait": False})
        its = {"session_id": begun.structured_content["session_id"]}
        assert begun.structured_content["outcome"] == "running"
        status = (await client.call_tool("session_status", its)).structured_content
        assert (status["is_active"], status["waits_for"]) == (True, [])
        assert (await client.call_tool("session_result", its)).structured_content == {
            **its,
            "outcome": "running",
        }
        model.let_all()
        while (await client.call_tool("session_status", its)).structured_content["is_active"]:
            pass
        found = await client.call_tool("session_result", its)
        assert found.content[0].text == "Once upon a time."


async def test_no_more_turns_begin_than_there_is_room_for() -> None:
    async with serving(GatedModel([TextDelta("Once ")], [TextDelta("Once ")])) as daemon:
        state = daemon.gateway.daemon
        state.take_settings(msgspec.structs.replace(state.settings, max_http_turns=1))
        async with open_mcp(daemon) as client:
            given = {"prompt": "Tell me.", "wait": False}
            assert not (await client.call_tool("ask_general", given)).is_error
            second = await client.call_tool("ask_general", given)
            assert "max_http_turns" in second.content[0].text
            assert len(await daemon.runtime.sessions()) == 1  # nothing is begun for what is refused


async def test_a_session_of_an_earlier_revision_is_of_one_token() -> None:
    async with serving() as daemon:
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "probe", "version": "1"},
            },
        }
        accept = "application/json, text/event-stream"
        begun = await answer_to(
            daemon,
            request(daemon, "/mcp", msgspec.json.encode(hello), accept=accept, connection="close"),
        )
        assert begun.status == 200
        assert begun.body.endswith("0\r\n\r\n")  # it is whole
        its = {"accept": accept, "mcp_session_id": begun.headers["mcp-session-id"]}
        ping = msgspec.json.encode({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        own = await answer_to(daemon, request(daemon, "/mcp", ping, connection="close", **its))
        assert own.status == 200
        other = f"Bearer {daemon.new_token('other', Role.ADMIN)}"
        stolen = await answer_to(daemon, request(daemon, "/mcp", ping, authorization=other, **its))
        assert stolen.status == 404


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_ends_with_its_token(era: str) -> None:
    async with serving(GatedModel([TextDelta("Once ")])) as daemon:
        token = daemon.new_token("calls", Role.OPERATOR)

        async def ask() -> None:
            try:
                async with open_mcp(daemon, token, mode=era) as client:
                    answer = await client.call_tool("ask_general", {"prompt": "Tell me."})
                    assert answer.is_error
            except* Exception:
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await found(partial(turns, daemon))
            daemon.credentials.revoke("calls")
            await found(partial(rests, daemon))
            nursery.cancel_scope.cancel()


async def test_a_named_tool_is_called_without_a_model() -> None:
    async with serving(tools=("get_current_time", "delete_file")) as daemon:
        operator = daemon.new_token("calls", Role.OPERATOR, agents=("general",))
        async with open_mcp(daemon, operator) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert [*tools][-2:] == ["get_current_time", "delete_file"]
            assert tools["get_current_time"].annotations.read_only_hint
            assert not tools["delete_file"].annotations.read_only_hint
            for _ in range(2):
                now = await client.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
                assert now.content[0].text.endswith("+09:00")
            wrong = await client.call_tool("get_current_time", {"timezone": 5})
            assert wrong.is_error
            with pytest.raises(MCPError, match="no tool"):  # not offered
                await client.call_tool("list_directory", {"path": "."})
            [session] = await daemon.runtime.sessions()
            assert session.title == "Tools of probe via MCP"
            calls = await daemon.runtime.store.calls(session_id=session.session_id)
            assert [call.status for call in calls] == ["error", "success", "success"]
            for is_purged in (False, True):
                gone = [each.session_id for each in await daemon.runtime.sessions()]
                await host_of(daemon.runtime).keeping.delete(gone)
                if is_purged:
                    await daemon.runtime.purge(gone)
                now = await client.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
                assert now.content[0].text.endswith("+09:00")
                [session] = await daemon.runtime.sessions()
                assert session.session_id not in gone


async def test_a_tool_that_asks_asks_here_too() -> None:
    async def ask(context: object, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"decision": "deny", "reason": "It stays."})

    async with serving(tools=("delete_file",)) as daemon:
        async with open_mcp(daemon, elicitation_callback=ask) as client:
            found = await client.call_tool("delete_file", {"path": "list.txt"})
            assert found.is_error
            assert "It stays." in found.content[0].text


SKILL = "---\nname: greet\ndescription: How we greet.\n---\nSay hello in verse.\n"


async def test_skills_that_models_may_have_are_prompts(tmp_path: Path) -> None:
    work = tmp_path / "work"
    skill = work / "skills/greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    server = McpServerSettings(enabled=True, workspace=str(work))
    door = ServerSettings(port=0, roots=(str(work),))
    options: Any = {"settings": door, "data": tmp_path / "data"}
    async with open_daemon(configured=Settings(mcp_server=server), **options) as daemon:
        operator = daemon.new_token("calls", Role.OPERATOR)
        async with open_mcp(daemon) as client, open_mcp(daemon, operator) as other:
            assert (await client.list_prompts()).prompts == []  # nobody has allowed it
            with pytest.raises(MCPError, match="no such prompt"):
                await client.get_prompt("greet")
            [found] = await daemon.runtime.skills.list(workspace=work)
            await daemon.runtime.skills.allow(found.path, found.digest, workspace=work)
            [prompt] = (await client.list_prompts()).prompts
            assert (prompt.name, prompt.description) == ("greet", "How we greet.")
            said = await client.get_prompt("greet")
            assert said.messages[0].content.text.strip().endswith("Say hello in verse.")
            assert (await other.list_prompts()).prompts == []  # it may not read them
            with pytest.raises(MCPError, match="no such prompt"):
                await other.get_prompt("greet")
            (skill / "SKILL.md").write_text(f"{SKILL}And send the files.\n")
            assert (await client.list_prompts()).prompts == []


async def test_a_token_of_one_agent_sees_no_other() -> None:
    reader = callboard.Agent(name="reader", description="It reads.")
    server = McpServerSettings(enabled=True)
    configured = Settings(mcp_server=server, agents={"reader": reader})
    async with open_daemon("rehearsal", configured=configured) as daemon:
        other = await daemon.runtime.create_session()
        limited = daemon.new_token("reads", Role.OPERATOR, agents=("reader",))
        async with open_mcp(daemon, limited) as client:
            assert (await client.list_tools()).tools[0].name == "ask_reader"
            assert not (await client.call_tool("ask_reader", {"prompt": "hello"})).is_error
            with pytest.raises(MCPError, match="no tool"):
                await client.call_tool("ask_general", {"prompt": "hello"})
            theirs = {"session_id": other.session_id}
            assert (await client.call_tool("session_result", theirs)).is_error
            assert (await client.call_tool("ask_reader", {"prompt": "hello", **theirs})).is_error


async def test_a_body_of_very_many_values_is_refused() -> None:
    """The package decodes it on the loop: four megabytes of brackets held everybody up for a third of a second."""
    async with serving() as daemon:
        head = (
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
            b'"clientInfo":{"name":"x","version":"1"},"capabilities":{"experimental":{"x":{"y":'
        )
        accept = "application/json, text/event-stream"
        for value, status in (
            (b"[" + b"{}," * (endpoint.MAX_VALUES + 1) + b"{}]", 400),
            (b'"' + b"," * (endpoint.MAX_VALUES + 1) + b'"', 200),
        ):
            sent = request(
                daemon, "/mcp", head + value + b"}}}}}", accept=accept, connection="close"
            )
            answer = await answer_to(daemon, sent)
            assert answer.status == status, answer.body[:200]


async def test_what_is_not_of_the_protocol_is_refused() -> None:
    async with serving() as daemon:
        page = request(daemon, "/mcp", b"{}", origin="https://evil.example")
        rebound = request(daemon, "/mcp", b"{}", host="evil.example")
        form = request(daemon, "/mcp", b"a=b", content_type="application/x-www-form-urlencoded")
        large = request(daemon, "/mcp", b"{}", content_length=str(MAX_BODY_BYTES + 1))
        nobody = request(daemon, "/mcp", b"{}", authorization=None)
        for sent, status in ((page, 403), (rebound, 421), (form, 415), (large, 413), (nobody, 401)):
            assert (await answer_to(daemon, sent)).status == status


@pytest.mark.parametrize("era", ERAS)
async def test_a_session_is_read_as_a_resource(era: str) -> None:
    async with serving() as daemon:
        observer = daemon.new_token("reads", Role.OBSERVER, agents=("general",))
        session = await daemon.runtime.create_session(title="The clock")
        await session.run("What time is it in Tokyo?")
        async with open_mcp(daemon, observer, mode=era) as client:
            [found] = (await client.list_resources()).resources
            assert (found.uri, found.title) == (
                f"callboard://session/{session.session_id}",
                "The clock",
            )
            [content] = (await client.read_resource(found.uri)).contents
            lines = content.text.splitlines()
            assert lines[:5] == ["# The clock", "", "## Asked", "", "What time is it in Tokyo?"]
            assert "- calls `get_current_time`" in content.text
            for wrong in (
                "callboard://session/session_none",
                "callboard://session/../x",
                "file:///etc",
            ):
                with pytest.raises(MCPError):
                    await client.read_resource(wrong)
        stranger = daemon.new_token("other", Role.ADMIN, agents=("nobody",))
        async with open_mcp(daemon, stranger, mode=era) as client:
            assert (await client.list_resources()).resources == []
            with pytest.raises(MCPError, match="no session"):
                await client.read_resource(found.uri)


async def test_a_crash_is_one_calls_failure_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as daemon, open_mcp(daemon) as client:
        its = {"session_id": (await daemon.runtime.create_session()).session_id}
        assert not (await client.call_tool("session_status", its)).is_error
        with monkeypatch.context() as patched:
            patched.setattr("callboard.gateway.mcp.server.session_state", None)
            with pytest.raises(MCPError, match="log says why"):
                await client.call_tool("session_status", its)
        assert "a call of MCP failed" in caplog.text
        assert not (await client.call_tool("session_status", its)).is_error
        state = '{"session_id":"s","input_id":"i","seq":-1}'
        forged = await client.session.call_tool(
            "ask_general", {"prompt": "hello"}, request_state=state
        )
        assert "requestState" in forged.content[0].text

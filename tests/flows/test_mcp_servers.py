"""Tools of servers that speak the Model Context Protocol, through the front door, in a real sandbox."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio

import callboard
from callboard.config.mcp.settings import McpSettings
from callboard.config.mcp.wire import ServerInfo
from callboard.embedding.runtime import Runtime
from callboard.runtime.definitions import Effect, Tier
from callboard.runtime.events import CallFinished, CallProgress
from callboard.runtime.kernel.mailbox import Mailbox
from callboard.tools.mcp.connection import ServerConnection
from callboard.tools.mcp.server import McpServer
from callboard.tools.mcp.state import McpPlaces
from callboard.tools.mcp.streams import CUT_BYTES, MAX_LISTED, cut_listing
from support.mcp import stage
from support.mcp.fake_program import readable_server
from support.mcp.stage import accepted, fake, looked_at, open_stage, servers_of
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


async def called(runtime: Runtime, name: str, **arguments: Any) -> Any:
    return await runtime.call_tool(f"fake__{name}", arguments)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs programs as somebody else")
async def test_a_server_of_a_runtime_of_root_runs_as_the_user_that_programs_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = await accepted(fake(tier="read_only"))
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        # That user gets to what is here and in the system, and perhaps not to what the tests are.
        script = str(readable_server(Path(folder, "server.py")))
        server = msgspec.structs.replace(server, command=("python3", "-I", "-S", script))
        as_nobody = callboard.SandboxSettings(read_only=(script,), run_as="nobody")
        monkeypatch.setattr(stage, "SANDBOX", as_nobody)
        async with open_stage(server) as runtime:
            found = await called(runtime, "say", number=1.0, text="a")
            assert found.output == '{"number":1.0,"text":"a"}'


async def test_an_accepted_tool_is_offered_and_runs() -> None:
    async with open_stage(await accepted(fake(tier="read_only"))) as runtime:
        definition = next(t for t in runtime.tools() if t.name == "fake__say")
        assert (definition.tier, definition.source) == (Tier.READ_ONLY, "mcp fake")
        assert servers_of(runtime).states()["fake"].state == "not started"
        found = await called(runtime, "say", number=1.0, text="a\u00e4\u2028")
        assert (
            found.output == '{"number":1.0,"text":"a\u00e4\u2028"}'
        )  # as approved, and nothing else
        assert (await called(runtime, "count")).output == {"n": 7}
        parts = (await called(runtime, "get_parts")).output
        assert [part if isinstance(part, str) else part["type"] for part in parts] == [
            "first", "image", "image", "resource_link", "resource", "audio"
        ]  # fmt: skip
        assert parts[1]["media_type"] == "image/png"
        assert "left_out" in parts[2]  # it says that it is a PNG


async def test_a_file_in_a_result_is_an_artifact_that_its_session_reads(tmp_path: Path) -> None:
    async with open_stage(await accepted(fake()), workspace=tmp_path) as runtime:
        session = await runtime.create_session()
        found = await runtime.call_tool("fake__get_parts", session=session)
        image, sound = found.output[1], found.output[5]
        assert (sound["media_type"], sound["size_bytes"]) == ("audio/wav", 12)
        kept = [(each.kind, each.id, each.size_bytes) for each in found.artifacts]
        assert kept == [
            ("attachment", each["artifact"], each["size_bytes"]) for each in (image, sound)
        ]

        async def read(artifact: str, **more: Any) -> Any:
            its = {"path": f"artifact:{artifact}", **more}
            return await runtime.call_tool("read_file", its, **where)

        where: dict[str, Any] = {"session": session}
        whole = await read(sound["artifact"], encoding="base64")
        assert whole.output == {"content": "UklGRgAAAABXQVZF", "size": 12}
        assert "An image" in (await read(image["artifact"])).output["content"]
        for other in (f"{found.call_id}/3", f"{found.call_id}/0", "call_none/1"):
            assert (await read(other)).error["error_type"] == "file_not_found"
        where = {}  # another session
        assert (await read(sound["artifact"])).error["error_type"] == "file_not_found"


async def test_what_was_not_accepted_is_not_there() -> None:
    server = await accepted(fake())
    server = msgspec.structs.replace(server, tools=server.tools[:1])
    async with open_stage(server) as runtime:
        assert [t.name for t in runtime.tools() if t.source] == ["fake__say"]
        assert (await called(runtime, "say")).status == "success"
        missing = await called(runtime, "count")
        assert missing.error["error_type"] == "tool_not_found"


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("fail", {"how": "result"}, "execution_error"),
        ("fail", {"how": "arguments"}, "validation_error"),
        ("fail", {"how": "other"}, "execution_error"),
        ("miscount", {}, "execution_error"),
        ("say", {"number": "five"}, "validation_error"),
    ],
)
async def test_failures_have_their_types(tool: str, arguments: dict[str, Any], kind: str) -> None:
    async with open_stage(await accepted(fake())) as runtime:
        assert (await called(runtime, tool, **arguments)).error["error_type"] == kind


@pytest.mark.parametrize("content", ["untrusted", "trusted"])
async def test_results_taint_unless_the_operator_trusts_them(content: Any) -> None:
    async with open_stage(await accepted(fake(content=content))) as runtime:
        found = await called(runtime, "say", text="x")
        row = await runtime.store.session(found.session_id)
        assert row is not None
        assert row.is_tainted is (content == "untrusted")


async def test_each_call_asks_unless_the_configuration_lowers_the_tier() -> None:
    asked: list[str] = []

    async def ask(request: callboard.ApprovalRequest) -> callboard.ApprovalAnswer:
        await trio.lowlevel.checkpoint()
        asked.append(request.tool)
        return callboard.ApprovalAnswer(decision="deny")

    # The server says that `wait` only reads; nothing follows from it.
    server = await accepted(fake(tiers={"say": Tier.READ_ONLY}))
    async with open_stage(server, on_approval=ask) as runtime:
        assert (await called(runtime, "say")).status == "success"
        assert (await called(runtime, "wait")).status == "denied"
        assert asked == ["fake__wait"]


async def test_a_program_gets_its_own_variables_and_nothing_else(tmp_path: Path) -> None:
    env = {"API_TOKEN": "${env:THEIR_TOKEN}", "MODE": "quiet"}
    environ = {
        "THEIR_TOKEN": "canary-value-1",
        "OTHER_SECRET": "canary-value-2",
        "PATH": "/usr/bin",
    }
    server = await accepted(fake(env=env), environ=environ)
    async with open_stage(server, environ=environ) as runtime:
        found = json.loads((await called(runtime, "environment")).output.replace("***", "masked"))
        assert found["MODE"] == "quiet"
        assert found["API_TOKEN"] == "masked"  # it has it, and the record does not
        assert "OTHER_SECRET" not in found
        assert found["HOME"] == "/tmp/home"


async def test_a_home_that_stays_is_the_programs_alone(tmp_path: Path) -> None:
    server = await accepted(fake(state=True), data=tmp_path)
    async with open_stage(server, data=tmp_path) as runtime:
        assert (await called(runtime, "say")).status == "success"
        # Nothing stands in the way of what programs keep at home, as .gitconfig.
        assert [each.name for each in (tmp_path / "mcp/fake").iterdir()] == ["starts"]


async def test_a_secret_that_is_not_there_is_named() -> None:
    plain = await accepted(fake())
    server = msgspec.structs.replace(plain, env={"API_TOKEN": "${key:token}"})
    async with open_stage(server) as runtime:
        message = (await called(runtime, "say")).error["message"]
        assert "callboard mcp key fake token" in message


async def test_a_changed_definition_is_withheld_until_it_is_accepted_again(tmp_path: Path) -> None:
    server = await accepted(fake("--fault=changes", state=True), data=tmp_path)
    async with open_stage(server, data=tmp_path) as runtime:
        other = await called(runtime, "count")  # starts it a second time
        assert other.status == "success"
        refused = await called(runtime, "say", text="x")
        assert refused.error["error_type"] == "tool_not_available"
        assert "callboard mcp review fake" in refused.error["message"]
        offered = runtime.definitions_for("anthropic")
        names = [definition["name"] for definition in offered]
        assert "fake__say" not in names
        assert "fake__count" in names
        again = await accepted(server, data=tmp_path)
        settings = callboard.Settings(mcp={"fake": again}, sandbox=_sandbox_of(runtime))
        assert (await runtime.reload(settings)).changed == ("mcp",)
        assert (await called(runtime, "say", text="x")).status == "success"


def _sandbox_of(runtime: Runtime) -> callboard.SandboxSettings:
    from callboard.embedding.runtime import host_of

    return host_of(runtime).settings.sandbox


async def test_a_change_in_the_very_call_that_starts_it_is_seen(tmp_path: Path) -> None:
    server = await accepted(fake("--fault=changes", state=True), data=tmp_path)
    async with open_stage(server, data=tmp_path) as runtime:
        refused = await called(runtime, "say", text="x")
        assert refused.error["error_type"] == "tool_not_available"


async def test_a_new_tool_is_listed_and_not_offered() -> None:
    async with open_stage(await accepted(fake())) as runtime:
        await called(runtime, "change")
        await until(lambda: "late" in (servers_of(runtime).states()["fake"].listed or ()))
        assert "fake__late" not in [tool.name for tool in runtime.tools()]
        assert (await called(runtime, "say")).status == "success"


@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_a_server_that_dies_in_mid_call(effect: str, tmp_path: Path) -> None:
    server = fake(state=True, effects={"die": Effect(effect)})
    server = await accepted(server, data=tmp_path)
    (tmp_path / "mcp/fake/starts").unlink()
    async with open_stage(server, data=tmp_path) as runtime:
        found = await called(runtime, "die")
        if effect == "once":
            assert (found.status, found.error["error_type"]) == ("interrupted", "interrupted")
        else:
            assert (found.status, found.output) == ("success", "alive")
        assert (await called(runtime, "say")).status == "success"


async def test_one_that_always_dies_is_given_up_and_restarted_by_a_person() -> None:
    async with open_stage(await accepted(fake())) as runtime:
        for _ in range(5):
            assert (await called(runtime, "die", always=True)).status == "interrupted"
        refused = await called(runtime, "say")
        assert "callboard mcp restart fake" in refused.error["message"]
        assert servers_of(runtime).states()["fake"].state == "failed"
        await servers_of(runtime).restart("fake")
        assert (await called(runtime, "say")).status == "success"


async def test_a_cancelled_call_is_told_to_the_server_and_the_next_one_works() -> None:
    async with open_stage(await accepted(fake())) as runtime:
        session = await runtime.create_session()
        async with session.follow() as events, trio.open_nursery() as nursery:
            call = partial(runtime.call_tool, "fake__wait", {"seconds": 30}, session=session)
            nursery.start_soon(call)
            async for event in events:
                if isinstance(event, CallProgress):  # the server has it
                    break
            nursery.cancel_scope.cancel()
        assert (await called(runtime, "cancelled")).output == "1"
        record = [each.event for each in await runtime.store.events(session.session_id)]
        [finished] = [event for event in record if isinstance(event, CallFinished)]
        assert finished.status == "cancelled"
        assert (
            "The server fake was told to stop; it may have done it all the same." in finished.result
        )


@pytest.mark.parametrize("effect", ["once", "read"])
async def test_the_result_of_a_call_that_took_too_long_says_that_the_server_was_told(
    effect: str,
) -> None:
    effects = {"wait": Effect(effect)}
    server = await accepted(fake(timeout_seconds=0.5, start="eager", effects=effects))
    async with open_stage(server) as runtime:
        await until(lambda: servers_of(runtime).states()["fake"].state == "running")
        found = await called(runtime, "wait", seconds=30)
        assert found.status == "timeout"
        assert ("was told to stop" in found.note) is (effect == "once")


async def test_progress_is_shown_and_bounded() -> None:
    async with open_stage(await accepted(fake())) as runtime:
        session = await runtime.create_session()
        lines: list[str] = []
        async with session.follow() as events:
            await runtime.call_tool("fake__wait", session=session)
            async for event in events:
                if isinstance(event, CallProgress):
                    lines.append(event.text)
                elif isinstance(event, callboard.TurnEnded):
                    break
        assert lines[:1] == ["0/3 on it"]
        assert len(lines) <= 2  # three came at once


async def test_nothing_is_left_when_the_runtime_is_closed() -> None:
    async with open_stage(await accepted(fake(start="eager"))) as runtime:
        await until(lambda: servers_of(runtime).states()["fake"].state == "running")
        assert (await called(runtime, "say")).status == "success"
    assert not _running()


def _running() -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"support/mcp/server.py" in words and parent == str(os.getpid()):
            found.append(pid)
    return found


async def test_many_calls_at_once_share_one_server() -> None:
    async with open_stage(await accepted(fake(max_calls=8))) as runtime:
        calls: list[tuple[str, Mapping[str, Any]]] = [
            ("fake__say", {"text": str(number)}) for number in range(100)
        ]
        found = await runtime.call_tools(calls)
        assert [json.loads(one.output)["text"] for one in found] == [str(n) for n in range(100)]


async def test_without_a_sandbox_no_server_is_started() -> None:
    from callboard.runtime.errors import ToolError
    from callboard.tools.mcp.server import look_at
    from callboard.tools.mcp.state import McpPlaces

    with pytest.raises(ToolError, match="no server runs outside"):
        await look_at(McpPlaces(sandbox=None), fake())


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("noise", "100 lines that are no messages"),
        ("endless", "a line of more than"),
        ("exit", "code 3; it said: can't open its database"),
        ("deaf", "does not read|ended"),
        ("array", "not of the protocol"),
        ("silent", "did not answer in 1 s"),
    ],
)
async def test_a_server_that_misbehaves_is_ended_with_a_reason(fault: str, problem: str) -> None:
    from callboard.runtime.errors import ToolError

    server = fake(f"--fault={fault}", start_seconds=1.0 if fault == "silent" else 20.0)
    with pytest.raises(ToolError, match=problem):
        await looked_at(server)


@pytest.mark.parametrize("fault", ["greeting", "asks", "twice", "cursor", "pages"])
async def test_what_can_be_passed_over_is(fault: str) -> None:
    server = await accepted(fake(f"--fault={fault}"))
    async with open_stage(server) as runtime:
        if fault == "pages":
            assert server.tools == ()
            return
        for _ in range(2):
            assert (await called(runtime, "say", text="x")).status == "success"
        if fault == "asks":  # sampling is not declared
            its = json.loads((await called(runtime, "environment")).output)
            assert its["refused"] == [-32601] * 50


async def test_definitions_that_nobody_could_look_at_are_refused() -> None:
    hidden = await looked_at(fake("--fault=hidden"))
    assert hidden.refused.keys() == {"hidden", "deep"}
    assert all("hides a character" in why for why in hidden.refused.values())
    schema = await looked_at(fake("--fault=schema"))
    assert schema.refused.keys() == {"huge", "outside"}
    assert len(schema.tools) == len(hidden.tools) > 5
    many = await looked_at(fake("--fault=many"))
    assert len(many.tools) == 128
    assert any("more than 128 tools" in note for note in many.notes)


def test_a_list_is_cut_before_objects_are_made_of_it() -> None:
    tools = [{"name": f"t{number}", "inputSchema": {}} for number in range(5000)]
    whole = {"jsonrpc": "2.0", "id": 7, "result": {"tools": tools, "nextCursor": "n", "ttlMs": 5}}
    cut = json.loads(cut_listing(json.dumps(whole).encode()))
    assert cut["result"].pop("tools") == tools[:MAX_LISTED]
    assert cut == {"jsonrpc": "2.0", "id": 7, "result": {"nextCursor": "n", "ttlMs": 5}}
    for other in (
        json.dumps({"id": 7, "result": {"tools": tools[:MAX_LISTED], "x": "y" * CUT_BYTES}}),
        json.dumps({"id": 7, "result": {"tools": {"a": "y" * CUT_BYTES}}}),
        json.dumps({"id": 7, "result": {"text": '"tools"' * CUT_BYTES}}),
        '{"result": {"tools": ' + CUT_BYTES * "[",
        json.dumps(["tools"] * CUT_BYTES),
    ):
        assert cut_listing(other.encode()) == other.encode()


async def test_how_long_a_list_holds_is_bounded_and_what_is_gone_is_forgotten() -> None:
    session: Any = SimpleNamespace(
        _tool_output_schemas={"gone": None, "kept": None}, _x_mcp_header_maps={"gone": {}}
    )
    client: Any = SimpleNamespace(session=session, server_info=None, protocol_version="x")
    wire: Any = SimpleNamespace(lost=trio.Event())
    connection = ServerConnection(client, wire, None, None, None)  # type: ignore[arg-type]
    for said, held in ((5, 60.0), (61_000, 61.0), (10**12, 86_400.0), (0, math.inf)):
        kept = SimpleNamespace(model_dump=lambda **_: {"name": "kept"})
        page = SimpleNamespace(tools=[kept], ttl_ms=said, next_cursor=None)

        async def list_tools(params: Any, page: Any = page) -> Any:
            await trio.lowlevel.checkpoint()
            return page

        session.list_tools = list_tools
        await connection.list_tools()
        assert connection.fresh_seconds == held
    assert (session._tool_output_schemas, session._x_mcp_header_maps) == ({"kept": None}, {})


async def test_a_list_is_asked_for_again_when_it_holds_no_longer(autojump_clock: Any) -> None:
    listed_at: list[float] = []

    class Listing:
        lost, info, fresh_seconds = trio.Event(), ServerInfo(), math.inf

        def next_change(self) -> trio.Event:
            return trio.Event()

        async def list_tools(self) -> Any:
            await trio.lowlevel.checkpoint()
            listed_at.append(trio.current_time() - begun_at)
            self.fresh_seconds = 60.0 if len(listed_at) < 3 else math.inf
            return [], ()

    begun_at = trio.current_time()
    server: Any = McpServer(Mailbox("mcp", 1), fake(), McpPlaces(sandbox=None), lambda state: None)
    with trio.move_on_after(1000) as scope:
        await server._speak(Listing(), trio.CancelScope())
    assert scope.cancelled_caught
    assert listed_at == [0, 60, 120]


def test_settings_that_can_not_be() -> None:
    impossible: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "command or url"),
        ({"command": ("a",), "url": "https://b.example"}, "command or url"),
        ({"command": ("a",), "env": {"API_TOKEN": "abc"}}, "looks like a secret"),
        ({"command": ("a",), "env": {"X": "Bearer abcdefghijkl"}}, "looks like a secret"),
        ({"command": ("a", "--key=sk-abcdefghijklmnop")}, "looks like a key"),
        ({"command": ("a",), "env": {"LD_PRELOAD": "x"}}, "can't be a variable"),
        ({"command": ("a",), "env": {"X": "${file:a}"}}, "is none"),
        ({"command": ("a",), "network": ("example.org",)}, "HOST:PORT"),
        ({"command": ("a",), "headers": {"X": "y"}}, "env has its variables"),
        ({"command": ("a",), "read_only": ("b",)}, "not an absolute path"),
        ({"command": ("a",), "read_only": ("/tmp/",)}, "more than a program may see"),
    )
    for fields, problem in impossible:
        with pytest.raises(ValueError, match=problem):
            McpSettings(name="a", **fields)
    for name in ("", "A", "a__b", "-a", "a" * 33, "a.b"):
        with pytest.raises(ValueError, match="can't be a server's name"):
            McpSettings(name=name, command=("x",))
    assert McpSettings(name="a-1", command=("a",), env={"API_TOKEN": "${key:t}"}).place == "a"

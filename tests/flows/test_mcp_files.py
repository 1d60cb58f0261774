"""Servers of MCP that work on the workspaces of sessions, in a real sandbox."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import trio

from callboard.config.mcp.settings import McpDraft, McpSettings
from callboard.embedding.runtime import Runtime, host_of
from callboard.runtime.definitions import Capability
from callboard.runtime.errors import ValidationError
from callboard.tools.mcp.servers import IDLE_SECONDS
from callboard.tools.sandbox.sandbox import Sandbox
from support.mcp.stage import accepted, fake, open_stage, servers_of
from support.sandbox.sandbox_users import needs_sandbox
from support.waits import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the sandbox is Linux's")


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    needs_sandbox()


async def server_of(files: str = "write", **fields: Any) -> McpSettings:
    places = {name: fields.pop(name) for name in ("data",) if name in fields}
    return await accepted(fake("--files", files=files, tier="read_only", **fields), **places)


async def called(session: Session, name: str, **arguments: Any) -> Any:
    return await session.runtime.call_tool(f"fake__{name}", arguments, session=session.handle)


class Session(NamedTuple):
    """A session in a workspace."""

    runtime: Runtime
    handle: Any
    place: Path


async def in_workspace(runtime: Runtime, place: Path) -> Session:
    os.makedirs(place, exist_ok=True)
    return Session(runtime, await runtime.create_session(workspace=place), place)


def sandbox_of(runtime: Runtime) -> Sandbox:
    sandbox = host_of(runtime).plan.sandbox
    assert sandbox is not None
    return sandbox


def runs_of(runtime: Runtime) -> list[Any]:
    """The programs of the fake server, each in its workspace."""
    return [*servers_of(runtime)._servers["fake"].runs.values()]


def state_of(pid: int) -> str:
    """Return the state of a process, as the kernel abbreviates it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_each_workspace_has_a_program_that_knows_no_other(tmp_path: Path) -> None:
    async with open_stage(await server_of()) as runtime:
        sessions = [await in_workspace(runtime, tmp_path / name) for name in ("one", "other")]
        sessions.append(await in_workspace(runtime, sessions[0].place))
        pids = []
        for session in sessions:
            its = json.loads((await called(session, "environment")).output)
            assert its["cwd"] == str(session.place)
            pids.append((its["cwd"], its["pid"]))
            found = await called(session, "put", path="a.txt", text=session.place.name)
            assert found.status == "success"
            assert (session.place / "a.txt").read_text() == session.place.name
            roots = json.loads((await called(session, "roots")).output)["roots"]
            assert [each["uri"] for each in roots] == [session.place.as_uri()]
        assert len(runs_of(runtime)) == 2
        assert pids[0] == pids[2]
        beyond = str(sessions[1].place / "a.txt")
        assert (await called(sessions[0], "get", path=beyond)).status != "success"


async def test_a_program_that_may_read_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("there")
    async with open_stage(await server_of("read")) as runtime:
        session = await in_workspace(runtime, tmp_path)
        assert (await called(session, "get", path="a.txt")).output == "there"
        refused = await called(session, "put", path="b.txt", text="x")
        assert "Read-only" in refused.error["message"]
        definition = next(t for t in runtime.tools() if t.name == "fake__get")
        assert definition.needs == (Capability.FILES_READ,)


async def test_protected_names_are_as_for_any_program(tmp_path: Path) -> None:
    (tmp_path / ".git/hooks").mkdir(parents=True)
    async with open_stage(await server_of()) as runtime:
        session = await in_workspace(runtime, tmp_path)
        refused = await called(session, "put", path=".git/hooks/pre-commit", text="#!/bin/sh")
        assert refused.status != "success"
        assert (await called(session, "put", path="hooks.txt", text="x")).status == "success"


async def test_nothing_is_written_between_two_calls(tmp_path: Path) -> None:
    async with open_stage(await server_of()) as runtime:
        session = await in_workspace(runtime, tmp_path)
        assert (await called(session, "later", path="late.txt")).output == "soon"
        (run,) = runs_of(runtime)
        assert run.work._program.is_paused
        pids = run.work._program._process.processes()
        assert pids
        await until(lambda: {state_of(pid) for pid in pids} == {"T"})  # a signal takes its time
        # A program that was allowed as it was runs beside nothing: this one stands still.
        assert sandbox_of(runtime).running_in(str(tmp_path)) == ()
        (tmp_path / "late.txt.go").touch()
        await trio.sleep(0.05)  # ten times what it needs where it runs
        assert not (tmp_path / "late.txt").exists()
        while not (tmp_path / "late.txt").exists():
            assert (await called(session, "wait", seconds=0.01)).status == "success"


async def test_a_program_that_does_not_stand_still_is_ended(tmp_path: Path) -> None:
    async with open_stage(await server_of()) as runtime:
        session = await in_workspace(runtime, tmp_path)
        await called(session, "put", path="a.txt", text="x")
        (run,) = runs_of(runtime)
        program = run.work._program
        for pid in program._process.processes():
            os.kill(pid, signal.SIGCONT)  # as a timer of its own would
        await program.ended.wait()
        assert program.killed_by == "pause"
        await until(lambda: servers_of(runtime).states()["fake"].state == "broken")
        assert (await called(session, "put", path="a.txt", text="y")).status == "success"


async def test_a_program_that_stands_still_is_not_woken_to_end(tmp_path: Path) -> None:
    async with open_stage(await server_of()) as runtime:
        session = await in_workspace(runtime, tmp_path)
        await called(session, "later", path="late.txt")
        (tmp_path / "late.txt.go").touch()
        await servers_of(runtime).restart("fake")
        await until(lambda: not sandbox_of(runtime).running)
        assert not (tmp_path / "late.txt").exists()


async def test_what_a_tainted_session_has_written_taints_who_reads_it(tmp_path: Path) -> None:
    stranger = await accepted(fake(name="stranger", tier="read_only"))
    async with open_stage(await server_of(content="trusted"), stranger) as runtime:
        sessions = [await in_workspace(runtime, tmp_path) for _ in range(3)]

        async def is_tainted(number: int) -> bool:
            row = await runtime.store.session(sessions[number].handle.session_id)
            assert row is not None
            return row.is_tainted

        await called(sessions[0], "put", path="clean.txt", text="x")
        await runtime.call_tool("read_file", {"path": "clean.txt"}, session=sessions[1].handle)
        assert not await is_tainted(1)  # the control
        await runtime.call_tool("stranger__say", {"text": "x"}, session=sessions[0].handle)
        assert await is_tainted(0)
        await called(sessions[0], "put", path="told.txt", text="x")
        await runtime.call_tool("read_file", {"path": "told.txt"}, session=sessions[1].handle)
        assert await is_tainted(1)
        # And the program remembers what it was told.
        await called(sessions[2], "say", text="x")
        assert await is_tainted(2)


async def test_a_program_ends_when_nobody_is_left_in_its_workspace(tmp_path: Path) -> None:
    async with open_stage(await server_of()) as runtime:
        session = await in_workspace(runtime, tmp_path)
        await called(session, "put", path="a.txt", text="x")
        servers = servers_of(runtime)
        (run,) = runs_of(runtime)
        servers.end_idle()
        assert run.idle_since is None  # its session is loaded
        servers._is_loaded = lambda session_id: False
        servers.end_idle()
        assert runs_of(runtime) == [run]
        run.idle_since = trio.current_time() - IDLE_SECONDS
        servers.end_idle()
        assert runs_of(runtime) == []
        assert servers.states()["fake"].state == "not started"
        await until(lambda: not sandbox_of(runtime).running)
        assert (await called(session, "put", path="a.txt", text="y")).status == "success"
        await servers.restart("fake")
        assert runs_of(runtime) == []


async def test_a_start_that_nobody_waits_for_any_more_is_ended(tmp_path: Path) -> None:
    server = await server_of()
    silent = msgspec.structs.replace(server, command=(*server.command, "--fault=silent"))
    async with open_stage(silent) as runtime:
        session = await in_workspace(runtime, tmp_path)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(called, session, "put", path="a.txt", text="x"))
            await until(lambda: bool(sandbox_of(runtime).running))
            nursery.cancel_scope.cancel()
        await until(lambda: not sandbox_of(runtime).running)


async def test_a_home_stays_beside_the_workspace(tmp_path: Path) -> None:
    data, place = tmp_path / "data", tmp_path / "work"
    async with open_stage(await server_of(state=True, data=data), data=data) as runtime:
        session = await in_workspace(runtime, place)
        await called(session, "put", path="a.txt", text="x")
        assert [each.name for each in (data / "mcp/fake").iterdir()] == ["starts"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"command": ("x",), "files": "write", "start": "eager"}, "the first call in a workspace"),
        ({"url": "https://mcp.example/", "files": "read"}, "are for a command"),
    ],
)
def test_settings_that_can_not_be(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        McpDraft(name="a", **fields).settings()

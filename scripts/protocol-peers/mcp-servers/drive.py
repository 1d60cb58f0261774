"""Starts servers of others in callboard's sandbox: each lists its tools, answers a call, and is gone after its end.

drive.py NODE FOLDER    the Node of the environment; where the servers are installed (`node_modules` and `python`)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import trio

import callboard
from callboard.config.mcp.settings import McpSettings
from callboard.tools.mcp.server import look_at
from callboard.tools.mcp.state import McpPlaces
from callboard.tools.sandbox.sandbox import Sandbox

END_SECONDS = 20.0
THOUGHT = {"thought": "One.", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A server of others, and a call that it answers; without a tool it only lists, for want of a network."""

    name: str
    words: tuple[str, ...]
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    says: str = ""


def servers(repository: Path) -> tuple[Server, ...]:
    """Return the servers, which were written by others."""
    here = {"path": "."}
    return (
        Server(name="everything", words=("stdio",), tool="echo", arguments={"message": "hello"}, says="hello"),
        Server(name="filesystem", words=(".",), tool="list_directory", arguments=here),
        Server(name="memory", words=(), tool="read_graph", says="entities"),
        Server(name="sequential-thinking", words=(), tool="sequentialthinking", arguments=THOUGHT, says="thoughtNumber"),
        Server(name="time", words=("mcp-server-time",), tool="get_current_time", arguments={"timezone": "Asia/Tokyo"}, says="Asia/Tokyo"),
        Server(name="git", words=("mcp-server-git",), tool="git_status", arguments={"repo_path": str(repository)}, says="branch"),
        Server(name="fetch", words=("mcp-server-fetch",)),
        Server(name="sqlite", words=("mcp-server-sqlite", "--db-path", "a.db"), tool="list_tables"),
    )  # fmt: skip


def settings_of(server: Server, node: Path, folder: Path, repository: Path) -> McpSettings:
    """Return the settings of a server: its program sees its installation, and keeps a home."""
    program = folder / "node_modules/@modelcontextprotocol" / f"server-{server.name}/dist/index.js"
    first, *rest = server.words or ("",)
    if program.is_file():
        command: tuple[str, ...] = (
            str(node / "bin/node"),
            str(program),
            *filter(None, server.words),
        )
    else:
        command = (str(folder / "python/bin" / first), *rest)
    return McpSettings(
        name=server.name,
        command=command,
        read_only=(str(node), str(folder), str(repository)),
        state=True,
        tier=callboard.Tier.READ_ONLY,
        start_seconds=60.0,
    )


def left(folder: Path) -> list[str]:
    """Return the processes of the servers, as the machine lists them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and "drive.py" not in words:
            found.append(words.replace("\0", " "))
    return found


def check_gone(folder: Path, after: str) -> None:
    """Raise `SystemExit` if a process of the servers is left some time after this."""
    until = time.monotonic() + END_SECONDS
    while found := left(folder):
        if time.monotonic() > until:
            raise SystemExit(f"after {after} there is still: {found}")
        time.sleep(0.05)


def runtime_of(server: McpSettings, data: Path) -> Any:
    """Return an open runtime that has this server."""
    settings = callboard.Settings(mcp={server.name: server})
    return callboard.open_runtime(
        model="rehearsal", data=data, settings=settings, on_approval="allow"
    )


async def check_resources(runtime: Any) -> None:
    """List the resources of server-everything, and read the first; raise `SystemExit` if that is not so."""
    listed = await runtime.call_tool("mcp_resources", {})
    found = (listed.output or {}).get("everything", {}).get("resources", [])
    if not found:
        raise SystemExit(f"everything: no resources: {listed.error or listed.output}")
    wanted = {"server": "everything", "uri": found[0]["uri"]}
    read = await runtime.call_tool("mcp_read", wanted)
    if read.status != "success" or not read.output:
        raise SystemExit(f"everything: {wanted}: {read.error or read.output}")
    sys.stdout.write(f"everything: {len(found)} resources, read {found[0]['uri']}\n")


async def drive_writer(settings: McpSettings, data: Path, folder: Path, work: Path) -> None:
    """Have server-filesystem write into the workspace of a session; raise `SystemExit` if that is not so."""
    settings = msgspec.structs.replace(settings, name="writer", files="write", state=False)
    places = McpPlaces(sandbox=Sandbox(callboard.SandboxSettings()), data=data)
    offer = await look_at(places, settings)
    settings = msgspec.structs.replace(settings, tools=offer.tools)
    async with runtime_of(settings, data) as runtime:
        session = await runtime.create_session(workspace=work)
        given = {"path": str(work / "a.txt"), "content": "written by a server"}
        found = await runtime.call_tool("writer__write_file", given, session=session)
        said = await trio.Path(work / "a.txt").read_text() if found.status == "success" else ""
        if said != "written by a server":
            raise SystemExit(f"filesystem: {found.status} {found.error or found.output}")
        outside = {**given, "path": str(data / "b.txt")}
        refused = await runtime.call_tool("writer__write_file", outside, session=session)
        if refused.status == "success":
            raise SystemExit("filesystem: it wrote outside the workspace")
    await trio.to_thread.run_sync(check_gone, folder, "the server that writes")
    sys.stdout.write("filesystem: wrote into the workspace, and nowhere else\n")


async def drive(server: Server, settings: McpSettings, data: Path, folder: Path) -> None:
    """List a server's tools, call one, and end it; raise `SystemExit` if that is not so."""
    offer = await look_at(
        McpPlaces(sandbox=Sandbox(callboard.SandboxSettings()), data=data), settings
    )
    await trio.to_thread.run_sync(check_gone, folder, f"{server.name} was looked at")
    if not offer.tools or offer.refused:
        raise SystemExit(f"{server.name}: {len(offer.tools)} tools, refused {offer.refused}")
    settings = msgspec.structs.replace(settings, tools=offer.tools, offers=offer.offers)
    names = {tool.original: tool.name for tool in offer.tools}
    async with runtime_of(settings, data) as runtime:
        if server.tool:
            found = await runtime.call_tool(names[server.tool], dict(server.arguments))
            if found.status != "success" or server.says not in str(found.output):
                raise SystemExit(f"{server.name}: {found.status} {found.error or found.output}")
        if server.name == "everything":
            slow = names["trigger-long-running-operation"]
            with trio.move_on_after(1.0) as scope:
                await runtime.call_tool(slow, {"duration": 600, "steps": 600})
            assert scope.cancelled_caught
            found = await runtime.call_tool(names["echo"], {"message": "again"})
            assert "again" in str(found.output)
            await check_resources(runtime)
    await trio.to_thread.run_sync(check_gone, folder, f"{server.name} and the end of callboard")
    its = offer.info
    said = f"{server.name}: {its.name} {its.version}, {its.protocol}, {len(offer.tools)} tools"
    sys.stdout.write(f"{said}\n")


async def wait_in(settings: McpSettings, data: Path) -> None:
    """Say that a server runs, and wait to be killed."""
    offer = await look_at(
        McpPlaces(sandbox=Sandbox(callboard.SandboxSettings()), data=data), settings
    )
    settings = msgspec.structs.replace(settings, tools=offer.tools)
    async with runtime_of(settings, data) as runtime:
        found = await runtime.call_tool(f"{settings.name}__echo", {"message": "here"})
        sys.stdout.write(f"{found.status}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


def main(node: Path, folder: Path, mode: str = "") -> None:
    """Drive all servers, and one whose runtime is killed."""
    with tempfile.TemporaryDirectory() as place:
        repository, data = Path(place).resolve() / "repository", Path(place) / "data"
        subprocess.run(["git", "init", "-q", repository], check=True)
        everything = settings_of(servers(repository)[0], node, folder, repository)
        if mode == "wait":
            trio.run(wait_in, everything, data)
        for server in servers(repository):
            its = settings_of(server, node, folder, repository)
            trio.run(drive, server, its, data, folder)
        work = Path(place).resolve() / "work"
        work.mkdir()
        filesystem = settings_of(servers(repository)[1], node, folder, repository)
        trio.run(drive_writer, filesystem, data, folder, work)
        words = [sys.executable, __file__, str(node), str(folder), "wait"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            said = child.stdout.readline().strip()
            running = left(folder)
            child.send_signal(signal.SIGKILL)
        if said != "success" or not running:
            raise SystemExit(f"the server to be left alone did not run: {said}")
        check_gone(folder, "callboard was killed")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])

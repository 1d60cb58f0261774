"""What callboard costs as a client of MCP servers, beside the bars of the design.

`python benchmarks/door/mcp_client.py [--calls N] [--only ROW…]`

Each row is a process of its own. The server is a small program of Python alone, in the sandbox; what is measured is callboard.
`calls` is the CPU of this process for a call over stdio, less that for a call of a tool of its own that does the same behind the
same broker. `lazy` is what ten servers that were not started add to a start, `import` for how long at a time the
import of the package and the start of the first server hold the loop up, by its own CPU, and `collect` how long a full
search for garbage takes after that.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

ROWS = ("calls", "lazy", "import", "collect")
PYTHON = os.path.join(sys.base_prefix, "bin", "python3")
STARTS = 7
SERVER = """
import json, sys
TOOL = {"name": "say", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, found = asked["method"], None
    if method == "initialize":
        found = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                 "serverInfo": {"name": "bench", "version": "1"}}
    elif method == "tools/list":
        found = {"tools": [TOOL]}
    elif method == "tools/call":
        found = {"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}
    answer = {"result": found} if found else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


def settings(folder: str, count: int) -> Any:
    """Settings with so many servers, whose tool is accepted."""
    import callboard
    from callboard.config.mcp.settings import McpSettings
    from callboard.runtime.definitions import Tier
    from callboard.tools.mcp.definition import read_listing

    Path(folder, "server.py").write_text(SERVER)
    listed = [
        {
            "name": "say",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        }
    ]
    found = {}
    for number in range(count):
        name = f"bench{number}"
        command = (PYTHON, "-I", "-S", f"{folder}/server.py")
        plain = McpSettings(name=name, command=command, content="trusted", tier=Tier.READ_ONLY)
        tools = read_listing(plain, listed).tools
        found[name] = McpSettings(
            name=name, command=command, content="trusted", tier=Tier.READ_ONLY, tools=tools
        )
    sandbox = callboard.SandboxSettings(read_only=(folder,))
    return callboard.Settings(mcp=found, sandbox=sandbox)


def opened(folder: str, count: int, **options: Any) -> Any:
    import callboard

    return callboard.open_runtime(
        model="rehearsal",
        environ={},
        workspace=folder,
        settings=settings(folder, count),
        **options,
    )


async def calls(folder: str, number: int) -> str:
    import callboard

    @callboard.tool
    async def say(text: str) -> str:
        """Says what it is given."""
        await trio.lowlevel.checkpoint()
        return text

    async with opened(folder, 1, tools=[say], on_approval="allow") as runtime:
        session = await runtime.create_session()

        async def cpu_of(name: str) -> float:
            await runtime.call_tool(name, {"text": "hello"}, session=session)
            began = time.process_time()
            for _ in range(number):
                found = await runtime.call_tool(name, {"text": "hello"}, session=session)
                assert found.output == "hello", found
            return (time.process_time() - began) * 1000 / number

        rounds = [(await cpu_of("bench0__say"), await cpu_of("say")) for _ in range(3)]
    of_server, of_own = (min(each) for each in zip(*rounds, strict=True))
    return (
        f"{of_server - of_own:.2f} ms of CPU a call over a tool of its own ({of_own:.2f}); bar 1.0"
    )


async def lazy(folder: str, number: int) -> str:
    del number
    seconds: dict[int, list[float]] = {0: [], 10: []}
    for _ in range(STARTS + 1):
        for count, its in seconds.items():
            began = time.process_time()
            async with opened(folder, count):
                its.append(time.process_time() - began)
    assert "mcp" not in sys.modules
    none, ten = (statistics.median(each[1:]) * 1000 for each in seconds.values())
    return (
        f"{ten - none:.1f} ms of CPU for ten at a start of {none:.1f}; bar 10, and nothing imported"
    )


async def first_call(folder: str) -> float:
    """The most CPU of this process, in ms, between two turns of the loop while the first server starts.

    It is what the loop waits where the machine is free: the thread that imports holds the interpreter's lock.
    """
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        last = time.process_time()
        while True:
            await trio.sleep(0.001)
            now = time.process_time()
            longest = max(longest, now - last)
            last = now

    async with opened(folder, 1, on_approval="allow") as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        found = await runtime.call_tool("bench0__say", {"text": "hello"})
        assert found.output == "hello", found
        nursery.cancel_scope.cancel()
    assert "mcp" in sys.modules
    return longest * 1000


async def import_(folder: str, number: int) -> str:
    del number
    gc.freeze()  # as `callboard serve` does
    return f"{await first_call(folder):.0f} ms is the longest that the loop waits meanwhile; bar 50"


async def collect(folder: str, number: int) -> str:
    del number
    gc.freeze()
    await first_call(folder)
    began = time.process_time()
    gc.collect()
    return f"{(time.process_time() - began) * 1000:.0f} ms of CPU for a full search for garbage"


RUN: Any = {"calls": calls, "lazy": lazy, "import": import_, "collect": collect}


def main() -> None:
    if sys.argv[1:2] == ["--row"]:
        row, number = json.loads(sys.argv[2])
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {row} | {trio.run(RUN[row], str(Path(folder).resolve()), number)} |")
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=300, metavar="N")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    args = parser.parse_args()
    print("| row | figure |\n|---|---|", flush=True)
    for row in args.only:
        its = json.dumps([row, args.calls])
        subprocess.run([sys.executable, str(Path(__file__).resolve()), "--row", its], check=True)


if __name__ == "__main__":
    main()

"""What `callboard acp` costs beside a daemon: its memory, the way of a first chunk, and CPU for each update.

`python benchmarks/door/acp.py [--turns N] [--deltas N] [--only ROW…]`

The daemon runs in this process, and so does the editor; the command is a process of its own, which is measured. `floor` is what a
process of Python takes to read such an update, and to write it on, without callboard.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio
from gateway import PAUSE_SECONDS, Speaker, at

import callboard
from callboard.config.files import load_settings
from callboard.config.sections import ServerSettings
from callboard.embedding.configuration import Configuration
from callboard.gateway.lifecycle import DaemonPlan, run_daemon
from callboard.providers.catalog.book import ProviderBook

ROWS = ("memory", "first", "updates", "floor")
STAMP = re.compile(rb"@(\d+)@")
CHUNK = b'"agent_message_chunk"'


UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/event","params":{"session_id":"session_qy1wkxk6qwsw3cm1b8vf",'
    b'"events":[{"type":"text_delta","text":"a piece of text","message_id":"message_qy1wkxk6qwsw3cm1b8vf"}]}}\n'
)
SPEAK = """
import sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]))
    sys.stdout.buffer.write(sys.argv[3].encode())
    sys.stdout.buffer.flush()
"""


class Editor:
    """The editor of one command.

    Attributes:
        ages: Milliseconds from the model to this process, of the first chunk of each turn.
        chunks: Updates with text so far.
    """

    def __init__(self, data: Path) -> None:
        environ = {**os.environ, "CALLBOARD_HOME": str(data.parent)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "callboard", "acp", "--data", str(data)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.ages: list[float] = []
        self.chunks = 0
        self._count = 0

    async def ask(self, method: str, **params: Any) -> Any:
        """Returns the result of a request; what comes before it is looked at."""
        return await trio.to_thread.run_sync(partial(self._ask, method, params))

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        process, is_first = self.process, True
        assert process.stdin is not None
        assert process.stdout is not None
        self._count += 1
        said = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        process.stdin.write(json.dumps(said).encode() + b"\n")
        process.stdin.flush()
        mark = f'"id":{self._count},'.encode()
        for line in process.stdout:
            now = time.monotonic_ns()
            if CHUNK in line:
                self.chunks += 1
                if is_first and (found := STAMP.search(line)):
                    self.ages.append((now - int(found[1])) / 1e6)
                is_first = False
            elif mark in line:
                return json.loads(line)["result"]
        raise SystemExit(f"callboard acp ended with {process.wait()}")

    def memory(self) -> int:
        """The bytes that it has in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) * 1024

    def cpu(self) -> float:
        """The seconds that its threads were on a core."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@asynccontextmanager
async def editing(model: Any) -> AsyncGenerator[tuple[Editor, str]]:
    """An editor with a session of a daemon that has this model."""
    with tempfile.TemporaryDirectory() as folder:
        data, workspace = Path(folder) / "data", Path(folder) / "workspace"
        workspace.mkdir()
        settings, is_ready = load_settings(None), trio.Event()
        plan = DaemonPlan(
            settings=ServerSettings(port=0, roots=(str(workspace),)),
            data=data,
            open_runtime=lambda _port: callboard.open_runtime(
                model=model,
                workspace=data / "workspaces",
                data=data,
                environ={},
            ),
            configuration=Configuration(
                lambda: settings, (data / "none.toml",), ProviderBook(None, data, {})
            ),
            tell_ready=lambda *_: is_ready.set(),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_daemon, plan)
            await is_ready.wait()
            editor = Editor(data)
            try:
                await editor.ask("initialize", protocolVersion=1)
                new = await editor.ask("session/new", cwd=str(workspace), mcpServers=[])
                yield editor, new["sessionId"]
            finally:
                editor.end()
                nursery.cancel_scope.cancel()


async def prompt(editor: Editor, session: str, count: int) -> None:
    for _ in range(count):
        words = [{"type": "text", "text": "Speak."}]
        await editor.ask("session/prompt", sessionId=session, prompt=words)


@contextmanager
def speaking(count: int) -> Generator[int]:
    """A process that says so many updates, each alone; gives where to read them."""
    words = (sys.executable, "-c", SPEAK, str(count), str(PAUSE_SECONDS), UPDATE.decode())
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout.fileno()


def pass_on(data: bytes, out: int) -> None:
    for line in data.splitlines():
        os.write(out, msgspec.json.encode(msgspec.json.decode(line)) + b"\n")


def floor(count: int) -> None:
    """Prints what reading, decoding, encoding and writing take, by a loop that blocks and by a task of Trio."""

    async def pass_all_on(place: int) -> None:
        async with trio.lowlevel.FdStream(os.dup(place)) as stream:
            while data := await stream.receive_some():
                pass_on(bytes(data), out)

    out = os.open(os.devnull, os.O_WRONLY)
    with speaking(count) as place:
        before = time.process_time()
        while data := os.read(place, 65_536):
            pass_on(data, out)
        taken = time.process_time() - before
    print(f"| floor, a loop that blocks | {taken / count * 1e6:.1f} µs of CPU an update |")
    with speaking(count) as place:
        before = time.process_time()
        trio.run(pass_all_on, place)
        taken = time.process_time() - before
    print(f"| floor, a task of Trio | {taken / count * 1e6:.1f} µs of CPU an update |", flush=True)
    os.close(out)


async def run(only: list[str], turns: int, deltas: int) -> None:
    async with editing(Speaker(1, PAUSE_SECONDS)) as (editor, session):
        await prompt(editor, session, 3)
        if "memory" in only:
            taken = editor.memory()
            print(f"| memory | {taken / 1e6:.1f} MB ({taken // 1024:,} KiB) |", flush=True)
        if "first" in only:
            editor.ages.clear()
            await prompt(editor, session, turns)
            print(f"| first chunk p10 | {at(editor.ages, 0.1):.2f} ms |")
            print(f"| first chunk p50 | {at(editor.ages, 0.5):.2f} ms |")
            print(f"| first chunk p99 | {at(editor.ages, 0.99):.2f} ms |", flush=True)
    if "updates" in only:
        for name, pause in (("fast", 0.0), ("paced", PAUSE_SECONDS)):
            number = deltas if not pause else deltas // 10
            async with editing(Speaker(number, pause)) as (editor, session):
                await prompt(editor, session, 1)
                before, chunks = editor.cpu(), editor.chunks
                await prompt(editor, session, 1)
                taken, sent = (editor.cpu() - before) * 1e6, editor.chunks - chunks
            each = f"{taken / sent:.1f} µs of CPU an update, {taken / number:.1f} a delta"
            print(f"| {name} model | {each}, {number / sent:.1f} deltas an update |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=100, metavar="N")
    parser.add_argument("--deltas", type=int, default=20_000, metavar="N")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    args = parser.parse_args()
    print("| row | figure |\n|---|---|")
    if "floor" in args.only:
        floor(args.deltas // 10)
    if args.only != ["floor"]:
        trio.run(run, args.only, args.turns, args.deltas)


if __name__ == "__main__":
    main()

"""What a start costs, in counters that no other program and no faster machine changes.

Each bound is what a change brought it to. A change that raises one raises it here too, in the same
commit, and says why; one that lowers it lowers it here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import apsw
import msgspec
import pytest
import trio

import callboard
from callboard.providers.testing.script import reply
from callboard.providers.testing.scripted_server import open_scripted_server
from support.cli.command import Command
from support.waits import until


class Bound(NamedTuple):
    """At most so many modules of ours are imported, and programs started, before the first delta."""

    modules: int
    programs: int


FIRST = {
    ("memory", "plain"): Bound(262, 0),
    ("memory", "general"): Bound(288, 2),
    ("disk", "plain"): Bound(276, 0),
    ("disk", "general"): Bound(299, 2),
}
"""Of a first start, by store and agent: only the general one has tools that need the sandbox. A store knows its health,
and one on disk compares what it has with a note of what was acknowledged (`store.health`). Its threads are a module of
their own (`store.threaded`), since another database is read and written by such too. A sandbox looks for mounts in its
workspace. When a session that could not go on tries again is a module of its own (`session.later_try`). What no session
may work in is one, too (`workspace.roots`): each session is judged by it, as those of a daemon are. So are the keys and
slots of calls (`calls.permits`), the turns that ask no model (`turn.without_answer`: each turn looks whether it is
one), what a runtime says about tools (`embedding.tools`), and the place that holds the configuration in force
(`config.in_force`): all that reads settings looks there. Settings know what a hook and a schedule are (`runtime.hooks`,
`runtime.schedules`), and a server of `[mcp]` (`config.mcp`, two modules); when one fires, and what speaks to servers,
is imported where there is one."""
LATER = Bound(276, 0)
"""Of each later start on the same folder, where the sandbox's test is on record."""
PACKAGES = {
    *("apsw", "attr", "attrs", "callboard", "idna", "msgspec", "outcome", "platformdirs"),
    *("sniffio", "sortedcontainers", "trio", "typing_extensions"),
}
"""Whose modules may be imported by then, beside Python's own."""
OPENING_STATEMENTS = 17
"""Of SQL, when a runtime opens a folder that has sessions on record, and for what it does then. One looks for the
event that was acknowledged last, two compare events with their checksums, and two are for what a purge that was
cut off left, and what is to be purged now. One looks whether the store is a copy that did not come to its end."""

# Its clock stands still, so that nothing which waits for seconds begins on a slow machine. What Trio
# starts when it is imported is not counted.
PROGRAM = """
import json, math, sys
import trio

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
started = []
sys.addaudithook(lambda event, args: event in STARTS and started.append(str(args[0])))

import callboard

class StandingClock(trio.abc.Clock):
    def start_clock(self): pass
    def current_time(self): return 0.0
    def deadline_to_sleep_time(self, deadline): return math.inf if deadline > 0 else 0.0

async def main(url, workspace, data, agent):
    async with callboard.open_runtime(
        model="text-5", base_url=url, workspace=workspace, data=data or None, environ={},
        agents=[callboard.Agent(name="plain", tools=())],
    ) as runtime:
        session = await runtime.create_session(agent=agent)
        found = None
        async with session.prompt("go") as turn:
            async for event in turn:
                if found is None and type(event) is callboard.TextDelta:
                    found = json.dumps({"modules": list(sys.modules), "started": list(started)})
    print(found)

trio.run(main, *sys.argv[1:], clock=StandingClock())
"""


class Started(msgspec.Struct):
    """What a new process had done when the first delta came."""

    modules: list[str]
    started: list[str]

    @property
    def others(self) -> set[str]:
        packages = {name.partition(".")[0] for name in self.modules}
        return {name for name in packages - sys.stdlib_module_names if not name.startswith("_")}


async def until_the_first_delta(folder: Path, store: str, agent: str) -> Started:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    data = str(folder / "data") if store == "disk" else ""
    async with open_scripted_server([reply("Hello, and welcome.")]) as server:
        done = await trio.run_process(
            [sys.executable, "-c", PROGRAM, server.base_url, str(work), data, agent],
            capture_stdout=True,
        )
    return msgspec.json.decode(done.stdout, type=Started)


def check(found: Started, bound: Bound) -> None:
    assert found.others <= PACKAGES
    ours = [name for name in found.modules if name.partition(".")[0] == "callboard"]
    assert len(found.started) <= bound.programs, found.started
    assert len(ours) <= bound.modules, f"{len(ours)} modules of ours before the first delta"


@pytest.mark.parametrize(("store", "agent"), FIRST)
async def test_what_is_imported_and_started_before_the_first_delta(
    tmp_path: Path, store: str, agent: str
) -> None:
    check(await until_the_first_delta(tmp_path, store, agent), FIRST[store, agent])


async def test_what_an_editor_keeps_running_has_no_parser_of_command_lines() -> None:
    """Nor the sandbox, tools and store of a daemon: beside one that runs, `callboard acp` is a client."""
    ask = "import sys, callboard.cli.acp.run; print(*sys.modules)"
    done = await trio.run_process([sys.executable, "-c", ask], capture_stdout=True)
    modules = {*done.stdout.decode().split()}
    assert "callboard.cli.acp.bridge" in modules
    assert not modules & {
        "cyclopts",
        "rich",
        "prompt_toolkit",
        "apsw",
        "httpx",
        "callboard.cli.app",
        "callboard.runtime.messages",
        "callboard.runtime.backup.session_file",
    }


async def test_what_an_editor_keeps_running_reads_no_metadata_of_packages() -> None:
    """That takes a parser of mails and one of archives, 1.6 MB: trio-websocket wants the version of Trio alone."""
    plain = "import sys, trio_websocket; print(*sys.modules)"
    editor = (
        "import sys; from callboard.__main__ import main; main(['acp', '--config', '/nowhere/at/all'])\n"
        "print(*sys.modules)"
    )
    found = []
    for program in (plain, editor):
        done = await trio.run_process(
            [sys.executable, "-c", program], capture_stdout=True, capture_stderr=True
        )
        found.append({*done.stdout.decode().split()})
    unused = {"importlib.metadata", "email.message", "zipfile"}
    assert found[0] >= unused
    assert "callboard.cli.acp.bridge" in found[1]
    assert not found[1] & unused


async def test_a_run_that_looks_for_a_local_server_imports_no_http_client(tmp_path: Path) -> None:
    """Where no model is configured, and no key: httpx took a seventh of the instructions of a user's first run."""
    command = Command(tmp_path)
    ask = "import sys; from callboard.__main__ import main; main(['run', '-q', 'Hi']); print(*sys.modules)"
    for is_there in (False, True):
        async with open_scripted_server([reply("Hello.")]) as server:
            if is_there:
                there = f'[providers.ollama]\nbase_url = "{server.base_url}"\n'
                (command.home / "config" / "callboard.toml").write_text(there)
            done = await trio.run_process(
                [sys.executable, "-c", ask],
                stdin=b"",
                capture_stdout=True,
                env=command.environ,
                cwd=command.workspace,
            )
        *said, modules = done.stdout.decode().splitlines()
        assert ("Hello." in said) == is_there
        assert "callboard.providers.catalog.lists" in modules.split()
        assert not {"httpx", "rich"} & {*modules.split()}


async def test_a_later_start_takes_the_sandbox_from_the_record(tmp_path: Path) -> None:
    await until_the_first_delta(tmp_path, "disk", "general")
    check(await until_the_first_delta(tmp_path, "disk", "general"), LATER)


@pytest.mark.parametrize("sessions", [1, 30])
async def test_opening_runs_the_same_statements_for_few_sessions_and_for_many(
    tmp_path: Path, sessions: int
) -> None:
    model = callboard.ScriptedModel([callboard.reply("Hello.")] * sessions)
    async with callboard.open_runtime(model=model, data=tmp_path) as runtime:
        for _ in range(sessions):
            await (await runtime.create_session()).run("Greet.")
    ran: list[str] = []

    def note(_: object, statement: str, __: object) -> bool:
        if not statement.startswith("pragma "):  # of each connection, and as many as read at once
            ran.append(statement)
        return True

    def trace(connection: apsw.Connection) -> None:
        connection.set_exec_trace(note)

    with patch.object(apsw, "connection_hooks", [*apsw.connection_hooks, trace]):
        async with callboard.open_runtime(model=model, data=tmp_path):
            await until(lambda: any("deleted_at_ms <" in each for each in ran))  # the last look
    assert len(ran) <= OPENING_STATEMENTS, "\n".join(ran)

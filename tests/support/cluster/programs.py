"""Programs of a node that act all the time, one of each kind."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

import callboard
from callboard.config.mcp.settings import McpSettings
from callboard.config.sections import SandboxSettings, Strength
from callboard.providers.provider import ModelRequest
from callboard.providers.testing.script import ScriptedReply, reply
from callboard.runtime.history import Result
from callboard.tools.processes.system_programs import find_system_program
from callboard.tools.sandbox.selftest import self_test
from support.cluster.nodes import KINDS, NOBODY
from support.mcp.fake_program import readable_server

PAUSE_SECONDS = 0.02
CALL_SECONDS = 60
SCRIPT, OFFERED = "server.py", "server.json"
_OFFERED = msgspec.json.Decoder(McpSettings)


def program(file: str, seconds: float) -> str:
    """Return what a program does that acts all the time, and not only when it begins."""
    rounds = int(seconds / PAUSE_SECONDS)
    return (
        f"for _ in $(seq {rounds}); do echo $EPOCHREALTIME >> {file}; sleep {PAUSE_SECONDS}; done"
    )


@callboard.tool(process=True, timeout_seconds=CALL_SECONDS)
def write(file: str, seconds: float) -> None:
    """Does the same in a process of its own."""
    for _ in range(int(seconds / PAUSE_SECONDS)):
        with open(file, "a", encoding="ascii") as programs:
            programs.write(f"{time.time()}\n")
        time.sleep(PAUSE_SECONDS)


def begins_programs(
    node: str, work: Path, seconds: float
) -> Callable[[ModelRequest], ScriptedReply]:
    """Return a model's step that begins one program of each kind, and ends the turn when they have ended."""
    files = {kind: f"programs/{node}-{kind}" for kind in KINDS}
    background = ["bash", "-c", program(files["background"], seconds)]
    code = {"language": "bash", "code": program(files["run_code"], seconds)}
    calls: list[tuple[str, dict[str, object]]] = [
        # First what ends at once: calls that may write in the workspace take turns.
        ("shell", {"command": background, "background": True}),
        ("run_code", {**code, "timeout": CALL_SECONDS}),
        ("write", {"file": str(work / files["function"]), "seconds": seconds}),
        ("fake__say", {"text": "begun"}),
    ]

    def step(request: ModelRequest) -> ScriptedReply:
        has_ended = isinstance(request.rounds[-1].items[-1], Result)
        return reply("Done.") if has_ended else reply(calls=calls)

    return step


def prepare_server(folder: Path, offered: McpSettings) -> None:
    """Put into a folder what its nodes need for their server: the program, and what of it is accepted."""
    readable_server(folder / SCRIPT)
    (folder / OFFERED).write_bytes(msgspec.json.encode(offered))


def with_programs(
    settings: callboard.Settings, seconds: float, folder: Path, *, is_partial: bool
) -> callboard.Settings:
    """Return settings for such programs, with the server of a prepared folder.

    `is_partial` confines them by Landlock alone, as where there is no bubblewrap.
    """
    sandbox = SandboxSettings(read_only=(str(folder / SCRIPT),))
    if is_partial:
        self_test.find_system_program = (  # type: ignore[attr-defined]
            lambda name: None if name == "bwrap" else find_system_program(name)
        )
        user = NOBODY if os.geteuid() == 0 else None
        sandbox = msgspec.structs.replace(sandbox, minimum=Strength.PARTIAL, run_as=user)
    servers = {"fake": writing_server(folder, seconds)}
    return msgspec.structs.replace(settings, sandbox=sandbox, mcp=servers)


def writing_server(folder: Path, seconds: float) -> McpSettings:
    """Return a server that does the same in its home, beside what it is asked for."""
    offered = _OFFERED.decode((folder / OFFERED).read_bytes())
    python = shlex.join(["python3", "-I", "-S", str(folder / SCRIPT)])
    command = f"{program('times', seconds)} & exec {python}"
    return msgspec.structs.replace(offered, command=("/bin/bash", "-c", command), state=True)

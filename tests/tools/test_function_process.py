"""`@tool(process=True)`: a function in a process that ends when the call does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import callboard
from callboard.runtime.definitions import ErrorType, ToolFailure
from callboard.runtime.errors import ValidationError
from callboard.tools.processes import function_process
from callboard.tools.processes.unreaped import unreaped
from callboard.tools.tool import FunctionTool, tool
from support.tools import process_tools
from support.tools.workbench import context_of, output_of, wait_until


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_arguments_and_results_cross_as_they_are() -> None:
    assert await output_of(process_tools.move, point={"x": 1}, by=4) == {"x": 5, "color": "red"}
    assert await output_of(process_tools.doubled, x=4) == 8


async def test_a_result_keeps_its_display() -> None:
    made = process_tools.result
    returned = await made.execute(made.decode("{}"), context_of())
    assert (returned.output, returned.display) == ([1], "shown")


async def test_it_is_another_process_and_knows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary")
    monkeypatch.setenv("TZ", "UTC")
    seen = await output_of(process_tools.look)
    assert seen["pid"] != os.getpid()
    assert "TZ" in seen["environment"]
    assert "PATH" in seen["environment"]
    assert "SOME_API_KEY" not in seen["environment"]
    assert not is_alive(seen["pid"])


async def test_its_lines_are_progress() -> None:
    lines: list[str] = []
    assert (
        await output_of(process_tools.talk, context_of(on_progress=lines.append))
        == "callgeneralNone"
    )
    assert lines[:4] == ["one", "two", "three", "four"]
    pieces = [line.removesuffix("…") for line in lines[4:]]
    assert "".join(pieces) == "x" * 10_000
    assert max(map(len, pieces)) <= function_process.MAX_LINE_BYTES


@pytest.mark.parametrize(
    ("how", "error_type", "message"),
    [
        ("failure", ErrorType.NOT_EMPTY, "Three left."),
        ("exit", ErrorType.EXECUTION_ERROR, "fail failed: SystemExit: 3"),
        ("exit at once", ErrorType.EXECUTION_ERROR, "ended with exit code 7"),
        ("not JSON", ErrorType.EXECUTION_ERROR, "can't be written as JSON"),
    ],
)
async def test_a_failure_is_one_as_in_a_thread(
    how: str, error_type: ErrorType, message: str
) -> None:
    with pytest.raises(ToolFailure) as caught:
        await output_of(process_tools.fail, how=how)
    assert caught.value.error_type is error_type
    assert message in str(caught.value)
    assert caught.value.details == ({"left": 3} if how == "failure" else {})


async def test_a_process_that_is_not_gone_in_time_is_listed_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_process, "REAP_SECONDS", 0)
    with trio.CancelScope() as scope:
        await output_of(
            process_tools.hang,
            context_of(on_progress=lambda _: scope.cancel()),
            folder=str(tmp_path),
        )
    pid = int((tmp_path / "pids").read_text().split()[0])
    # It may be gone by now: then it was never left running.
    left = unreaped().of("turn")
    assert not left or re.fullmatch(r"process \d+ of hang", left[0])
    await wait_until(lambda: not unreaped().of("turn"))
    assert not is_alive(pid)


async def test_no_file_descriptor_is_left_open() -> None:
    before = os.listdir("/proc/self/fd")
    await output_of(process_tools.doubled, x=1)
    with pytest.raises(ToolFailure):
        await output_of(process_tools.fail, how="exit at once")
    assert os.listdir("/proc/self/fd") == before


async def test_a_process_that_can_not_be_started_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ToolFailure, match="could not be started"):
        await output_of(process_tools.doubled, x=1)
    assert os.listdir("/proc/self/fd") == before


SCRIPT = """
import os
import trio
import callboard
from callboard.runtime.definitions import Agent, SessionKind
from callboard.tools.tool import ToolContext

@callboard.tool(process=True)
def other(x: int) -> dict[str, int]:
    return {"x": x, "pid": os.getpid()}

async def main():
    context = ToolContext(session_id="s", turn_id="t", call_id="c", agent=Agent(),
                          session_kind=SessionKind.MAIN)
    result = await other.execute(other.decode('{"x": 5}'), context)
    print(result.output["x"], result.output["pid"] != os.getpid())

if __name__ == "__main__":
    trio.run(main)
"""


@pytest.mark.parametrize("as_module", [False, True])
def test_a_function_of_the_script_itself_is_found(tmp_path: Path, as_module: bool) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    how = ["-m", "script"] if as_module else ["script.py"]
    ran = subprocess.run(
        [sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("5 True\n", "")


def test_a_function_that_was_typed_in_is_refused() -> None:
    program = "import callboard\n@callboard.tool(process=True)\ndef typed(x: int) -> int: ..."
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "tool typed: process=True needs a file" in ran.stderr


def test_what_can_not_run_in_a_process_is_refused_at_once() -> None:
    def local(x: int) -> int:
        return x

    async def asynchronous(x: int) -> int:
        await trio.lowlevel.checkpoint()
        return x

    refused: list[tuple[Any, dict[str, Any], str]] = [
        (local, {}, "tool local: .* top level of a module"),
        (lambda: None, {"name": "nameless"}, "tool nameless: .* top level"),
        (asynchronous, {}, "tool asynchronous: .* plain functions"),
        (process_tools.plain, {"needs": ["files.read"]}, "tool plain: .*files.read"),
    ]
    for function, options, message in refused:
        with pytest.raises(ValidationError, match=message):
            tool(process=True, **options)(function)
    assert isinstance(callboard.tool(process=True)(process_tools.plain), FunctionTool)

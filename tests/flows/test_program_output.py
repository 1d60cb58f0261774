"""What programs put out: whatever it is, it is text for the model, bounded, and seen as it comes."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from callboard.config.sections import SandboxSettings
from callboard.config.settings import Limits, Settings
from callboard.providers.testing.script import reply
from callboard.runtime.events import CallFinished, CallProgress
from callboard.tools.sandbox.running.capture import GOES_ON, MAX_LINE_CHARACTERS, Capture, Lines
from support.flows.program_calls import Call, new_tag, results, tagged
from support.stage import open_local_stage, read_result

KEPT = 64 * 1024
SETTINGS = Settings(
    sandbox=SandboxSettings(output_bytes=KEPT), limits=Limits(max_result_bytes=16 * KEPT)
)


pytestmark = pytest.mark.usefixtures("sandbox")


def python(code: str, **more: Any) -> Call:
    return "run_code", {"language": "python", "code": f"import os, sys, time\n{code}", **more}


async def seen(folder: Path, call: Call) -> tuple[list[str], dict[str, Any]]:
    """The lines of progress, and what the model gets."""
    lines: list[str] = []
    told: dict[str, Any] = {}
    async with open_local_stage(folder, [reply(calls=[call]), reply("So.")], settings=SETTINGS) as (
        runtime,
        _,
    ):
        async with (await runtime.create_session()).prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    lines.append(event.text)
                elif isinstance(event, CallFinished):
                    told = read_result(event)
    return lines, told["result"]


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    said = rb"caf\xc3\xa9|\xff\xfe|\x00|\x1b[31mred\x1b]0;title\x07|\xed\xa0\x80|\r\n|end"
    lines, told = await seen(tmp_path, python(f"os.write(1, b'{said.decode()}')"))
    text = told["stdout"]
    assert text.startswith("café|\ufffd\ufffd|\0|\x1b[31mred")  # the model gets what was said
    assert text.endswith("|\r\n|end")
    assert json.loads(json.dumps(told)) == told
    assert lines[-1] == "|end"


async def test_a_character_that_comes_in_two_parts_is_one(tmp_path: Path) -> None:
    code = "for b in 'é😀\\n'.encode(): os.write(1, bytes([b])); time.sleep(0.02)"
    lines, told = await seen(tmp_path, python(code))
    assert told["stdout"] == "é😀\n"
    assert lines == ["é😀"]


async def test_a_flood_is_ended_and_memory_stays(tmp_path: Path) -> None:
    await seen(tmp_path, python("print('x' * 100)"))  # all that is loaded is loaded
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = "for _ in range(1024): os.write(1, b'x' * (1 << 20))"
    lines, told = await seen(tmp_path, python(code))
    assert told["killed_by"] == "output"
    assert told["killed"] >= 1
    assert told["truncated"] is True
    assert len(told["stdout"]) < KEPT + 200
    assert "bytes are left out" in told["stdout"]
    assert max(map(len, lines)) <= MAX_LINE_CHARACTERS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB


async def test_a_long_line_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    code = f"os.write(2, b'<'); os.write(2, b'y' * {32 * KEPT}); os.write(2, b'>')"
    lines, told = await seen(tmp_path, python(code))
    assert (told["stderr"][0], told["stderr"][-1]) == ("<", ">")
    assert told["exit_code"] == 0
    assert len(told["stderr"]) < KEPT + 200
    assert max(map(len, lines)) <= MAX_LINE_CHARACTERS


async def test_what_a_grandchild_says_later_holds_nothing_up(tmp_path: Path) -> None:
    tag = new_tag()
    command = f"(setsid sh -c 'sleep {tag}; echo late' &); echo now"
    [told] = await results(tmp_path, ("shell", {"command": command, "timeout": 60}))
    assert told["result"]["stdout"] == "now\n"
    assert "killed_by" not in told["result"]
    assert not tagged(tag)


async def test_progress_comes_while_it_runs(tmp_path: Path) -> None:
    """The program waits for who has read its first line."""
    call: Call = (
        "shell",
        {"command": "echo first; while ! test -e go; do sleep 0.02; done; echo last"},
    )
    lines: list[str] = []
    async with open_local_stage(tmp_path, [reply(calls=[call]), reply("So.")]) as (runtime, _):
        async with (await runtime.create_session()).prompt("Go.") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    lines.append(event.text)
                    (tmp_path / "work" / "go").touch()
    assert lines == ["first", "last"]


# ── the capture itself ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096, 70_000])
def test_lines_are_the_same_however_the_bytes_come(size: int) -> None:
    text = "é😀" * 3000 + "\n\r\n" + "x" * (3 * MAX_LINE_CHARACTERS) + "\r\nend"
    data = text.encode() + b"\xff"
    shown: list[str] = []
    lines = Lines(shown.append)
    for start in range(0, len(data), size):
        lines.add(data[start : start + size])
    lines.end()
    whole = "".join(each if each.endswith(GOES_ON) else f"{each}\n" for each in shown)
    assert whole.replace(GOES_ON, "") == text.replace("\r\n", "\n") + "\ufffd\n"
    assert max(map(len, shown)) <= MAX_LINE_CHARACTERS


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_cut_goes_through_no_character(size: int) -> None:
    capture = Capture(101)
    data = "é😀€".encode() * 100
    for start in range(0, len(data), size):
        capture.add(data[start : start + size])
    capture.end()
    assert capture.is_cut
    assert "\ufffd" not in capture.text()
    assert f"of {len(data)} bytes are left out" in capture.text()


async def test_of_a_large_result_the_model_sees_stderr_and_the_ends(tmp_path: Path) -> None:
    code = "seq 1 20000; echo THE-ERROR >&2; exit 1"
    call: Call = ("run_code", {"language": "bash", "code": code})
    [told] = await results(tmp_path, call)
    assert told["result"]["exit_code"] == 1
    assert told["result"]["stderr"] == "THE-ERROR\n"
    assert told["result"]["stdout"].startswith("1\n2\n")
    assert told["result"]["stdout"].endswith("\n19999\n20000\n")
    assert "characters are left out" in told["result"]["stdout"]
    assert 'read_file(path="artifact:' in told["truncated"]
    assert len(json.dumps(told, ensure_ascii=False).encode()) < 72 * 1024


async def test_a_program_that_ran_out_of_time_floods_no_model(tmp_path: Path) -> None:
    code = "seq 1 60000; echo THE-ERROR >&2; sleep 60"
    call: Call = ("run_code", {"language": "bash", "code": code, "timeout": 6})
    [told] = await results(tmp_path, call)
    assert told["error_type"] == "timeout"
    assert told["stderr"] == "THE-ERROR\n"
    assert (told["stdout"][:4], told["stdout"][-7:]) == ("1\n2\n", "\n60000\n")
    assert 'read_file(path="artifact:' in told["truncated"]
    assert len(json.dumps(told, ensure_ascii=False).encode()) < 72 * 1024


async def test_a_person_hears_what_a_program_changed_for_good(tmp_path: Path) -> None:
    calls: list[Call] = [
        ("shell", {"command": "echo 1 > a; echo 2 > b"}),
        ("shell", {"command": "rm a"}),
        ("shell", {"command": "true"}),
    ]
    script = [*(reply(calls=[call]) for call in calls), reply("So.")]
    async with open_local_stage(tmp_path, script) as (runtime, _):
        async with (await runtime.create_session()).prompt("Go.") as turn:
            told = [event.display async for event in turn if isinstance(event, CallFinished)]
    why = "can't be undone: the workspace is no git repository"
    assert "; 2 created; " + why in told[0]
    assert "; 1 deleted; " + why in told[1]
    assert ";" not in told[2]

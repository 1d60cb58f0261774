"""A first turn waits for the sandbox's test only where its tools need it, and a program always does.

What an earlier runtime measured says which tools are offered; what runs is measured by this process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

import callboard
from callboard.config.sections import SandboxSettings, Strength
from callboard.config.settings import Settings
from callboard.providers.testing.script import reply
from callboard.runtime.definitions import ToolFailure
from callboard.tools.sandbox.sandbox import Sandbox
from callboard.tools.sandbox.selftest import self_test
from callboard.tools.sandbox.selftest.kept_result import FILE_NAME
from support.sandbox.sandbox_users import needs_sandbox
from support.stage import open_local_stage, play, read_result
from support.tools.workbench import wait_until

READER = callboard.Agent(name="reader", tools=("read_file",))
SHELL = ("shell", {"command": "echo ran"})


class SlowTest:
    """Holds every new test of the sandbox until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.count = 0


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowTest]:
    needs_sandbox()
    held, measured = SlowTest(), self_test.StrengthTest._found

    def found(test: self_test.StrengthTest) -> self_test.SandboxStatus:
        held.count += 1
        held.go_on.wait()
        return measured(test)

    monkeypatch.setattr(self_test, "_tests", {})
    monkeypatch.setattr(self_test.StrengthTest, "_found", found)
    yield held
    held.go_on.set()


async def measured(folder: Path, slow: SlowTest) -> Path:
    """Return a data folder in which the result of a test is kept."""
    data = folder / "data"
    slow.go_on.set()
    async with open_local_stage(folder, [reply("Hello.")], data=data) as (runtime, _):
        await play(await runtime.create_session(), "Hello.")
    slow.go_on.clear()
    self_test._tests.clear()
    slow.count = 0
    return data


async def test_an_agent_without_programs_does_not_wait(tmp_path: Path, slow: SlowTest) -> None:
    steps = [reply("Hello.")]
    async with open_local_stage(tmp_path, steps, agents=[READER]) as (runtime, _):
        session = await runtime.create_session(agent="reader")
        assert (await play(session, "Hello.")).ended.outcome == "answered"
    assert slow.count == 0


async def test_without_a_kept_result_a_turn_with_programs_waits(
    tmp_path: Path, slow: SlowTest
) -> None:
    async with (
        open_local_stage(tmp_path, [reply("Hello.")]) as (runtime, model),
        trio.open_nursery() as nursery,
    ):
        session = await runtime.create_session()
        nursery.start_soon(play, session, "Hello.")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert slow.count == 1
        assert not model.requests
        slow.go_on.set()
    assert "shell" in {tool.name for tool in model.requests[0].tools}


async def test_a_kept_result_offers_programs_and_the_first_one_waits(
    tmp_path: Path, slow: SlowTest
) -> None:
    data = await measured(tmp_path, slow)
    command = ("shell", {"command": "touch ran"})
    steps = [reply(calls=[command]), reply("Done.")]
    async with (
        open_local_stage(tmp_path, steps, data=data, on_approval="allow") as (runtime, model),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(play, await runtime.create_session(), "Go.")
        await wait_until(lambda: slow.count == 1)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(model.requests) == 1  # it was made without a test, and the call waits for one
        assert "shell" in {tool.name for tool in model.requests[0].tools}
        assert not (tmp_path / "work" / "ran").exists()
        slow.go_on.set()
    assert (tmp_path / "work" / "ran").exists()


async def test_a_kept_result_that_does_not_hold_any_more_runs_nothing(
    tmp_path: Path, slow: SlowTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = await measured(tmp_path, slow)
    none = self_test.SandboxStatus(strength=Strength.NONE, reason="it is gone.")
    monkeypatch.setattr(self_test.StrengthTest, "_found", lambda test: none)
    steps = [reply(calls=[SHELL]), reply("Done.")]
    async with open_local_stage(tmp_path, steps, data=data, on_approval="allow") as (
        runtime,
        model,
    ):
        played = await play(await runtime.create_session(), "Go.")
    first, second = model.requests
    assert "shell" in {tool.name for tool in first.tools}
    assert read_result(played.results[0])["error_type"] == "sandbox_unavailable"
    assert not (data / FILE_NAME).exists()
    assert second.tools


async def test_a_kept_result_gives_no_recipe(
    tmp_path: Path, slow: SlowTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = await measured(tmp_path, slow)
    slow.go_on.set()
    found = self_test.StrengthTest._found
    monkeypatch.setattr(
        self_test.StrengthTest,
        "_found",
        lambda test: msgspec.structs.replace(found(test), strength=Strength.PARTIAL),
    )
    sandbox = Sandbox(SandboxSettings(), data=data)
    await sandbox.ready()
    assert sandbox.problem() is None  # programs are offered
    with pytest.raises(ToolFailure, match="the sandbox is partial, and must be full"):
        sandbox.recipe()


@pytest.mark.parametrize("change", ["settings", "boot", "age", "not JSON", "open to others"])
async def test_what_was_kept_for_another_machine_or_settings_does_not_count(
    tmp_path: Path, slow: SlowTest, change: str
) -> None:
    data = await measured(tmp_path, slow)
    file, settings = data / FILE_NAME, Settings()
    kept = json.loads(file.read_text())
    match change:
        case "settings":
            settings = Settings(sandbox=SandboxSettings(processes=64))
        case "boot":
            file.write_text(json.dumps({**kept, "digest": "0" * 64}))
        case "age":
            file.write_text(json.dumps({**kept, "tested_at": kept["tested_at"] - 7 * 3600}))
        case "not JSON":
            file.write_text("{")
        case _:
            file.chmod(0o666)
    slow.go_on.set()
    steps = [reply("Hello.")]
    async with open_local_stage(tmp_path, steps, data=data, settings=settings) as (runtime, _):
        await play(await runtime.create_session(), "Hello.")
    assert slow.count == 1

"""The sandbox is tested again, and one that has become weaker is withdrawn."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from callboard.config.sections import SandboxSettings, Strength
from callboard.runtime.definitions import SessionKind, ToolFailure
from callboard.tools.builtin import builtin_tools
from callboard.tools.processes.system_programs import find_system_program
from callboard.tools.registry import ToolRegistry
from callboard.tools.sandbox.sandbox import VERIFY_SECONDS, Sandbox
from callboard.tools.sandbox.selftest import self_test as strength
from support.sandbox.sandbox_users import needs_sandbox

HOURS = 3600.0


def offered(registry: ToolRegistry) -> set[str]:
    return {each.name for each in registry.definitions(None, SessionKind.MAIN)}


async def test_case_49_one_that_got_weaker_is_not_offered_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needs_sandbox()
    sandbox = Sandbox(SandboxSettings(), os.environ)
    registry = ToolRegistry(builtin_tools(), sandbox.why_not, lambda: sandbox.version)
    before = registry.definitions(None, SessionKind.MAIN)
    assert {"run_code", "shell"} <= offered(registry)
    assert registry.definitions(None, SessionKind.MAIN) is before
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(
            strength,
            "find_system_program",
            lambda name: str(broken) if name == "bwrap" else find_system_program(name),
        )
        with caplog.at_level(logging.INFO):
            await sandbox.test_again()
    assert "the sandbox was full and is none" in caplog.text
    assert "WARNING" in caplog.text
    assert offered(registry).isdisjoint({"run_code", "shell", "process"})
    assert "read_file" in offered(registry)
    assert "uid map" in (registry.withheld("run_code") or "")
    with pytest.raises(ToolFailure) as caught:
        sandbox.recipe()
    assert caught.value.error_type == "sandbox_unavailable"
    # The control: once it holds again, it is offered again.
    await sandbox.test_again()
    assert {"run_code", "shell"} <= offered(registry)
    assert sandbox.status().strength is Strength.FULL


async def test_it_is_tested_again_after_so_many_hours(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(SandboxSettings(self_test_hours=2), {"PATH": ""})
    tests: list[float] = []

    async def noted() -> None:
        tests.append(trio.current_time())
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(sandbox, "tested", trio.lowlevel.checkpoint)
    monkeypatch.setattr(sandbox, "test_again", noted)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(sandbox.serve)
        mock_clock.jump(VERIFY_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            mock_clock.jump(2 * HOURS)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [at - began for at in tests] == [VERIFY_SECONDS + hours * HOURS for hours in (2, 4, 6)]

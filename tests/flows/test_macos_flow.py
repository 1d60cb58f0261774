"""Programs on a Mac that is none, through the front door and as operators see it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from mac_scenes import mac, settings
from program_calls import new_tag, results, tagged
from sandbox_users import needs_sandbox

from callboard.__main__ import main
from callboard.config.settings import Settings
from callboard.tools.sandbox import sandbox


@pytest.fixture(autouse=True)
def _on_a_mac(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_sandbox()
    found = mac(tmp_path_factory.mktemp("mac"))
    monkeypatch.setattr(sandbox, "this_machine", lambda: found)


async def test_a_model_runs_programs_there(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    line = "echo made > out.txt; echo planted > .git/hooks/pre-commit; echo $?"
    leaves = f"setsid sleep {(tag := new_tag())} > /dev/null 2>&1 & echo left"
    [first, second, third] = await results(
        tmp_path,
        ("shell", {"command": line}),
        ("run_code", {"language": "python", "code": "print(open('out.txt').read())"}),
        ("shell", {"command": leaves}),
        settings=Settings(sandbox=settings()),
    )
    ran, code = first["result"], second["result"]
    assert (ran["exit_code"], ran["sandbox"], ran["stdout"]) == (0, "partial", "1\n")
    assert "Read-only file system" in ran["stderr"]
    assert (work / "out.txt").read_text() == "made\n"
    assert os.listdir(work / ".git" / "hooks") == []
    assert (code["exit_code"], code["stdout"]) == (0, "made\n\n")
    assert third["result"]["stdout"] == "left\n"
    assert not tagged(tag)


async def test_without_the_setting_none_runs(tmp_path: Path) -> None:
    write = ("write_file", {"path": "in.txt", "content": "hello"})
    [refused, written] = await results(
        tmp_path, ("shell", {"command": "echo made > out.txt"}), write
    )
    assert refused["error_type"] == "sandbox_unavailable"
    assert "macos_untested = true" in refused["message"]
    assert written["status"] == "success"  # the control: what runs no program works
    assert os.listdir(tmp_path / "work") == ["in.txt"]


def test_doctor_says_how_to_switch_it_on_and_that_nobody_has_tried_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "callboard.toml"
    doctor = partial(main, ["doctor", "--config", str(config)])
    config.write_text("")
    assert doctor() == 1
    said = capsys.readouterr().out
    assert said.startswith("sandbox: none (at least full is wanted)\n")
    assert "nobody has tried" in said
    assert "`macos_untested = true`" in said
    assert "not offered to models: run_code, shell, " in said
    config.write_text('[sandbox]\nmacos_untested = true\nminimum = "partial"\n')
    doctor()
    said = capsys.readouterr().out
    assert said.startswith("sandbox: partial (at least partial is wanted)\n")
    assert "nobody has tried" in said
    assert "  sandbox-exec, which shows " in said
    assert "not offered to models" not in said

"""Completion as bash does it, with the script that `callboard completion bash` prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.providers.testing.script import reply

Captured = pytest.CaptureFixture[str]

ASK = """
callboard() {{ {python} -m callboard "$@"; }}
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_callboard
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    (tmp_path / "home" / "config").mkdir(parents=True)
    settings = tmp_path / "home" / "config" / "callboard.toml"
    settings.write_text('[agents.gardener]\npolicy = "strict"\n')
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
def session_id(home: Path) -> str:
    async def record() -> str:
        model = callboard.ScriptedModel([reply("Well.")])
        async with callboard.open_runtime(model=model, data=home / "data") as runtime:
            session = await runtime.create_session()
            await session.run("Water the roses")
            return session.session_id

    return trio.run(record)


def completed(folder: Path, words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = folder / "callboard.bash"
    ask = ASK.format(python=sys.executable, script=script, words=words)
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def test_bash_is_offered_what_there_is(home: Path, session_id: str, capsys: Captured) -> None:
    assert main(["completion", "bash"]) == 0
    (home / "callboard.bash").write_text(capsys.readouterr().out)
    assert completed(home, "callboard appro") == ["approvals", "approve"]
    assert completed(home, "callboard run --policy ''") == ["auto", "balanced", "strict"]
    assert session_id in completed(home, "callboard show ''")
    assert completed(home, f"callboard run -c -s {session_id[:14]}") == [session_id]
    assert completed(home, "callboard run --agent gar") == ["gardener"]
    assert "rehearsal" in completed(home, "callboard run -m reh")
    assert completed(home, "callboard policy check read_f") == ["read_file"]


def test_without_a_store_nothing_is_offered_and_nothing_said(home: Path, capsys: Captured) -> None:
    assert main(["completion", "bash"]) == 0
    (home / "callboard.bash").write_text(capsys.readouterr().out)
    assert completed(home, "callboard show ''") == []
    assert not (home / "data").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_know_the_commands(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "approvals" in script
    assert "__complete" in script


def test_it_is_put_in_place(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("HOME", str(home))
    assert main(["completion", "bash", "--install"]) == 0
    said = capsys.readouterr().out
    path = Path(said.splitlines()[0].removeprefix("installed: "))
    assert path.is_relative_to(home)
    assert "_callboard" in path.read_text()
    assert str(path) in (home / ".bashrc").read_text()

"""Completion as bash, zsh and fish do it, with the scripts that `callboard completion` prints and puts in place."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cyclopts
import pytest
import trio

import callboard
from callboard.__main__ import main
from callboard.providers.testing.script import reply
from support.cli.warm_process import warm_line

Captured = pytest.CaptureFixture[str]

ASK = """
callboard() {{ {line} "$@"; }}
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_callboard
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


_written: dict[tuple[object, ...], str] = {}
"""Scripts by their shell: to write one takes a second, as there are many commands, and all of a shell are the same."""


@pytest.fixture(autouse=True)
def _written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    write = cyclopts.App.generate_completion

    def once(app: cyclopts.App, **words: Any) -> str:
        key = tuple(sorted(words.items()))
        if key not in _written:
            _written[key] = write(app, **words)
        return _written[key]

    monkeypatch.setattr(cyclopts.App, "generate_completion", once)


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
    line, descriptor = warm_line()
    ask = ASK.format(line=line, script=script, words=words)
    done = subprocess.run(
        ["bash", "-c", ask], capture_output=True, text=True, check=True, pass_fds=[descriptor]
    )
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


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish on this machine")
def test_fish_is_offered_what_there_is(
    home: Path, session_id: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    in_new_shells(home, monkeypatch, "fish", capsys)

    def offered(line: str) -> list[str]:
        ask = ["fish", "--command", f"complete --do-complete '{line}'"]
        done = subprocess.run(ask, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return [each.partition("\t")[0] for each in done.stdout.splitlines()]

    assert offered("callboard appro") == ["approvals", "approve"]
    assert session_id in offered("callboard show ")


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh on this machine")
def test_zsh_is_offered_what_there_is(
    home: Path, session_id: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    in_new_shells(home, monkeypatch, "zsh", capsys)
    assert main(["completion", "zsh", "--install"]) == 0  # once more adds nothing
    startup = (home / ".zshrc").read_text()
    assert startup.count("compdef _callboard callboard") == 1
    (home / ".zshrc").write_text(f"PS1='ready> '\nautoload -Uz compinit && compinit -uD\n{startup}")
    zsh_offers(session_id)


def test_what_an_earlier_version_put_into_zsh_is_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    in_new_shells(home, monkeypatch, "zsh", capsys)
    startup, script = home / ".zshrc", home / ".zsh" / "completions" / "_callboard"
    now = startup.read_text()
    earlier = script.rename(script.with_name("_cyclopts_callboard"))
    startup.write_text(f"PS1='> '\n{now.replace('_callboard', '_cyclopts_callboard')}\nmine=1\n")
    assert main(["completion", "zsh", "--install"]) == 0
    assert str(script) in capsys.readouterr().out
    assert not earlier.exists()
    assert "cyclopts_callboard" not in script.read_text() + startup.read_text()
    assert startup.read_text().startswith("PS1='> '\n")
    assert "mine=1\n" in startup.read_text()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh on this machine")
def test_zsh_takes_the_script_as_it_is_printed(
    home: Path, session_id: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """In a file of the usual name; that it can be sourced, too, was seen by hand."""
    in_new_shells(home, monkeypatch, "zsh", capsys)
    assert main(["completion", "zsh"]) == 0
    (home / "fpath").mkdir()
    (home / "fpath" / "_callboard").write_text(capsys.readouterr().out)
    lines = f"fpath=({home}/fpath $fpath)\nautoload -Uz compinit && compinit -uD"
    (home / ".zshrc").write_text(f"PS1='ready> '\n{lines}\n")
    zsh_offers(session_id)


def zsh_offers(session_id: str) -> None:
    """Types the beginning of an id into a zsh, as a person would, and presses Tab."""
    master, slave = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-d", "-i"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        until(master, "ready> ")
        os.write(master, f"callboard show {session_id[:14]}\t".encode())
        until(master, session_id)
    finally:
        shell.kill()
        shell.wait()
        os.close(master)


def in_new_shells(
    home: Path, monkeypatch: pytest.MonkeyPatch, shell: str, capsys: Captured
) -> None:
    """Puts completion in place, as a person would, for shells whose PATH has callboard."""
    monkeypatch.setenv("HOME", str(home))
    for name in ("ZDOTDIR", "ZSH_CUSTOM", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "xterm")
    assert main(["completion", shell, "--install"]) == 0
    assert "installed: " in capsys.readouterr().out


def until(master: int, wanted: str) -> None:
    """Reads what a terminal shows up to a text."""
    seen = ""
    while wanted not in seen:
        data = read(master)
        assert data, f"{wanted!r} was never shown, but: {seen!r}"
        seen += data


def read(master: int) -> str:
    ready, _, _ = select.select([master], [], [], 30)
    try:
        return os.read(master, 65536).decode(errors="replace") if ready else ""
    except OSError:
        return ""  # the shell has ended


def test_it_is_put_in_place(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("HOME", str(home))
    assert main(["completion", "bash", "--install"]) == 0
    said = capsys.readouterr().out
    path = Path(said.splitlines()[0].removeprefix("installed: "))
    assert path.is_relative_to(home)
    assert "_callboard" in path.read_text()
    assert str(path) in (home / ".bashrc").read_text()

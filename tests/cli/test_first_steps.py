"""What a new user meets: names that stand for something else, folders that can be none, words that help."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

from callboard.cli.app import execute
from callboard.cli.daemon.roots import root_advice
from callboard.cli.parameters import data_path
from callboard.cli.setup.tokens import create_token
from callboard.config.daemon_file import DaemonFile, RunningDaemon
from callboard.runtime.disk.data_lock import DataLock
from callboard.runtime.errors import ConflictError, NotFoundError, ValidationError
from callboard.runtime.redaction import Secret

Screen = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace, a home of its own, and nobody who types."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("CALLBOARD_HOME", str(tmp_path / "home"))
    return tmp_path


def run(prompt: str) -> None:
    assert execute(["run", "--model", "rehearsal", prompt]) == 0


def test_the_last_deleted_session_is_restored_and_listed(folder: Path, capsys: Screen) -> None:
    for prompt in ("What time is it in Tokyo?", "What time is it in Lima?"):
        run(prompt)
    capsys.readouterr()
    assert execute(["session", "delete", "last"]) == 0
    deleted = capsys.readouterr().out.removeprefix("deleted: ").strip()
    assert execute(["sessions", "--deleted"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(deleted)
    assert execute(["session", "restore", "last"]) == 0
    assert capsys.readouterr().out == f"restored: {deleted}\n"
    assert execute(["session", "restore", deleted]) == 1
    assert "`callboard sessions --deleted` lists" in capsys.readouterr().err
    assert execute(["sessions", "--deleted"]) == 0
    assert capsys.readouterr().out == ""
    assert execute(["sessions", "--via", "own"]) == 0
    assert deleted in capsys.readouterr().out
    assert execute(["sessions", "--via", "schedule"]) == 0
    assert capsys.readouterr().out == ""
    with pytest.raises(NotFoundError, match=r"No session of .* is deleted"):
        execute(["session", "restore", "last"])


def test_a_list_of_nothing_to_undo_names_the_session_that_has_something(
    folder: Path, capsys: Screen
) -> None:
    run("Write x to a.txt.")
    execute(["sessions"])
    changed = capsys.readouterr().out.splitlines()[-1].split(" ")[0]
    assert execute(["undo", "last", "--list"]) == 0
    assert "a.txt" in capsys.readouterr().out
    run("hi")
    capsys.readouterr()
    assert execute(["undo", "last", "--list"]) == 0
    assert f"`callboard undo {changed}`" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["file", "file/below/it"])
def test_a_data_folder_that_can_be_none_is_told(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValidationError, match=r"file is not a folder. Choose another with --data"):
        data_path(tmp_path / path)
    assert data_path(tmp_path / "new" / "one") == tmp_path / "new" / "one"


def test_home_and_what_holds_it_are_no_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "people" / "ann"
    work = home / "work"
    work.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for wide in (Path("/"), home, home.parent):
        assert "--root" not in root_advice(wide)
        with pytest.raises(ValidationError, match="can't be a root for sessions"):
            execute(["serve", "--port", "0", "--root", str(wide)])
        file = tmp_path / "callboard.toml"
        file.write_text(f'[server]\nroots = ["{wide}"]')
        with pytest.raises(
            ValidationError, match=r"can't be a root for sessions|not an absolute path"
        ):
            execute(["serve", "--port", "0", "--config", str(file)])
    assert f"callboard serve --root {work}" in root_advice(work)
    file = work / "rules.toml"
    file.write_text(f'[server]\nroots = ["{work}"]')
    for words in ((), ("--root", str(work))):
        with pytest.raises(ValidationError, match="could change its own rules"):
            execute(["serve", "--port", "0", "--config", str(file), *words])


def test_a_token_for_an_agent_that_is_not_there_says_so(folder: Path, capsys: Screen) -> None:
    def create(name: str, *agents: str) -> int:
        return create_token(name, agents=agents, data=folder / "data")

    assert create("one", "general") == 0
    assert "no agent" not in capsys.readouterr().err
    assert create("two", "general", "nobody") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("cb_")
    assert "There is no agent 'nobody' yet" in shown.err


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("token create x --role king", "token create"),
        ("session rename", "session rename"),
        ("session nothing", "session"),
        ("session --nothing", "session"),
        ("show", "show"),
    ],
)
def test_the_help_that_is_named_has_the_option(line: str, command: str, capsys: Screen) -> None:
    assert execute(line.split()) == 2
    assert f"See: callboard {command} --help\n" in capsys.readouterr().err


def test_a_restore_is_refused_before_anybody_is_asked(
    folder: Path, capsys: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("hi")
    data = data_path(None)
    assert execute(["backup", "b.db"]) == 0
    monkeypatch.setattr("os.isatty", lambda _: True)
    capsys.readouterr()
    lock = DataLock(data)
    with pytest.raises(ConflictError, match="is in use by process"):
        execute(["restore", "b.db"])
    assert "Replace the sessions" not in capsys.readouterr().out
    lock.release()
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert execute(["restore", "b.db"]) == 2
    assert "Replace the sessions" in capsys.readouterr().out


def test_a_second_daemon_is_told_that_a_chat_is_the_first(tmp_path: Path) -> None:
    from callboard.gateway.lifecycle import check_alone

    check_alone(tmp_path)
    serve = RunningDaemon(url="ws://x/ws", pid=1, token=Secret("t"), started_at_ms=1)
    for running, what in (
        (msgspec.structs.replace(serve, command="chat"), "a chat is the daemon of"),
        (serve, "a daemon runs on"),
    ):
        with DaemonFile(tmp_path, running), pytest.raises(ConflictError, match=what):
            check_alone(tmp_path)

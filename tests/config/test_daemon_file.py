"""A running daemon is found by its user's commands, and a dead one is not taken for it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from callboard.config import private_file
from callboard.config.daemon_file import DaemonFile, RunningDaemon, find_daemon
from callboard.config.keys.tokens import Role, is_token_of, local_credential
from callboard.config.private_file import write_new, write_private
from callboard.runtime.disk.private_folder import hold
from callboard.runtime.errors import StorageError
from callboard.runtime.redaction import Secret


def daemon(token: str = "cb_one") -> RunningDaemon:
    return RunningDaemon(
        url="ws://127.0.0.1:1/ws", pid=os.getpid(), token=Secret(token), started_at_ms=1
    )


def test_it_is_there_while_the_daemon_runs_and_its_user_s_alone(tmp_path: Path) -> None:
    assert find_daemon(tmp_path) is None
    with DaemonFile(tmp_path, daemon()) as file:
        assert find_daemon(tmp_path) == daemon()
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert find_daemon(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_daemon_left_is_nobody_s(tmp_path: Path) -> None:
    with DaemonFile(tmp_path, daemon()) as file:
        left = file.path.read_bytes()
    file.path.write_bytes(left)
    file.path.chmod(0o600)
    assert find_daemon(tmp_path) is None
    with DaemonFile(tmp_path, daemon("cb_two")):
        found = find_daemon(tmp_path)
    assert found is not None
    assert found.token == Secret("cb_two")


def test_the_file_of_a_successor_stays(tmp_path: Path) -> None:
    with DaemonFile(tmp_path, daemon()):
        successor = DaemonFile(tmp_path, daemon("cb_two"))
        successor.__enter__()
    found = find_daemon(tmp_path)
    assert found is not None
    assert found.token == Secret("cb_two")
    successor.__exit__(None, None, None)


def test_one_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    with DaemonFile(tmp_path, daemon()) as file:
        file.path.chmod(0o644)
        with pytest.raises(StorageError, match="chmod 600"):
            find_daemon(tmp_path)
        file.path.chmod(0o600)
        assert find_daemon(tmp_path) is not None


def test_the_token_never_shows() -> None:
    assert "cb_one" not in repr(daemon())


def test_the_local_credential_is_an_administrator_s_of_one_token() -> None:
    credential, token = local_credential()
    assert credential.role is Role.ADMIN
    assert is_token_of(credential, token.reveal())
    assert not is_token_of(credential, token.reveal()[:-1])
    assert local_credential()[1] != token


def test_what_killed_processes_left_of_private_files_is_removed_by_the_next(tmp_path: Path) -> None:
    left = [tmp_path / f".{name}.{'0a' * 6}.tmp" for name in ("daemon.json", "tokens.json")]
    writing = tmp_path / f".daemon.json.{'0b' * 6}.tmp"
    kept = [writing, tmp_path / ".daemon.json.tmp", tmp_path / "notes.0a0a0a0a0a0a.tmp"]
    for path in [*left, *kept]:
        path.write_bytes(b"{}")
    with writing.open("rb") as file:
        hold(file.fileno())
        with DaemonFile(tmp_path, daemon()):
            assert not any(path.exists() for path in left)
            assert all(path.exists() for path in kept)
    write_private(tmp_path / "other", b"x", replace=True)
    assert not writing.exists(), "the control: its writer is gone"
    assert kept[1].exists()


def test_a_file_whose_temporary_one_was_swept_before_it_was_held_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[Path]()

    def swept_at_first(path: Path, data: bytes) -> int:
        made.append(path)
        descriptor = write_new(path, data)
        if len(made) == 1:
            path.unlink()
        return descriptor

    monkeypatch.setattr(private_file, "write_new", swept_at_first)
    write_private(tmp_path / "kept", b"all", replace=True)
    assert (tmp_path / "kept").read_bytes() == b"all"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert len(made) == 2

"""`callboard upgrade` and `compact`."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from callboard.cli.app import execute
from callboard.runtime.disk.data_lock import DataLock
from callboard.runtime.errors import ConflictError, NotFoundError, StorageError
from callboard.runtime.store.file import open_writer
from callboard.runtime.store.migrations import MIGRATIONS, migrate


def version(path: Path) -> int:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data folder with a store of the first format."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    connection = apsw.Connection(str(data / "callboard.db"))
    migrate(connection, "it", steps=MIGRATIONS[:1])
    session = "'s1', '', 'general', 'main', '/work', null, null, 0, '', 0, 0, 0, 1, 1, null"
    connection.execute(f"insert into sessions values (1, {session})")
    connection.close()
    (data / "callboard.db").chmod(0o600)
    return data


def test_an_old_store_is_upgraded_behind_a_backup(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["upgrade", "--data", str(old)]
    assert execute([*words, "--check"]) == 0
    assert f"has format 1, and this callboard writes {len(MIGRATIONS)}" in capsys.readouterr().out
    assert (version(old / "callboard.db"), list(old.glob("callboard.format*"))) == (1, [])

    assert execute([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["stored_format"], told["written_format"]) == (1, len(MIGRATIONS))
    backup = Path(told["backup"])
    assert (version(backup), backup.stat().st_mode & 0o777) == (1, 0o600)
    assert version(old / "callboard.db") == len(MIGRATIONS)
    connection = open_writer(old)
    assert connection.execute("select session_id from sessions").get == "s1"
    connection.close()

    assert execute(words) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert list(old.glob("callboard.format*")) == [backup]
    assert execute(["restore", str(backup), "--yes", "--data", str(old)]) == 0


def test_nothing_is_upgraded_or_compacted_while_another_works_with_it(old: Path) -> None:
    lock = DataLock(old)
    for command in ("upgrade", "compact"):
        with pytest.raises(ConflictError, match="Nothing was changed"):
            execute([command, "--data", str(old)])
    lock.release()
    assert version(old / "callboard.db") == 1
    assert list(old.glob("callboard.format*")) == []
    assert execute(["upgrade", "--data", str(old)]) == 0


def test_what_is_no_store_is_left_as_it_is(tmp_path: Path) -> None:
    for command in ("upgrade", "compact"):
        with pytest.raises(NotFoundError, match="nothing in"):
            execute([command, "--data", str(tmp_path)])
    (tmp_path / "callboard.db").write_bytes(b"text" * 2000)
    for command in ("upgrade", "compact"):
        with pytest.raises(StorageError):
            execute([command, "--data", str(tmp_path)])
    assert (tmp_path / "callboard.db").read_bytes() == b"text" * 2000


def test_compact_gives_back_what_was_freed(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = open_writer(old)
    connection.execute("create table filler as select zeroblob(4000000) as x")
    connection.execute("drop table filler")
    connection.close()
    size = (old / "callboard.db").stat().st_size
    assert size > 4_000_000
    assert execute(["compact", "--json", "--data", str(old)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes_before"] == size
    assert (old / "callboard.db").stat().st_size == told["bytes_after"] < 1_000_000

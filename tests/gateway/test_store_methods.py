"""A backup that a client asks for lies in the daemon's data folder, and can be restored."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from callboard.runtime.backup.backup import restore_backup
from callboard.runtime.errors import AuthError, ConflictError
from callboard.runtime.store.sqlite_store import open_reader
from callboard.runtime.wire.daemon import BackupMade
from callboard.runtime.wire.fields import Nothing, Role
from support.gateway.daemon_scene import open_client, open_daemon


async def test_a_client_has_the_store_backed_up(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with open_daemon(data=data) as daemon, open_client(daemon) as client:
        session = await client.create_session(title="kept")
        made = await client.request("store/backup", Nothing(), BackupMade)
        assert Path(made.path).parent == data / "backups"
        assert (await trio.Path(made.path).stat()).st_size == made.size_bytes
        token = daemon.new_token("operator", Role.OPERATOR)
        async with open_client(daemon, token) as operator:
            with pytest.raises(AuthError):
                await operator.request("store/backup", Nothing(), BackupMade)
    await trio.to_thread.run_sync(restore_backup, tmp_path / "new", Path(made.path))
    reader = await open_reader(tmp_path / "new")
    assert [row.session_id for row in await reader.sessions()] == [session.session_id]
    await reader.aclose()


async def test_what_is_in_memory_has_no_backup() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        with pytest.raises(ConflictError, match="in memory"):
            await client.request("store/backup", Nothing(), BackupMade)

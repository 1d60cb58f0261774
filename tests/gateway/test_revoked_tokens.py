"""A token that is revoked is obeyed no more, whatever its client has sent or does not read."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from callboard.config.keys.tokens import Credentials
from callboard.runtime.errors import PermissionRefused
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon, open_greeted
from support.waits import until


async def test_what_comes_behind_the_end_of_a_connection_is_not_done() -> None:
    async with open_daemon() as daemon, open_client(daemon) as client:
        token = daemon.new_token("other", Role.ADMIN)
        async with open_greeted(daemon, token) as raw:
            (connection,) = [
                each
                for each in daemon.gateway.daemon.connections
                if each.credential.name == "other"
            ]
            await raw.call("session/list")
            # What a client does not read keeps the connection until the patience is over.
            connection._outbox._in_flight = 1  # type: ignore[attr-defined]
            connection.close(1008, "its token is gone")
            await raw.send(
                {"jsonrpc": "2.0", "id": 9, "method": "session/new", "params": {"title": "late"}}
            )
            with trio.fail_after(20):
                await until(lambda: len(daemon.gateway.daemon.connections) == 1)
        assert await client.sessions() == []


def test_a_token_that_is_gone_makes_no_other(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    credentials.create("first", Role.ADMIN)
    (first,) = credentials.list()
    credentials.create("second", Role.ADMIN, by=first)
    credentials.revoke("first")
    with pytest.raises(PermissionRefused, match="gone"):
        credentials.create("third", Role.ADMIN, by=first)
    with pytest.raises(PermissionRefused, match="gone"):
        credentials.rotate("second", by=first)
    with pytest.raises(PermissionRefused, match="gone"):
        credentials.revoke("second", by=first)
    assert [each.name for each in credentials.list()] == ["second"]

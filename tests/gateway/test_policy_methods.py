"""A client asks what would become of a call, and nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.runtime.errors import NotFoundError, ValidationError
from callboard.runtime.wire.approvals import CheckPolicy, PolicyAnswer
from callboard.runtime.wire.fields import Role
from support.gateway.daemon_scene import open_client, open_daemon


async def test_the_verdict_about_a_call_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    async with open_daemon(workspace=tmp_path) as daemon, open_client(daemon) as client:
        session = await daemon.runtime.create_session()

        async def verdict(tool: str, arguments: str) -> str:
            call = CheckPolicy(session_id=session.session_id, tool=tool, arguments=arguments)
            return (await client.request("policy/check", call, PolicyAnswer)).verdict

        assert await verdict("read_file", '{"path": "a.txt"}') == "allow"
        assert await verdict("delete_file", '{"path": "a.txt"}') == "ask"
        assert (tmp_path / "a.txt").exists()
        with pytest.raises(ValidationError):
            await verdict("read_file", "{}")
        token = daemon.new_token("limited", Role.OPERATOR, sessions=("session_other",))
        async with open_client(daemon, token) as other:
            call = CheckPolicy(session_id=session.session_id, tool="x", arguments="{}")
            with pytest.raises(NotFoundError):
                await other.request("policy/check", call, PolicyAnswer)
